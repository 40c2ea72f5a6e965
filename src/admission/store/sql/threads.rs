//! The threads that own the connections: writers, which batch, and a reader, which writers do not delay.

use crate::admission::model::Unavailable;
use crate::admission::store::batch::{self, Backend, Engine, Job, Shared};
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// An engine of threads with a connection each.
pub(crate) struct Threads {
    /// Absent once the engine is being dropped: then the threads see that nothing more will come.
    queues: Option<Queues>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Queues {
    writes: SyncSender<Box<dyn Job>>,
    reads: SyncSender<Box<dyn Job>>,
}

type Queue = Arc<Mutex<Receiver<Box<dyn Job>>>>;

impl Threads {
    /// Starts a thread per connection; all writers serve one queue.
    pub(crate) fn start<B: Backend + Send + 'static>(
        shared: Shared,
        writers: Vec<B>,
        readers: Vec<B>,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(shared);
        let (writes, write_queue) = sync_channel(shared.settings.queue_max);
        let (reads, read_queue) = sync_channel(shared.settings.queue_max);
        let mut threads = Vec::new();
        for (name, queue, backends) in
            [("admission-write", write_queue, writers), ("admission-read", read_queue, readers)]
        {
            let queue = Arc::new(Mutex::new(queue));
            for backend in backends {
                let (queue, shared) = (Arc::clone(&queue), Arc::clone(&shared));
                let serve = move || serve(backend, &queue, &shared);
                threads.push(std::thread::Builder::new().name(name.into()).spawn(serve)?);
            }
        }
        Ok(Self { queues: Some(Queues { writes, reads }), shared, threads })
    }
}

impl Engine for Threads {
    fn submit(&self, job: Box<dyn Job>) {
        let Some(queues) = &self.queues else {
            return job.answer(Err(Unavailable::nothing_happened("the store is closed")));
        };
        let queue = if job.plan().is_read { &queues.reads } else { &queues.writes };
        match queue.try_send(job) {
            Ok(()) => {}
            Err(TrySendError::Full(job)) => job.answer(Err(Unavailable::overloaded())),
            Err(TrySendError::Disconnected(job)) => {
                job.answer(Err(Unavailable::nothing_happened("the store's thread is gone")));
            }
        }
    }

    fn unreadable(&self) -> &AtomicU64 {
        &self.shared.unreadable
    }

    /// A thread that ended while more may come has panicked; nothing starts it again.
    fn is_lost(&self) -> bool {
        self.queues.is_some() && self.threads.iter().any(JoinHandle::is_finished)
    }
}

/// Takes what is there, up to a batch, and serves it. While one batch waits for the disk the next one gathers, so nobody
/// has to wait for company.
fn serve<B: Backend>(mut backend: B, queue: &Queue, shared: &Shared) {
    loop {
        let mut jobs = Vec::new();
        {
            let queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
            match queue.recv() {
                Ok(job) => jobs.push(job),
                Err(_) => return,
            }
            while jobs.len() < shared.settings.batch_max {
                let Ok(job) = queue.try_recv() else { break };
                jobs.push(job);
            }
        }
        batch::run(&mut backend, shared, jobs);
    }
}

impl Drop for Threads {
    /// Serves what was queued, then closes the connections.
    fn drop(&mut self) {
        self.queues = None;
        let current = std::thread::current().id();
        for thread in self.threads.drain(..) {
            // The last handle may be dropped by an answer, on a thread of ours.
            if thread.thread().id() != current {
                // A panic was reported when it happened.
                drop(thread.join());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::admission::store::{Plan, Settings, Store};
    use crate::admission::{Clock, RuntimeClock};
    use crate::clock::SystemClock;
    use std::sync::Arc;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_thread_that_panicked_is_told_from_a_store_that_is_busy() {
        let folder = tempfile::tempdir().unwrap();
        let clock: Arc<dyn Clock> = Arc::new(RuntimeClock::new(SystemClock::new(), tokio::runtime::Handle::current()));
        let store = Store::open_sqlite(&folder.path().join("store"), Settings::default(), clock).unwrap();
        assert!(store.now().await.is_ok() && !store.is_lost());
        let answer = store.ask::<()>(Plan::default(), |_| panic!("expected in this test")).await;
        assert!(answer.is_err(), "nobody knows what became of it");
        while !store.is_lost() {
            tokio::task::yield_now().await;
        }
    }
}
