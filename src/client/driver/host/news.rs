//! What a host is told.

use crate::client::core::{BindRefusal, Path};
use crate::client::error::Error;
use crate::credentials::Secret;
use crate::domain::{AttemptId, ListingId};
use std::net::SocketAddr;
use std::time::Duration;

/// What happened to the listing and its players.
#[derive(Debug)]
pub enum HostNews {
    /// A guest token was got.
    LoggedIn {
        /// The principal.
        principal: String,
    },
    /// Registered; joinable as soon as [`HostNews::Verified`] follows.
    Listed {
        /// What players need.
        listing: ListingId,
        /// True when an earlier listing was lost.
        again: bool,
    },
    /// The server has verified one family's address.
    Verified {
        /// Own address as the server sees it.
        mapped: SocketAddr,
    },
    /// No answer over UDP for five seconds; the game isn't joinable in this family until one comes.
    Unanswered {
        /// The server's address.
        server: SocketAddr,
    },
    /// The lease was renewed.
    Renewed {
        /// The new version.
        version: u64,
    },
    /// The listing has ended, by a restart, an expiry or a revocation. It will be registered again.
    Lost,
    /// The server is going down.
    Draining {
        /// When to come back.
        retry_after: Duration,
    },
    /// A call failed and will be repeated.
    Retrying {
        /// What failed.
        error: Error,
    },
    /// Of one player.
    Player {
        /// The player's attempt.
        attempt: AttemptId,
        /// What.
        news: PlayerNews,
    },
    /// A datagram of the game.
    Datagram {
        /// From where.
        from: SocketAddr,
        /// All of it.
        bytes: Vec<u8>,
    },
    /// The listing can't be kept, and trying again won't help. Nothing follows.
    Stopped(Error),
}

/// What happened to one player's attempt.
#[derive(Debug)]
pub enum PlayerNews {
    /// A player wants to join; binding has begun. At a gated listing, [`Host::admit`](super::Host::admit) decides.
    Offered,
    /// What the player sent along, known only from HTTP; opaque to everybody but the game.
    Payload(String),
    /// The punch has begun.
    Introduced {
        /// The player's addresses.
        peers: Vec<SocketAddr>,
    },
    /// The player can be reached.
    Connected {
        /// The way.
        path: Path,
        /// Both sides have it and nobody else; a game can derive its own keys from it.
        peer_key: Secret,
    },
    /// The player couldn't be reached.
    NotConnected {
        /// Why there was no introduction; `None` when the punch failed.
        refusal: Option<BindRefusal>,
    },
}
