//! The way by a relay, for two sides whose NATs no punch opens: another attempt for the same listing, bound through the
//! relay. The server then sees the relay's address as this side's, and the host punches to that one.

use super::super::resolve;
use super::attempts::{ATTEMPTS_MAX, create, setup};
use super::{Done, Join, JoinFailure, JoinNews};
use crate::client::core::{Attempt, AttemptEvent, Path, Transmit, is_stun};
use crate::client::error::Error;
use crate::client::http::{JoinRequest, JoinTicket, PathKind, TurnGrant};
use crate::client::relay::{Relay, RelayEvent, RelayFailure, Relayed};
use crate::credentials::Secret;
use crate::domain::{AttemptId, MonoTime};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// How long the punch is given before a relay is asked beside it: most succeed in a second, and one that is slower may still.
pub(super) const DETOUR_AFTER_MS: u64 = 2_000;

/// One relay in use.
#[derive(Debug)]
pub(super) struct Detour {
    relay: Relay,
    /// What proves this side to the relay.
    grant: TurnGrant,
    /// The rendezvous server.
    server: SocketAddr,
    /// To be asked when this relay gives no address.
    others: VecDeque<SocketAddr>,
    attempt: Option<Attempt>,
    peer_key: Option<Secret>,
    bound: bool,
    attempts_left: u32,
}

/// How an attempt by relay ended.
enum End {
    Connected(Path),
    /// The server never saw this side; with another attempt it may.
    Unbound,
    NoPeer,
}

/// How far the detour is.
#[derive(Debug)]
pub(super) enum DetourState {
    /// The server named no relay, so there is none.
    None,
    /// Named, and not needed so far.
    Spare(Vec<TurnGrant>),
    /// Its address is being looked up.
    Sought(TurnGrant),
    /// In use.
    Open(Box<Detour>),
    /// It came to nothing.
    Failed(RelayFailure),
}

impl Join {
    /// Asks for a relay; once.
    pub(super) fn begin_detour(&mut self) {
        self.detour_at = None;
        if let DetourState::Spare(grants) = &mut self.detour
            && let Some(grant) = grants.pop()
        {
            let (uris, families) = (grant.uris.clone(), self.port.families());
            self.detour = DetourState::Sought(grant);
            self.jobs.spawn(async move { Done::Relays(resolve::relays(&uris, families).await) });
        }
    }

    pub(super) fn relays_found(&mut self, found: Vec<SocketAddr>, now: MonoTime) {
        if let DetourState::Sought(grant) = &self.detour {
            let grant = grant.clone();
            self.ask_relay(grant, found.into(), RelayFailure::NoAddress, now);
        }
    }

    /// The host's family decides the relay's: IPv4 when it has both, for more relays have that.
    fn ask_relay(&mut self, grant: TurnGrant, mut relays: VecDeque<SocketAddr>, none: RelayFailure, now: MonoTime) {
        let v4 = self.tried.iter().any(SocketAddr::is_ipv4);
        let server = self.servers.iter().find(|server| server.is_ipv4() == v4).copied();
        let relay = relays.pop_front();
        let local = relay.and_then(|relay| self.port.socket_for(relay)?.local_addr().ok());
        let (Some(server), Some(relay), Some(local)) = (server, relay, local) else { return self.detour_failed(none) };
        self.news.push_back(JoinNews::Relaying { relay });
        let relay = Relay::new(relay, local, server, &grant, now);
        self.detour = DetourState::Open(Box::new(Detour {
            relay,
            grant,
            server,
            others: relays,
            attempt: None,
            peer_key: None,
            bound: false,
            attempts_left: ATTEMPTS_MAX,
        }));
    }

