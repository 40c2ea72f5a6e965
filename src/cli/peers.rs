//! The players that a game talks to, in the chat of [`link`](crate::client::link).

use crate::client::Host;
use crate::client::core::Path;
use crate::client::link::{Heard, Link, Talk};
use crate::credentials::Secret;
use crate::domain::{AttemptId, MonoTime, Role};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

/// Players talked to at one time; the one that came first is forgotten when more come.
const PEERS_MAX: usize = 64;
/// How often unacknowledged texts are looked at.
pub(super) const TICK: Duration = Duration::from_millis(50);

struct Peer {
    attempt: AttemptId,
    address: SocketAddr,
    talk: Talk,
}

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Peers(VecDeque<Peer>);

impl Peers {
    /// Somebody was met.
    pub(super) fn add(&mut self, attempt: AttemptId, path: Path, peer_key: Secret) {
        if self.0.len() == PEERS_MAX {
            self.0.pop_front();
        }
        let talk = Talk::new(Link::new(Role::Host, peer_key));
        self.0.push_back(Peer { attempt, address: path.peer, talk });
    }

    /// Takes a datagram; gives the text that was said, and by whom. `answer` is said in return.
    pub(super) fn hear(
        &mut self,
        from: SocketAddr,
        bytes: &[u8],
        now: MonoTime,
        answer: impl Fn(&str) -> Option<String>,
    ) -> Option<(AttemptId, String)> {
        for peer in &mut self.0 {
            let Some(heard) = peer.talk.handle_input(bytes, now) else { continue };
            // The tag proves the sender; its NAT may have moved it.
            peer.address = from;
            let Heard::Text(text) = heard else { return None };
            if let Some(answer) = answer(&text) {
                peer.talk.say(&answer, now);
            }
            return Some((peer.attempt, text));
        }
        None
    }

    /// Says something to everybody.
    pub(super) fn say(&mut self, text: &str, now: MonoTime) {
        self.0.iter_mut().for_each(|peer| {
            peer.talk.say(text, now);
        });
    }

    /// Repeats what is not acknowledged.
    pub(super) fn tick(&mut self, now: MonoTime) {
        self.0.iter_mut().for_each(|peer| peer.talk.handle_timeout(now));
    }

    /// Sends what is to be sent.
    pub(super) async fn send(&mut self, host: &Host) {
        for peer in &mut self.0 {
            while let Some(bytes) = peer.talk.poll_transmit() {
                host.send(peer.address, &bytes).await;
            }
        }
    }
}
