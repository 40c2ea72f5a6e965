//! `GET /metrics` on a listener of its own, for scrapers inside the operator's network.

use super::settings::MetricsText;
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
}

impl MetricsServer {
    /// Takes the port.
    pub async fn bind(listen: SocketAddr, text: MetricsText) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(listen).await?, text })
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
                    let text = Arc::clone(&self.text);
                    tasks.spawn(async move {
                        let _ = timeout(LIFE, serve(stream, text)).await;
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

async fn serve(stream: TcpStream, text: MetricsText) -> hyper::Result<()> {
    let service = service_fn(|request: Request<hyper::body::Incoming>| {
        let response = answer(&request, &text);
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
}
