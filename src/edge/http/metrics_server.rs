//! `GET /metrics` on a listener of its own, for scrapers inside the operator's network.

use super::answer::INSTANCE;
use super::connection::Connection;
use super::io::{Deadlines, GuardedIo};
use super::listener::is_out_of_descriptors;
use super::raw::RawAnswers;
use super::registry::{Admission, Registry};
use super::settings::MetricsText;
use super::tracked::{OpenRequest, Tracked};
use crate::clock::{Clock, SharedClock};
use crate::domain::InstanceId;
use crate::repeats::Repeats;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// Scrapers at once. At this ceiling the longest idle one makes room, and where all are being answered the new one is
/// closed: an answer takes no longer than [`DEADLINES`] allow.
const CONNECTIONS_MAX: usize = 16;
/// The HTTP edge's own for heads and answers; scrapers come every 15 to 60 s, so that idle ones may wait for the next time.
const DEADLINES: Deadlines =
    Deadlines { head: Duration::from_secs(5), idle: Duration::from_secs(75), write: Duration::from_secs(10) };
/// Pause after a failed accept: trying again at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A bound listener for scrapers.
pub struct MetricsServer {
    listener: TcpListener,
    scraped: Arc<Scraped>,
    clock: SharedClock,
}

/// What all its connections share.
struct Scraped {
    text: MetricsText,
    instance: HeaderValue,
    raw_answers: Arc<RawAnswers>,
    open: Arc<AtomicUsize>,
}

impl MetricsServer {
    /// Takes the port. `clock` says how often its log repeats itself.
    pub async fn bind(
        listen: SocketAddr,
        text: MetricsText,
        instance: InstanceId,
        clock: SharedClock,
    ) -> io::Result<Self> {
        // 32 hex digits are a legal header value.
        let instance = HeaderValue::from_str(&instance.to_string()).unwrap_or(HeaderValue::from_static(""));
        let raw_answers = Arc::new(RawAnswers::new(&instance));
        let scraped = Arc::new(Scraped { text, instance, raw_answers, open: Arc::default() });
        Ok(Self { listener: TcpListener::bind(listen).await?, scraped, clock })
    }

    /// Where it listens, with the port that was taken.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until dropped. `free_descriptors` is called when the process has none left for a scraper.
    pub async fn run(self, free_descriptors: impl Fn() + Send) {
        let registry = Registry::new(CONNECTIONS_MAX, CONNECTIONS_MAX);
        let failures = Repeats::default();
        let mut tasks = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                Some(_) = tasks.join_next(), if !tasks.is_empty() => continue,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    let connection = Arc::new(Connection::new(Instant::now()));
                    if let Ok(place) = registry.admit(Arc::clone(&connection), None) {
                        tasks.spawn(serve(stream, connection, place, Arc::clone(&self.scraped)));
                    }
                }
                Err(error) => {
                    if let Some(repeated) = failures.note(&error.to_string(), self.clock.mono()) {
                        tracing::warn!(event = "accept_failed", listener = "metrics", %error, repeated);
                    }
                    if is_out_of_descriptors(&error) {
                        free_descriptors();
                    }
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Serves one connection until either side ends it, or it has to make room.
async fn serve(stream: TcpStream, connection: Arc<Connection>, place: Admission, scraped: Arc<Scraped>) {
    let service = service_fn(|request: Request<Incoming>| {
        let open = OpenRequest::begin(&connection, &scraped.open);
        let scraped = &scraped;
        async move {
            let Some(open) = open else { return std::future::pending().await };
            let mut response = answer(&request, &scraped.text);
            response.headers_mut().insert(INSTANCE, scraped.instance.clone());
            Ok::<_, Infallible>(response.map(|body| Tracked::new(body, open)))
        }
    });
    let io = GuardedIo::new(stream, DEADLINES, Arc::clone(&connection), Arc::clone(&scraped.raw_answers));
    let mut builder = http1::Builder::new();
    // The I/O has the deadlines.
    builder.timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(16 * 1024);
    // However it ends, there is nobody to tell.
    let _ended = connection.while_wanted(builder.serve_connection(TokioIo::new(io), service)).await;
    drop(place);
}

fn answer<B>(request: &Request<B>, text: &MetricsText) -> Response<Bytes> {
    let plain = |status, body: String| {
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() = status;
        response
    };
    if request.uri().path() != "/metrics" {
        return plain(StatusCode::NOT_FOUND, "see /metrics\n".to_owned());
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "GET only\n".to_owned());
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    let mut response = plain(StatusCode::OK, text());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(METRICS_CONTENT_TYPE));
    response
}

/// What prometheus-client writes.
pub(super) const METRICS_CONTENT_TYPE: &str = prometheus_client::encoding::prometheus_text::CONTENT_TYPE;

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[test]
    fn only_metrics_are_here() {
        let text: MetricsText = Arc::new(|| "up 1\n".to_owned());
        let status = |method: Method, path: &str| {
            answer(&Request::builder().method(method).uri(path).body(()).unwrap(), &text).status().as_u16()
        };
        assert_eq!(status(Method::GET, "/metrics"), 200);
        assert_eq!(status(Method::POST, "/metrics"), 405);
        assert_eq!(status(Method::GET, "/v1/operator/status"), 404);
    }

