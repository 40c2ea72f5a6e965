//! Writers: each owns some families of slots and has one command under way at a time.

use crate::Stress;
use crate::browser::Browser;
use crate::support::*;
use crate::truth::{FAMILY, SCOPES, SLOTS, Span, Truth};
use rendezvous::domain::*;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Writer threads.
pub(crate) const WRITERS: usize = 3;
/// Attempts that wait for somebody to consume them.
const OPEN_MAX: usize = 64;

/// An attempt that both sides have bound, once for each who may try to consume it.
pub(crate) struct Open {
    attempt: Try,
    introduced: Arc<AtomicU32>,
}

/// A listing as its owner holds it.
struct Held {
    host: Host,
    version: u64,
    is_public: bool,
    name: u64,
}

/// One writer thread.
pub(crate) struct Writer<'a, B> {
    stress: &'a Stress<B>,
    number: usize,
    random: u64,
    held: HashMap<usize, Held>,
    /// Revocations of each family so far: the next principal has the next number.
    revoked: HashMap<usize, u64>,
    browser: Browser<'a, B>,
    pub(crate) commands: u64,
}

impl<'a, B: Backend> Writer<'a, B> {
    pub(crate) fn new(stress: &'a Stress<B>, number: usize, seed: u64) -> Self {
        let (held, revoked) = (HashMap::new(), HashMap::new());
        Self { stress, number, random: seed, held, revoked, browser: Browser::new(stress, seed), commands: 0 }
    }

    /// One random command on one random slot of its own.
    pub(crate) fn act(&mut self) {
        let families = (SLOTS / FAMILY).div_ceil(WRITERS) as u64;
        let family = self.below(families) as usize * WRITERS + self.number;
        let slot = family * FAMILY + self.below(FAMILY as u64) as usize;
        if slot >= SLOTS {
            return;
        }
        self.commands += 1;
        let is_dead = self.stress.board.lock(slot).lease.at_most <= self.stress.world.now();
        if is_dead {
            self.held.remove(&slot);
        }
        let Some(mut held) = self.held.remove(&slot) else { return self.register(slot) };
        let is_kept = match self.below(100) {
            0..40 => self.renew(slot, &mut held, false),
            40..55 => self.renew(slot, &mut held, true),
            55..65 => self.flip(slot, &mut held),
            65..86 => self.present(slot, &held.host, held.is_public),
            86..92 => self.join(slot, &held.host),
            92..99 => self.delete(slot, &held.host),
            _ => {
                self.held.insert(slot, held);
                return self.revoke(family);
            }
        };
        if is_kept {
            self.held.insert(slot, held);
        }
    }

    fn register(&mut self, slot: usize) {
        let Stress { world, scopes, board, .. } = self.stress;
        let n = world.number();
        let mut register = register_in(scopes[slot % SCOPES].clone(), self.principal(slot / FAMILY), n);
        // Half of them at the end, as real ones, half anywhere in between.
        let place = if n % 2 == 0 { n } else { self.below(n + 1) };
        register.id = ListingId::compose(1_700_000_000_000 + place, n, register.id.tag());
        let ttl_ms = self.lifetime();
        register.ttl = ttl(ttl_ms);
        let (host, before) = (Host::of(&register), world.now());
        board.begin(slot, |truth| {
            let Truth { begun, hides, ends, generation, .. } = *truth;
            let new =
                Truth { generation: generation + 1, id: Some(host.id), begun, is_under_way: true, ..Truth::default() };
            *truth = Truth { hides: hides + 1, ends: ends + 1, newest_name: 1, lease: Span::ANY, ..new };
            register.details = details(&name(slot, truth.generation, 1));
        });
        let commit = world.reply(Command::Register(Box::new(register))).commit;
        let lease = self.ends_after(before, ttl_ms);
        board.end(slot, |truth| (truth.lease, truth.named) = (lease, (1, commit)));
        // Some without presence: nobody sees them before they have it.
        if self.below(20) == 0 || self.present(slot, &host, true) {
            self.held.insert(slot, Held { host, version: 1, is_public: true, name: 1 });
        }
    }

