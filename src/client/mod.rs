//! The client library: a sans-I/O core and a tokio driver.
