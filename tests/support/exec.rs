//! The smallest executor, one future on the calling thread; and threads that start together.

use std::future::Future;
use std::pin::Pin;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

/// A future that nobody wakes for this long was lost; a hang becomes a failure.
const LOST_AFTER: Duration = Duration::from_secs(20);

struct Unpark {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

/// Runs a future to its end on this thread.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let unpark = Arc::new(Unpark { thread: thread::current(), woken: AtomicBool::new(false) });
    let waker = Waker::from(unpark.clone());
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        let mut waits = 0;
        while !unpark.woken.swap(false, Ordering::SeqCst) {
            // Parking may end early for no reason, so only repeated full waits count as lost.
            assert!(waits < 8, "a submitted command was never answered");
            thread::park_timeout(LOST_AFTER / 8);
            waits += 1;
        }
    }
}

/// What one poll gave.
pub(crate) enum Polled<F: Future> {
    /// The future ended.
    Ready(F::Output),
    /// The future waits; dropping it cancels, [`block_on`] continues.
    Pending(Pin<Box<F>>),
}

/// Polls exactly once, with a waker that does nothing.
pub(crate) fn poll_once<F: Future>(future: F) -> Polled<F> {
    let mut future = Box::pin(future);
    let mut context = Context::from_waker(Waker::noop());
    match future.as_mut().poll(&mut context) {
        Poll::Ready(output) => Polled::Ready(output),
        Poll::Pending => Polled::Pending(future),
    }
}

/// The same future, which tells `pending` each time it has to wait: whoever hears it knows that a waker is in place.
pub(crate) async fn telling<F: Future + Unpin>(mut future: F, pending: Sender<()>) -> F::Output {
    std::future::poll_fn(|context| {
        let polled = Pin::new(&mut future).poll(context);
        if polled.is_pending() {
            // Nobody may be listening any more.
            let _ = pending.send(());
        }
        polled
    })
    .await
}

/// Runs `work` on `threads` threads that start together; returns what each gave.
pub(crate) fn together<R: Send>(threads: usize, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let barrier = Barrier::new(threads);
    thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|number| {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    barrier.wait();
                    work(number)
                })
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().expect("a thread's own checks hold")).collect()
    })
}

/// Raised when it is dropped, also by a panic: those who loop until then stop instead of hiding the failure.
pub(crate) struct Raise<'a>(pub(crate) &'a AtomicBool);

impl Drop for Raise<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
