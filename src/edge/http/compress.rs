//! Compression of pages: gzip and zstd, once for each content and not for each request.
//!
//! A page is the same bytes for everybody until it changes, so what was compressed last is kept and compared. What a flood
//! of ever new pages may cost is bounded as well: beyond a budget they go out as they are.

use super::limiter::Bucket;
use super::settings::Rate;
use crate::domain::MonoTime;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Shorter bodies gain less than their heads take.
const BYTES_MIN: usize = 256;
/// Contents that are kept: a page of each protocol, and walks through some of them.
const ENTRIES_MAX: usize = 256;
/// Bytes of all of them, uncompressed: the first 64 pages of full length.
const KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Pieces of [`PIECE_BYTES`] that are compressed a second, and at once: 8 MiB, which take some tenths of one core.
const BUDGET: Rate = Rate { per_second: 2_048, burst: 8_192 };
const PIECE_BYTES: usize = 4 * 1024;
/// Both levels are fast ones: a page lives for a publish interval or a few.
const GZIP_LEVEL: u32 = 3;
const ZSTD_LEVEL: i32 = 1;

/// A content coding (RFC 9110 section 8.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Gzip,
    Zstd,
}

impl Coding {
    /// As in `Content-Encoding`.
    pub(super) fn name(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        })
    }

    /// The coding that a client likes best, of those that there are; zstd where it likes both alike.
    pub(super) fn accepted(headers: &HeaderMap) -> Option<Self> {
        let lines = headers.get_all(ACCEPT_ENCODING).iter();
        let items: Vec<(&str, u16)> =
            lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(',')).filter_map(item).collect();
        let weight = |names: [&str; 2]| {
            let of = |name: &str| items.iter().find(|(item, _)| item.eq_ignore_ascii_case(name)).map(|(_, q)| *q);
            names.into_iter().find_map(of).or_else(|| of("*")).unwrap_or(0)
        };
        let (gzip, zstd) = (weight(["gzip", "x-gzip"]), weight(["zstd", "zstd"]));
        match gzip.max(zstd) {
            0 => None,
            best if zstd == best => Some(Self::Zstd),
            _ => Some(Self::Gzip),
        }
    }

    fn compress(self, plain: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::Gzip => {
                let room = Vec::with_capacity(plain.len() / 4);
                let mut encoder = GzEncoder::new(room, Compression::new(GZIP_LEVEL));
                encoder.write_all(plain)?;
                encoder.finish()
            }
            Self::Zstd => zstd::bulk::compress(plain, ZSTD_LEVEL),
        }
    }
}

/// One item of the list and its weight in thousandths; what can't be read weighs nothing.
fn item(text: &str) -> Option<(&str, u16)> {
    let (name, parameters) = text.split_once(';').unwrap_or((text, ""));
    let name = name.trim();
    let weight = match parameters.trim().split_once('=') {
        None => 1_000,
        Some((q, value)) if q.trim().eq_ignore_ascii_case("q") => {
            let value: f32 = value.trim().parse().ok()?;
            // Casting saturates; a weight is from 0 to 1.
            (value.clamp(0.0, 1.0) * 1_000.0) as u16
        }
        Some(_) => return None,
    };
    (!name.is_empty()).then_some((name, weight))
}

/// Whether a value of `Accept-Encoding` could ask for compression.
pub(super) fn may_accept(value: &[u8]) -> bool {
    ["gzip", "zstd", "*"]
        .into_iter()
        .any(|name| value.windows(name.len()).any(|window| window.eq_ignore_ascii_case(name.as_bytes())))
}

/// Compressed contents of late.
pub(super) struct Compressor {
    recent: Mutex<Recent>,
    budget: Bucket,
}

#[derive(Default)]
struct Recent {
    entries: VecDeque<Entry>,
    bytes: usize,
}

struct Entry {
    tag: u64,
    coding: Coding,
    plain: Bytes,
    /// Filled by whoever is first; empty where compression gains nothing.
    compressed: Arc<OnceLock<Bytes>>,
}

impl Compressor {
    pub(super) fn new() -> Self {
        Self { recent: Mutex::default(), budget: Bucket::new(BUDGET) }
    }

    /// `plain` in this coding; `None` where it goes out as it is. Equal contents have equal tags.
    pub(super) fn compressed(&self, plain: &Bytes, tag: u64, coding: Coding, now: MonoTime) -> Option<Bytes> {
        if plain.len() < BYTES_MIN {
            return None;
        }
        let place = self.place(plain, tag, coding, now)?;
        // Others with the same content wait here for the one who compresses, as long as they would take themselves.
        let compressed = place.get_or_init(|| {
            let compressed = coding.compress(plain).ok().filter(|compressed| compressed.len() < plain.len());
            compressed.map_or_else(Bytes::new, Bytes::from)
        });
        (!compressed.is_empty()).then(|| compressed.clone())
    }

