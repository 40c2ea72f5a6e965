//! Configuration: TOML file, environment, flags.
