//! The bytes of one connection under its deadlines.
//!
//! hyper has one timer for reading a head, and it also runs while a kept-alive connection is idle. This wrapper has the
//! three deadlines apart: a head must arrive in time, also the first of a connection that says nothing; an idle
//! connection may wait much longer; and an answer must be taken by its client. The body has its own, where it is read.

use super::connection::Connection;
use super::framing::Framing;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
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
    write_timer: Option<Pin<Box<Sleep>>>,
}

impl<S> GuardedIo<S> {
    pub(super) fn new(stream: S, deadlines: Deadlines, connection: Arc<Connection>) -> Self {
        let first = connection.opened() + deadlines.head;
        Self {
            stream,
            deadlines,
            connection,
            framing: Framing::new(),
            head_since: None,
            read_timer: Box::pin(sleep_until(first)),
            write_timer: None,
        }
    }

    /// When waiting for more bytes ends; `None` while a request is in progress.
    fn read_deadline(&self) -> Option<Instant> {
        let idle_since = self.connection.idle_since()?;
        Some(match self.head_since {
            _ if self.connection.requests() == 0 => self.connection.opened() + self.deadlines.head,
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
        }
        while self.read_timer.as_mut().poll(cx).is_ready() {
            if self.read_timer.deadline() >= deadline {
                return Poll::Ready(());
            }
            self.read_timer.as_mut().reset(deadline);
        }
        Poll::Pending
    }

    fn poll_write_deadline(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let deadline = self.deadlines.write;
        let timer = self.write_timer.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + deadline)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, "the answer was not taken in time"))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for GuardedIo<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        match Pin::new(&mut self.stream).poll_read(cx, buf) {
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
    fn bounded(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(result) => Poll::Ready(result),
            Poll::Pending => self.poll_write_deadline(cx).map(Err),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for GuardedIo<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.bounded(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.bounded(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        // hyper flushes once its buffer is empty: the answer is out. It may have tried to read for the last time while
        // the request was in progress, so the wait for the next one begins here.
        self.write_timer = None;
        let _ = self.poll_read_deadline(cx);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        (GuardedIo::new(ours, Deadlines { head, idle, write }, Arc::clone(&connection)), theirs, connection)
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
}
