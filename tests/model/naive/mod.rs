//! A second opinion: the rules of `docs/semantics.md` over plain vectors that are scanned from end to end.
//!
//! It shares the vocabulary of `rendezvous::domain` with the store and nothing else. There is no index, no queue of due
//! records, no bound on cleanup and no snapshot; what takes the store a structure takes this a filter. An ended
//! resource stays in its vector, marked, for as long as its idempotency record would live.

mod attempts;
mod listings;
mod operator;
mod queries;

use rendezvous::domain::*;

/// Why and when something ended. More than one reason when several deadlines fall on the same instant.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) at: MonoTime,
    pub(crate) reasons: Vec<EndReason>,
}

/// What is known of one family's endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) endpoint: Endpoint,
    pub(crate) deadline: MonoTime,
    pub(crate) datagram: Fingerprint,
    pub(crate) nonce_issued: MonoTime,
    pub(crate) highest: Option<u64>,
    /// Sequence and time of the last exchange with a fresh nonce.
    pub(crate) anchor: Option<(u64, MonoTime)>,
    /// Its deadline has passed: no longer counted, but what is known stays as long as the lease (rule G1).
    pub(crate) lapsed: bool,
}

/// A listing, live or remembered.
#[derive(Clone, Debug)]
pub(crate) struct Listing {
    pub(crate) asked: Register,
    pub(crate) registered_at: MonoTime,
    pub(crate) first: Registered,
    pub(crate) version: u64,
    pub(crate) ttl_ms: u32,
    pub(crate) deadline: MonoTime,
    pub(crate) expires_at: WallTime,
    /// By [`Family::index`].
    pub(crate) known: [Option<Known>; 2],
    pub(crate) unverified: Option<Endpoint>,
    pub(crate) end: Option<End>,
    pub(crate) deleted: bool,
}

/// One bound endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) endpoint: Endpoint,
    pub(crate) datagram: Fingerprint,
}

/// An attempt, live or remembered.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) asked: CreateAttempt,
    pub(crate) owner: Principal,
    pub(crate) host_candidates: Candidates,
    pub(crate) created_at: MonoTime,
    pub(crate) created_commit: u64,
    pub(crate) changed_commit: u64,
    pub(crate) deadline: MonoTime,
    pub(crate) first: AttemptCreated,
    pub(crate) gate_open: bool,
    /// By [`Role::index`], then [`Family::index`].
    pub(crate) slots: [[Option<Slot>; 2]; 2],
    pub(crate) last_bound: [Option<Endpoint>; 2],
    pub(crate) both_bound_at: Option<MonoTime>,
    pub(crate) introduced_at: Option<MonoTime>,
    pub(crate) reported: [bool; 2],
    pub(crate) end: Option<End>,
}

/// What the model says to one command.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    pub(crate) result: Result<Outcome, Rejection>,
    /// The transition takes a commit number.
    pub(crate) changes: bool,
    /// Something dead was let go first, which may take a number of its own.
    pub(crate) cleaned: bool,
    /// All reasons that are right where the result shows the end of an attempt.
    pub(crate) reasons: Vec<EndReason>,
}

/// All state.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) limits: Limits,
    pub(crate) listings: Vec<Listing>,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) replay: Vec<(ReplayKey, MonoTime)>,
    pub(crate) revocations: Vec<(Subject, MonoTime)>,
    pub(crate) drain: Option<(MonoTime, WallTime)>,
    /// Set while a command is decided: the stamp, and the commit that the store gave it.
    at: At,
    commit: u64,
    reasons: Vec<EndReason>,
    changes: bool,
}

