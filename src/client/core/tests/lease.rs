use super::super::lease::{Action, CallFailure, Lease};
use super::*;
use crate::domain::InstanceId;
use std::time::Duration;

const OLD: InstanceId = InstanceId(1);
const NEW: InstanceId = InstanceId(2);
const TTL_MS: u32 = 60_000;

/// A lease that is registered.
fn listed(seed: u8, now: MonoTime) -> Lease {
    let mut lease = Lease::new(entropy(seed), now);
    assert_eq!(lease.poll_action(now), Some(Action::Login));
    lease.logged_in(now);
    assert_eq!(lease.poll_action(now), Some(Action::Register));
    lease.registered(1, TTL_MS, Some(OLD), now);
    lease
}

/// Waits for the next action.
fn next(lease: &mut Lease, now: &mut MonoTime) -> Action {
    for _ in 0..10 {
        if let Some(action) = lease.poll_action(*now) {
            return action;
        }
        *now = lease.poll_timeout().expect("something is due").max(*now);
    }
    panic!("a due time without an action")
}

#[test]
fn a_lease_is_renewed_within_its_first_third_with_the_version_seen_last() {
    let mut now = at(0);
    let mut lease = listed(1, now);
    for version in 1..5 {
        let before = now;
        assert_eq!(next(&mut lease, &mut now), Action::Renew { version });
        assert!((16_000..=20_000).contains(&now.ms_since(before)), "{}", now.ms_since(before));
        lease.renewed(version + 1, None, now);
    }
    assert_eq!(next(&mut lease, &mut now), Action::Renew { version: 5 });
    lease.failed(CallFailure::Stale { current_version: 9 }, now);
    assert_eq!(next(&mut lease, &mut now), Action::Renew { version: 9 }, "its answer was lost");
}

#[test]
fn case_l10_another_instance_leads_to_a_question_and_then_to_a_new_listing() {
    let mut now = at(0);
    let mut lease = listed(1, now);
    let key = lease.idempotency_key().to_owned();
    lease.instance_seen(OLD, now);
    assert!(lease.poll_timeout() > Some(at(10_000)), "our own instance is no news");
    lease.instance_seen(NEW, now);
    assert_eq!(next(&mut lease, &mut now), Action::Ask, "first HTTP is asked");
    assert!(now.ms_since(at(0)) <= 500);
    let asked = now;
    lease.failed(CallFailure::TokenRefused, now);
    assert_eq!(next(&mut lease, &mut now), Action::Login);
    assert!((200..=3_000).contains(&now.ms_since(asked)), "spread over time");
    lease.logged_in(now);
    assert_eq!(next(&mut lease, &mut now), Action::Register);
    assert_ne!(lease.idempotency_key(), key, "another listing, another key");
    lease.registered(1, TTL_MS, Some(NEW), now);
    lease.instance_seen(NEW, now);
    assert!(matches!(next(&mut lease, &mut now), Action::Renew { .. }));
}

#[test]
fn hosts_of_one_server_come_back_spread_over_time() {
    let delays: std::collections::BTreeSet<u64> = (0..50)
        .map(|seed| {
            let mut now = at(0);
            let mut lease = listed(seed, now);
            lease.doubt(now);
            assert_eq!(next(&mut lease, &mut now), Action::Ask);
            lease.failed(CallFailure::NotFound, now);
            assert_eq!(next(&mut lease, &mut now), Action::Register);
            now.ms_since(at(0)) / 200
        })
        .collect();
    assert!(delays.len() >= 10, "{delays:?}");
}

#[test]
fn forged_instances_cannot_make_a_host_ask_more_than_every_five_seconds() {
    let mut lease = listed(1, at(0));
    let mut asked = 0;
    for ms in 0..14_000 {
        lease.instance_seen(InstanceId(1_000 + u128::from(ms)), at(ms));
        if let Some(action) = lease.poll_action(at(ms)) {
            assert_eq!(action, Action::Ask, "never a registration");
            asked += 1;
            lease.alive(1, Some(OLD));
        }
    }
    assert!((2..=3).contains(&asked), "{asked}");
}

