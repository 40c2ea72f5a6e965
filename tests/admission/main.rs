//! The contract of the command plane, rule by rule, for every store: in memory, SQLite, PostgreSQL. A test names its rule
//! (`adm_p5_...`) or its field case (`case_q3_...`); `docs/testing.md` says which fault each group would catch.
//!
//! No test sleeps: time is a [`support::ManualClock`].
#![cfg(feature = "postgres")]
#![allow(
    missing_docs,
    clippy::wildcard_enum_match_arm,
    reason = "any other answer fails the test, whatever it is called"
)]

#[allow(dead_code, reason = "each test target uses its own part of the shared helpers")]
#[path = "../support/say.rs"]
mod say;
mod support;

/// Instantiates tests for the stores that are named.
macro_rules! instantiate {
    ($store:ident, $settings:expr, $($test:ident),+) => {
        mod $store {
            $(#[test]
            fn $test() {
                crate::support::run(crate::support::World::$store($settings), super::$test);
            })+
        }
    };
}

/// Instantiates tests for every store.
macro_rules! contract {
    ($($test:ident),+ $(,)?) => { contract!(with crate::support::small(); $($test),+); };
    (with $settings:expr; $($test:ident),+ $(,)?) => {
        instantiate!(memory, $settings, $($test),+);
        instantiate!(sqlite, $settings, $($test),+);
        instantiate!(postgres, $settings, $($test),+);
    };
}

/// Instantiates tests for every database: they write past the store.
macro_rules! database_contract {
    ($($test:ident),+ $(,)?) => {
        instantiate!(sqlite, crate::support::small(), $($test),+);
        instantiate!(postgres, crate::support::small(), $($test),+);
    };
}

mod admission;
mod application;
mod authority;
mod creates;
mod leases;
mod opening;
mod outages;
mod placement;
mod polls;
mod races;
mod retention;
mod settlement;
mod surface;
mod sweeps;
mod unreadable;
mod versions;
mod work;