    /// Where the compressed content is or comes to be; `None` for a new one that the budget has no room for.
    fn place(&self, plain: &Bytes, tag: u64, coding: Coding, now: MonoTime) -> Option<Arc<OnceLock<Bytes>>> {
        // Guards a list whose counts are put right by the next insertion.
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |entry: &&Entry| entry.tag == tag && entry.coding == coding && entry.plain == plain;
        if let Some(entry) = recent.entries.iter().find(same) {
            return Some(Arc::clone(&entry.compressed));
        }
        let pieces = u32::try_from(plain.len().div_ceil(PIECE_BYTES)).unwrap_or(u32::MAX);
        self.budget.take(pieces, now).ok()?;
        let compressed = Arc::default();
        recent.bytes += plain.len();
        recent.entries.push_back(Entry { tag, coding, plain: plain.clone(), compressed: Arc::clone(&compressed) });
        while recent.entries.len() > ENTRIES_MAX || recent.bytes > KEPT_BYTES_MAX {
            let Some(oldest) = recent.entries.pop_front() else { break };
            recent.bytes -= oldest.plain.len();
        }
        Some(compressed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    const NOW: MonoTime = MonoTime(1_000_000_000);

    fn accepted(lines: &[&'static str]) -> Option<Coding> {
        let mut headers = HeaderMap::new();
        lines.iter().for_each(|line| {
            headers.append(ACCEPT_ENCODING, HeaderValue::from_static(line));
        });
        Coding::accepted(&headers)
    }

    fn page(n: usize) -> Bytes {
        Bytes::from(format!("{{\"listings\":[{}]}}", format!("{{\"name\":\"n{n}\"}},").repeat(200)))
    }

    #[test]
    fn clients_get_what_they_like_best() {
        for (lines, expected) in [
            (&[][..], None),
            (&[""], None),
            (&["identity, br, deflate"], None),
            (&["gzip"], Some(Coding::Gzip)),
            (&["X-GZIP"], Some(Coding::Gzip)),
            (&["gzip, deflate, br, zstd"], Some(Coding::Zstd)),
            (&["gzip", "zstd"], Some(Coding::Zstd)),
            (&["zstd;q=0.5, gzip;q=0.8"], Some(Coding::Gzip)),
            (&["gzip;q=0"], None),
            (&["gzip;q=0, *"], Some(Coding::Zstd)),
            (&["*;q=0"], None),
            (&["zstd;q=0, *;q=0.1"], Some(Coding::Gzip)),
            (&["gzip; q = 1.000"], Some(Coding::Gzip)),
            (&["gzip;q=x"], None),
            (&["gzip;level=1"], None),
            (&["gzip;q=NaN"], None),
        ] {
            assert_eq!(accepted(lines), expected, "{lines:?}");
            if expected.is_some() {
                assert!(lines.iter().any(|line| may_accept(line.as_bytes())), "{lines:?}");
            }
        }
        assert!(!may_accept(b"br, deflate, identity"));
    }

    #[test]
    fn a_content_is_compressed_once_and_comes_out_the_same() {
        let compressor = Compressor::new();
        let plain = page(1);
        let gzip = compressor.compressed(&plain, 1, Coding::Gzip, NOW).unwrap();
        let mut back = Vec::new();
        flate2::read::GzDecoder::new(&gzip[..]).read_to_end(&mut back).unwrap();
        assert_eq!(back, plain);
        let again = compressor.compressed(&page(1), 1, Coding::Gzip, NOW).unwrap();
        assert_eq!(again.as_ptr(), gzip.as_ptr(), "the same bytes, not equal ones");
        let zstd = compressor.compressed(&plain, 1, Coding::Zstd, NOW).unwrap();
        assert_eq!(zstd::bulk::decompress(&zstd, plain.len()).unwrap(), plain);
        let other = compressor.compressed(&page(2), 1, Coding::Gzip, NOW).unwrap();
        assert_ne!(other, gzip, "an equal tag is no proof");
        assert_eq!(compressor.compressed(&Bytes::from_static(b"{}"), 3, Coding::Gzip, NOW), None);
    }

    #[test]
    fn what_is_kept_and_what_is_spent_are_bounded() {
        let compressor = Compressor::new();
        let mut refused = 0;
        for n in 0..20_000 {
            let compressed = compressor.compressed(&page(n), n as u64, Coding::Zstd, NOW);
            refused += usize::from(compressed.is_none());
        }
        assert!(refused > 10_000, "{refused}");
        let recent = compressor.recent.lock().unwrap();
        assert!(recent.entries.len() <= ENTRIES_MAX && recent.bytes <= KEPT_BYTES_MAX);
        assert_eq!(recent.bytes, recent.entries.iter().map(|entry| entry.plain.len()).sum::<usize>());
        drop(recent);
        let large = |n: u8| Bytes::from(vec![n; 1024 * 1024]);
        for n in 0..40 {
            compressor.compressed(&large(n), n.into(), Coding::Zstd, NOW.plus_ms(1_000 * u64::from(n)));
        }
        assert!(compressor.recent.lock().unwrap().bytes <= KEPT_BYTES_MAX);
        assert!(
            compressor.compressed(&page(1), 1, Coding::Zstd, NOW.plus_ms(60_000)).is_some(),
            "the budget comes back"
        );
    }
}
