//! Long polls: who waits for which news. The registry decides nothing: a woken poll asks the store once more.

use super::model::{Error, ErrorCode};
use super::store::Notice;
use super::traits::Clock;
use crate::domain::Wait;
use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, oneshot, watch};

/// Longest long poll; more is clamped.
pub const WAIT_MAX: Duration = Duration::from_secs(30);

/// How often a waiting host asks without news: what lapses (claims, leases) tells nobody, and another process may have
/// written through its own connection.
pub(super) const RECHECK: Duration = Duration::from_secs(1);

/// The same for a poll of a command, of which there may be thousands: nothing about it lapses by itself, and what another
/// process writes is heard of, so this is for what got lost on the way.
const RECHECK_COMMAND: Duration = Duration::from_secs(5);

/// Polls of commands leave this part of all places to hosts, rounded down: without work no command is applied.
const HOSTS_PART: usize = 4;

/// All waiting polls, at most a ceiling; the map holds only what waits, so it is bounded by it too.
pub struct Waits {
    ceiling: usize,
    state: Mutex<State>,
    released: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    waiting: usize,
    /// Those of them that wait for commands.
    commands: usize,
    next: u64,
    places: HashMap<Notice, Vec<(u64, Arc<Notify>)>>,
}

/// The place of one waiting poll; dropping it, also by a hang-up, frees the place.
struct Place<'a> {
    waits: &'a Waits,
    notice: Notice,
    number: u64,
    news: Arc<Notify>,
}

impl Waits {
    /// A registry for at most `ceiling` waiting polls.
    pub fn new(ceiling: usize) -> Arc<Self> {
        Arc::new(Self { ceiling, state: Mutex::default(), released: watch::Sender::new(false) })
    }

    /// Polls that wait now.
    pub fn waiting(&self) -> usize {
        self.state().waiting
    }

    /// Lets every poll answer at once, those to come as well: drain has begun, or the process is about to end.
    pub fn release(&self) {
        self.released.send_replace(true);
    }

    /// Whether nobody may wait any more.
    pub fn is_released(&self) -> bool {
        *self.released.borrow()
    }

    /// Wakes whoever waits for one of these.
    pub(super) fn wake(&self, notices: &[Notice]) {
        let state = self.state();
        for notice in notices {
            for (_, news) in state.places.get(notice).into_iter().flatten() {
                news.notify_one();
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that holds the lock can leave it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, notice: Notice) -> Result<Place<'_>, Error> {
        let mut state = self.state();
        let for_command = usize::from(is_for_command(&notice));
        let commands_max = self.ceiling - self.ceiling / HOSTS_PART;
        if state.waiting >= self.ceiling || state.commands + for_command > commands_max {
            return Err(Error::new(ErrorCode::Overloaded));
        }
        state.waiting += 1;
        state.commands += for_command;
        state.next += 1;
        let number = state.next;
        let news = Arc::new(Notify::new());
        state.places.entry(notice.clone()).or_default().push((number, Arc::clone(&news)));
        Ok(Place { waits: self, notice, number, news })
    }

    /// Asks until there is an answer or `wait` is over; then the last answer counts. Enters before the second question,
    /// so an event that it did not see finds the poll already there.
    pub(super) async fn until<T, F>(
        &self,
        clock: &dyn Clock,
        notice: Notice,
        wait: impl Wait,
        mut ask: impl FnMut() -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<(T, bool), Error>>,
    {
        let (mut last, is_news) = ask().await?;
        let mut left = wait.limit().min(WAIT_MAX);
        if is_news || left.is_zero() {
            return Ok(last);
        }
        let mut released = self.released.subscribe();
        let recheck = if is_for_command(&notice) { RECHECK_COMMAND } else { RECHECK };
        let place = self.enter(notice)?;
        // Declared after the place, so dropped before it.
        let _held = wait.placed();
        loop {
            let (is_news, nap) = match ask().await {
                Ok((answer, is_news)) => {
                    last = answer;
                    (is_news, recheck)
                }
                // It holds a place already and can ask again: a store that is busy for a moment costs it that moment.
                Err(error) if error.code == ErrorCode::Overloaded => (false, RECHECK),
                Err(error) => return Err(error),
            };
            if is_news || left.is_zero() || *released.borrow_and_update() {
                return Ok(last);
            }
            let nap = left.min(nap);
            let timer = Timer::start(clock, nap);
            tokio::select! {
                () = place.news.notified() => {}
                () = timer.over() => left = left.saturating_sub(nap),
                _ = released.changed() => {}
            }
        }
    }
}

fn is_for_command(notice: &Notice) -> bool {
    match notice {
        Notice::Command(..) => true,
        Notice::Host(_) => false,
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.waits.state();
        state.waiting -= 1;
        state.commands -= usize::from(is_for_command(&self.notice));
        if let Some(places) = state.places.get_mut(&self.notice) {
            places.retain(|(number, _)| *number != self.number);
            if places.is_empty() {
                state.places.remove(&self.notice);
            }
        }
    }
}

/// A delay on the clock seam, stopped when it is dropped.
pub(super) struct Timer {
    rang: oneshot::Receiver<()>,
    stop: Option<Box<dyn FnOnce() -> bool + Send>>,
}

impl Timer {
    pub(super) fn start(clock: &dyn Clock, delay: Duration) -> Self {
        let (ring, rang) = oneshot::channel();
        let stop = clock.after(delay, Box::new(move || ring.send(()).unwrap_or(())));
        Self { rang, stop: Some(stop) }
    }

    pub(super) async fn over(mut self) {
        // An error means that the clock dropped the call: then the time is over as well.
        let _ = (&mut self.rang).await;
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::{CommandSeq, HostId, SessionId, Tenant};
    use std::future::ready;
    use std::time::SystemTime;

    /// A clock on which every delay is over at once, and counted.
    #[derive(Default)]
    struct Hasty(Mutex<Vec<Duration>>);

    impl Clock for Hasty {
        fn now(&self) -> SystemTime {
            SystemTime::UNIX_EPOCH
        }

        fn after(&self, delay: Duration, run: Box<dyn FnOnce() + Send>) -> Box<dyn FnOnce() -> bool + Send> {
            self.0.lock().unwrap().push(delay);
            run();
            Box::new(|| false)
        }
    }

    #[tokio::test]
    async fn a_busy_store_ends_no_poll_that_has_its_place() {
        let (waits, clock) = (Waits::new(2), Hasty::default());
        let host = || Notice::Host(HostId::new("eu-1").unwrap());
        let busy = || Err(Error::new(ErrorCode::Overloaded));
        let mut answers = vec![Ok((1, false)), Ok((2, false)), busy(), busy(), Ok((3, true))].into_iter();
        let asked = waits.until(&clock, host(), Duration::from_secs(30), || ready(answers.next().unwrap())).await;
        assert_eq!(asked, Ok(3));
        let mut answers = vec![Ok((1, false)), busy(), busy()].into_iter();
        let asked = waits.until(&clock, host(), RECHECK, || ready(answers.next().unwrap())).await;
        assert_eq!(asked, Ok(1), "at the end of its time the last answer counts");
        let refused =
            waits.until(&clock, host(), RECHECK, || ready(Err::<((), bool), _>(Error::new(ErrorCode::Overloaded))));
        assert_eq!(
            refused.await.map_err(|error| error.code),
            Err(ErrorCode::Overloaded),
            "without a place there is none"
        );
    }

    #[tokio::test]
    async fn thousands_that_wait_for_commands_ask_less_often_than_hosts() {
        for (notice, naps) in [
            (Notice::Command(Tenant::new("demo").unwrap(), SessionId(1), CommandSeq(1)), vec![5, 5, 2]),
            (Notice::Host(HostId::new("eu-1").unwrap()), vec![1; 12]),
        ] {
            let (waits, clock) = (Waits::new(2), Hasty::default());
            waits.until(&clock, notice, Duration::from_secs(12), || ready(Ok(((), false)))).await.unwrap();
            assert_eq!(*clock.0.lock().unwrap(), naps.into_iter().map(Duration::from_secs).collect::<Vec<_>>());
        }
    }

    struct Probe<'w>(&'w Waits, &'w Mutex<Vec<usize>>);
    struct Held<'w>(Probe<'w>);

    impl<'w> Wait for Probe<'w> {
        type Held = Held<'w>;

        fn limit(&self) -> Duration {
            WAIT_MAX
        }

        fn placed(self) -> Held<'w> {
            Held(self)
        }
    }

    impl Drop for Held<'_> {
        fn drop(&mut self) {
            self.0.1.lock().unwrap().push(self.0.0.waiting());
        }
    }