    /// A renewal with a new lifetime, longer or shorter, perhaps with new details. False: it was gone.
    fn renew(&mut self, slot: usize, held: &mut Held, renames: bool) -> bool {
        let generation = self.stress.board.lock(slot).generation;
        let number = held.name + u64::from(renames);
        let details = renames.then(|| Box::new(details(&name(slot, generation, number))));
        held.name = number;
        let renew = Renew { details, ..held.host.renew(held.version) };
        let begin = |truth: &mut Truth| truth.newest_name = number;
        self.renewal(slot, held, renew, begin, |truth, commit| {
            if renames {
                truth.named = (number, commit);
            }
        })
    }

    /// Makes it unlisted, or public again.
    fn flip(&mut self, slot: usize, held: &mut Held) -> bool {
        held.is_public = !held.is_public;
        let is_public = held.is_public;
        let visibility = Some(if is_public { Visibility::Public } else { Visibility::Unlisted });
        let renew = Renew { visibility, ..held.host.renew(held.version) };
        let begin = |truth: &mut Truth| match is_public {
            true => {}
            false => hide(truth),
        };
        self.renewal(slot, held, renew, begin, |truth, commit| match is_public {
            true => truth.public_since = truth.fresh_since.map(|_| commit),
            false => truth.hidden_by = Some(commit),
        })
    }

    /// Submits a renewal with a new lifetime. False: the listing was gone.
    fn renewal(
        &mut self,
        slot: usize,
        held: &mut Held,
        renew: Renew,
        begin: impl FnOnce(&mut Truth),
        end: impl FnOnce(&mut Truth, u64),
    ) -> bool {
        let Stress { world, board, .. } = self.stress;
        let (ttl_ms, before) = (self.lifetime(), world.now());
        board.begin(slot, |truth| {
            truth.lease.at_least = truth.lease.at_least.min(before.plus_ms(ttl_ms.into()));
            truth.lease.at_most = MonoTime(u64::MAX);
            begin(truth);
        });
        let result = world.submit(Command::Renew(Renew { ttl: Some(ttl(ttl_ms)), ..renew }));
        let lease = self.ends_after(before, ttl_ms);
        let reply = self.unless_gone(slot, result, |truth, reply| {
            truth.lease = lease;
            end(truth, reply.commit);
        });
        let Some(reply) = reply else { return false };
        held.version += 1;
        assert!(matches!(reply.outcome, Outcome::Renewed(renewed) if renewed.version == held.version), "{reply:?}");
        self.see_own_write(slot, held.host.id, reply.commit);
        true
    }

    fn present(&mut self, slot: usize, host: &Host, is_public: bool) -> bool {
        let Stress { world, board, .. } = self.stress;
        board.begin(slot, |truth| truth.presence.at_most = MonoTime(u64::MAX));
        let datagram = presence(host, v4(1, 4_000), world.number(), world.now());
        let result = world.submit(Command::Presence(datagram));
        let now = world.now();
        let reply = self.unless_gone(slot, result, |truth, reply| {
            let Outcome::Present(present) = &reply.outcome else { panic!("{reply:?}") };
            // Certainly not lapsed in between: then it has been in pages all the time.
            let is_kept = truth.presence.at_least > now;
            truth.presence = Span::exactly(present.deadline);
            if !is_kept || truth.fresh_since.is_none() {
                truth.fresh_since = Some(reply.commit);
                truth.public_since = is_public.then_some(reply.commit);
            }
        });
        reply.is_some()
    }

    fn delete(&mut self, slot: usize, host: &Host) -> bool {
        let Stress { world, board, .. } = self.stress;
        board.begin(slot, end);
        let result = world.submit(host.delete());
        self.unless_gone(slot, result, |truth, reply| {
            assert_eq!(reply.outcome, Outcome::Deleted);
            (truth.hidden_by, truth.is_over) = (Some(reply.commit), true);
        });
        // S7: whatever a browser still has on its screen, nobody joins it.
        let late = world.attempt(host, 2_000_000);
        assert_eq!(world.rejected(Command::CreateAttempt(Box::new(late))), Rejection::NotFound);
        false
    }

    /// Revokes the principal of a family: everything of it goes in one commit.
    fn revoke(&mut self, family: usize) {
        let Stress { world, board, .. } = self.stress;
        let slots: Vec<usize> =
            (family * FAMILY..(family + 1) * FAMILY).filter(|slot| self.held.contains_key(slot)).collect();
        slots.iter().for_each(|slot| board.begin(*slot, end));
        let subject = Subject::Principal(self.principal(family).key);
        let reply = world.reply(revoke(subject, 1_000, world.number()));
        for slot in slots {
            board.end(slot, |truth| (truth.hidden_by, truth.is_over) = (Some(reply.commit), true));
            self.held.remove(&slot);
        }
        *self.revoked.entry(family).or_default() += 1;
    }

