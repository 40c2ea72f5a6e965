//! `rendezvous load overload` and `rendezvous load soak`: a server of their own is driven far beyond what it can do, or for
//! long through everything that it holds, and then has to be as it was before.

mod overload;
mod plain;
mod server;
mod soak;
mod strays;
mod verdict;

pub(crate) use overload::{Options as OverloadOptions, run as overload};
pub(crate) use server::EndureError;
pub(crate) use soak::{Options as SoakOptions, run as soak};
pub(crate) use verdict::Verdict;

/// The tenant of these servers.
const TENANT: &str = "endure";
