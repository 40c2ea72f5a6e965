//! Bare hyper that answers a constant.

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpListener;

/// Files served; a comparison has three.
const PAGES_MAX: usize = 16;

type Pages = Arc<Vec<(String, Bytes)>>;

pub(super) async fn serve(folder: &Path) -> io::Result<()> {
    let pages: Pages = Arc::new(read(folder)?);
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    super::say_ready(listener.local_addr()?)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let pages = Arc::clone(&pages);
        let service = hyper::service::service_fn(move |request| std::future::ready(answer(&pages, &request)));
        let serving = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        // A client that goes away is the end of its connection and of nothing else.
        tokio::spawn(async move { serving.await.is_ok() });
    }
}

fn read(folder: &Path) -> io::Result<Vec<(String, Bytes)>> {
    let mut pages = Vec::new();
    for entry in std::fs::read_dir(folder)?.take(PAGES_MAX) {
        let entry = entry?;
        pages.push((format!("/{}", entry.file_name().to_string_lossy()), std::fs::read(entry.path())?.into()));
    }
    Ok(pages)
}

fn answer(pages: &Pages, request: &Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let page = pages.iter().find(|(path, _)| path == request.uri().path());
    let mut response = Response::new(Full::new(page.map(|(_, body)| body.clone()).unwrap_or_default()));
    match page {
        Some(_) => {
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        None => *response.status_mut() = StatusCode::NOT_FOUND,
    }
    Ok(response)
}
