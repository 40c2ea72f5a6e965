//! Plays a script: turns its small numbers into commands and gives each to the model and to both stores.

use crate::coverage::Coverage;
use crate::judge::{self, Shown};
use crate::naive::Model;
use crate::script::{Beat, Bid, Joining, Nonce, Op, Opening, Proof, Renewing, Sequence, Span};
use crate::support::*;
use rendezvous::clock::Clock;
use rendezvous::domain::*;
use rendezvous::store::Store;
use rendezvous::store::lane::Lane;
use rendezvous::store::single_lock::SingleLock;
use std::collections::BTreeSet;
use std::net::SocketAddr;

/// The longest allowed interval, so that waiting a minute is sixty ticks.
const PUBLISH_INTERVAL_MS: u32 = 1_000;
/// Protocols in play.
const PROTOCOLS: [&str; 2] = ["arena/3", "race"];

/// The model, both stores, and what earlier steps left to refer to.
pub(crate) struct Play {
    clock: ManualClock,
    single: World<SingleLock<ManualClock>>,
    lane: World<Lane<ManualClock>>,
    model: Model,
    hosts: Vec<Host>,
    attempts: Vec<Try>,
    beats: Vec<Presence>,
    binds: Vec<Bind>,
    creations: Vec<Command>,
    numbers: u64,
    /// What the lane has shown or must have published, and that has been fresh and public ever since (rule S4).
    must_show: BTreeSet<ListingId>,
    last_commit: u64,
    lane_view: u64,
    met: Coverage,
}

impl Play {
    pub(crate) fn new(limits: Limits) -> Self {
        let clock = ManualClock::new();
        let shape = LaneShape { publish_interval_ms: PUBLISH_INTERVAL_MS, ..LaneShape::default() };
        Self {
            single: World::on(clock.clone(), limits.clone(), shape).expect("limits that can be kept"),
            lane: World::on(clock.clone(), limits.clone(), shape).expect("limits that can be kept"),
            model: Model::new(limits),
            clock,
            hosts: Vec::new(),
            attempts: Vec::new(),
            beats: Vec::new(),
            binds: Vec::new(),
            creations: Vec::new(),
            numbers: 0,
            must_show: BTreeSet::new(),
            last_commit: 0,
            lane_view: 0,
            met: Coverage::default(),
        }
    }

    pub(crate) fn step(&mut self, op: &Op) {
        match *op {
            Op::Wait(span) => self.wait(span),
            Op::Jump(span) => {
                self.clock.advance_to(self.target(span));
                // Nobody ticked, so nobody promised that extensions were published in time.
                self.must_show.clear();
            }
            Op::StepWall { years } => {
                let ms = years * 365 * 86_400_000;
                self.clock.set_wall(WallTime(self.clock.wall_now().0.saturating_add_signed(ms)));
            }
            Op::Tick => self.tick(),
            Op::Look => self.look(),
            Op::Open(opening) => {
                let opening = self.registration(opening);
                let beat = presence(&Host::of(&opening), v4(1, 4_000), 0, self.clock.now());
                self.give(Command::Register(Box::new(opening)));
                self.give(Command::Presence(beat));
            }
            Op::Meet(joining, bid) => self.meet(joining, bid),
            _ => {
                if let Some(command) = self.command(op) {
                    self.give(command);
                }
            }
        }
        self.browse(matches!(op, Op::Tick | Op::Look));
    }

    /// Everything is compared once more, also after every deadline has passed.
    pub(crate) fn finish(mut self) -> Coverage {
        self.look();
        self.clock.advance_ms(200_000);
        self.browse(false);
        self.look();
        self.tick();
        self.browse(true);
        self.met
    }

