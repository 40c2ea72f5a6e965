//! JSON bodies of our own: simd-json against serde_json, for each kind and size that enters a server or a client.
//!
//! Requests are parsed to a tree that keeps duplicate members, as the seam in `wire::json` needs it; responses are parsed
//! to the types that clients use. At least 1.0 means that simd-json wins or ties.
#![allow(missing_docs)]

mod edges;

use criterion::{BatchSize, Criterion, criterion_group};
use edges::{Row, Table, median};
use rendezvous::wire::FromJson;
use rendezvous::wire::request::{AttemptBody, RegisterBody, RenewBody};
use rendezvous::wire::response::{AttemptAnswer, ListingAnswer, RenewAnswer};
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, MapAccess, SeqAccess, Visitor};
use simd_json::Buffers;
use std::cell::RefCell;
use std::fmt;
use std::hint::black_box;
use std::time::{Duration, Instant};

const PAIRS: usize = 15;
const ROUNDS: usize = 4_000;
/// As in the seam.
const DEPTH_MAX: usize = 16;

/// What serde_json has to build for the seam's checks: every member in its order, borrowed where it can be.
#[allow(dead_code)]
enum Node<'a> {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(std::borrow::Cow<'a, str>),
    Items(Vec<Node<'a>>),
    Members(Vec<(std::borrow::Cow<'a, str>, Node<'a>)>),
}

impl<'de> Deserialize<'de> for Node<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Build;
        impl<'de> Visitor<'de> for Build {
            type Value = Node<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }
            fn visit_unit<E>(self) -> Result<Node<'de>, E> {
                Ok(Node::Null)
            }
            fn visit_bool<E>(self, value: bool) -> Result<Node<'de>, E> {
                Ok(Node::Bool(value))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Node<'de>, E> {
                Ok(Node::Integer(value.into()))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Node<'de>, E> {
                Ok(Node::Integer(value.into()))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Node<'de>, E> {
                Ok(Node::Float(value))
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Node<'de>, E> {
                Ok(Node::Text(text.into()))
            }
            fn visit_str<E>(self, text: &str) -> Result<Node<'de>, E> {
                Ok(Node::Text(text.to_owned().into()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node<'de>, A::Error> {
                let mut all = Vec::new();
                while let Some(item) = items.next_element()? {
                    all.push(item);
                }
                Ok(Node::Items(all))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Node<'de>, A::Error> {
                let mut all = Vec::new();
                while let Some(Name(name)) = members.next_key()? {
                    all.push((name, members.next_value()?));
                }
                Ok(Node::Members(all))
            }
        }
        deserializer.deserialize_any(Build)
    }
}

/// A name that is borrowed unless it has escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] std::borrow::Cow<'a, str>);

fn details(name: &str, tags: usize, attributes: usize, text: usize) -> String {
    let tags: Vec<_> = (0..tags).map(|n| format!("\"tag{n}\"")).collect();
    let attributes: Vec<_> = (0..attributes).map(|n| format!("\"a{n}\":\"{}\"", "x".repeat(text))).collect();
    format!(
        "{{\"name\":\"{name}\",\"map\":\"dust\",\"mode\":\"ctf\",\"region\":\"eu-west\",\"players\":3,\"max_players\":16,\
         \"password_required\":false,\"tags\":[{}],\"attributes\":{{{}}}}}",
        tags.join(","),
        attributes.join(",")
    )
}

fn register(details: &str) -> String {
    format!("{{\"protocol\":\"arena/3\",\"visibility\":\"public\",\"ttl_ms\":60000,\"details\":{details}}}")
}

