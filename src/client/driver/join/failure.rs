//! Why a join failed, in words for the player.

use crate::client::core::BindRefusal;
use crate::client::relay::RelayFailure;
use std::fmt;
use std::net::SocketAddr;

/// Where a join ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Proving the own address to the server, over UDP.
    Bind,
    /// Waiting for the host.
    Introduction,
    /// Reaching the host.
    Punch,
}

/// Why a join failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinFailure {
    /// The server never saw this side.
    NotBound(BindRefusal),
    /// The host didn't come, or the attempt was ended.
    NotIntroduced(BindRefusal),
    /// The attempt was ended; state and reason as the server names them.
    Ended {
        /// A terminal state of rule H5.
        state: String,
        /// Its reason.
        reason: Option<String>,
    },
    /// Introduced, but no address of the host answered.
    PunchFailed {
        /// The addresses that were tried.
        tried: Vec<SocketAddr>,
        /// Why a relay didn't help; `None` when the server names none.
        relay: Option<RelayFailure>,
    },
}

impl JoinFailure {
    /// Where it ended.
    pub fn step(&self) -> Step {
        match self {
            Self::NotBound(_) => Step::Bind,
            Self::NotIntroduced(_) | Self::Ended { .. } => Step::Introduction,
            Self::PunchFailed { .. } => Step::Punch,
        }
    }

    /// What the player can do.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::NotBound(BindRefusal::Unanswered) => {
                "UDP to the server seems blocked: try another network, or allow outgoing UDP in the firewall"
            }
            Self::NotBound(BindRefusal::OtherEndpoint) => {
                "the address of this side changed meanwhile (a VPN or a second network?): join again"
            }
            Self::NotBound(BindRefusal::SameEndpoint) => "host and player need sockets of their own",
            Self::NotBound(_) => "join again",
            Self::NotIntroduced(BindRefusal::NoCommonFamily) => {
                "one side has only IPv4, the other only IPv6: use a network with both"
            }
            Self::NotIntroduced(BindRefusal::Refused) => "the host refused: ask the host, or choose another game",
            Self::NotIntroduced(_) => "the host didn't answer: browse again and choose another game, or try later",
            Self::Ended { state, .. } => match state.as_str() {
                "refused" => "the host refused: ask the host, or choose another game",
                "listing_gone" => "the game has ended: browse again",
                "no_common_family" => "one side has only IPv4, the other only IPv6: use a network with both",
                "drained" => "the server is restarting: try again in a moment",
                "revoked" => "ask the server's operator",
                _ => "the host didn't answer: browse again and choose another game, or try later",
            },
            Self::PunchFailed { relay: Some(_), .. } => {
                "a NAT or firewall on one side lets nothing in and the relay didn't help: try another network, and tell the server's operator"
            }
            Self::PunchFailed { relay: None, .. } => {
                "a NAT or firewall on one side lets nothing in (often symmetric NAT, as in mobile networks): try another network, or IPv6 on both sides"
            }
        }
    }
}

impl fmt::Display for JoinFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBound(BindRefusal::Unanswered) => f.write_str("the server did not answer over UDP within 10 s"),
            Self::NotBound(refusal) => write!(f, "the server did not accept this side's address: {refusal}"),
            Self::NotIntroduced(BindRefusal::Deadline) => f.write_str("the host did not answer before the deadline"),
            Self::NotIntroduced(refusal) => write!(f, "the attempt ended before the introduction: {refusal}"),
            Self::Ended { state, reason } => {
                write!(f, "the attempt ended before the introduction: {state}")?;
                reason.as_ref().filter(|reason| *reason != state).map_or(Ok(()), |reason| write!(f, " ({reason})"))
            }
            Self::PunchFailed { tried, relay } => {
                let tried: Vec<String> = tried.iter().map(SocketAddr::to_string).collect();
                write!(f, "no answer from the host at {}", tried.join(", "))?;
                relay.map_or(Ok(()), |failure| write!(f, "; {failure}"))
            }
        }
    }
}

impl std::error::Error for JoinFailure {}
