//! The edges: bytes in, service calls, bytes out. Edges know neither stores nor each other.

pub mod http;
pub mod udp;
