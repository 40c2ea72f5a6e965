//! What the tests of the command plane share.

pub(crate) mod clock;
pub(crate) mod postgres;
pub(crate) mod proxy;
pub(crate) mod world;

pub(crate) use clock::{ManualClock, START, Skewed};
pub(crate) use world::*;
