//! Pacer and workers.
//!
//! A thread releases requests when they are due; workers take them in order, each one at a time. So at most as many are
//! outstanding as there are workers, whatever the rate, and the backlog is two numbers.

use super::mix::{Kind, Mix};
use super::schedule::{Schedule, Turn};
use super::tally::{Outcome, Tally, Times};
use crate::clock::{Clock, SharedClock};
use crate::domain::MonoTime;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Longest sleep of the pacer: how soon it hears of a stop.
const NAP_MAX: Duration = Duration::from_millis(10);

/// Does requests, one at a time.
pub(crate) trait Operator: Send {
    /// Does one request to its end, its time-out included. The kind that it became is what is counted.
    fn perform(&mut self, kind: Kind) -> impl Future<Output = (Kind, Outcome)> + Send;
    /// How long until something has to be done that is no part of the load.
    fn upkeep_in(&self) -> Duration;
    /// Does it.
    fn upkeep(&mut self) -> impl Future<Output = ()> + Send;
    /// A random number.
    fn random(&mut self) -> u64;
}

/// What pacer, workers and progress share. Counters are independent facts, so `Relaxed` is enough; the semaphore orders
/// what a worker sees of a release.
pub(crate) struct Course {
    schedule: Schedule,
    mix: Mix,
    clock: SharedClock,
    released: Semaphore,
    taken: AtomicU64,
    /// Requests in all; fewer than the schedule's after a stop.
    total: AtomicU64,
    outstanding: AtomicU64,
    stopped: AtomicBool,
    tally: Mutex<Tally>,
}

impl Course {
    pub(crate) fn new(schedule: Schedule, mix: Mix, clock: SharedClock, measured_from: MonoTime) -> Self {
        Self {
            total: AtomicU64::new(schedule.total()),
            schedule,
            mix,
            clock,
            released: Semaphore::new(0),
            taken: AtomicU64::new(0),
            outstanding: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            tally: Mutex::new(Tally::new(measured_from)),
        }
    }

    /// Releases nothing more; what is released and not begun becomes unsent.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Requests on the way.
    pub(crate) fn outstanding(&self) -> u64 {
        self.outstanding.load(Ordering::Relaxed)
    }

    pub(crate) fn tally(&self) -> MutexGuard<'_, Tally> {
        // Counts only; a panic between two of its lines can't leave them worse than off by one.
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases requests as they fall due until all are out, then lets `workers` workers go. Blocks.
    pub(crate) fn pace(&self, workers: usize) {
        let mut released = 0;
        while released < self.schedule.total() && !self.is_stopped() {
            let now = self.clock.mono();
            let due = self.schedule.due(now);
            self.release(due - released);
            released = due;
            let until_next = self.schedule.at(released).0.saturating_sub(now.0);
            std::thread::sleep(Duration::from_nanos(until_next).min(NAP_MAX));
        }
        self.total.store(released, Ordering::Relaxed);
        // One more for each, by which it sees the end.
        self.release(workers as u64);
    }

    fn release(&self, count: u64) {
        // The sum is bounded by rate times duration, far below what a semaphore counts to.
        self.released.add_permits(usize::try_from(count).unwrap_or(0));
    }

    /// Counts all others that it is too late for by now. Far beyond what a server can do they are nearly all, and a worker
    /// that took each of them in its turn would have no time for the rest.
    fn skip_late(&self, now: MonoTime, operator: &mut impl Operator) {
        let late = self.schedule.late(now).min(self.total.load(Ordering::Relaxed));
        let backlog = late.saturating_sub(self.taken.load(Ordering::Relaxed));
        let skipped = self.released.forget_permits(usize::try_from(backlog).unwrap_or(usize::MAX)) as u64;
        let first = self.taken.fetch_add(skipped, Ordering::Relaxed);
        let mut tally = self.tally();
        for n in first..first + skipped {
            tally.unsent(self.mix.pick(operator.random()), self.schedule.at(n));
        }
    }

