//! What transitions cost, counted in steps of the indexes (rule C2: O(removed)).

use super::work::steps_of;
use super::{ListingObject, Machine};
use crate::domain::details::DetailsInput;
use crate::domain::*;

struct Nothing;

impl ListingObject for Nothing {
    fn build(_id: ListingId, _scope: &Scope, _details: Details) -> Self {
        Self
    }
}

const START: MonoTime = MonoTime(1_000_000_000_000);

fn at(mono: MonoTime) -> At {
    At { mono, wall: WallTime(1_700_000_000_000) }
}

fn ttl(ms: u64) -> Ttl {
    Ttl::checked(ms, TtlBounds { min_ms: 1, max_ms: 3_600_000, default_ms: 1 }).expect("inside the bounds")
}

/// A well-spread key.
fn key(n: u64) -> u128 {
    u128::from(n.wrapping_mul(0x9E37_79B9_7F4A_7C15)) << 64 | u128::from(n)
}

fn register(n: u64, owner: u64, ttl_ms: u64) -> Command {
    let scope = Scope::new(TenantId(0), "arena/3").expect("a legal protocol");
    let input = DetailsInput { name: "x".into(), max_players: 2, ..DetailsInput::default() };
    Command::Register(Box::new(Register {
        id: ListingId::compose(1_700_000_000_000 + n, n, Scope::tag(scope.tenant, &scope.protocol)),
        owner: Principal { tenant: scope.tenant, key: PrincipalKey(key(owner)) },
        source: None,
        idempotency: Idempotency { key: IdempotencyKey(key(n)), fingerprint: Fingerprint(1) },
        scope,
        visibility: Visibility::Public,
        details: Details::new(input).expect("valid details"),
        ttl: ttl(ttl_ms),
        gate: false,
        session: None,
        candidates: Candidates::default(),
        lease: Fingerprint(n.into()),
        quota_per_owner: u32::MAX,
        quota_per_source: u32::MAX,
    }))
}

/// `listings` by as many owners, and eight more by the last one, which end after a minute.
fn filled(listings: u64) -> Machine<Nothing> {
    let limits = Limits { listings: 100_000, unproven_listings: 100_000, idempotency: 250_000, ..Limits::default() };
    let mut machine = Machine::new(Limits { unproven_window_ms: 3_600_000, ..limits });
    for n in 0..listings {
        machine.apply(at(START), register(n, n, 3_600_000)).expect("room");
    }
    for n in 0..8 {
        machine.apply(at(START), register(listings + n, listings, 60_000)).expect("room");
    }
    machine
}

fn revoke(owner: u64) -> Command {
    let subject = Subject::Principal(PrincipalKey(key(owner)));
    Command::Revoke(Revoke { subject, ttl: ttl(60_000), once: ReplayKey(owner.into()) })
}

/// Steps of one command at two sizes, the second sixteen times the first.
fn at_two_sizes(now: MonoTime, command: impl Fn(u64) -> Command) -> [u64; 2] {
    [1_000, 16_000].map(|listings| {
        let mut machine = filled(listings);
        steps_of(|| {
            machine.apply(at(now), command(listings)).expect("accepted");
        })
    })
}

/// Two more levels of the heaps for sixteen times the listings, for each of the eight that go.
fn assert_logarithmic(what: &str, [few, many]: [u64; 2]) {
    println!("{what}: {few} steps among 1,000 listings, {many} among 16,000");
    assert!(many <= few * 2, "{what}: {few} steps among 1,000 listings, {many} among 16,000");
}

#[test]
fn rule_c2_a_revocation_costs_what_it_removes() {
    let steps = at_two_sizes(START.plus_ms(1), revoke);
    assert!(steps[0] >= 8, "the primitives count: {steps:?}");
    assert_logarithmic("revoking a principal with eight listings", steps);
    assert_logarithmic("revoking one without", at_two_sizes(START.plus_ms(1), |_| revoke(u64::MAX)));
}

#[test]
fn rule_c2_cleanup_costs_what_it_removes() {
    assert_logarithmic("a sweep of eight", at_two_sizes(START.plus_ms(60_000), |_| Command::Sweep));
    let idle = at_two_sizes(START.plus_ms(1), |_| Command::Sweep);
    assert_eq!(idle, [0, 0], "nothing is dead");
}

#[test]
fn rule_j2_drain_lets_go_of_everything_in_one_step() {
    let mut machine = filled(1_000);
    machine.apply(at(START), Command::Drain { window_ms: 0 }).expect("a drain");
    let steps = steps_of(|| {
        let refused = machine.apply(at(START), Command::Sweep);
        assert!(matches!(refused, Err(Rejection::Draining { .. })));
    });
    assert_eq!(steps, 0, "swapped out, not walked");
    assert!(machine.take_retired().is_some());
}

#[test]
fn rule_c2_a_mass_expiry_is_removed_in_slices() {
    let mut machine = filled(5_000);
    for n in 0..1_000 {
        machine.apply(at(START), register(10_000 + n, 10_000 + n, 60_000)).expect("room");
    }
    let late = START.plus_ms(60_000);
    let mut events = Vec::new();
    let mut removed = |machine: &mut Machine<Nothing>, command| {
        events.clear();
        machine.apply(at(late), command).expect("accepted");
        machine.take_events(&mut events);
        events.len()
    };
    assert_eq!(removed(&mut machine, Command::LiftRevocation(Subject::Listing(ListingId(1)))), 8);
    assert_eq!(removed(&mut machine, Command::Sweep), 64);
    let mut rest = 1_008 - 72;
    while machine.has_dead(late) {
        rest -= removed(&mut machine, Command::Sweep);
    }
    assert_eq!(rest, 0);
}
