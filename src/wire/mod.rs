//! The shapes of the JSON that travels over HTTP.
//!
//! [`request`] and [`response`] are shared by the server and by clients; their schemas are the server's OpenAPI document.
//! The server reads bodies through one seam, [`json`], and never by a derived reader: see there for what it refuses.

pub mod commands;
#[cfg(feature = "server")]
pub mod json;
#[cfg(feature = "server")]
mod read;
pub mod request;
pub mod response;
#[cfg(feature = "server")]
mod time;

#[cfg(feature = "server")]
pub use json::{Document, FieldError};
#[cfg(feature = "server")]
pub use read::FromJson;
#[cfg(feature = "server")]
pub use time::timestamp;
