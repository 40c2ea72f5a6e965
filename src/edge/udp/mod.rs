//! The UDP edge.