    /// Takes requests in order until there are no more.
    pub(crate) async fn work(&self, operator: &mut impl Operator) {
        loop {
            let idle = operator.upkeep_in();
            if idle.is_zero() {
                operator.upkeep().await;
            }
            let released = tokio::select! {
                biased;
                released = self.released.acquire() => released,
                () = tokio::time::sleep(idle) => continue,
            };
            // The semaphore is never closed.
            let Ok(permit) = released else { return };
            permit.forget();
            let n = self.taken.fetch_add(1, Ordering::Relaxed);
            if n >= self.total.load(Ordering::Relaxed) {
                return;
            }
            let kind = self.mix.pick(operator.random());
            let (intended, begun) = (self.schedule.at(n), self.clock.mono());
            if self.is_stopped() || self.schedule.turn(n, begun) == Turn::Unsent {
                self.tally().unsent(kind, intended);
                self.skip_late(begun, operator);
                continue;
            }
            self.outstanding.fetch_add(1, Ordering::Relaxed);
            let (kind, outcome) = operator.perform(kind).await;
            self.outstanding.fetch_sub(1, Ordering::Relaxed);
            self.tally().answered(kind, outcome, Times { intended, begun, ended: self.clock.mono() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::WallTime;
    use std::sync::Arc;

    const MS: u64 = 1_000_000;

    /// Stands still until it is moved.
    #[derive(Default)]
    struct StillClock(AtomicU64);

    impl Clock for StillClock {
        fn mono(&self) -> MonoTime {
            MonoTime(self.0.load(Ordering::Relaxed))
        }

        fn wall(&self) -> WallTime {
            WallTime(0)
        }
    }

    /// Answers when the gate lets it.
    struct Gated {
        gate: Arc<Semaphore>,
        begun: Arc<AtomicU64>,
    }

    impl Operator for Gated {
        async fn perform(&mut self, kind: Kind) -> (Kind, Outcome) {
            self.begun.fetch_add(1, Ordering::Relaxed);
            self.gate.acquire().await.unwrap().forget();
            (kind, Outcome::Done)
        }

        fn upkeep_in(&self) -> Duration {
            Duration::from_secs(3_600)
        }

        async fn upkeep(&mut self) {
            unreachable!("not due");
        }

        fn random(&mut self) -> u64 {
            0
        }
    }

    struct World {
        course: Arc<Course>,
        clock: Arc<StillClock>,
        gate: Arc<Semaphore>,
        begun: Arc<AtomicU64>,
        workers: tokio::task::JoinSet<()>,
    }

    /// 100 requests, all of them due, for three workers.
    fn overloaded() -> World {
        let clock = Arc::new(StillClock::default());
        let schedule = Schedule::new(MonoTime(0), 1_000.0, 0.1, 50 * MS);
        let course = Course::new(schedule, Mix::only(Kind::Browse), clock.clone(), MonoTime(0));
        let world = World {
            course: Arc::new(course),
            clock,
            gate: Arc::new(Semaphore::new(0)),
            begun: Arc::default(),
            workers: tokio::task::JoinSet::new(),
        };
        world.clock.0.store(100 * MS, Ordering::Relaxed);
        world.course.pace(3);
        world
    }

    impl World {
        async fn start(&mut self) {
            for _ in 0..3 {
                let (course, gate, begun) = (self.course.clone(), self.gate.clone(), self.begun.clone());
                self.workers.spawn(async move { course.work(&mut Gated { gate, begun }).await });
            }
            while self.begun.load(Ordering::Relaxed) < 3 {
                tokio::task::yield_now().await;
            }
        }

        async fn finish(mut self) -> Tally {
            self.gate.add_permits(1_000);
            while self.workers.join_next().await.is_some() {}
            self.course.tally().clone()
        }
    }

    #[tokio::test]
    async fn no_more_are_outstanding_than_there_are_workers() {
        let mut world = overloaded();
        world.start().await;
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        assert_eq!((world.begun.load(Ordering::Relaxed), world.course.outstanding()), (3, 3));
        // The server answers half a second later: what was due long ago is not sent any more.
        world.clock.0.store(600 * MS, Ordering::Relaxed);
        let tally = world.finish().await;
        let browse = &tally.kinds[&Kind::Browse];
        assert_eq!(browse.good() + browse.unsent, 100, "nothing is dropped in silence");
        // At 100 ms, those due before 50 ms were too late already.
        assert_eq!((browse.good(), browse.unsent), (3, 97));
        assert!(browse.latency.min() >= 500 * MS, "from the intended begin: {}", browse.latency.min());
    }

    #[tokio::test]
    async fn a_stop_makes_the_backlog_unsent_and_lets_everybody_go() {
        let mut world = overloaded();
        world.start().await;
        world.course.stop();
        let tally = world.finish().await;
        let browse = &tally.kinds[&Kind::Browse];
        assert_eq!((browse.good(), browse.unsent), (3, 97));
    }

    #[tokio::test]
    async fn a_stopped_pacer_releases_nothing_more() {
        let clock = Arc::new(StillClock::default());
        let schedule = Schedule::new(MonoTime(0), 1_000.0, 10.0, MS);
        let course = Course::new(schedule, Mix::only(Kind::Browse), clock, MonoTime(0));
        course.stop();
        course.pace(1);
        let (gate, begun) = (Arc::new(Semaphore::new(9)), Arc::new(AtomicU64::new(0)));
        course.work(&mut Gated { gate, begun: begun.clone() }).await;
        assert_eq!(begun.load(Ordering::Relaxed), 0);
        assert!(course.tally().kinds.is_empty());
    }
}
