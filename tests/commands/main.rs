//! The command plane over HTTP: the whole server, its own store, real sockets.
#![cfg(feature = "server")]
#![allow(missing_docs)]

mod access;
mod gate;
mod harness;
mod hosts;
mod life;
mod payloads;
mod polls;
mod rates;
mod requests;
