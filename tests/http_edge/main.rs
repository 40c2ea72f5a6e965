//! The HTTP edge on real sockets, over either store: raw bytes in, raw bytes out.

mod bounds;
mod browse;
mod compression;
mod express;
mod filter;
mod harness;
mod http2;
mod life;
#[allow(dead_code, reason = "each test target uses its own part of the shared helpers")]
#[path = "../support/observer.rs"]
mod observer;
mod order;
mod polls;
mod proxies;
mod renewals;
mod tls;
