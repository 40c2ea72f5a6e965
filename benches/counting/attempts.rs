//! Attempts, from their creation to their introduction.

use super::{LISTINGS, NOW, StillLane, lane, repeat, submit};
use crate::support;
use rendezvous::domain::{
    AttemptId, AttemptQuota, Bind, Candidates, Command, CreateAttempt, Endpoint, Fingerprint, Idempotency,
    IdempotencyKey, ListingId, Principal, PrincipalKey, Role,
};
use std::net::Ipv4Addr;

/// Attempt `n`, of a joiner of its own.
fn attempt(n: u64) -> Command {
    let quota = AttemptQuota { per_tenant: u32::MAX, per_listing: u32::MAX, per_principal: 1, per_source: 1 };
    Command::CreateAttempt(Box::new(CreateAttempt {
        id: id(n),
        listing: listing(n),
        joiner: Principal { tenant: support::TENANT, key: PrincipalKey(1 << 100 | u128::from(n)) },
        source: None,
        idempotency: Idempotency { key: IdempotencyKey(1 << 100 | u128::from(n)), fingerprint: Fingerprint(1) },
        protocol: None,
        candidates: Candidates::default(),
        payload: None,
        capabilities: [Role::Host, Role::Joiner].map(|role| capability(n, role)),
        quota,
    }))
}

fn id(n: u64) -> AttemptId {
    AttemptId::compose(1_700_000_000_000 + n, n.into())
}

fn listing(n: u64) -> ListingId {
    support::listing_id(n * 7 % LISTINGS)
}

fn capability(n: u64, role: Role) -> Fingerprint {
    Fingerprint(u128::from(n) << 1 | role.index() as u128)
}

/// What one side of attempt `n` sends.
fn bind(n: u64, role: Role) -> Bind {
    let address = Ipv4Addr::from_bits(0x0B00_0000 + n as u32);
    Bind {
        attempt: id(n),
        role,
        listing: (role == Role::Host).then(|| listing(n)),
        capability: capability(n, role),
        endpoint: Endpoint::new((address, 4_000 + role.index() as u16).into()).expect("a unicast endpoint"),
        datagram: capability(n, role),
        nonce_issued: NOW,
    }
}

fn attempts(lane: &StillLane, count: u64) {
    (0..count).for_each(|n| submit(lane, attempt(n)));
}

pub(super) fn create(most: usize, repetitions: usize) {
    let lane = lane(most);
    repeat(&lane, (0..most as u64).map(attempt).collect(), repetitions);
    std::mem::forget(lane);
}

/// The joiner's bind, by which both know each other: the host has bound before.
pub(super) fn introduce(most: usize, repetitions: usize) {
    let lane = lane(most);
    attempts(&lane, most as u64);
    (0..most as u64).for_each(|n| submit(&lane, Command::Bind(bind(n, Role::Host))));
    let last = |n| Command::BindAndConsume(bind(n, Role::Joiner));
    repeat(&lane, (0..most as u64).map(last).collect(), repetitions);
    std::mem::forget(lane);
}