/// Every request body that is parsed often, with the seam that reads it.
/// A body's name, the body, and whether the seam takes it.
type Request = (&'static str, String, fn(&mut [u8]) -> bool);

fn requests() -> Vec<Request> {
    let renew: fn(&mut [u8]) -> bool = |body| RenewBody::from_body(body).is_ok();
    let registers: fn(&mut [u8]) -> bool = |body| RegisterBody::from_body(body).is_ok();
    let join: fn(&mut [u8]) -> bool = |body| AttemptBody::from_body(body).is_ok();
    let small = "{\"name\":\"Friday night\",\"max_players\":8}".to_owned();
    let typical = details("Friday night", 1, 2, 4);
    vec![
        ("renew", "{\"ttl_ms\":60000}".to_owned(), renew),
        ("renew with details", format!("{{\"ttl_ms\":60000,\"details\":{typical}}}"), renew),
        ("join", "{\"candidates\":[\"192.168.1.7:5000\"],\"payload\":\"c2VjcmV0\"}".to_owned(), join),
        ("register, small", register(&small), registers),
        ("register, typical", register(&typical), registers),
        ("register, maximal", register(&details(&"n".repeat(64), 16, 32, 40)), registers),
    ]
}

const LISTING: &str = r#"{"listing_id":"01a2292286001b95404cd0567f9f2669","version":1,"expires_at":"2026-01-01T00:00:00.000Z","ttl_ms":60000,"lease_token":"AQGiKSKGABuVQEzQVn-fJmmzYPNmL5IMjQAQGiKSKGA","presence":{"username":"p1.01a2292286001b95404cd0567f9f2669","password":"AQGiKSKGABuVQEzQVn-fJmmzYPNmL5IMjQAQGiKSKGA","realm":"rendezvous","interval_ms":17000,"ttl_ms":65000,"stun":["stun:203.0.113.1:3478"]}}"#;
const RENEWED: &str = r#"{"listing_id":"01a2292286001b95404cd0567f9f2669","version":2,"expires_at":"2026-01-01T00:00:00.000Z","ttl_ms":60000,"visibility":"public"}"#;
const ATTEMPT: &str = r#"{"attempt_id":"01a2292286001b95404cd0567f9f2669","expires_at":"2026-01-01T00:00:00.000Z","bind":{"username":"j1.01a2292286001b95404cd0567f9f2669","password":"AQGiKSKGABuVQEzQVn-fJmmzYPNmL5IMjQAQGiKSKGA"},"peer_key":"AQGiKSKGABuVQEzQVn-fJmmzYPNmL5IMjQAQGiKSKGA","realm":"rendezvous","stun":["stun:203.0.113.1:3478"]}"#;

thread_local! {
    static BUFFERS: RefCell<Buffers> = RefCell::new(Buffers::with_max_depth(1_024, DEPTH_MAX));
}

/// As the seam does it: with buffers that are kept.
fn simd_tape(body: &mut [u8]) -> bool {
    BUFFERS.with_borrow_mut(|buffers| simd_json::to_tape_with_buffers(body, buffers).is_ok())
}

fn serde_tree(body: &mut [u8]) -> bool {
    serde_json::from_slice::<Node<'_>>(body).is_ok()
}

fn simd_typed<T: DeserializeOwned>(body: &mut [u8]) -> bool {
    simd_json::serde::from_slice::<T>(body).is_ok()
}

fn serde_typed<T: DeserializeOwned>(body: &mut [u8]) -> bool {
    serde_json::from_slice::<T>(body).is_ok()
}

type Parse = fn(&mut [u8]) -> bool;

/// Name, body, simd-json, serde_json.
fn contestants() -> Vec<(String, String, Parse, Parse)> {
    let mut all: Vec<(String, String, Parse, Parse)> = requests()
        .into_iter()
        .map(|(name, body, _)| (format!("request, {name}"), body, simd_tape as Parse, serde_tree as Parse))
        .collect();
    all.push(("response, renewed".into(), RENEWED.into(), simd_typed::<RenewAnswer>, serde_typed::<RenewAnswer>));
    all.push((
        "response, registered".into(),
        LISTING.into(),
        simd_typed::<ListingAnswer>,
        serde_typed::<ListingAnswer>,
    ));
    all.push(("response, attempt".into(), ATTEMPT.into(), simd_typed::<AttemptAnswer>, serde_typed::<AttemptAnswer>));
    all
}

fn criterion_benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("json");
    for (name, body, simd, serde) in contestants() {
        for (parser, parse) in [("simd-json", simd), ("serde_json", serde)] {
            group.bench_function(format!("{name}, {parser}"), |b| {
                b.iter_batched_ref(|| body.clone().into_bytes(), |body| black_box(parse(body)), BatchSize::SmallInput);
            });
        }
    }
    for (name, body, seam) in requests() {
        group.bench_function(format!("request, {name}, the whole seam"), |b| {
            b.iter_batched_ref(|| body.clone().into_bytes(), |body| black_box(seam(body)), BatchSize::SmallInput);
        });
    }
    group.finish();
}

/// Nanoseconds for one body; the copies are made before the clock starts.
fn time(body: &str, parse: Parse) -> f64 {
    let mut bodies = vec![body.as_bytes().to_vec(); ROUNDS];
    let began = Instant::now();
    for body in &mut bodies {
        assert!(parse(black_box(body)));
    }
    began.elapsed().as_nanos() as f64 / ROUNDS as f64
}

fn table() {
    let mut table = Table::new("json", "JSON: nanoseconds with simd-json; the ratio is serde_json's time over it");
    for (name, body, simd, serde) in contestants() {
        let pairs: Vec<_> = (0..PAIRS).map(|_| (time(&body, simd), time(&body, serde))).collect();
        let ratio = median(pairs.iter().map(|(simd, serde)| serde / simd).collect());
        let ns = median(pairs.iter().map(|(simd, _)| *simd).collect());
        table.add(Row::new(format!("{name}, {} B", body.len()), ns, "ns", Some(ratio), Some(1.0)));
    }
    for (name, body, seam) in requests() {
        let ns = median((0..PAIRS).map(|_| time(&body, seam)).collect());
        table.add(Row::new(format!("whole seam: {name}"), ns, "ns", None, None));
    }
    table.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = criterion_benches
}

fn main() {
    if !std::env::args().any(|argument| argument == "--table") {
        benches();
    }
    table();
}
