//! The bytes of one connection under its deadlines.
//!
//! hyper has one timer for reading a head, and it also runs while a kept-alive connection is idle. This wrapper has the
//! three deadlines apart: a head must arrive in time, also the first of a connection that says nothing; an idle
//! connection may wait much longer; and an answer must be taken by its client. The body has its own, where it is read.

use super::connection::Connection;
use super::express::Express;
use super::framing::Framing;
use super::raw::RawAnswers;
use bytes::{Buf, Bytes};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Duration, Instant, Sleep, sleep_until};

/// The deadlines of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadlines {
    /// From accepting, or from a later head's first byte, to its last.
    pub(super) head: Duration,
    /// From an answer to the next head's first byte.
    pub(super) idle: Duration,
    /// From the first write that would block to the last byte of the answer.
    pub(super) write: Duration,
}

/// The time that an answer's client has to take it.
#[derive(Debug)]
pub(super) struct WriteDeadline {
    after: Duration,
    timer: Option<Pin<Box<Sleep>>>,
}

impl WriteDeadline {
    pub(super) fn new(after: Duration) -> Self {
        Self { after, timer: None }
    }

    /// `written`, unless it has been pending since before the deadline. The time runs from the first one that would block.
    pub(super) fn bound<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            return written;
        }
        let after = self.after;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + after)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the answer was not taken in time")))
    }

    /// The answer is out.
    pub(super) fn clear(&mut self) {
        self.timer = None;
    }
}

/// A stream under deadlines, with an eye on its framing.
pub(super) struct GuardedIo<S> {
    stream: S,
    deadlines: Deadlines,
    connection: Arc<Connection>,
    framing: Framing,
    head_since: Option<Instant>,
    /// Fires no later than the deadline for reading: a later deadline is found out when it fires, so that a request
    /// which arrives in one piece never touches the timer.
    read_timer: Pin<Box<Sleep>>,
    /// Whom the timer wakes, once it has been polled with its present deadline.
    armed: Option<Waker>,
    write: WriteDeadline,
    /// The first head counts from here: after whatever had to come before it.
    began: Instant,
    raw_answers: Arc<RawAnswers>,
    /// Nothing was written since the last flush: the next bytes begin an answer.
    at_start: bool,
    /// Sent in place of what hyper wrote, before anything else.
    substitute: Bytes,
    /// Answers what it can before hyper sees it.
    express: Option<Express>,
    lingering: Option<Linger>,
}

/// The end of a connection whose client may still be sending.
struct Linger {
    until: Pin<Box<Sleep>>,
    bytes_left: usize,
}

/// Closing a socket with unread bytes resets it, and the reset can overtake the last answer on its way to the client. So
/// what still comes is read and dropped, for at most this long ...
const LINGER: Duration = Duration::from_secs(1);
/// ... and at most this much: more than fits between the two kernels' buffers.
const LINGER_BYTES: usize = 4 * 1024 * 1024;

impl<S> GuardedIo<S> {
    pub(super) fn new(
        stream: S,
        deadlines: Deadlines,
        connection: Arc<Connection>,
        raw_answers: Arc<RawAnswers>,
    ) -> Self {
        let began = Instant::now();
        Self {
            stream,
            deadlines,
            connection,
            framing: Framing::new(),
            head_since: None,
            read_timer: Box::pin(sleep_until(began + deadlines.head)),
            armed: None,
            write: WriteDeadline::new(deadlines.write),
            began,
            raw_answers,
            at_start: true,
            substitute: Bytes::new(),
            express: None,
            lingering: None,
        }
    }

    /// The same with a short way for plain browses and renewals.
    pub(super) fn with_express(self, express: Option<Express>) -> Self {
        Self { express, ..self }
    }

    /// Takes `bytes` off hyper's hands if they are a request that can be answered in one step. hyper must be between two
    /// requests: nothing of ours may overtake an answer of its own.
    fn answers_at_once(&mut self, bytes: &[u8]) -> bool {
        let Some(express) = &mut self.express else { return false };
        let between = self.framing.between_requests() == Some(self.connection.requests());
        if !between || !self.at_start || !self.substitute.is_empty() || self.connection.idle_since().is_none() {
            return false;
        }
        let answered = express.answer(bytes, &self.connection);
        if answered {
            self.framing.skip_request();
        }
        answered
    }

    /// When waiting for more bytes ends; `None` while a request is in progress.
    fn read_deadline(&self) -> Option<Instant> {
        let idle_since = self.connection.idle_since()?;
        Some(match self.head_since {
            _ if self.connection.requests() == 0 => self.began + self.deadlines.head,
            Some(since) => since + self.deadlines.head,
            None => idle_since + self.deadlines.idle,
        })
    }

