//! By which socket and local address an endpoint is reached: a NAT lets back in only what comes from where it sent to.

use super::question::Local;
use crate::domain::Endpoint;
use std::collections::HashMap;

/// Endpoints of one generation; two are kept. With the default ceilings there are at most 50,000 presences and 40,000 bound
/// endpoints, all of which fit; above it the endpoints heard longest ago fall back to their family's first socket.
const ROUTES_PER_GENERATION: usize = 131_072;

/// Remembers the route of authenticated endpoints that are not reached by default. Two generations make forgetting the
/// oldest half cost nothing, and whoever is alive speaks again within seconds.
#[derive(Debug, Default)]
pub(super) struct Routes {
    young: HashMap<Endpoint, Local>,
    old: HashMap<Endpoint, Local>,
}

impl Routes {
    /// Notes that `endpoint` was heard by way of `local`; `default` is the route taken for unknown endpoints.
    pub(super) fn note(&mut self, endpoint: Endpoint, local: Local, default: Option<Local>) {
        if default == Some(local) {
            for routes in [&mut self.young, &mut self.old] {
                // Usually everybody is reached by default, and then there is nothing to hash.
                if !routes.is_empty() {
                    routes.remove(&endpoint);
                }
            }
            return;
        }
        if self.young.len() >= ROUTES_PER_GENERATION && !self.young.contains_key(&endpoint) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(endpoint, local);
    }

    /// The way to `endpoint`, if it was heard.
    pub(super) fn to(&self, endpoint: Endpoint) -> Option<Local> {
        self.young.get(&endpoint).or_else(|| self.old.get(&endpoint)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, SocketAddr};

    fn endpoint(n: u32) -> Endpoint {
        Endpoint::new(SocketAddr::from((Ipv4Addr::from_bits(0x0A00_0000 + n / 60_000), 1 + (n % 60_000) as u16)))
            .unwrap()
    }

    #[test]
    fn the_last_route_counts_and_the_default_is_not_stored() {
        let (first, second) = (Local { socket: 0, ip: None }, Local { socket: 1, ip: None });
        let mut routes = Routes::default();
        routes.note(endpoint(1), second, Some(first));
        assert_eq!(routes.to(endpoint(1)), Some(second));
        routes.note(endpoint(1), first, Some(first));
        assert_eq!(routes.to(endpoint(1)), None);
        assert_eq!(routes.young.len() + routes.old.len(), 0);
    }

    #[test]
    fn two_generations_bound_the_memory_and_keep_the_recent() {
        let local = Local { socket: 1, ip: None };
        let mut routes = Routes::default();
        let many = 3 * ROUTES_PER_GENERATION as u32;
        for n in 0..many {
            routes.note(endpoint(n), local, None);
        }
        assert!(routes.young.len() + routes.old.len() <= 2 * ROUTES_PER_GENERATION);
        assert_eq!(routes.to(endpoint(many - ROUTES_PER_GENERATION as u32)), Some(local));
        assert_eq!(routes.to(endpoint(0)), None);
    }
}
