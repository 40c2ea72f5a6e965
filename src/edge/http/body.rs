//! Bodies: bounded in size and time, whatever the client declares, and read through the JSON seam only.

use super::connection::Connection;
use super::framing::Flaw;
use super::problem::Problem;
use crate::wire::FromJson;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body;
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use std::error::Error;
use std::time::Duration;

/// The bounds of one body.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyLimits {
    pub(super) bytes: usize,
    pub(super) time: Duration,
}

/// Reads a body as `T`. A route whose body is optional takes none, or an empty one, for `{}`.
pub(super) async fn read_json<T: FromJson, B>(
    headers: &HeaderMap,
    body: B,
    limits: BodyLimits,
    required: bool,
    link: (&Connection, u64),
) -> Result<T, Problem>
where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let nothing = body.is_end_stream();
    if !nothing {
        refuse_foreign_types(headers)?;
        refuse_declared_length(headers, limits.bytes)?;
    }
    let mut bytes = if nothing { Vec::new() } else { read(body, limits).await?.to_vec() };
    refuse_flaws(link)?;
    if bytes.is_empty() && !required {
        bytes.extend_from_slice(b"{}");
    }
    T::from_body(&mut bytes).map_err(Problem::invalid_field)
}

/// Reads a body as it is, of any content type but compressed.
pub(super) async fn read_raw<B>(
    headers: &HeaderMap,
    body: B,
    limits: BodyLimits,
    link: (&Connection, u64),
) -> Result<Bytes, Problem>
where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    refuse_encodings(headers)?;
    refuse_declared_length(headers, limits.bytes)?;
    let bytes = read(body, limits).await?;
    refuse_flaws(link)?;
    Ok(bytes)
}

async fn read<B>(body: B, limits: BodyLimits) -> Result<Bytes, Problem>
where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    // Boxed by `Limited` is only the error; chunks are gathered as they come, never past the limit.
    let collected = tokio::time::timeout(limits.time, Limited::new(body, limits.bytes).collect()).await;
    match collected {
        Err(_) => Err(Problem::request_timeout()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Problem::payload_too_large(limits.bytes)),
        Ok(Err(_)) => Err(Problem::malformed_body()),
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
    }
}

fn refuse_flaws((connection, request): (&Connection, u64)) -> Result<(), Problem> {
    match connection.flaw_of(request) {
        Some(Flaw::Ambiguous) => Err(Problem::ambiguous_framing()),
        Some(Flaw::HeadersTooLarge) => Err(Problem::headers_too_large()),
        None => Ok(()),
    }
}

fn refuse_declared_length(headers: &HeaderMap, max: usize) -> Result<(), Problem> {
    let declared = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    match declared {
        Some(length) if length > max as u64 => Err(Problem::payload_too_large(max)),
        Some(_) | None => Ok(()),
    }
}

fn refuse_encodings(headers: &HeaderMap) -> Result<(), Problem> {
    let plain =
        headers.get_all(CONTENT_ENCODING).iter().all(|value| value.as_bytes().eq_ignore_ascii_case(b"identity"));
    if plain {
        return Ok(());
    }
    Err(Problem::unsupported_media_type("a body must not be compressed (Content-Encoding)"))
}

/// Only `application/json`, in UTF-8, as it is.
fn refuse_foreign_types(headers: &HeaderMap) -> Result<(), Problem> {
    refuse_encodings(headers)?;
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (Some(value), None) = (types.next(), types.next()) else {
        return Err(Problem::unsupported_media_type("a body needs Content-Type: application/json"));
    };
    let mut parts = value.to_str().unwrap_or_default().split(';').map(str::trim);
    let json = parts.next().is_some_and(|essence| essence.eq_ignore_ascii_case("application/json"));
    let utf8 = parts.filter(|part| !part.is_empty()).all(|parameter| {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        !name.trim().eq_ignore_ascii_case("charset") || value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
    });
    if json && utf8 {
        return Ok(());
    }
    Err(Problem::unsupported_media_type("a body must be application/json in UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::request::AdmissionBody;
    use http_body_util::{Empty, Full};
    use hyper::body::Frame;
    use hyper::header::HeaderValue;
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use tokio::time::Instant;

    const LIMITS: BodyLimits = BodyLimits { bytes: 64, time: Duration::from_secs(60) };

    fn json() -> HeaderMap {
        typed("application/json")
    }

    fn typed(value: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(value));
        headers
    }

    async fn status<B>(headers: &HeaderMap, body: B, limits: BodyLimits, required: bool) -> u16
    where
        B: Body,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let connection = Connection::new(Instant::now());
        let read = read_json::<AdmissionBody, B>(headers, body, limits, required, (&connection, 1)).await;
        read.map_or_else(|problem| problem.status().as_u16(), |_| 200)
    }

    fn full(text: &str) -> Full<Bytes> {
        Full::new(Bytes::copy_from_slice(text.as_bytes()))
    }

    /// Never ends, and says no length.
    struct Endless;

    impl Body for Endless {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b" ")))))
        }
    }

    /// Never sends anything.
    struct Silent;

    impl Body for Silent {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            Poll::Pending
        }
    }

    #[tokio::test]
    async fn case_h2_the_limit_holds_with_and_without_a_declared_length() {
        assert_eq!(status(&json(), full(r#"{"admit":true}"#), LIMITS, true).await, 200);
        assert_eq!(status(&json(), Endless, LIMITS, true).await, 413);
        assert_eq!(status(&json(), full(&" ".repeat(65)), LIMITS, true).await, 413);
        let padded = format!("{}{}", r#"{"admit":true}"#, " ".repeat(64 - 14));
        assert_eq!(status(&json(), full(&padded), LIMITS, true).await, 200);
        let mut declared = json();
        declared.insert(CONTENT_LENGTH, HeaderValue::from_static("18446744073709551615"));
        assert_eq!(status(&declared, Silent, LIMITS, true).await, 413, "refused before the first byte");
    }

    #[tokio::test]
    async fn case_h1_a_body_that_never_arrives_times_out() {
        let limits = BodyLimits { time: Duration::from_millis(20), ..LIMITS };
        assert_eq!(status(&json(), Silent, limits, true).await, 408);
    }

    #[tokio::test]
    async fn only_plain_json_is_taken() {
        let body = || full(r#"{"admit":true}"#);
        for good in ["application/json", "Application/JSON; charset=\"UTF-8\"", "application/json;"] {
            assert_eq!(status(&typed(good), body(), LIMITS, true).await, 200, "{good}");
        }
        for bad in ["text/plain", "application/json; charset=latin1", "application/jsonx", ""] {
            assert_eq!(status(&typed(bad), body(), LIMITS, true).await, 415, "{bad}");
        }
        assert_eq!(status(&HeaderMap::new(), body(), LIMITS, true).await, 415);
        for (encoding, expected) in [("gzip", 415), ("identity", 200), ("identity, gzip", 415)] {
            let mut headers = json();
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
            assert_eq!(status(&headers, body(), LIMITS, true).await, expected, "{encoding}");
        }
    }

    #[tokio::test]
    async fn a_missing_body_is_an_empty_object_only_where_it_is_optional() {
        let connection = Connection::new(Instant::now());
        let none = || Empty::<Bytes>::new();
        let optional = read_json::<(), _>(&HeaderMap::new(), none(), LIMITS, false, (&connection, 1)).await;
        assert!(optional.is_ok());
        assert_eq!(status(&HeaderMap::new(), none(), LIMITS, true).await, 400);
    }
}
