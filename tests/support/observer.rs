//! An observer that remembers events and can stop or break the writer in the middle of a transition.

use rendezvous::domain::Event;
use rendezvous::store::Observer;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Remembers what it hears.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    events: Mutex<Vec<Event>>,
    stop: Mutex<Option<Stop>>,
    panics_next: AtomicBool,
}

#[derive(Debug)]
struct Stop {
    entered: Sender<()>,
    release: Receiver<()>,
}

/// The writer stands still inside its observer until this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    entered: Receiver<()>,
    release: Sender<()>,
}

impl Held {
    /// Returns once the writer stands.
    pub(crate) fn wait_entered(&self) {
        self.entered.recv().expect("the writer reaches its observer");
    }

    /// Lets the writer go on.
    pub(crate) fn release(self) {
        drop(self.release);
    }
}

impl Recorder {
    /// The next event stops the writer.
    pub(crate) fn hold_next(&self) -> Held {
        let (entered_tx, entered) = channel();
        let (release, release_rx) = channel();
        *self.stop.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Stop { entered: entered_tx, release: release_rx });
        Held { entered, release }
    }

    /// The next event panics inside the transition, once.
    pub(crate) fn panic_next(&self) {
        self.panics_next.store(true, Ordering::SeqCst);
    }

    /// Makes room for `more` events, for those who count allocations.
    pub(crate) fn reserve(&self, more: usize) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).reserve(more);
    }

    /// The events so far, which are forgotten.
    pub(crate) fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.events.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for Recorder {
    fn observe(&self, event: &Event) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event.clone());
        assert!(!self.panics_next.swap(false, Ordering::SeqCst), "the observer was armed to panic here");
        let stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(stop) = stop {
            let _ = stop.entered.send(());
            // Ends with an error when the test drops its side, which is how it releases.
            let _ = stop.release.recv();
        }
    }
}
