//! File descriptors: as many as the system lets this process have, and a word where they are fewer than the ceilings need.

use crate::config::Config;

/// Descriptors beside those of connections and long polls: listeners, scrapers, reactors, the command plane's store, and
/// connections that are being refused.
const OTHERS: u64 = 256;

/// What the system may let a process have whose hard limit it does not let it reach (macOS).
#[cfg(unix)]
const COMMON_MOST: u64 = 10_240;

/// Raises the soft limit of this process's file descriptors to the hard one, for whoever owns the process: a shell's usual
/// 1,024 are fewer than the ceilings of connections. Warns where they are too few all the same; what happens then is in
/// the operations page.
pub fn raise_descriptor_limit(config: &Config) {
    let (available, wanted) = (raised(), wanted(config));
    // What is tried out on one machine is not sized.
    if let Some(available) = available.filter(|available| *available < wanted && !config.dev) {
        tracing::warn!(event = "few_descriptors", available, wanted);
    }
}

/// One for each connection and each waiting long poll that the ceilings let in, and [`OTHERS`].
fn wanted(config: &Config) -> u64 {
    let connections = u64::try_from(config.http.limits.connections).unwrap_or(u64::MAX);
    connections.saturating_add(u64::from(config.limits.long_polls())).saturating_add(OTHERS)
}

/// The limit after that; `None` where there is none.
#[cfg(unix)]
fn raised() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current?;
    for soft in [limit.maximum, Some(COMMON_MOST)] {
        let is_more = soft.is_none_or(|soft| soft > current) && limit.maximum.is_none_or(|most| soft <= Some(most));
        if is_more && setrlimit(Resource::Nofile, Rlimit { current: soft, maximum: limit.maximum }).is_ok() {
            return soft;
        }
    }
    Some(current)
}

/// There is no such limit.
#[cfg(not(unix))]
fn raised() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_connection_and_every_long_poll_takes_one() {
        let mut config = Config::default();
        config.http.limits.connections = 1_000;
        config.limits.long_polls = Some(500);
        assert_eq!(wanted(&config), 1_000 + 500 + OTHERS);
    }
}
