//! The heads of answers: what is the same in all of them is rendered once, from the same [`Answer`] as elsewhere.

use crate::domain::{MonoTime, WallTime};
use crate::edge::http::answer::{Answer, COMMIT, Cache, INSTANCE};
use hyper::StatusCode;
use hyper::header::{CONTENT_LENGTH, DATE, ETAG, HeaderName, HeaderValue};
use std::time::{Duration, UNIX_EPOCH};

/// Everything of a head but tag, commit, length and date.
#[derive(Debug)]
pub(in crate::edge::http) struct Heads {
    page: Vec<u8>,
    not_modified: Vec<u8>,
    renewal: Vec<u8>,
}

impl Heads {
    /// For one instance; `varies` where the answer's headers depend on the origin.
    pub(in crate::edge::http) fn new(instance: &HeaderValue, varies: Option<&'static str>) -> Self {
        let rendered = |answer: Answer| {
            // Also what is not compressed depends on whether that was asked for.
            let answer = answer.vary("Accept-Encoding").cache(Cache::PublicSecond).header(INSTANCE, instance.clone());
            render(&match varies {
                Some(varies) => answer.vary(varies),
                None => answer,
            })
        };
        Self {
            page: rendered(Answer::rendered(StatusCode::OK, "")),
            not_modified: rendered(Answer::empty(StatusCode::NOT_MODIFIED)),
            renewal: render(
                &Answer::rendered(StatusCode::OK, "").cache(Cache::PrivateNoStore).header(INSTANCE, instance.clone()),
            ),
        }
    }

    /// Begins a page of `length` bytes.
    pub(super) fn begin_page(&self, head: &mut Vec<u8>, length: usize) {
        head.extend_from_slice(&self.page);
        content_length(head, length);
    }

    /// Begins the answer that a page has not changed.
    pub(super) fn begin_not_modified(&self, head: &mut Vec<u8>) {
        head.extend_from_slice(&self.not_modified);
    }

    /// Begins the answer to a renewal, with a body of `length` bytes.
    pub(super) fn begin_renewal(&self, head: &mut Vec<u8>, length: usize) {
        head.extend_from_slice(&self.renewal);
        content_length(head, length);
    }
}

/// Ends a head. `tag` is in pieces.
pub(super) fn finish(head: &mut Vec<u8>, tag: &[&str], commit: u64, date: &[u8]) {
    line(head, &ETAG, tag.iter().map(|piece| piece.as_bytes()));
    line(head, &COMMIT, [itoa::Buffer::new().format(commit).as_bytes()]);
    end(head, date);
}

/// Writes a whole answer, as it would be sent by hyper.
pub(super) fn write_whole(out: &mut Vec<u8>, answer: &Answer, date: &[u8]) {
    out.append(&mut render(answer));
    content_length(out, answer.body().len());
    end(out, date);
    out.extend_from_slice(answer.body());
}

fn content_length(head: &mut Vec<u8>, length: usize) {
    line(head, &CONTENT_LENGTH, [itoa::Buffer::new().format(length).as_bytes()]);
}

fn end(head: &mut Vec<u8>, date: &[u8]) {
    line(head, &DATE, [date]);
    head.extend_from_slice(b"\r\n");
}

fn line<'v>(head: &mut Vec<u8>, name: &HeaderName, value: impl IntoIterator<Item = &'v [u8]>) {
    head.extend_from_slice(name.as_str().as_bytes());
    head.extend_from_slice(b": ");
    value.into_iter().for_each(|piece| head.extend_from_slice(piece));
    head.extend_from_slice(b"\r\n");
}

fn render(answer: &Answer) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {}\r\n", answer.status()).into_bytes();
    for (name, value) in answer.headers() {
        line(&mut head, name, [value.as_bytes()]);
    }
    head
}

/// The text of `Date`, made once a second.
#[derive(Debug, Default)]
pub(super) struct DateText {
    text: String,
    good_until: MonoTime,
}

impl DateText {
    /// The date at `now`; `wall` is asked when the last one is over.
    pub(super) fn at(&mut self, now: MonoTime, wall: impl FnOnce() -> WallTime) -> &[u8] {
        if self.good_until.is_past(now) {
            let wall_ms = wall().0;
            self.text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(wall_ms));
            self.good_until = now.plus_ms(1_000 - wall_ms % 1_000);
        }
        self.text.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_changes_with_the_second() {
        let (mut date, start) = (DateText::default(), MonoTime(1_000_000_000));
        let at = |date: &mut DateText, ms: u64| {
            let text = date.at(start.plus_ms(ms), || WallTime(784_111_777_300 + ms));
            String::from_utf8(text.to_vec()).unwrap()
        };
        assert_eq!(at(&mut date, 0), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(at(&mut date, 699), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(at(&mut date, 700), "Sun, 06 Nov 1994 08:49:38 GMT");
    }
}