    /// Gives one command to all three.
    fn give(&mut self, command: Command) {
        let at = self.clock.at();
        let single = self.single.submit(command.clone());
        let lane = self.lane.submit(command.clone());
        assert_eq!(single, lane, "the stores differ on {command:?}");
        let commit = self.single.store.last_commit();
        assert_eq!(commit, self.lane.store.last_commit(), "last commit after {command:?}");
        let verdict = self.model.apply(at, &command, commit);
        judge::result(&self.model, &command, &verdict, &single);
        judge::commits(&command, &verdict, &single, self.last_commit, commit);
        self.last_commit = commit;
        self.met.note(&single);
        self.remember(command, &verdict.result);
    }

    /// Creates an attempt and binds both sides, the one that the script names first.
    fn meet(&mut self, joining: Joining, first: Bid) {
        let known = self.attempts.len();
        if let Some(create) = self.joining(joining) {
            self.give(Command::CreateAttempt(Box::new(create)));
        }
        if self.attempts.len() == known {
            return;
        }
        for bid in [first, Bid { joiner: !first.joiner, ..first }] {
            if let Some(command) = self.command(&Op::Bind(bid)) {
                self.give(command);
            }
        }
    }

    fn remember(&mut self, command: Command, result: &Result<Outcome, Rejection>) {
        if command.class() == Class::Creation && result.is_ok() {
            self.creations.push(command.clone());
        }
        match (command, result) {
            (Command::Register(asked), Ok(Outcome::Registered(Registered { replayed: false, .. }))) => {
                self.hosts.push(Host::of(&asked));
            }
            (Command::CreateAttempt(asked), Ok(Outcome::AttemptCreated(AttemptCreated { replayed: false, .. }))) => {
                let host = self.hosts.iter().find(|host| host.id == asked.listing).expect("joined a known listing");
                self.attempts.push(Try::of(&asked, host));
            }
            (Command::Presence(sent), Ok(_)) => self.beats.push(sent),
            (Command::Bind(sent) | Command::BindAndConsume(sent), Ok(_)) => self.binds.push(sent),
            _ => {}
        }
    }

    fn wait(&mut self, span: Span) {
        let target = self.target(span);
        while self.clock.now() < target {
            self.tick();
            let next = self.clock.now().plus_ms(PUBLISH_INTERVAL_MS.into());
            self.clock.advance_to(next.min(target));
        }
    }

    fn target(&self, span: Span) -> MonoTime {
        let now = self.clock.now();
        match span {
            Span::Ms(ms) => now.plus_ms(ms),
            Span::Deadline { nth, off_ns } => {
                let ahead: Vec<MonoTime> = self.model.deadlines().into_iter().filter(|at| *at > now).collect();
                let aim = ahead.get(nth.min(ahead.len().saturating_sub(1))).copied().unwrap_or(now);
                MonoTime(aim.0.saturating_add_signed(off_ns.into())).max(now)
            }
        }
    }

    fn tick(&mut self) {
        self.single.store.tick();
        self.lane.store.tick();
        assert_eq!(self.single.store.last_commit(), self.lane.store.last_commit(), "last commit after a tick");
        let sweep = self.model.apply(self.clock.at(), &Command::Sweep, 0);
        let commit = self.single.store.last_commit();
        if sweep.result.is_ok() {
            assert!(commit - self.last_commit <= u64::from(sweep.cleaned), "a tick only cleans up");
        }
        self.last_commit = commit;
        assert_eq!(self.lane.store.published_commit(), commit, "a tick publishes everything");
        for scope in Self::scopes() {
            let shown = self.model.projection(&scope, self.clock.now(), false);
            self.must_show.extend(shown.iter().map(|listing| listing.asked.id));
        }
    }

    fn scopes() -> impl Iterator<Item = Scope> {
        let of = |tenant| PROTOCOLS.map(|protocol| Scope::new(TenantId(tenant), protocol).expect("a legal protocol"));
        (0..2).flat_map(of)
    }

