//! What a seed decides before anything happens: who takes part, what is small and what goes wrong, and the steps.
//!
//! Each step has a chance of its own, so that a plan without one of its steps still does in the others what it did before.

use crate::rng::Rng;
use std::collections::BTreeSet;

/// One seed in so many has a crowd and a long day: what shows only with many at once, or late.
const LARGE_EVERY: u64 = 50;
/// Its hosts, and its joiners.
const LARGE_SIDE: usize = 12;
const LARGE_STEPS: usize = 100;

fn is_large(seed: u64) -> bool {
    seed % LARGE_EVERY == LARGE_EVERY - 1
}

/// Everything about one run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) knobs: Knobs,
    /// Hosts and joiners that take no part; only a shrunk plan has any.
    pub(crate) absent: BTreeSet<usize>,
    pub(crate) steps: Vec<Step>,
}

/// What a seed sets once. Faults are counted in a thousand.
#[derive(Clone, Debug)]
pub(crate) struct Knobs {
    /// Hosts are actors `0..hosts`, joiners the next ones.
    pub(crate) hosts: usize,
    pub(crate) joiners: usize,
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
    pub(crate) delay_ms: u64,
    /// HTTP requests that never arrive, and answers that never do.
    pub(crate) request_lost: u64,
    pub(crate) answer_lost: u64,
    pub(crate) slow_ms: u64,
    pub(crate) caps: Caps,
    /// Whether hosts also poll over HTTP.
    pub(crate) polls: bool,
}

/// Ceilings and quotas; all of them small in some runs.
#[derive(Clone, Debug)]
pub(crate) struct Caps {
    pub(crate) listings: u32,
    pub(crate) unproven: u32,
    pub(crate) attempts: u32,
    pub(crate) presence: u32,
    pub(crate) per_owner: u32,
    pub(crate) per_tenant: u32,
    pub(crate) per_listing: u32,
    pub(crate) per_principal: u32,
    pub(crate) revocations: u32,
    pub(crate) queue: usize,
    pub(crate) long_polls: u32,
}

/// One step: first time passes, then somebody does something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) number: usize,
    pub(crate) pass: Pass,
    pub(crate) act: Act,
    pub(crate) chance: u64,
}

