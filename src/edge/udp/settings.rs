//! What the edge is told at start.

use super::UdpNotices;
use std::net::SocketAddr;
use std::sync::Arc;

/// Addresses, budgets and switches of the UDP edge.
#[derive(Clone, Debug)]
pub struct UdpSettings {
    /// Listeners that answer a plain Binding request with the address it came from. Port 0 takes a free one.
    pub plain: Vec<SocketAddr>,
    /// Listeners that challenge a plain Binding request, as stock long-term clients need it.
    pub auth: Vec<SocketAddr>,
    /// Who may make the server work, and how much.
    pub budgets: Budgets,
    /// Whether plain listeners answer RFC 3489 requests, which have no magic cookie.
    pub classic: bool,
    /// Where the store's observer leaves what happened.
    pub notices: Arc<UdpNotices>,
    /// The secret behind nonces and transaction ids. The instance id is always mixed in.
    pub entropy: Entropy,
}

/// Token buckets. A bucket holds as many tokens as it gains in a second, unless its field says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// Answers a second that are longer than their request, per IPv4 address or IPv6 /64. Ten lets a stock client retry and
    /// makes a spoofed victim's share invisible.
    pub unproven_per_source_per_s: u32,
    /// The same over all sources: 5,000 answers of 124 bytes are 5 Mbit/s at most, whatever the number of spoofed sources.
    pub unproven_global_per_s: u32,
    /// Authenticated requests a second per credential. Ours need 4 at the most (two families, every 500 ms); beyond it
    /// a request is answered with a signed 486.
    pub per_credential_per_s: u32,
    /// Questions that wait for the lane at the same time; beyond it a request is answered with a signed 500. As many as
    /// the lane's queue of keep-alives holds by default: more could only be refused there.
    pub questions_max: usize,
}

impl Default for Budgets {
    fn default() -> Self {
        Self {
            unproven_per_source_per_s: 10,
            unproven_global_per_s: 5_000,
            per_credential_per_s: 20,
            questions_max: 4_096,
        }
    }
}

/// 32 random bytes of this life of the process. Never prints.
#[derive(Clone)]
pub struct Entropy([u8; 32]);

impl Entropy {
    /// Wraps 32 bytes; tests choose them.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Asks the operating system.
    pub fn system() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Debug for Entropy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[redacted]")
    }
}