    /// An attempt that both sides bind; then anybody may try to consume an open one, and one of all who try may.
    fn join(&mut self, slot: usize, host: &Host) -> bool {
        let Stress { world, open, .. } = self.stress;
        let create = world.attempt(host, 1_000_000 + self.number as u64);
        let attempt = Try::of(&create, host);
        let end = self.stress.board.lock(slot).earliest_end();
        match world.submit(Command::CreateAttempt(Box::new(create))) {
            Ok(_) => {}
            Err(Failure::Rejected(Rejection::NotFound)) if end <= world.now() => return true,
            other => panic!("{other:?} until {end:?}"),
        }
        for (role, endpoint) in [(Role::Host, v4(1, 4_000)), (Role::Joiner, v4(2, 5_000))] {
            let bound = world.submit(Command::Bind(attempt.bind(role, endpoint, world.now())));
            assert!(bound.is_ok() || self.stress.board.lock(slot).earliest_end() <= world.now(), "{bound:?}");
        }
        let introduced = Arc::new(AtomicU32::new(0));
        let mut open = open.lock().expect("nobody panics with it");
        if open.len() < OPEN_MAX {
            open.extend((0..2).map(|_| Open { attempt: attempt.clone(), introduced: introduced.clone() }));
        }
        let place = crate::below(&mut self.random, open.len() as u64) as usize;
        let taken = open.swap_remove(place);
        drop(open);
        if world.submit(taken.attempt.consume()).is_ok() {
            assert_eq!(taken.introduced.fetch_add(1, Ordering::SeqCst), 0, "introduced twice");
        }
        true
    }

    /// Notes the answer; one that says `not_found` must be about a listing that may be dead.
    #[track_caller]
    fn unless_gone(
        &self,
        slot: usize,
        result: Result<Reply, Failure>,
        note: impl FnOnce(&mut Truth, &Reply),
    ) -> Option<Reply> {
        let now = self.stress.world.now();
        match result {
            Ok(reply) => {
                self.stress.board.end(slot, |truth| note(truth, &reply));
                Some(reply)
            }
            Err(Failure::Rejected(Rejection::NotFound)) => {
                self.stress.board.end(slot, |truth| {
                    assert!(truth.lease.at_least <= now, "a live listing is lost: {truth:?}");
                    (truth.is_over, truth.public_since, truth.fresh_since) = (true, None, None);
                });
                None
            }
            other => panic!("{other:?}"),
        }
    }

    /// S5: now and then waits for its own write and looks at it.
    fn see_own_write(&mut self, slot: usize, id: ListingId, commit: u64) {
        if self.below(16) != 0 {
            return;
        }
        self.stress.board.waiting.fetch_add(1, Ordering::SeqCst);
        block_on(self.stress.world.store.published(commit));
        self.stress.board.waiting.fetch_sub(1, Ordering::SeqCst);
        self.browser.look_for(slot, id, commit);
    }

    /// Bounds of a deadline that was set to `ttl_ms` after a stamp between `before` and now.
    fn ends_after(&self, before: MonoTime, ttl_ms: u32) -> Span {
        let ttl_ms = ttl_ms.into();
        Span { at_least: before.plus_ms(ttl_ms), at_most: self.stress.world.now().plus_ms(ttl_ms) }
    }

    /// Mostly long enough for the next renewal, sometimes not, and now and then over before the next publication.
    fn lifetime(&mut self) -> u32 {
        let (least, most) = [(1, 30), (100, 300), (100, 5_000)][self.below(8).min(2) as usize];
        least + self.below(most) as u32
    }

    fn principal(&self, family: usize) -> Principal {
        principal(family as u64 * 1_000_000_000 + self.revoked.get(&family).copied().unwrap_or_default())
    }

    fn below(&mut self, bound: u64) -> u64 {
        crate::below(&mut self.random, bound)
    }
}

/// What is known while a command is under way that takes it out of pages.
fn hide(truth: &mut Truth) {
    truth.hides += 1;
    (truth.public_since, truth.hidden_by) = (None, None);
}

/// The same for one that ends it.
fn end(truth: &mut Truth) {
    hide(truth);
    truth.ends += 1;
    truth.fresh_since = None;
}
