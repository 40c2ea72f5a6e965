//! Threads that serve connections, each with a runtime of its own.
//!
//! A connection lives on one thread from its first byte to its last: nothing of it is ever stolen, locked or woken
//! across cores, and a runtime that shares nothing costs less per wake than one that could. The price is that
//! connections are spread when they arrive and not again; so a new one goes where the fewest are.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Running workers; none means that connections are served by the runtime that accepts them. They end when this is
/// dropped, and what they still serve ends with them.
#[derive(Default)]
pub(super) struct Workers(Vec<Worker>);

/// One thread.
pub(super) struct Worker {
    handle: Handle,
    connections: Arc<AtomicUsize>,
    /// Dropping it ends the thread.
    _running: oneshot::Sender<()>,
}

/// Counts one connection of a worker until it is dropped.
pub(super) struct Busy(Arc<AtomicUsize>);

impl Workers {
    /// Starts `count` threads.
    pub(super) fn start(count: usize) -> io::Result<Self> {
        (0..count).map(Worker::start).collect::<io::Result<_>>().map(Self)
    }

    /// The worker with the fewest connections.
    pub(super) fn least_busy(&self) -> Option<&Worker> {
        // Only the accept loop adds to the counts, so none is passed over for long.
        self.0.iter().min_by_key(|worker| worker.connections.load(Ordering::Relaxed))
    }
}

impl Worker {
    fn start(number: usize) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (running, ended) = oneshot::channel::<()>();
        thread::Builder::new().name(format!("rendezvous-http-{number}")).spawn(move || {
            // An error says that the sender was dropped, which is the end that is waited for.
            let _ended = runtime.block_on(ended);
        })?;
        Ok(Self { handle, connections: Arc::default(), _running: running })
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// One more connection.
    pub(super) fn busy(&self) -> Busy {
        self.connections.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(&self.connections))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_go_where_the_fewest_are() {
        let workers = Workers::start(3).unwrap();
        let taken: Vec<_> = (0..6).filter_map(|_| workers.least_busy().map(Worker::busy)).collect();
        let counts = || workers.0.iter().map(|worker| worker.connections.load(Ordering::Relaxed)).collect::<Vec<_>>();
        assert_eq!(counts(), [2, 2, 2]);
        drop(taken);
        assert_eq!(counts(), [0, 0, 0]);
        assert!(Workers::default().least_busy().is_none());
    }

    #[test]
    fn dropping_the_workers_ends_what_they_run() {
        let workers = Workers::start(1).unwrap();
        let (kept, mut ended) = oneshot::channel::<()>();
        workers.0[0].handle().spawn(async move {
            std::future::pending::<()>().await;
            drop(kept);
        });
        assert_eq!(ended.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        drop(workers);
        assert!(ended.blocking_recv().is_err());
    }
}