    /// The server's answer to the attempt by relay.
    pub(super) fn ticket_for_detour(&mut self, ticket: Result<JoinTicket, Error>, now: MonoTime) {
        let DetourState::Open(detour) = &mut self.detour else { return };
        match ticket {
            Ok(ticket) => {
                detour.peer_key = Some(ticket.peer_key.clone());
                let setup = setup(ticket, vec![detour.server], now);
                detour.attempt = Some(Attempt::new(setup, self.entropy.fork(), now));
            }
            Err(error) => {
                tracing::info!(%error, "no attempt by relay");
                self.detour_failed(RelayFailure::NoAttempt);
            }
        }
    }

    /// What the relay and the attempt by relay have to do and to tell.
    pub(super) async fn run_detour(&mut self, now: MonoTime) {
        if self.detour_at.is_some_and(|due| due.is_past(now)) {
            self.begin_detour();
        }
        loop {
            let DetourState::Open(detour) = &mut self.detour else { return };
            let (transmits, end) = detour.step(now);
            for transmit in transmits {
                self.port.transmit(&transmit).await;
            }
            match end {
                Some(End::Connected(path)) => self.relayed(path),
                Some(End::Unbound) => self.attempt_by_relay(),
                Some(End::NoPeer) => self.relay_gone(RelayFailure::NoPeer, now),
                None => {}
            }
            let DetourState::Open(detour) = &mut self.detour else { return };
            match detour.relay.poll_event() {
                Some(RelayEvent::Ready(address)) => {
                    tracing::debug!(%address, "the relay's address for this side");
                    self.attempt_by_relay();
                }
                Some(RelayEvent::Failed(failure)) => self.relay_gone(failure, now),
                None => return,
            }
        }
    }

    fn attempt_by_relay(&mut self) {
        let DetourState::Open(detour) = &mut self.detour else { return };
        detour.attempt = None;
        if detour.attempts_left == 0 {
            return self.detour_failed(RelayFailure::NoAttempt);
        }
        detour.attempts_left -= 1;
        let (directory, listing) = (self.directory.clone(), self.listing);
        // The server sees the relay's address, which nobody shares: no use for private ones.
        let request = JoinRequest { candidates: Vec::new(), ..self.request.clone() };
        let mut keys = self.entropy.fork();
        self.jobs.spawn(async move { Done::Detour(create(&directory, listing, &request, &mut keys).await) });
    }

    fn relayed(&mut self, path: Path) {
        if !self.over {
            self.over = true;
            self.kind = PathKind::Relayed;
            self.close_other(self.attempt.id());
            self.news.push_back(JoinNews::Connected(path));
        }
    }

    /// Another relay, or none. A relay that fails once it is in use is a path that has broken: the game sees silence.
    fn relay_gone(&mut self, failure: RelayFailure, now: MonoTime) {
        let DetourState::Open(detour) = &mut self.detour else { return };
        let (grant, others) = (detour.grant.clone(), std::mem::take(&mut detour.others));
        if detour.attempt.is_some() || others.is_empty() {
            return self.detour_failed(failure);
        }
        self.ask_relay(grant, others, failure, now);
    }

    fn detour_failed(&mut self, failure: RelayFailure) {
        self.detour = DetourState::Failed(failure);
        if self.punch_failed {
            self.give_up(Some(failure));
        }
    }

    /// The punch has failed: the detour decides.
    pub(super) fn punch_failed(&mut self) {
        self.punch_failed = true;
        match &self.detour {
            DetourState::None => self.give_up(None),
            DetourState::Failed(failure) => self.give_up(Some(*failure)),
            DetourState::Spare(_) => self.begin_detour(),
            DetourState::Sought(_) | DetourState::Open(_) => {}
        }
    }

    fn give_up(&mut self, relay: Option<RelayFailure>) {
        if !self.over {
            self.over = true;
            self.kind = PathKind::Failed;
            let tried = self.tried.clone();
            self.news.push_back(JoinNews::Failed(JoinFailure::PunchFailed { tried, relay }));
        }
    }

