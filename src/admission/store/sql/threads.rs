//! The threads that own the connections: writers, which batch, and a reader, which writers do not delay.

use crate::admission::model::Unavailable;
use crate::admission::store::batch::{self, Backend, Engine, Job, Shared};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// An engine of threads with a connection each.
pub(crate) struct Threads {
    /// Absent once the engine is being dropped: then the threads see that nothing more will come.
    queues: Option<Queues>,
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
        Ok(Self { queues: Some(Queues { writes, reads }), threads })
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
