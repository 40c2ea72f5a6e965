//! Composition of the whole server.
