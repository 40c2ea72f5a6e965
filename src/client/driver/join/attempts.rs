//! The attempts of one join: usually one, and more when answers of the server come too late.

use super::{Done, Join, JoinFailure, JoinNews};
use crate::client::core::{Attempt, AttemptSetup, Entropy};
use crate::client::error::{Code, Error};
use crate::client::http::{Directory, JoinRequest, JoinTicket, persistently};
use crate::domain::{ListingId, MonoTime, Role};
use std::net::SocketAddr;
use std::time::Duration;

/// Attempts made for one way, when the answer to the one before came too late to bind it. It has to be bound within ten
/// seconds of its creation, and a TCP answer on a bad line may take as long.
pub(super) const ATTEMPTS_MAX: u32 = 3;
/// Until the first signed answer says better: past the longest lifetime of an attempt.
const DEADLINE_MS: u64 = 120_000;

impl Join {
    /// The attempt has ended without an introduction. When it was gone before the server saw this side, its ticket came too
    /// late, and another one may come in time.
    pub(super) fn ended(&mut self, failure: JoinFailure, gone: bool) {
        if self.renewing {
            return;
        }
        if !gone || self.bound || self.attempts_left == 0 {
            self.over = true;
            self.news.push_back(JoinNews::Failed(failure));
            return;
        }
        (self.renewing, self.attempts_left) = (true, self.attempts_left - 1);
        let (directory, listing, request) = (self.directory.clone(), self.listing, self.request.clone());
        let mut keys = self.entropy.fork();
        self.jobs.spawn(async move { Done::Again(create(&directory, listing, &request, &mut keys).await, failure) });
    }

    pub(super) fn ticket_again(&mut self, ticket: Result<JoinTicket, Error>, failure: JoinFailure, now: MonoTime) {
        self.renewing = false;
        match ticket {
            Ok(ticket) => {
                self.peer_key = ticket.peer_key.clone();
                let setup = setup(ticket, self.servers.clone(), now);
                self.attempt = Attempt::new(setup, self.entropy.fork(), now);
                self.watch(0, Duration::ZERO);
            }
            Err(error) => {
                tracing::info!(%error, "no other attempt");
                self.over = true;
                self.news.push_back(JoinNews::Failed(failure));
            }
        }
    }
}

/// What the core needs to know of an attempt.
pub(super) fn setup(ticket: JoinTicket, servers: Vec<SocketAddr>, now: MonoTime) -> AttemptSetup {
    AttemptSetup {
        attempt: ticket.attempt_id,
        role: Role::Joiner,
        username: ticket.bind.username,
        password: ticket.bind.password,
        peer_key: ticket.peer_key,
        servers,
        deadline: now.plus_ms(DEADLINE_MS),
    }
}

/// Creates an attempt. All tries have one key, so that they make one attempt; but when the answer was lost for so long that
/// the attempt has ended unbound, another key makes another one.
pub(super) async fn create(
    directory: &Directory,
    listing: ListingId,
    request: &JoinRequest,
    keys: &mut Entropy,
) -> Result<JoinTicket, Error> {
    for _ in 1..ATTEMPTS_MAX {
        let key = keys.key();
        match persistently(|| directory.attempt(listing, request, &key)).await {
            Err(error) if error.code() == Some(&Code::Expired) => {}
            answer => return answer,
        }
    }
    let key = keys.key();
    persistently(|| directory.attempt(listing, request, &key)).await
}