#[test]
fn a_host_never_registers_in_a_tight_loop() {
    let mut now = at(0);
    let mut lease = listed(1, now);
    let mut registrations = 0;
    // Each listing is lost as soon as it is asked about.
    while now < at(600_000) {
        lease.doubt(now);
        match next(&mut lease, &mut now) {
            Action::Ask => lease.failed(CallFailure::NotFound, now),
            Action::Register => {
                registrations += 1;
                lease.registered(1, TTL_MS, Some(OLD), now);
            }
            Action::Login => lease.logged_in(now),
            Action::Renew { .. } => panic!("asked before it is due"),
        }
    }
    assert!((20..=50).contains(&registrations), "{registrations} in ten minutes");
}

#[test]
fn failures_wait_longer_each_time_and_keep_the_key() {
    let mut now = at(0);
    let mut lease = Lease::new(entropy(1), now);
    assert_eq!(next(&mut lease, &mut now), Action::Login);
    lease.logged_in(now);
    let key = lease.idempotency_key().to_owned();
    let mut pauses = Vec::new();
    for _ in 0..8 {
        let before = now;
        assert_eq!(next(&mut lease, &mut now), Action::Register);
        pauses.push(now.ms_since(before));
        lease.failed(CallFailure::Transient { retry_after: None }, now);
        assert_eq!(lease.poll_action(now), None, "not at once");
    }
    for (n, pause) in pauses.iter().enumerate().skip(1) {
        let longest = (1_000_u64 << (n - 1)).min(30_000);
        assert!((longest / 2..=longest).contains(pause), "pause {n}: {pause} ms");
    }
    assert_eq!(lease.idempotency_key(), key, "case D7: a lost answer is asked for again, not doubled");
    let before = now;
    assert_eq!(next(&mut lease, &mut now), Action::Register);
    lease.failed(CallFailure::Transient { retry_after: Some(Duration::from_secs(120)) }, now);
    let _ = before;
    let before = now;
    assert_eq!(next(&mut lease, &mut now), Action::Register);
    assert!(now.ms_since(before) >= 120_000, "the server's wish counts");
    lease.failed(CallFailure::KeyUsed, now);
    assert_ne!(lease.idempotency_key(), key);
}

#[test]
fn a_renewal_that_fails_is_tried_again_while_the_lease_lives() {
    let mut now = at(0);
    let mut lease = listed(1, now);
    let mut tries = 0;
    while now < at(u64::from(TTL_MS)) {
        assert!(matches!(next(&mut lease, &mut now), Action::Renew { .. }));
        lease.failed(CallFailure::Transient { retry_after: None }, now);
        tries += 1;
    }
    assert!(tries >= 10, "{tries} tries before the lease ended");
}

#[test]
fn one_call_at_a_time_and_none_after_a_fatal_one() {
    let mut lease = Lease::new(entropy(1), at(0));
    assert_eq!(lease.poll_action(at(0)), Some(Action::Login));
    assert_eq!((lease.poll_action(at(0)), lease.poll_timeout()), (None, None));
    lease.failed(CallFailure::Fatal, at(0));
    assert_eq!((lease.poll_action(at(1 << 40)), lease.poll_timeout()), (None, None));
}

#[test]
fn after_a_drain_nobody_comes_back_before_the_time_it_named() {
    let mut now = at(0);
    let mut lease = listed(1, now);
    lease.draining(Duration::from_millis(9_000), now);
    lease.doubt(now);
    assert_eq!(next(&mut lease, &mut now), Action::Ask);
    lease.failed(CallFailure::NotFound, now);
    assert_eq!(next(&mut lease, &mut now), Action::Register);
    assert!(now >= at(9_000));
}

#[test]
fn a_guest_renews_its_token_half_way() {
    let mut now = at(0);
    let mut lease = listed(1, now);
    let mut version = 1;
    while now < at(13 * 3_600_000) {
        match next(&mut lease, &mut now) {
            Action::Renew { .. } => {
                version += 1;
                lease.renewed(version, None, now);
            }
            Action::Login => {
                assert!((12 * 3_600_000..12 * 3_600_000 + 60_000).contains(&now.ms_since(at(0))));
                return;
            }
            other @ (Action::Register | Action::Ask) => panic!("{other:?}"),
        }
    }
    panic!("no login in 13 hours");
}