    /// The punch has worked: the relay's address is given back.
    pub(super) async fn drop_detour(&mut self, now: MonoTime) {
        self.detour_at = None;
        if let DetourState::Open(mut detour) = std::mem::replace(&mut self.detour, DetourState::None) {
            detour.relay.release(now);
            while let Some(transmit) = detour.relay.poll_transmit() {
                self.port.transmit(&transmit).await;
            }
            if let Some(attempt) = &detour.attempt {
                self.close_other(attempt.id());
            }
        }
    }

    /// Ends the attempt that isn't needed, so that it counts in no quota.
    fn close_other(&mut self, attempt: AttemptId) {
        let directory = self.directory.clone();
        self.jobs.spawn(async move {
            if let Err(error) = directory.close_attempt(attempt).await {
                tracing::debug!(%attempt, %error, "attempt not closed");
            }
            Done::Told
        });
    }

    /// The relay in use, if the host was reached by one.
    pub(super) fn relay_in_use(&mut self) -> Option<&mut Relay> {
        match &mut self.detour {
            DetourState::Open(detour) if self.kind == PathKind::Relayed => Some(&mut detour.relay),
            DetourState::Open(_)
            | DetourState::None
            | DetourState::Spare(_)
            | DetourState::Sought(_)
            | DetourState::Failed(_) => None,
        }
    }

    /// Whose attempt it is that connects, and its key.
    pub(super) fn detour_attempt(&self) -> Option<(AttemptId, &Secret)> {
        match &self.detour {
            DetourState::Open(detour) if self.kind == PathKind::Relayed => {
                Some((detour.attempt.as_ref()?.id(), detour.peer_key.as_ref()?))
            }
            DetourState::Open(_)
            | DetourState::None
            | DetourState::Spare(_)
            | DetourState::Sought(_)
            | DetourState::Failed(_) => None,
        }
    }
}

impl DetourState {
    /// Takes a datagram that is the relay's; a game's datagram in it is given back with its sender.
    pub(super) fn handle_input(&mut self, datagram: &[u8], from: SocketAddr, now: MonoTime) -> Relayed {
        let Self::Open(detour) = self else { return Relayed::Foreign };
        match detour.relay.handle_input(datagram, from, now) {
            Relayed::Data { from, bytes } if is_stun(&bytes) => {
                if let Some(attempt) = &mut detour.attempt {
                    attempt.handle_input(&bytes, from, now);
                }
                Relayed::Taken
            }
            other @ (Relayed::Data { .. } | Relayed::Taken | Relayed::Foreign) => other,
        }
    }

    /// When the detour has something to do.
    pub(super) fn poll_timeout(&self) -> Option<MonoTime> {
        let Self::Open(detour) = self else { return None };
        let attempt = detour.attempt.as_ref().and_then(Attempt::poll_timeout);
        [detour.relay.poll_timeout(), attempt].into_iter().flatten().min()
    }
}

impl Detour {
    /// What is to be sent, and how the attempt ended.
    fn step(&mut self, now: MonoTime) -> (Vec<Transmit>, Option<End>) {
        let mut end = None;
        if let Some(attempt) = &mut self.attempt {
            if attempt.poll_timeout().is_some_and(|due| due.is_past(now)) {
                attempt.handle_timeout(now);
            }
            while let Some(transmit) = attempt.poll_transmit() {
                self.relay.send(transmit.to, &transmit.bytes, now);
            }
            while let Some(event) = attempt.poll_event() {
                match event {
                    AttemptEvent::Connected(path) => end = Some(End::Connected(path)),
                    AttemptEvent::NotIntroduced(_) if !self.bound => end = Some(End::Unbound),
                    AttemptEvent::NotIntroduced(_) | AttemptEvent::PunchFailed => end = Some(End::NoPeer),
                    AttemptEvent::Bound { .. } => self.bound = true,
                    AttemptEvent::FamilyEnded { .. } | AttemptEvent::Introduced { .. } => {}
                }
            }
        }
        self.relay.handle_timeout(now);
        let transmits = std::iter::from_fn(|| self.relay.poll_transmit()).collect();
        (transmits, end)
    }
}
