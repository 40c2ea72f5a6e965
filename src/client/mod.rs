//! The client library: a sans-I/O core and a tokio driver.

mod error;
pub mod http;

pub use error::{Code, Error, Problem};
