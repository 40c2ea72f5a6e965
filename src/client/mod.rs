//! The client library: a sans-I/O core and a tokio driver.

pub mod core;
mod driver;
mod error;
pub mod http;
pub mod link;

pub use driver::{Host, HostNews, HostOptions, Join, JoinFailure, JoinNews, Port, Step};
pub use error::{Code, Error, Problem};
