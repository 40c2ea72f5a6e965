//! The contract of every store, rule by rule, instantiated for both. A test names its rule (`rule_e2_...`) or its field
//! case (`case_l1_...`); `docs/testing.md` says which fault each group would catch.
//!
//! No test sleeps: time is a [`support::ManualClock`], and whoever has to wait is woken.
#![allow(clippy::wildcard_enum_match_arm, reason = "any other answer fails the test, whatever it is called")]

#[allow(dead_code, unused_imports, reason = "each test target uses its own part of the shared helpers")]
#[path = "../support/mod.rs"]
mod support;

/// Instantiates generic tests for the baseline and the lane.
macro_rules! contract {
    ($($test:ident),+ $(,)?) => {
        mod single_lock {
            use rendezvous::store::single_lock::SingleLock;
            $(#[test]
            fn $test() {
                super::$test::<SingleLock<crate::support::ManualClock>>();
            })+
        }
        mod lane {
            use rendezvous::store::lane::Lane;
            $(#[test]
            fn $test() {
                super::$test::<Lane<crate::support::ManualClock>>();
            })+
        }
    };
}

mod attempts;
mod availability;
mod batches;
mod binding;
mod boundary;
mod capacity;
mod clocks;
mod expiry;
mod filters;
mod idempotency;
mod introduction;
mod lane_only;
mod leases;
mod pages;
mod precedence;
mod presence;
mod quotas;
mod races;
mod reader_races;
mod revocation;
mod snapshots;
