//! Threads that meet on a few listings, and what each of them asked and heard, with the order of all beginnings and ends.

use crate::rng::Rng;
use crate::support::*;
use rendezvous::domain::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a history is recorded of.
pub(crate) trait Subject: Sync {
    fn submit(&self, command: Command) -> Result<Reply, Failure>;
    /// A page that is at least as new as everything acknowledged before.
    fn browse(&self) -> Page;
    fn at(&self) -> At;
}

/// The store as it is.
pub(crate) struct Honest<B>(pub(crate) World<B>);

impl<B: Backend> Honest<B> {
    pub(crate) fn new() -> Self {
        Self(World::new())
    }
}

impl<B: Backend> Subject for Honest<B> {
    fn submit(&self, command: Command) -> Result<Reply, Failure> {
        self.0.submit(command)
    }

    fn browse(&self) -> Page {
        let commit = self.0.store_commit();
        self.0.store.tick();
        block_on(self.0.store.published(commit));
        self.0.page(&scope(PROTOCOL), None, 100).expect("browsing works")
    }

    fn at(&self) -> At {
        At { mono: self.0.now(), wall: self.0.clock.wall_now() }
    }
}

/// How many do how much to how few.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workload {
    pub(crate) seed: u64,
    threads: u64,
    calls: u64,
    /// Hosts, each with one listing at a time, which has one attempt at a time.
    hosts: u64,
}

impl Workload {
    /// One listing and its attempt, and few enough operations for a search.
    pub(crate) fn cell(seed: u64) -> Self {
        Self { seed, threads: 4, calls: 30, hosts: 1 }
    }

    /// Many, for a replay.
    pub(crate) fn crowd(seed: u64) -> Self {
        Self { seed, threads: 4, calls: 1_500, hosts: 6 }
    }
}

/// What was asked.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    Command(Box<Command>),
    Browse,
}

/// What was heard.
#[derive(Clone, Debug)]
pub(crate) enum Heard {
    Answer(Box<Result<Reply, Failure>>),
    Page(Page),
}

/// One operation. Beginnings and ends are numbered together.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) thread: usize,
    pub(crate) begun: u64,
    pub(crate) ended: u64,
    pub(crate) asked: Asked,
    pub(crate) heard: Heard,
}

#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) at: At,
    pub(crate) calls: Vec<Call>,
}

/// What the threads know of each other: numbers, from which everything else follows.
struct Board {
    clock: AtomicU64,
    numbers: AtomicU64,
    /// Of each host: the number of its last listing, the version seen last, and the number of the last attempt on it.
    listings: Vec<[AtomicU64; 3]>,
}

/// The listing that was registered under a number; one of its host at a time.
pub(crate) fn register_of(host: u64, number: u64) -> Register {
    Register { quota_per_owner: 1, ..register_in(scope(PROTOCOL), principal(host), number) }
}

/// The attempt that was made under a number.
fn attempt_of(host: &Host, number: u64) -> CreateAttempt {
    let quota = AttemptQuota { per_tenant: u32::MAX, per_listing: 1, per_principal: u32::MAX, per_source: u32::MAX };
    CreateAttempt { quota, ..attempt_on(host, principal(1_000), number) }
}

/// Records one history.
pub(crate) fn record(subject: &impl Subject, load: Workload) -> History {
    let fresh = || [AtomicU64::new(1), AtomicU64::new(1), AtomicU64::new(1)];
    let board = Board {
        clock: AtomicU64::new(0),
        numbers: AtomicU64::new(2),
        listings: (0..load.hosts).map(|_| fresh()).collect(),
    };
    let of_threads = together(load.threads as usize, |thread| {
        let rng = Rng::new(load.seed << 8 | thread as u64);
        (0..load.calls).map(|_| call(subject, &board, thread, &rng)).collect::<Vec<_>>()
    });
    History { at: subject.at(), calls: of_threads.into_iter().flatten().collect() }
}

fn call(subject: &impl Subject, board: &Board, thread: usize, rng: &Rng) -> Call {
    let host = rng.below(board.listings.len() as u64);
    let asked = ask(subject.at().mono, board, host, rng);
    let begun = board.clock.fetch_add(1, Ordering::SeqCst);
    let heard = match &asked {
        Asked::Command(command) => Heard::Answer(Box::new(subject.submit((**command).clone()))),
        Asked::Browse => Heard::Page(subject.browse()),
    };
    let ended = board.clock.fetch_add(1, Ordering::SeqCst);
    note(board, host, &asked, &heard);
    Call { thread, begun, ended, asked, heard }
}

/// Something that one of the threads could want.
fn ask(now: MonoTime, board: &Board, host: u64, rng: &Rng) -> Asked {
    let [listing, version, attempt] = &board.listings[host as usize];
    let number = || board.numbers.fetch_add(1, Ordering::SeqCst);
    let last = |cell: &AtomicU64| cell.load(Ordering::SeqCst);
    let owner = Host::of(&register_of(host, last(listing)));
    let tried = Try::of(&attempt_of(&owner, last(attempt)), &owner);
    let (port, role) = (5_000 + rng.below(2) as u16, if rng.chance(500) { Role::Host } else { Role::Joiner });
    let bind = tried.bind(role, v4(1 + role.index() as u8, port), now);
    let command = match rng.below(28) {
        0..=2 => Command::Register(Box::new(register_of(host, number()))),
        3..=6 => {
            let named = details(&format!("game {}", number()));
            Command::Renew(Renew { details: Some(Box::new(named)), ..owner.renew(last(version)) })
        }
        7 => owner.delete(),
        8..=10 => Command::Presence(presence(&owner, v4(1, 4_000), number(), now)),
        11..=12 => Command::CreateAttempt(Box::new(attempt_of(&owner, number()))),
        13..=16 => Command::BindAndConsume(bind),
        17 => Command::Bind(bind),
        18 => tried.consume(),
        19 => tried.close(principal(1_000)),
        20 => revoke(rendezvous::domain::Subject::Principal(owner.owner.key), 60_000, number()),
        21..=22 => Command::LiftRevocation(rendezvous::domain::Subject::Principal(owner.owner.key)),
        23 => owner.lease_query(),
        24 => tried.query(principal(1_000)),
        _ => return Asked::Browse,
    };
    Asked::Command(Box::new(command))
}

fn note(board: &Board, host: u64, asked: &Asked, heard: &Heard) {
    let (Asked::Command(command), Heard::Answer(answer)) = (asked, heard) else { return };
    let [listing, version, attempt] = &board.listings[host as usize];
    let number = |random: u64| random & 0xFFFF_FFFF;
    match (&**command, &**answer) {
        (Command::Register(register), Ok(_)) => {
            listing.store(number(register.idempotency.key.0 as u64 - 0x1000_0000), Ordering::SeqCst);
            version.store(1, Ordering::SeqCst);
        }
        (Command::Renew(_), Ok(Reply { outcome: Outcome::Renewed(renewed), .. })) => {
            version.store(renewed.version, Ordering::SeqCst);
        }
        (Command::Renew(_), Err(Failure::Rejected(Rejection::VersionConflict { current }))) => {
            version.store(*current, Ordering::SeqCst);
        }
        (Command::CreateAttempt(create), Ok(_)) => {
            attempt.store(number(create.idempotency.key.0 as u64 - 0x4000_0000), Ordering::SeqCst);
        }
        _ => {}
    }
}