    /// A listener that answers `text`, and its task.
    async fn serving(text: String) -> (SocketAddr, tokio::task::JoinHandle<()>) {
        let text: MetricsText = Arc::new(move || text.clone());
        let clock: SharedClock = Arc::new(crate::clock::SystemClock::new());
        let server = MetricsServer::bind("127.0.0.1:0".parse().unwrap(), text, InstanceId(7), clock).await.unwrap();
        (server.local_addr().unwrap(), tokio::spawn(server.run(|| {})))
    }

    async fn ask(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn every_answer_names_the_instance() {
        let (address, running) = serving("up 1\n".to_owned()).await;
        for path in ["/metrics", "/other"] {
            let answer = ask(address, path).await;
            assert!(answer.contains("rendezvous-instance: 00000000000000000000000000000007\r\n"), "{answer}");
        }
        running.abort();
    }

    #[tokio::test]
    async fn case_h1_silent_connections_keep_no_scraper_out() {
        let (address, running) = serving("up 1\n".to_owned()).await;
        let mut silent = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        // One of them has been answered, and goes only after those that never asked.
        scrape(&mut silent[1]).await;
        assert!(ask(address, "/metrics").await.ends_with("up 1\n"));
        assert_eq!(silent[0].read(&mut [0; 1]).await.unwrap(), 0, "the longest idle one made room");
        scrape(&mut silent[1]).await;
        running.abort();
    }

    /// Asks and reads the whole answer, on a connection that goes on.
    async fn scrape(stream: &mut TcpStream) {
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"up 1\n") {
            assert!(stream.read_buf(&mut answer).await.unwrap() > 0, "it was closed");
        }
    }

    #[tokio::test]
    async fn case_h1_answers_that_nobody_takes_keep_no_scraper_out() {
        // More than the two kernels' buffers hold.
        let (address, running) = serving("x".repeat(12 << 20)).await;
        let mut deaf = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
            stream.read_exact(&mut [0; 8]).await.unwrap();
            deaf.push(stream);
        }
        let begun = Instant::now();
        while !is_answered(address).await {
            assert!(begun.elapsed() < DEADLINES.write * 4, "no place came free");
            sleep(Duration::from_millis(50)).await;
        }
        running.abort();
    }

    /// Whether an answer begins.
    async fn is_answered(address: SocketAddr) -> bool {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let sent = stream.write_all(b"GET /other HTTP/1.1\r\nHost: x\r\n\r\n").await;
        sent.is_ok() && stream.read(&mut [0; 1]).await.is_ok_and(|read| read == 1)
    }
}
