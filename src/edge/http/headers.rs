//! Request headers that carry meaning: each is read once, strictly, and refused by name.

use super::problem::Problem;
use super::query::integer;
use hyper::header::{HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH};

pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
pub(super) const LEASE_TOKEN: HeaderName = HeaderName::from_static("lease-token");
pub(super) const PREFER: HeaderName = HeaderName::from_static("prefer");
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
pub(super) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
pub(super) const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Longest wait of a long poll.
pub(super) const WAIT_MS_MAX: u64 = 30_000;
/// Longest lease token that is looked at; ours have 43 characters.
const TOKEN_CHARS_MAX: usize = 128;
const KEY_CHARS_MAX: usize = 128;

/// The value of a header that may be given once.
fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, Problem> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Problem::invalid_header(name, "must be given once"));
    }
    value.to_str().map(Some).map_err(|_| Problem::invalid_header(name, "must be visible ASCII"))
}

fn is_visible(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// `Idempotency-Key`: 1 to 128 visible ASCII characters, bare or as a quoted string, without its quotes.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<String, Problem> {
    let refused =
        || Problem::invalid_header(&IDEMPOTENCY_KEY, "must be 1 to 128 visible ASCII characters, bare or quoted");
    let Some(text) = single(headers, &IDEMPOTENCY_KEY)? else {
        return Err(Problem::invalid_header(&IDEMPOTENCY_KEY, "is required on this route"));
    };
    let key = if text.starts_with('"') { unquote(text).ok_or_else(refused)? } else { text.to_owned() };
    if !(1..=KEY_CHARS_MAX).contains(&key.len()) || !is_visible(&key) {
        return Err(refused());
    }
    Ok(key)
}

/// A string of RFC 8941 section 3.3.3: in quotes, with `\"` and `\\` as the only escapes.
fn unquote(text: &str) -> Option<String> {
    let inside = text.strip_prefix('"')?.strip_suffix('"').filter(|_| text.len() >= 2)?;
    let mut key = String::with_capacity(inside.len());
    let mut chars = inside.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => key.push(chars.next().filter(|c| *c == '"' || *c == '\\')?),
            '"' => return None,
            c => key.push(c),
        }
    }
    Some(key)
}

/// The same where it may be left out.
pub(super) fn optional_idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    if headers.contains_key(&IDEMPOTENCY_KEY) { idempotency_key(headers).map(Some) } else { Ok(None) }
}

/// `Lease-Token`, as sent.
pub(super) fn lease_token(headers: &HeaderMap) -> Result<&str, Problem> {
    let Some(token) = single(headers, &LEASE_TOKEN)? else {
        return Err(Problem::invalid_header(&LEASE_TOKEN, "is required on this route"));
    };
    if is_lease_token(token) { Ok(token) } else { Err(Problem::invalid_header(&LEASE_TOKEN, "must be a lease token")) }
}

/// Whether the text of `Lease-Token` can be one.
pub(super) fn is_lease_token(text: &str) -> bool {
    (1..=TOKEN_CHARS_MAX).contains(&text.len()) && is_visible(text)
}

/// `If-Match`: exactly one strong quoted version.
pub(super) fn if_match_version(headers: &HeaderMap) -> Result<u64, Problem> {
    let Some(text) = single(headers, &IF_MATCH)? else { return Err(Problem::precondition_required()) };
    let refused = || Problem::invalid_header(&IF_MATCH, "must be exactly one quoted version, like \"3\"");
    quoted_version(text).ok_or_else(refused)
}

/// The version in the text of `If-Match`.
pub(super) fn quoted_version(text: &str) -> Option<u64> {
    let digits = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let canonical = digits.filter(|digits| !digits.starts_with('0'));
    canonical.and_then(integer).filter(|version| *version < 1 << 53)
}

/// The same where it may be left out.
pub(super) fn optional_if_match(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    if headers.contains_key(IF_MATCH) { if_match_version(headers).map(Some) } else { Ok(None) }
}

/// Whether `If-None-Match` names this weak tag (`W/"..."`), or any (RFC 9110 section 13.1.2, weak comparison).
pub(super) fn none_match_holds(headers: &HeaderMap, opaque: &str) -> bool {
    let lines = headers.get_all(IF_NONE_MATCH).iter().filter_map(|line| line.to_str().ok());
    lines.into_iter().any(|line| line_names_tag(line, opaque))
}

/// Whether one line of `If-None-Match` does.
pub(super) fn line_names_tag(line: &str, opaque: &str) -> bool {
    line.split(',').map(str::trim).any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == opaque)
}

/// How long a long poll may wait: `wait_ms`, or `Prefer: wait=N` in seconds (RFC 7240 section 4.3); clamped.
/// The second value is set when the preference decided.
pub(super) fn wait_ms(headers: &HeaderMap, parameter: Option<u64>) -> (u64, bool) {
    if let Some(ms) = parameter {
        return (ms.min(WAIT_MS_MAX), false);
    }
    let lines = headers.get_all(&PREFER).iter().filter_map(|line| line.to_str().ok());
    let mut preferences =
        lines.flat_map(|line| line.split([',', ';'])).filter_map(|token| token.trim().split_once('='));
    let wait = preferences.find(|(name, _)| name.trim().eq_ignore_ascii_case("wait"));
    // A preference that can't be read is ignored, as RFC 7240 section 2 asks.
    let seconds = wait.and_then(|(_, value)| integer(value.trim().trim_matches('"')));
    seconds.map_or((0, false), |seconds| (seconds.saturating_mul(1_000).min(WAIT_MS_MAX), true))
}

