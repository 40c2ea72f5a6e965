//! The real binary in processes of its own, over real sockets. Every port is chosen by the system, every wait is for a
//! condition and bounded, and every child ends with its handle.
#![cfg(feature = "cli")]
#![allow(missing_docs)]

mod ceilings;
mod child;
mod clients;
#[cfg(unix)]
mod closed;
mod commands;
mod completions;
mod datagrams;
mod doctor;
mod documents;
mod drain;
#[cfg(target_os = "linux")]
mod endure;
#[cfg(unix)]
mod exhaustion;
mod foreign_agent;
mod http;
#[path = "../support/http_message.rs"]
mod http_message;
mod indistinct;
mod introductions;
mod load;
mod polls;
#[path = "../admission/support/postgres.rs"]
mod postgres;
mod retries;
#[path = "../support/say.rs"]
mod say;
mod secrets;
mod server;
mod sigkill;
mod three;
mod transport;
mod udp;