/// How time passes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pass {
    /// So many milliseconds.
    Ms(u64),
    /// To the next deadline of a record, and by so many nanoseconds beside it.
    Deadline(i64),
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Only time passes.
    Nothing,
    Host(usize, HostAct),
    Joiner(usize, JoinAct),
    /// Either kind of actor stops reading and sending for a while.
    Freeze(usize, u64),
    /// Its NAT gives it another address.
    Rebind(usize),
    /// It is gone without a word, and comes back as if for the first time.
    Vanish(usize),
    /// Its owner looks at its lease.
    Lease(usize),
    RevokeListing(usize),
    RevokePrincipal(usize),
    Lift,
    Status,
    Drain(u32),
    /// The wall clock jumps by so many days.
    Wall(i64),
    /// The server's process stands still.
    Stall(u64),
    /// The process ends and another one begins after so long.
    Restart(u64),
    /// A panic inside a transition, or while it is stamped.
    Poison(bool),
    /// A datagram of the past, again: from elsewhere, from its own source, or with a bit turned.
    Replay(Again),
    /// A challenge or an introduction that the server never sent.
    Forge,
    /// Several calls meet in the lane.
    Contend,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostAct {
    Rename,
    Unlist,
    List,
    Shorten,
    Delete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinAct {
    Join,
    Close,
    Watch,
    /// Something that it has no right to.
    Misuse,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    Elsewhere,
    SameSource,
    Turned,
}

impl Plan {
    /// What `seed` decides.
    pub(crate) fn of(seed: u64) -> Self {
        let rng = Rng::new(seed);
        let knobs = Knobs::draw(&rng, is_large(seed));
        let few = 10 + rng.below(13) as usize;
        let steps = (0..if is_large(seed) { LARGE_STEPS } else { few }).map(|number| Step {
            number,
            pass: pass(&rng),
            act: act(&rng, &knobs),
            chance: rng.next(),
        });
        let steps = steps.collect();
        Self { seed, knobs, absent: BTreeSet::new(), steps }
    }
}

impl Knobs {
    pub(crate) fn actors(&self) -> usize {
        self.hosts + self.joiners
    }

    fn draw(rng: &Rng, is_large: bool) -> Self {
        let calm = rng.chance(200);
        let fault = |most: u64| if calm { 0 } else { rng.below(most) };
        // Mostly one or two: three cost three times the datagrams and seldom show more.
        let few = 1 + rng.below(5) as usize / 2;
        let hosts = if is_large { LARGE_SIDE } else { few };
        let few = 1 + rng.below(6) as usize / 2;
        Self {
            hosts,
            joiners: if is_large { LARGE_SIDE } else { few },
            lost: fault(350),
            doubled: fault(300),
            delay_ms: 1 + fault(400),
            request_lost: fault(150),
            answer_lost: fault(200),
            slow_ms: 1 + fault(200),
            caps: Caps::draw(rng, hosts as u32),
            polls: rng.chance(600),
        }
    }
}

impl Caps {
    /// At least one listing for each host, or they could not all be listed in the end.
    fn draw(rng: &Rng, hosts: u32) -> Self {
        let tiny = rng.chance(400);
        let cap = |least: u32, plenty: u32| if tiny { least + rng.below(3) as u32 } else { plenty };
        Self {
            listings: cap(hosts, 64),
            unproven: hosts,
            attempts: cap(2, 64),
            presence: cap(2 * hosts, 128),
            per_owner: cap(1, 4),
            per_tenant: cap(1, 64),
            per_listing: cap(1, 16),
            per_principal: cap(1, 8),
            revocations: cap(1, 16),
            queue: if tiny { 1 + rng.below(3) as usize } else { 64 },
            long_polls: cap(1, 64),
        }
    }
}

fn pass(rng: &Rng) -> Pass {
    match rng.below(100) {
        ..=24 => Pass::Ms(0),
        25..=69 => Pass::Ms(rng.below(400)),
        70..=81 => Pass::Ms(rng.below(2_500)),
        82..=84 => Pass::Ms(rng.below(12_000)),
        _ => Pass::Deadline(rng.below(3) as i64 - 1),
    }
}

fn act(rng: &Rng, knobs: &Knobs) -> Act {
    let host = rng.below(knobs.hosts as u64) as usize;
    let joiner = knobs.hosts + rng.below(knobs.joiners as u64) as usize;
    let anybody = rng.below(knobs.actors() as u64) as usize;
    match rng.below(200) {
        ..=49 => Act::Joiner(joiner, JoinAct::Join),
        50..=57 => Act::Joiner(joiner, JoinAct::Watch),
        58..=62 => Act::Joiner(joiner, JoinAct::Close),
        63..=72 => Act::Joiner(joiner, JoinAct::Misuse),
        73..=84 => Act::Host(host, HostAct::Rename),
        85..=90 => Act::Host(host, HostAct::Unlist),
        91..=97 => Act::Host(host, HostAct::List),
        98..=101 => Act::Host(host, HostAct::Shorten),
        102..=107 => Act::Host(host, HostAct::Delete),
        108..=112 => Act::Lease(host),
        113..=117 => Act::Freeze(anybody, rng.below(9_000)),
        118..=125 => Act::Rebind(anybody),
        126..=130 => Act::Vanish(anybody),
        131..=133 => Act::RevokeListing(host),
        134..=137 => Act::RevokePrincipal(anybody),
        138..=140 => Act::Lift,
        141..=146 => Act::Status,
        147..=149 => Act::Drain(rng.below(4_000) as u32),
        150..=152 => Act::Wall(rng.below(20_000) as i64 - 10_000),
        153..=156 => Act::Stall(rng.below(15_000)),
        157..=160 => Act::Restart(rng.below(3_000)),
        161 => Act::Poison(rng.chance(500)),
        162..=167 => Act::Replay(Again::Elsewhere),
        168..=170 => Act::Replay(Again::SameSource),
        171..=174 => Act::Replay(Again::Turned),
        175..=178 => Act::Forge,
        179..=190 => Act::Contend,
        _ => Act::Nothing,
    }
}
