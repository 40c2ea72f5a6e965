//! The vocabulary of the command plane. Knows neither stores nor formats of the wire.

pub mod command;
pub mod error;
pub mod host;
pub mod ids;
pub mod principal;
pub mod requests;
pub mod session;
pub mod time;

pub use bytes::Bytes;
pub use command::*;
pub use error::*;
pub use host::*;
pub use ids::*;
pub use principal::*;
pub use requests::*;
pub use session::*;
pub use time::Timestamp;