    fn note(&mut self, bytes: &[u8]) {
        self.framing.observe(bytes);
        if let Some((request, flaw)) = self.framing.flaw() {
            self.connection.set_flaw(request, flaw);
        }
        if !self.framing.mid_head() {
            self.head_since = None;
        } else if self.head_since.is_none() {
            self.head_since = Some(Instant::now());
        }
    }

    fn poll_read_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.read_deadline() else { return Poll::Pending };
        if self.read_timer.deadline() > deadline {
            self.read_timer.as_mut().reset(deadline);
            self.armed = None;
        }
        let is_armed = self.armed.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        if is_armed && !self.read_timer.is_elapsed() {
            return Poll::Pending;
        }
        self.armed = Some(cx.waker().clone());
        while self.read_timer.as_mut().poll(cx).is_ready() {
            if self.read_timer.deadline() >= deadline {
                return Poll::Ready(());
            }
            self.read_timer.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for GuardedIo<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = loop {
            // Whoever does not take an answer is not asked for more.
            ready!(self.poll_express(cx))?;
            if self.express.as_ref().is_some_and(Express::is_broken) {
                return Poll::Ready(Ok(()));
            }
            let read = Pin::new(&mut self.stream).poll_read(cx, buf);
            let new = buf.filled().get(before..).unwrap_or_default();
            if new.is_empty() || !self.answers_at_once(new) {
                break read;
            }
            buf.set_filled(before);
        };
        match read {
            Poll::Ready(result) => {
                self.note(buf.filled().get(before..).unwrap_or_default());
                Poll::Ready(result)
            }
            // Nothing read is the end of the stream to hyper: an idle connection closes, half a head is given up.
            Poll::Pending if self.connection.closes_when_idle() && self.connection.idle_since().is_some() => {
                Poll::Ready(Ok(()))
            }
            Poll::Pending => {
                ready!(self.poll_read_deadline(cx));
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "no request arrived in time")))
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> GuardedIo<S> {
    /// Takes note of an answer's beginning. True when its bytes are replaced and need not be written.
    fn replaces(&mut self, bytes: &[u8]) -> bool {
        let begins = std::mem::take(&mut self.at_start);
        let ours = if begins { self.raw_answers.in_place_of(bytes) } else { None };
        if let Some(ours) = ours {
            self.substitute = ours.clone();
        }
        ours.is_some()
    }

    /// Sends what is left of an answer that hyper knows nothing of.
    fn poll_express(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(express) = self.express.as_mut().filter(|express| express.is_sending()) else {
            return Poll::Ready(Ok(()));
        };
        let sent = express.poll_send(Pin::new(&mut self.stream), cx);
        ready!(self.write.bound(cx, sent))?;
        self.write.clear();
        Poll::Ready(Ok(()))
    }

    fn poll_substitute(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.substitute.is_empty() {
            let written = Pin::new(&mut self.stream).poll_write(cx, &self.substitute);
            match ready!(self.write.bound(cx, written))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.substitute.advance(written),
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for GuardedIo<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.replaces(buf) {
            return Poll::Ready(Ok(buf.len()));
        }
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.write.bound(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // hyper's own answers have no body, so they are one slice.
        if bufs.first().is_some_and(|head| self.replaces(head)) {
            return Poll::Ready(Ok(bufs.iter().map(|buf| buf.len()).sum()));
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.write.bound(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_express(cx))?;
        ready!(self.poll_substitute(cx))?;
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        ready!(self.write.bound(cx, flushed))?;
        self.at_start = true;
        // hyper flushes once its buffer is empty: the answer is out. It may have tried to read for the last time while
        // the request was in progress, so the wait for the next one begins here.
        self.write.clear();
        let _ = self.poll_read_deadline(cx);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingering.is_none() {
            ready!(self.poll_express(cx))?;
            ready!(self.poll_substitute(cx))?;
            let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
            ready!(self.write.bound(cx, shut))?;
            let until = Box::pin(sleep_until(Instant::now() + LINGER));
            self.lingering = Some(Linger { until, bytes_left: LINGER_BYTES });
        }
        self.poll_linger(cx).map(Ok)
    }
}

impl<S: AsyncRead + Unpin> GuardedIo<S> {
    /// Resolves when the client has closed its side too, or has sent enough.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(linger) = &mut self.lingering else { return Poll::Ready(()) };
        let mut scratch = [0; 4 * 1024];
        while linger.bytes_left > 0 {
            let mut buf = ReadBuf::new(&mut scratch);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buf) {
                Poll::Ready(Ok(())) if !buf.filled().is_empty() => {
                    linger.bytes_left = linger.bytes_left.saturating_sub(buf.filled().len());
                }
                Poll::Ready(Ok(()) | Err(_)) => return Poll::Ready(()),
                Poll::Pending => return linger.until.as_mut().poll(cx),
            }
        }
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    const SHORT: Duration = Duration::from_millis(30);
    const NEVER: Duration = Duration::from_secs(3_600);

    fn guarded(
        head: Duration,
        idle: Duration,
        write: Duration,
    ) -> (GuardedIo<DuplexStream>, DuplexStream, Arc<Connection>) {
        let (ours, theirs) = duplex(64);
        let connection = Arc::new(Connection::new(Instant::now()));
        let raw = Arc::new(RawAnswers::new(&HeaderValue::from_static("0123")));
        (GuardedIo::new(ours, Deadlines { head, idle, write }, Arc::clone(&connection), raw), theirs, connection)
    }

    async fn end_of(io: &mut GuardedIo<DuplexStream>) -> io::ErrorKind {
        let mut bytes = [0; 64];
        loop {
            match io.read(&mut bytes).await {
                Ok(0) => return io::ErrorKind::UnexpectedEof,
                Ok(_) => {}
                Err(error) => return error.kind(),
            }
        }
    }

    #[tokio::test]
    async fn case_h1_a_connection_that_says_nothing_ends_at_the_head_deadline() {
        let (mut io, _client, _) = guarded(SHORT, NEVER, NEVER);
        assert_eq!(end_of(&mut io).await, io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn case_h1_half_a_head_ends_at_the_head_deadline_also_after_a_request() {
        let (mut io, mut client, connection) = guarded(SHORT, NEVER, NEVER);
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        io.read_exact(&mut [0; 18]).await.unwrap();
        connection.begin_request();
        connection.end_request();
        client.write_all(b"G").await.unwrap();
        assert_eq!(end_of(&mut io).await, io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn an_idle_connection_ends_at_the_idle_deadline_and_not_at_the_head_deadline() {
        let (mut io, _client, connection) = guarded(NEVER, SHORT, NEVER);
        connection.begin_request();
        connection.end_request();
        assert_eq!(end_of(&mut io).await, io::ErrorKind::TimedOut);
        let (io, _client, connection) = guarded(SHORT, NEVER, NEVER);
        connection.begin_request();
        assert_eq!(io.read_deadline(), None, "a request in progress is not idle");
        connection.end_request();
        assert!(io.read_deadline().is_some_and(|at| at > Instant::now() + NEVER / 2));
    }

    #[tokio::test]
    async fn an_answer_that_nobody_takes_ends_at_the_write_deadline() {
        let (mut io, _client, _) = guarded(NEVER, NEVER, SHORT);
        assert_eq!(io.write_all(&[0; 1_000]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn case_d1_closing_ends_idle_connections_and_half_heads_at_once() {
        let (mut io, mut client, connection) = guarded(NEVER, NEVER, NEVER);
        client.write_all(b"GET / HT").await.unwrap();
        io.read_exact(&mut [0; 8]).await.unwrap();
        connection.close_when_idle();
        assert_eq!(end_of(&mut io).await, io::ErrorKind::UnexpectedEof);
    }

    /// A byte each now and then, far longer than any deadline here.
    const TRICKLE: Duration = Duration::from_millis(3);

    #[tokio::test]
    async fn case_h1_a_head_that_trickles_ends_at_the_head_deadline() {
        let (mut io, mut client, _) = guarded(SHORT, NEVER, NEVER);
        let begun = Instant::now();
        let trickle = tokio::spawn(async move {
            for byte in b"GET / HTTP/1.1\r\nX: ".iter().chain([b'x'; 2_000].iter()) {
                if client.write_all(&[*byte]).await.is_err() {
                    return;
                }
                sleep_until(Instant::now() + TRICKLE).await;
            }
        });
        assert_eq!(end_of(&mut io).await, io::ErrorKind::TimedOut, "what came in between moves nothing");
        assert!(begun.elapsed() >= SHORT);
        trickle.abort();
    }

    #[tokio::test]
    async fn case_h1_an_answer_that_is_taken_in_trickles_ends_at_the_write_deadline() {
        let (mut io, mut client, _) = guarded(NEVER, NEVER, SHORT);
        let begun = Instant::now();
        let trickle = tokio::spawn(async move {
            while client.read_u8().await.is_ok() {
                sleep_until(Instant::now() + TRICKLE).await;
            }
        });
        assert_eq!(io.write_all(&[0; 2_000]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(begun.elapsed() >= SHORT);
        trickle.abort();
    }

    #[tokio::test]
    async fn an_answer_that_is_out_leaves_its_time_to_no_other() {
        let (mut io, mut client, _) = guarded(NEVER, NEVER, NEVER);
        let reading = tokio::spawn(async move { client.read_exact(&mut [0; 100]).await.map(|_| client) });
        io.write_all(&[0; 100]).await.unwrap();
        assert!(io.write.timer.is_some(), "it had to wait for the reader");
        io.flush().await.unwrap();
        assert!(io.write.timer.is_none());
        reading.await.unwrap().unwrap();
    }
}