/// `X-Request-Id`, when it is safe to log and to send back: 1 to 128 of letters, digits and `. _ - : + / =`.
pub(super) fn request_id(headers: &HeaderMap) -> Option<&HeaderValue> {
    let value = headers.get(&REQUEST_ID)?;
    let safe = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-:+/=".contains(byte);
    ((1..=128).contains(&value.len()) && value.as_bytes().iter().all(safe)).then_some(value)
}

/// `traceparent` (W3C Trace Context section 3.2), when it is well formed; of any version but `ff`.
pub(super) fn traceparent(headers: &HeaderMap) -> Option<&HeaderValue> {
    let value = headers.get(&TRACEPARENT)?;
    let text = value.to_str().ok()?;
    let lower_hex = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let mut parts = text.splitn(5, '-');
    let lengths_ok = [2, 32, 16, 2].into_iter().all(|len| {
        parts
            .next()
            .is_some_and(|part| part.len() == len && lower_hex(part) && (len == 2 || part.bytes().any(|b| b != b'0')))
    });
    let version_ok = !text.starts_with("ff") && (parts.next().is_none() || !text.starts_with("00"));
    (lengths_ok && version_ok && text.len() <= 128).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &'static str, values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        values.iter().for_each(|value| {
            headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        });
        headers
    }

    #[test]
    fn idempotency_keys_are_bare_or_quoted() {
        let key = |values: &[&str]| idempotency_key(&with("idempotency-key", values)).ok();
        assert_eq!(key(&["abc"]).as_deref(), Some("abc"));
        assert_eq!(key(&["\"abc\""]).as_deref(), Some("abc"), "the same key without its quotes");
        assert_eq!(key(&[r#""a\"b\\c""#]).as_deref(), Some(r#"a"b\c"#));
        assert_eq!(key(&[&"k".repeat(128)]).map(|key| key.len()), Some(128));
        for bad in [
            &[][..],
            &[""],
            &["a", "b"],
            &["a b"],
            &["\"\""],
            &["\""],
            &["\"a"],
            &["\"a\"b\""],
            &[r#""a\b""#],
            &["\u{e9}"],
            &["\"a b\""],
        ] {
            assert_eq!(key(bad), None, "{bad:?}");
        }
        assert_eq!(key(&[&"k".repeat(129)]), None);
    }

    #[test]
    fn if_match_is_one_strong_version() {
        let version = |values: &[&str]| if_match_version(&with("if-match", values));
        assert_eq!(version(&["\"3\""]).unwrap(), 3);
        assert_eq!(version(&[]).unwrap_err().status().as_u16(), 428);
        for bad in ["*", "W/\"3\"", "\"3\", \"4\"", "3", "\"\"", "\"03\"", "\"+3\"", "\"9007199254740992\"", "\"x\""] {
            assert_eq!(version(&[bad]).unwrap_err().status().as_u16(), 400, "{bad}");
        }
        assert_eq!(version(&["\"3\"", "\"3\""]).unwrap_err().status().as_u16(), 400);
    }

    #[test]
    fn none_match_compares_weakly() {
        let holds = |value: &str| none_match_holds(&with("if-none-match", &[value]), "\"ab\"");
        for hit in ["W/\"ab\"", "\"ab\"", "\"x\", W/\"ab\"", "*"] {
            assert!(holds(hit), "{hit}");
        }
        for miss in ["W/\"abc\"", "ab", "", "W/\"x\""] {
            assert!(!holds(miss), "{miss}");
        }
    }

    #[test]
    fn waits_are_clamped_and_the_parameter_wins() {
        let wait = |prefer: &[&str], parameter| wait_ms(&with("prefer", prefer), parameter);
        assert_eq!(wait(&[], Some(99_999)), (30_000, false));
        assert_eq!(wait(&["wait=5"], Some(7)), (7, false));
        assert_eq!(wait(&["respond-async, wait=5"], None), (5_000, true));
        assert_eq!(wait(&["respond-async", "Wait=100"], None), (30_000, true));
        assert_eq!(wait(&["wait=x"], None), (0, false));
    }

    #[test]
    fn ids_of_traces_are_taken_over_only_when_well_formed() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert!(traceparent(&with("traceparent", &[good])).is_some());
        for bad in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            &good.to_uppercase(),
            &format!("{good}-x"),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert!(traceparent(&with("traceparent", &[bad])).is_none(), "{bad}");
        }
        assert!(request_id(&with("x-request-id", &["a-1/2"])).is_some());
        for bad in ["", "a b", "a\"b", "\u{1F600}"] {
            assert!(request_id(&with("x-request-id", &[bad])).is_none(), "{bad:?}");
        }
    }
}