    /// A clock whose timers never ring.
    struct Still;

    impl Clock for Still {
        fn now(&self) -> std::time::SystemTime {
            std::time::SystemTime::UNIX_EPOCH
        }

        fn after(&self, _: Duration, run: Box<dyn FnOnce() + Send>) -> Box<dyn FnOnce() -> bool + Send> {
            // Kept, for a call that is dropped counts as made.
            Box::new(move || {
                drop(run);
                true
            })
        }
    }

    #[tokio::test]
    async fn who_polls_holds_something_from_having_a_place_until_before_it_is_free() {
        let (waits, seen) = (Waits::new(1), Mutex::default());
        let notice = || Notice::Host(HostId::new("eu-1").unwrap());
        let poll =
            |is_news| waits.until(&Still, notice(), Probe(&waits, &seen), move || async move { Ok(((), is_news)) });
        assert!(poll(true).await.is_ok(), "news at once");
        let mut first = Box::pin(poll(false));
        assert!(std::future::poll_fn(|cx| std::task::Poll::Ready(first.as_mut().poll(cx))).await.is_pending());
        assert_eq!(poll(false).await.map_err(|error| error.code), Err(ErrorCode::Overloaded));
        assert!(seen.lock().unwrap().is_empty());
        drop(first);
        assert_eq!((seen.lock().unwrap().as_slice(), waits.waiting()), ([1].as_slice(), 0));
    }

    #[test]
    fn polls_of_commands_leave_places_to_hosts() {
        let waits = Waits::new(8);
        let command = |seq| waits.enter(Notice::Command(Tenant::new("demo").unwrap(), SessionId(1), CommandSeq(seq)));
        let host = || waits.enter(Notice::Host(HostId::new("eu-1").unwrap()));
        let commands: Vec<_> = (0..6).map(|seq| command(seq).unwrap_or_else(|error| panic!("{error}"))).collect();
        assert_eq!(command(7).err().map(|error| error.code), Some(ErrorCode::Overloaded));
        let hosts: Vec<_> = (0..2).map(|_| host().unwrap_or_else(|error| panic!("{error}"))).collect();
        assert_eq!(host().err().map(|error| error.code), Some(ErrorCode::Overloaded));
        drop(commands);
        assert!(host().is_ok() && command(7).is_ok());
        drop(hosts);
        let state = waits.state();
        assert_eq!((state.waiting, state.commands, state.places.len()), (0, 0, 0));
    }
}
