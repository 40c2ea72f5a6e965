//! The SQL of both databases: one schema, one set of statements, two dialects.

#[cfg(feature = "postgres")]
mod link;
#[cfg(feature = "postgres")]
mod listener;
mod migrations;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
pub(crate) mod sqlite;
mod text;
mod threads;
