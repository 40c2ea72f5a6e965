//! A joiner: one request, repeated with its key, and one attempt at a time.

use super::{LEFT_MS, Turn, claim, classify, entropy};
use crate::calls::{Answer, Granted, Request, attempt_body};
use rendezvous::client::core::*;
use rendezvous::credentials::Secret;
use rendezvous::domain::{InstanceId, ListingId, MonoTime, Role};
use std::net::SocketAddr;

/// How often it asks again with the same key.
const TRIES_MAX: u32 = 3;

pub(crate) struct Joiner {
    number: usize,
    pub(crate) life: u32,
    /// The request that is being repeated, and how often it has been sent.
    asking: Option<(String, ListingId, u32)>,
    pub(crate) attempt: Option<Attempt>,
    declares: bool,
    pub(crate) frozen_until: MonoTime,
    entropy: Entropy,
}

impl Joiner {
    pub(crate) fn new(number: usize, life: u32, seed: u64) -> Self {
        let mut entropy = entropy(number, life, seed);
        let declares = entropy.between(0, 1) == 0;
        Self { number, life, asking: None, attempt: None, declares, frozen_until: MonoTime(0), entropy }
    }

    /// Tries to join, unless it is trying already.
    pub(crate) fn join(&mut self, listing: ListingId, turn: &mut Turn<'_>) {
        if self.asking.is_none() {
            self.asking = Some((self.entropy.key(), listing, 0));
            self.ask(turn);
        }
    }

    fn ask(&mut self, turn: &mut Turn<'_>) {
        let Some((key, listing, tries)) = &mut self.asking else { return };
        *tries += 1;
        let candidate = turn.network.candidate(self.number).filter(|_| self.declares).map(|it| it.to_string());
        let body = attempt_body(None, candidate);
        turn.requests.push((Request::Attempt { listing: *listing, key: key.clone(), body }, 0));
    }

    pub(crate) fn answered(&mut self, request: &Request, answer: Option<(Answer, InstanceId)>, turn: &mut Turn<'_>) {
        let Request::Attempt { key, .. } = request else { return };
        let Some((own, _, tries)) = self.asking.clone().filter(|(own, ..)| own == key) else { return };
        match answer {
            Some((Ok(Granted::Attempt(it)), _)) => {
                self.asking = None;
                let grant = it.value;
                let setup = AttemptSetup {
                    attempt: grant.attempt,
                    role: Role::Joiner,
                    username: grant.bind.username,
                    password: Secret::new(grant.bind.password.expose()),
                    peer_key: grant.peer_key,
                    servers: turn.network.servers(self.number),
                    deadline: turn.now.plus_ms(LEFT_MS.into()),
                };
                self.attempt = Some(Attempt::new(setup, self.entropy.fork(), turn.now));
            }
            Some((Err(failure), _)) if !matches!(classify(failure), CallFailure::Transient { .. }) => {
                self.asking = None
            }
            _ if tries >= TRIES_MAX => self.asking = None,
            // Nobody knows whether it happened: the same key asks again.
            _ => {
                debug_assert_eq!(own, *key);
                self.ask(turn);
            }
        }
        self.turn(turn);
    }

    pub(crate) fn poll_timeout(&self) -> Option<MonoTime> {
        let attempt = self.attempt.as_ref()?;
        let due = attempt.poll_timeout().unwrap_or(MonoTime::NEVER).min(attempt.keep_until());
        Some(due.max(self.frozen_until))
    }

    pub(crate) fn turn(&mut self, turn: &mut Turn<'_>) {
        if self.frozen_until > turn.now {
            return;
        }
        if let Some(attempt) = &mut self.attempt
            && attempt.poll_timeout().is_some_and(|due| due.is_past(turn.now))
        {
            attempt.handle_timeout(turn.now);
        }
        self.flush(turn);
        if self.attempt.as_ref().is_some_and(|attempt| attempt.keep_until().is_past(turn.now)) {
            self.attempt = None;
        }
    }

    pub(crate) fn receive(&mut self, bytes: &[u8], from: SocketAddr, turn: &mut Turn<'_>) {
        if self.frozen_until > turn.now {
            return;
        }
        if let Some(attempt) = &mut self.attempt {
            attempt.handle_input(bytes, from, turn.now);
        }
        self.flush(turn);
    }

    fn flush(&mut self, turn: &mut Turn<'_>) {
        let Some(attempt) = &mut self.attempt else { return };
        while let Some(transmit) = attempt.poll_transmit() {
            turn.network.send(self.number, transmit.to, &transmit.bytes, turn.now, turn.rng);
        }
        while let Some(event) = attempt.poll_event() {
            claim(attempt.id(), event, turn);
        }
    }
}
