//! What the contract suite and the model share: a clock that tests move, an observer that can stop the writer, builders
//! of commands, and a world that holds one store with all of these.

mod browse;
mod build;
mod clock;
mod exec;
mod name;
mod observer;
mod say;
mod world;

pub(crate) use browse::{Page, Row};
pub(crate) use build::*;
pub(crate) use clock::ManualClock;
pub(crate) use exec::{Polled, Raise, block_on, poll_once, telling, together};
pub(crate) use name::{name, parse_name};
pub(crate) use observer::Recorder;
pub(crate) use say::say;
pub(crate) use world::{Backend, LaneShape, World};