impl Model {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            listings: Vec::new(),
            attempts: Vec::new(),
            replay: Vec::new(),
            revocations: Vec::new(),
            drain: None,
            at: At::default(),
            commit: 0,
            reasons: Vec::new(),
            changes: false,
        }
    }

    /// Decides one command. `commit` is the number that the store answered with; the model keeps it for later queries
    /// and judges only how it moved.
    pub(crate) fn apply(&mut self, at: At, command: &Command, commit: u64) -> Verdict {
        (self.at, self.commit, self.changes) = (at, commit, false);
        self.reasons.clear();
        if let Some((deadline, wall)) = self.drain.filter(|(deadline, _)| *deadline <= at.mono) {
            self.let_go();
            let result = match command {
                // An operator may still ask how things stand (`docs/http-protocol.md`).
                Command::Query(Query::Status) => Ok(Outcome::Answer(Answer::Status(Box::new(self.status())))),
                _ => Err(Rejection::Draining { deadline, wall }),
            };
            return self.verdict(result, true);
        }
        let cleaned = self.forget_the_dead();
        let result = self.decide(command);
        self.changes &= result.is_ok();
        self.verdict(result, cleaned)
    }

    /// What a drain that is over leaves: nothing but its deadline.
    fn let_go(&mut self) {
        self.listings.clear();
        self.attempts.clear();
        self.replay.clear();
        self.revocations.clear();
    }

    fn verdict(&self, result: Result<Outcome, Rejection>, cleaned: bool) -> Verdict {
        Verdict { result, changes: self.changes, cleaned, reasons: self.reasons.clone() }
    }

    fn decide(&mut self, command: &Command) -> Result<Outcome, Rejection> {
        match command {
            Command::Register(register) => self.register(register),
            Command::Renew(renew) => self.renew(renew),
            Command::Delete(delete) => self.delete(&delete.proof),
            Command::Presence(presence) => self.presence(presence),
            Command::NoteUnverified(note) => self.note_unverified(note),
            Command::CreateAttempt(create) => self.create_attempt(create),
            Command::Bind(bind) => self.bind(bind, false),
            Command::BindAndConsume(bind) => self.bind(bind, true),
            Command::Consume(consume) => self.consume(consume.attempt),
            Command::Admit(answer) => self.answer_gate(answer, true),
            Command::Refuse(answer) => self.answer_gate(answer, false),
            Command::Close(close) => self.close(close),
            Command::ReportPath(report) => self.report_path(report),
            Command::Revoke(revoke) => self.revoke(revoke),
            Command::LiftRevocation(subject) => self.lift(subject),
            Command::Drain { window_ms } => self.begin_drain(*window_ms),
            Command::Sweep => Ok(Outcome::Swept),
            Command::Query(query) => self.query(query).map(Outcome::Answer),
        }
    }

    fn now(&self) -> MonoTime {
        self.at.mono
    }

    /// Ends what is past its deadline and forgets what was remembered long enough; true when anything went.
    fn forget_the_dead(&mut self) -> bool {
        let now = self.now();
        let mut cleaned = false;
        for listing in self.listings.iter_mut().filter(|listing| listing.end.is_none()) {
            let at = listing.death(&self.limits);
            if at <= now {
                listing.end = Some(End { at, reasons: Vec::new() });
                cleaned = true;
            }
            for known in listing.known.iter_mut().flatten().filter(|known| !known.lapsed && known.deadline <= now) {
                known.lapsed = true;
                cleaned = true;
            }
        }
        for position in 0..self.attempts.len() {
            let end = self.death_of(&self.attempts[position]);
            if self.attempts[position].end.is_none() && end.at <= now {
                self.attempts[position].end = Some(end);
                cleaned = true;
            }
        }
        let retention = u64::from(self.limits.idempotency_retention_ms);
        let remembered = |end: &Option<End>| end.as_ref().is_none_or(|end| end.at.plus_ms(retention) > now);
        self.listings.retain(|listing| remembered(&listing.end));
        self.attempts.retain(|attempt| remembered(&attempt.end));
        self.replay.retain(|(_, deadline)| *deadline > now);
        self.revocations.retain(|(_, deadline)| *deadline > now);
        cleaned
    }

    /// The earliest of an attempt's own deadlines and its listing's end.
    fn death_of(&self, attempt: &Attempt) -> End {
        let limits = &self.limits;
        let over = if attempt.introduced_at.is_some() { EndReason::Done } else { EndReason::Expired };
        let mut ends = vec![(attempt.deadline, over)];
        if attempt.slots[Role::Joiner.index()].iter().all(Option::is_none) {
            ends.push((attempt.created_at.plus_ms(limits.bind_window_ms.into()), EndReason::NotBound));
        }
        if let Some(at) = attempt.both_bound_at.filter(|_| attempt.pairs().is_empty()) {
            ends.push((at.plus_ms(limits.no_common_family_ms.into()), EndReason::NoCommonFamily));
        }
        if let Some(listing) = self.listings.iter().find(|listing| listing.asked.id == attempt.asked.listing) {
            let at = listing.end.as_ref().map_or_else(|| listing.death(limits), |end| end.at);
            ends.push((at, EndReason::ListingGone));
        }
        let at = ends.iter().map(|(at, _)| *at).min().expect("at least its own deadline");
        End { at, reasons: ends.into_iter().filter(|(end, _)| *end == at).map(|(_, reason)| reason).collect() }
    }

    /// Instants at which something live will die or be forgotten; what a script aims its clock at.
    pub(crate) fn deadlines(&self) -> Vec<MonoTime> {
        let retention = u64::from(self.limits.idempotency_retention_ms);
        let mut all: Vec<MonoTime> = Vec::new();
        for listing in &self.listings {
            match &listing.end {
                Some(end) => all.push(end.at.plus_ms(retention)),
                None => {
                    all.push(listing.death(&self.limits));
                    all.extend(listing.known.iter().flatten().map(|known| known.deadline));
                }
            }
        }
        for attempt in &self.attempts {
            let end = attempt.end.clone().map_or_else(|| self.death_of(attempt).at, |end| end.at.plus_ms(retention));
            all.push(end);
        }
        all.extend(self.replay.iter().map(|(_, deadline)| *deadline));
        all.extend(self.revocations.iter().map(|(_, deadline)| *deadline));
        all.extend(self.drain.map(|(deadline, _)| deadline));
        all.sort();
        all.dedup();
        all
    }

    /// While a drain runs, its deadline is everything's deadline.
    pub(crate) fn at_the_latest(&self, deadline: MonoTime) -> MonoTime {
        self.drain.map_or(deadline, |(drain, _)| drain.min(deadline))
    }

    fn remembered_requests(&self) -> usize {
        self.listings.len() + self.attempts.len()
    }

    fn is_revoked(&self, caller: Principal) -> bool {
        self.revocations.iter().any(|(subject, _)| *subject == Subject::Principal(caller.key))
    }

    fn check_drain(&self) -> Result<(), Rejection> {
        match self.drain {
            Some((deadline, wall)) => Err(Rejection::Draining { deadline, wall }),
            None => Ok(()),
        }
    }
}

/// A quota or ceiling: `taken` is what is there already.
fn room(taken: usize, limit: u32, resource: Resource) -> Result<(), Rejection> {
    if taken < limit as usize { Ok(()) } else { Err(Rejection::CapacityExceeded(resource)) }
}
