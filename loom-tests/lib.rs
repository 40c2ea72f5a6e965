//! Loom models of the shipped lane and publisher; see `tests/`.