    /// Browses every scope without giving a command first. Right after a tick both stores show the same bytes.
    fn browse(&mut self, ticked: bool) {
        let now = self.clock.now();
        if ticked {
            self.tick();
        }
        let mut still_shown = BTreeSet::new();
        for scope in Self::scopes() {
            let seen = Shown {
                public: self.model.projection(&scope, now, false),
                fresh: self.model.projection(&scope, now, true),
                drained: self.model.drain.is_some_and(|(deadline, _)| deadline <= now),
                must_show: &self.must_show,
                complete: ticked,
            };
            still_shown.extend(judge::pages(&seen, &scope, &self.single, &self.lane));
        }
        self.must_show = still_shown;
        let view = self.lane.store.published_commit();
        assert!(view >= self.lane_view, "the published commit goes back from {} to {view}", self.lane_view);
        self.lane_view = view;
    }

    /// Every query about everything known.
    fn look(&mut self) {
        let mut queries = vec![Query::Status];
        for host in self.hosts.iter().rev().take(8) {
            queries.push(Query::Lease(host.proof()));
            queries.push(Query::PendingAttempts { proof: host.proof(), after: 0 });
            queries.push(Query::PendingAttempts { proof: host.proof(), after: self.last_commit.saturating_sub(3) });
            queries.push(Query::Lease(host.wrong_proofs()[self.numbers as usize % 4]));
        }
        for attempt in self.attempts.iter().rev().take(8) {
            for caller in [attempt.joiner, attempt.host, principal(999)] {
                queries.push(Query::Attempt { attempt: attempt.id, caller });
            }
        }
        queries.into_iter().for_each(|query| self.give(Command::Query(query)));
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// `None` when the script names something that does not exist yet.
    fn command(&mut self, op: &Op) -> Option<Command> {
        let command = match *op {
            Op::Register(opening) => Command::Register(Box::new(self.registration(opening))),
            Op::Renew(renewing) => Command::Renew(self.renewal(renewing)?),
            Op::Delete { listing, proof } => {
                Command::Delete(Delete { proof: choose(&recent(&self.hosts, listing)?, proof) })
            }
            Op::Presence(beat) => Command::Presence(self.beat(beat)?),
            Op::PresenceAgain { listing } => Command::Presence(recent(&self.beats, listing)?),
            Op::NoteUnverified(beat) => {
                let sent = self.beat(beat)?;
                let sequence = sent.sequence.unwrap_or(0);
                Command::NoteUnverified(NoteUnverified { listing: sent.listing, endpoint: sent.endpoint, sequence })
            }
            Op::Again { nth, other_body } => {
                let id = self.number();
                retried(recent(&self.creations, nth)?, id, other_body)
            }
            Op::CreateAttempt(joining) => Command::CreateAttempt(Box::new(self.joining(joining)?)),
            Op::Bind(bid) => {
                let bind = self.bid(bid)?;
                if bid.consume { Command::BindAndConsume(bind) } else { Command::Bind(bind) }
            }
            Op::BindAgain { attempt, consume } => {
                let bind = recent(&self.binds, attempt)?;
                if consume { Command::BindAndConsume(bind) } else { Command::Bind(bind) }
            }
            Op::Consume { attempt } => recent(&self.attempts, attempt)?.consume(),
            Op::Gate { attempt, admit, by } => {
                let attempt = recent(&self.attempts, attempt)?;
                let by = self.authority(&attempt, by);
                if admit { attempt.admit(by) } else { attempt.refuse(by) }
            }
            Op::Close { attempt, by } => recent(&self.attempts, attempt).map(|a| a.close(side(&a, by)))?,
            Op::Report { attempt, by } => {
                recent(&self.attempts, attempt).map(|a| a.report(side(&a, by), Path::Direct))?
            }
            Op::RevokeListing { listing, ttl_ms, key } => {
                revoke(Subject::Listing(recent(&self.hosts, listing)?.id), ttl_ms, key)
            }
            Op::RevokePrincipal { tenant, principal, ttl_ms, key } => {
                revoke(Subject::Principal(principal_of(TenantId(tenant), principal).key), ttl_ms, key)
            }
            Op::LiftListing { listing } => Command::LiftRevocation(Subject::Listing(recent(&self.hosts, listing)?.id)),
            Op::LiftPrincipal { tenant, principal } => {
                Command::LiftRevocation(Subject::Principal(principal_of(TenantId(tenant), principal).key))
            }
            Op::Drain { window_ms } => Command::Drain { window_ms },
            Op::Sweep => Command::Sweep,
            Op::Open(_) | Op::Meet(..) | Op::Wait(_) | Op::Jump(_) | Op::StepWall { .. } | Op::Tick | Op::Look => {
                return None;
            }
        };
        Some(command)
    }

    fn registration(&mut self, opening: Opening) -> Register {
        let owner = principal_of(TenantId(opening.tenant), opening.owner);
        let scope = Scope::new(owner.tenant, PROTOCOLS[opening.protocol]).expect("a legal protocol");
        let declared = SocketAddr::from(([10, 0, 0, opening.owner as u8], 5_000));
        Register {
            source: opening.source.map(source),
            idempotency: Idempotency {
                key: IdempotencyKey(owner.key.0 << 32 | u128::from(opening.key)),
                fingerprint: Fingerprint(opening.body.into()),
            },
            visibility: if opening.unlisted { Visibility::Unlisted } else { Visibility::Public },
            ttl: ttl(opening.ttl_ms),
            gate: opening.gate,
            candidates: Candidates::new([declared]).expect("a private address"),
            quota_per_owner: if opening.tight { 2 } else { 9 },
            quota_per_source: if opening.tight { 1 } else { 9 },
            ..register_in(scope, owner, self.number())
        }
    }

    fn renewal(&mut self, renewing: Renewing) -> Option<Renew> {
        let host = recent(&self.hosts, renewing.listing)?;
        let known = self.model.listings.iter().find(|listing| listing.asked.id == host.id);
        let version = known.map_or(1, |listing| listing.version);
        let visibility = renewing.unlisted.map(|yes| if yes { Visibility::Unlisted } else { Visibility::Public });
        let name = format!("renamed {}", self.number());
        Some(Renew {
            proof: choose(&host, renewing.proof),
            version: version.saturating_add_signed(renewing.version),
            ttl: renewing.ttl_ms.map(ttl),
            details: renewing.rename.then(|| Box::new(details(&name))),
            visibility,
        })
    }

    fn beat(&self, beat: Beat) -> Option<Presence> {
        let host = recent(&self.hosts, beat.listing)?;
        let endpoint = if beat.v6 { v6(1, beat.port) } else { v4(1, beat.port) };
        let listing = self.model.listings.iter().find(|listing| listing.asked.id == host.id);
        let known = listing.and_then(|listing| listing.known[endpoint.family().index()].as_ref());
        let highest = known.and_then(|known| known.highest).unwrap_or(1_000);
        let sequence = match beat.sequence {
            Sequence::Absent => None,
            Sequence::Exactly(sequence) => Some(sequence),
            Sequence::Plus(by) => Some(highest.saturating_add_signed(by)),
            Sequence::Paced(by) => {
                let anchor = known.and_then(|known| known.anchor);
                let (first, since) = anchor.unwrap_or((1_000, self.clock.now()));
                Some(first.saturating_add(self.clock.now().ms_since(since)).saturating_add_signed(by))
            }
        };
        let nonce_issued = self.issued(beat.nonce, known.map(|known| known.nonce_issued));
        let content =
            (u128::from(sequence.map_or(u64::MAX, |s| s.wrapping_mul(31))) << 64) ^ u128::from(nonce_issued.0);
        let place = u128::from(beat.port) << 1 | u128::from(beat.v6);
        let datagram = Fingerprint(content ^ host.id.0 ^ place << 100);
        Some(Presence { listing: host.id, endpoint, datagram, sequence, nonce_issued })
    }

    fn issued(&self, nonce: Nonce, last: Option<MonoTime>) -> MonoTime {
        let now = self.clock.now().0;
        let fresh_ns = u64::from(self.model.limits.nonce_fresh_ms) * 1_000_000;
        match nonce {
            Nonce::Ms(ms) => MonoTime(now - ms * 1_000_000),
            Nonce::Same => last.unwrap_or(MonoTime(now)),
            Nonce::Border(ns) => MonoTime((now - fresh_ns).saturating_add_signed(-i64::from(ns))),
        }
    }

    fn joining(&mut self, joining: Joining) -> Option<CreateAttempt> {
        let host = recent(&self.hosts, joining.listing)?;
        let tenant = joining.tenant.map_or(host.owner.tenant, TenantId);
        let joiner = principal_of(tenant, joining.joiner);
        let number = self.number();
        let declared = SocketAddr::from(([10, 0, 1, joining.joiner as u8], 5_000));
        Some(CreateAttempt {
            source: joining.source.map(source),
            idempotency: Idempotency {
                key: IdempotencyKey(joiner.key.0 << 32 | 1 << 120 | u128::from(joining.key)),
                fingerprint: Fingerprint(joining.body.into()),
            },
            protocol: joining.protocol.map(|position| PROTOCOLS[position].into()),
            candidates: Candidates::new([declared]).expect("a private address"),
            payload: Some(format!("payload {number}").into()),
            quota: match joining.tight {
                true => AttemptQuota { per_tenant: 4, per_listing: 3, per_principal: 2, per_source: 1 },
                false => AttemptQuota { per_tenant: 9, per_listing: 9, per_principal: 9, per_source: 9 },
            },
            ..attempt_on(&host, joiner, number)
        })
    }

    fn bid(&self, bid: Bid) -> Option<Bind> {
        let attempt = recent(&self.attempts, bid.attempt)?;
        let role = if bid.joiner { Role::Joiner } else { Role::Host };
        // Ports 1 and 2 are shared by the roles: the first behind one address, the second the very same endpoint.
        let (host, port) = match (bid.port, role) {
            (0, Role::Host) => (1, 4_000),
            (0, Role::Joiner) => (2, 5_000),
            (1, _) => (3, 6_000 + role.index() as u16),
            _ => (4, 7_000),
        };
        let endpoint = if bid.v6 { v6(host, port) } else { v4(host as u8, port) };
        let bind = attempt.bind(role, endpoint, self.issued(bid.nonce, None));
        Some(match bid.wrong {
            1 => Bind { capability: Fingerprint(!bind.capability.0), ..bind },
            2 => Bind { datagram: Fingerprint(!bind.datagram.0), ..bind },
            3 if role == Role::Host => Bind { listing: Some(ListingId(!attempt.listing.0)), ..bind },
            _ => bind,
        })
    }

    fn authority(&self, attempt: &Try, by: u8) -> GateAuthority {
        let host = self.hosts.iter().find(|host| host.id == attempt.listing).expect("the attempt's listing");
        match by {
            0 | 1 => host.authority(),
            2 => GateAuthority::CommandPlane { tenant: TenantId(u16::from(self.numbers.is_multiple_of(2))) },
            _ => GateAuthority::Owner { caller: attempt.joiner, lease: host.lease },
        }
    }
}

/// A retry draws a new id, as an edge does.
fn retried(mut creation: Command, id: u64, other_body: bool) -> Command {
    let idempotency = match &mut creation {
        Command::Register(register) => {
            register.id.0 += u128::from(id) << 32;
            &mut register.idempotency
        }
        Command::CreateAttempt(create) => {
            create.id.0 += u128::from(id) << 32;
            &mut create.idempotency
        }
        other => panic!("not a creation: {other:?}"),
    };
    if other_body {
        idempotency.fingerprint.0 ^= 1;
    }
    creation
}

fn side(attempt: &Try, by: u8) -> Principal {
    match by {
        0 => attempt.joiner,
        1 => attempt.host,
        _ => principal(999),
    }
}

fn choose(host: &Host, proof: Proof) -> LeaseProof {
    proof.map_or_else(|| host.proof(), |wrong| host.wrong_proofs()[wrong])
}

/// The n-th newest.
fn recent<T: Clone>(all: &[T], nth: usize) -> Option<T> {
    (!all.is_empty()).then(|| all[all.len() - 1 - nth.min(all.len() - 1)].clone())
}
