//! A writer that never makes its caller wait: lines go to a thread, and are counted and dropped where that falls behind.
//!
//! Whoever reads standard error may stand still, and a pipe holds no more than some 64 KiB: a server that wrote by itself
//! would then answer nobody, and hear no signal. (tracing-appender does the same, but speaks on standard output when it
//! can't end in time, which is not ours to use, and panics where that is closed.)

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Lines that wait for the reader: some seconds of a busy log, about 1 MiB.
const LINES_MAX: usize = 4_096;
/// Between two tries to have the thread told of the end, while its queue is full.
const RETRY: Duration = Duration::from_millis(5);

enum Message {
    Line(Vec<u8>),
    /// Everything before this was written, or could not be.
    End(SyncSender<()>),
}

/// Clones write to the same thread. Each write is a whole line.
#[derive(Clone)]
pub(super) struct LineWriter {
    messages: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

impl LineWriter {
    /// Starts the thread that writes to `out`. It ends with the last clone.
    pub(super) fn start(out: impl Write + Send + 'static) -> io::Result<Self> {
        let (messages, queue) = sync_channel(LINES_MAX);
        thread::Builder::new().name("rendezvous-log".to_owned()).spawn(move || write_all(out, &queue))?;
        Ok(Self { messages, dropped: Arc::default() })
    }

    /// How many lines were dropped so far; shared with all clones.
    pub(super) fn dropped(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.dropped)
    }

    /// Waits until everything so far is written, at most for `patience`.
    pub(super) fn finish(&self, patience: Duration) {
        let limit = Instant::now() + patience;
        let (done, ended) = sync_channel(1);
        let mut end = Message::End(done);
        while let Err(TrySendError::Full(again)) = self.messages.try_send(end) {
            if Instant::now() >= limit {
                return;
            }
            thread::sleep(RETRY);
            end = again;
        }
        // Whatever comes of it, nothing more can be done.
        let _in_time = ended.recv_timeout(limit.saturating_duration_since(Instant::now()));
    }
}

impl Write for LineWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.messages.try_send(Message::Line(line.to_vec())).is_err() {
            // A count that informs.
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_all(mut out: impl Write, queue: &Receiver<Message>) {
    for message in queue {
        match message {
            // A reader that has gone away is no reason to fail.
            Message::Line(line) => drop(out.write_all(&line).and_then(|()| out.flush())),
            Message::End(done) => drop(done.try_send(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Condvar, Mutex, PoisonError};

    /// Takes nothing until it is opened.
    #[derive(Clone, Default)]
    struct Gate(Arc<(Mutex<Behind>, Condvar)>);

    /// Whether it is open, and what has gone through.
    type Behind = (bool, Vec<u8>);

    impl Gate {
        fn open(&self) {
            self.0.0.lock().unwrap().0 = true;
            self.0.1.notify_all();
        }

        fn lines(&self) -> usize {
            self.0.0.lock().unwrap().1.iter().filter(|byte| **byte == b'\n').count()
        }
    }

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let state = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
            let mut state = self.0.1.wait_while(state, |(is_open, _)| !*is_open).unwrap();
            state.1.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_stands_still_costs_lines_and_no_time() {
        let gate = Gate::default();
        let mut writer = LineWriter::start(gate.clone()).unwrap();
        let (dropped, written) = (writer.dropped(), LINES_MAX + 1_000);
        for _ in 0..written {
            writer.write_all(b"line\n").unwrap();
        }
        // The thread may hold one beside those that wait.
        let lost = dropped.load(Ordering::Relaxed);
        assert!((999..=1_000).contains(&lost), "{lost}");
        writer.finish(Duration::from_millis(20));
        assert_eq!(gate.lines(), 0, "it was given up");
        gate.open();
        writer.finish(Duration::from_secs(60));
        assert_eq!(gate.lines() as u64 + lost, written as u64);
    }

    /// Every write fails, as on a closed pipe.
    struct Gone;

    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    #[test]
    fn a_reader_that_has_gone_away_is_no_failure() {
        let mut writer = LineWriter::start(Gone).unwrap();
        writer.write_all(b"line\n").unwrap();
        let begun = Instant::now();
        writer.finish(Duration::from_secs(600));
        assert!(begun.elapsed() < Duration::from_secs(60) && writer.write_all(b"line\n").is_ok());
    }
}
