//! The thread that makes the store clean up and publish, also when nobody calls (rules C2, S5).

use crate::service::Service;
use crate::store::Availability;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::watch;

/// A thread of its own, so that a busy runtime delays no publication.
pub(super) struct Ticker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    lost: watch::Receiver<bool>,
}

impl Ticker {
    /// Ticks every `interval`.
    pub(super) fn start(service: Arc<Service>, interval: Duration) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (lost_sender, lost) = watch::channel(false);
        let stopping = Arc::clone(&stop);
        let thread = thread::Builder::new().name("rendezvous-tick".to_owned()).spawn(move || {
            // Relaxed: the flag stands for itself; unparking makes the thread look again soon.
            while !stopping.load(Ordering::Relaxed) {
                let ticked = catch_unwind(AssertUnwindSafe(|| service.tick()));
                if ticked.is_err() || service.availability() == Availability::Unavailable {
                    service.end_long_polls();
                    lost_sender.send_replace(true);
                    return;
                }
                thread::park_timeout(interval);
            }
        })?;
        Ok(Self { stop, thread: Some(thread), lost })
    }

    /// Resolves when the store is lost (rule J1).
    pub(super) async fn lost(&self) {
        let mut lost = self.lost.clone();
        if lost.wait_for(|lost| *lost).await.is_err() {
            // The thread was stopped, not lost.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ended = thread.join();
        }
    }
}
