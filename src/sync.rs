//! The only door to locks, atomics and the swap cell: std and arc-swap, or loom under `--cfg loom`.
