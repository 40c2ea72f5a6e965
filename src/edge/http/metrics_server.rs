//! `GET /metrics` on a listener of its own, for scrapers inside the operator's network.

use super::answer::INSTANCE;
use super::settings::MetricsText;
use crate::domain::InstanceId;
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Scrapers at once; more wait in the listener's backlog.
const CONNECTIONS_MAX: usize = 16;
/// A connection that has not sent a request for this long is closed; scrapers come every 15 to 60 s.
const IDLE: Duration = Duration::from_secs(75);
/// Longest life of a connection, so that a scraper that takes no answer holds a place for a bounded time.
const LIFE: Duration = Duration::from_secs(600);

/// A bound listener for scrapers.
pub struct MetricsServer {
    listener: TcpListener,
    text: MetricsText,
    instance: HeaderValue,
}

impl MetricsServer {
    /// Takes the port.
    pub async fn bind(listen: SocketAddr, text: MetricsText, instance: InstanceId) -> io::Result<Self> {
        // 32 hex digits are a legal header value.
        let instance = HeaderValue::from_str(&instance.to_string()).unwrap_or(HeaderValue::from_static(""));
        Ok(Self { listener: TcpListener::bind(listen).await?, text, instance })
    }

    /// Where it listens, with the port that was taken.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until dropped.
    pub async fn run(self) {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut tasks = JoinSet::new();
        while let Ok(place) = Arc::clone(&places).acquire_owned().await {
            while tasks.try_join_next().is_some() {}
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let (text, instance) = (Arc::clone(&self.text), self.instance.clone());
                    tasks.spawn(async move {
                        let _ = timeout(LIFE, serve(stream, text, instance)).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "accept failed");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }
}

async fn serve(stream: TcpStream, text: MetricsText, instance: HeaderValue) -> hyper::Result<()> {
    let service = service_fn(|request: Request<hyper::body::Incoming>| {
        let mut response = answer(&request, &text);
        response.headers_mut().insert(INSTANCE, instance.clone());
        async move { Ok::<_, Infallible>(response) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(IDLE).max_buf_size(16 * 1024);
    builder.serve_connection(TokioIo::new(stream), service).await
}

fn answer<B>(request: &Request<B>, text: &MetricsText) -> Response<Full<Bytes>> {
    let plain = |status, body: String| {
        let mut response = Response::new(Full::new(Bytes::from(body)));
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

    #[tokio::test]
    async fn every_answer_names_the_instance() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let text: MetricsText = Arc::new(|| "up 1\n".to_owned());
        let server = MetricsServer::bind("127.0.0.1:0".parse().unwrap(), text, InstanceId(7)).await.unwrap();
        let address = server.local_addr().unwrap();
        let running = tokio::spawn(server.run());
        for path in ["/metrics", "/other"] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(answer.contains("rendezvous-instance: 00000000000000000000000000000007\r\n"), "{answer}");
        }
        running.abort();
    }
}
