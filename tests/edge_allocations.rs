//! Allocations of the edges' hot paths, counted on the one thread that serves.
//!
//! The client has a thread of its own and is not counted. What a connection costs at its beginning falls out of the
//! difference between a short run and a long one.
#![cfg(feature = "server")]

#[allow(dead_code, unreachable_pub, reason = "each test target uses its own part of the shared harness")]
#[path = "http_edge/harness.rs"]
mod harness;

use harness::{Server, jwt, request};
use rendezvous::domain::{InstanceId, ListingId, MonoTime, Offers, Present};
use rendezvous::edge::udp::{Arrival, Budgets, Decision, Entropy, Listener, Local, Protocol, Responder};
use rendezvous::service::{Applied, Told};
use rendezvous::stun::{AttributeType, Message, MessageBuilder, PASSWORD_ALGORITHM_SHA256, TransactionId};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use tokio::runtime::{Builder, Runtime};

/// The parameters' list, a decoded protocol, the scope's name, the cursor and what is around it.
const PAGE_MOST: u64 = 6;
/// The same without a cursor, which a 304 does not need.
const NOT_MODIFIED_MOST: u64 = 4;
/// With a JWT and JSON in and out; a refusal is a problem document.
const RENEWAL_MOST: u64 = 8;
const REFUSAL_MOST: u64 = 26;
/// The same through hyper, with headers in and out.
const LONG_RENEWAL_MOST: u64 = 40;
/// Question and answer.
const PRESENCE_MOST: u64 = 4;

/// Asks `count` times for the same, and reads answers of one length.
fn ask(address: SocketAddr, text: &str, count: usize) {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut buffer = vec![0; 1 << 16];
    let mut length = 0;
    for n in 0..count {
        stream.write_all(text.as_bytes()).unwrap();
        let mut read = 0;
        while n == 0 && read == 0 || read < length {
            read += stream.read(&mut buffer).unwrap();
        }
        length = read;
    }
}

/// Allocations of the serving thread while somebody else works.
fn counted(runtime: &Runtime, client: impl FnOnce() + Send + 'static) -> u64 {
    let (done, finished) = tokio::sync::oneshot::channel();
    let client = thread::spawn(move || {
        client();
        done.send(()).unwrap();
    });
    let info = allocation_counter::measure(|| runtime.block_on(finished).unwrap());
    client.join().unwrap();
    info.count_total
}

fn per_request(runtime: &Runtime, address: SocketAddr, text: &str) -> u64 {
    let run = |count: usize| {
        let text = text.to_owned();
        counted(runtime, move || ask(address, &text, count))
    };
    run(50);
    let (short, long) = (run(50), run(450));
    long.saturating_sub(short).div_ceil(400)
}

fn server(runtime: &Runtime) -> (Server, String) {
    runtime.block_on(async {
        let server = Server::start(true, |settings| settings.rates = None).await;
        for n in 0..5 {
            let details = format!(r#"{{"name":"n{n}","max_players":8}}"#);
            server.host(&jwt("demo", &format!("host-{n}")), "k", &details).await;
        }
        let page = server.ask("GET", PAGE, &[], "").await;
        (server, page.header("etag").unwrap().to_owned())
    })
}

const PAGE: &str = "/v1/tenants/demo/listings?protocol=arena%2F3&limit=3";

#[test]
fn a_browse_allocates_no_more_than_its_parameters() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let (server, tag) = server(&runtime);
    let page = per_request(&runtime, server.address, &request("GET", PAGE, &[], ""));
    assert!(page <= PAGE_MOST, "{page} for a page");
    let conditional = request("GET", PAGE, &[("if-none-match", &tag)], "");
    let not_modified = per_request(&runtime, server.address, &conditional);
    assert!(not_modified <= NOT_MODIFIED_MOST, "{not_modified} for a 304");
    let long_way = per_request(&runtime, server.address, &request("GET", PAGE, &[("x-request-id", "r")], ""));
    assert!(long_way > 2 * page, "the short way was not taken: {page} against {long_way}");
    println!("page {page}, 304 {not_modified}, the long way {long_way}");
}

/// A renewal of `listing` as its owner sends it, for each version in turn.
fn renewals(listing: &str, token: &str, versions: std::ops::Range<u64>, more: &[(&str, &str)]) -> Vec<String> {
    let by = jwt("demo", "renewer");
    let path = format!("/v1/tenants/demo/listings/{listing}/renew");
    let one = |version: u64| {
        let version = format!("\"{version}\"");
        let headers = [("authorization", by.as_str()), ("lease-token", token), ("if-match", version.as_str())];
        request("POST", &path, &[&headers, more].concat(), r#"{"ttl_ms":60000}"#)
    };
    versions.map(one).collect()
}

/// Sends each renewal and reads its answer; all have to be accepted.
fn renew_all(address: SocketAddr, requests: &[String]) {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut buffer = vec![0; 1 << 12];
    for request in requests {
        stream.write_all(request.as_bytes()).unwrap();
        let mut read = 0;
        // The answer's body is one flat object.
        while !buffer[..read].ends_with(b"}") {
            let more = stream.read(&mut buffer[read..]).unwrap();
            assert!(more > 0, "closed within an answer");
            read += more;
        }
        assert!(buffer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&buffer[..read]));
    }
}

#[test]
fn a_renewal_is_bounded_accepted_or_refused() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let (server, _) = server(&runtime);
    let (listing, token) = runtime.block_on(async {
        let listing = server.host(&jwt("demo", "renewer"), "k", r#"{"name":"x","max_players":8}"#).await;
        (listing["listing_id"].as_str().unwrap().to_owned(), listing["lease_token"].as_str().unwrap().to_owned())
    });
    let address = server.address;
    let mut next = 1;
    let mut accepted = |more: &[(&str, &str)]| {
        let mut counts = [50, 50, 450].map(|count: u64| {
            let requests = renewals(&listing, &token, next..next + count, more);
            next += count;
            counted(&runtime, move || renew_all(address, &requests))
        });
        // Without what the connection's beginning costs.
        counts[2] = counts[2].saturating_sub(counts[1]);
        counts[2].div_ceil(400)
    };
    let (short, long) = (accepted(&[]), accepted(&[("x-request-id", "r")]));
    let refused = per_request(&runtime, address, &renewals(&listing, &token, 7..8, &[])[0]);
    println!("renewal accepted {short}, refused {refused}, the long way {long}");
    assert!(short <= RENEWAL_MOST, "{short} for an accepted renewal with JWT");
    assert!(refused <= REFUSAL_MOST, "{refused} for a refused renewal with JWT");
    assert!(long <= LONG_RENEWAL_MOST, "{long} the long way");
    assert!(long > 2 * short, "the short way was not taken: {short} against {long}");
}

/// What the edge refuses again and again is not looked at both ways: checking a token costs the most, and whoever sends bad
/// ones may go on.
#[test]
fn a_flood_of_bad_tokens_is_looked_at_once() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let (server, _) = server(&runtime);
    let good = jwt("demo", "renewer");
    let forged = format!("{}AAAA", &good[..good.len() - 4]);
    let refusals = |more: &[(&str, &str)]| {
        let path = format!("/v1/tenants/demo/listings/{}/renew", ListingId(1 << 100));
        let headers = [("authorization", forged.as_str()), ("lease-token", "t"), ("if-match", "\"1\"")];
        let text = request("POST", &path, &[&headers, more].concat(), r#"{"ttl_ms":60000}"#);
        per_request(&runtime, server.address, &text)
    };
    let (plain, long) = (refusals(&[]), refusals(&[("x-request-id", "r")]));
    println!("a bad token {plain}, the long way {long}");
    assert!(plain <= long + long / 4, "{plain} against {long}");
}

/// Bytes that each of some connections holds after one request, while it is idle; and the connections, to be kept for so long.
fn kept(runtime: &Runtime, address: SocketAddr, text: &str) -> (i64, Vec<TcpStream>) {
    const CONNECTIONS: i64 = 16;
    let text = text.to_owned();
    let (done, finished) = tokio::sync::oneshot::channel();
    let client = thread::spawn(move || {
        let renewed = |_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(text.as_bytes()).unwrap();
            assert!(stream.read(&mut [0; 1 << 12]).unwrap() > 0);
            stream
        };
        let open: Vec<_> = (0..CONNECTIONS).map(renewed).collect();
        done.send(()).unwrap();
        open
    });
    let info = allocation_counter::measure(|| runtime.block_on(finished).unwrap());
    (info.bytes_current / CONNECTIONS, client.join().unwrap())
}

#[test]
fn a_long_renewal_leaves_a_connection_no_larger_than_the_long_way_does() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let (server, _) = server(&runtime);
    let by = jwt("demo", "renewer");
    let path = format!("/v1/tenants/demo/listings/{}/renew", ListingId(1 << 100));
    let body = format!(r#"{{"ttl_ms":60000{}}}"#, " ".repeat(4_000));
    let text = |more: &[(&str, &str)]| {
        let headers = [("authorization", by.as_str()), ("lease-token", "t"), ("if-match", "\"1\"")];
        request("POST", &path, &[&headers, more].concat(), &body)
    };
    let kept = |more: &[(&str, &str)]| kept(&runtime, server.address, &text(more));
    let (_first, (short, _idle), (long, _others)) = (kept(&[]), kept(&[]), kept(&[LONG]));
    println!("bytes of an idle connection {short}, after the long way {long}");
    assert!(short <= long + 1_024, "{short} against {long}");
}

/// What the short way does not know.
const LONG: (&str, &str) = ("x-request-id", "r");

#[test]
fn a_presence_answer_allocates_its_question_and_itself() {
    let credentials = rendezvous::credentials::InstanceKey::new([1; 32]);
    let (listing, now) = (ListingId(7), MonoTime(5_000_000_000));
    let username = rendezvous::credentials::presence_username(listing);
    let password = credentials.presence_password(listing);
    let key = rendezvous::credentials::long_term_key(&username, rendezvous::credentials::REALM, &password);
    let protocol =
        Protocol { credentials, entropy: Entropy::new([2; 32]), instance: InstanceId(3), nonce_fresh_ms: 120_000 };
    let budgets = Budgets { per_credential_per_s: 1_000_000, ..Budgets::default() };
    let mut responder = Responder::new(&protocol, &budgets, Vec::new(), false);
    let source = "192.0.2.1:4000".parse().unwrap();
    let arrival = Arrival { source, local: Local { socket: 0, ip: None }, listener: Listener::Plain };
    let begun = || MessageBuilder::binding_request(TransactionId([5; 12])).text(AttributeType::USERNAME, &username);
    let first = begun().pad_to(160, 8).fingerprint().finish().unwrap();
    let Decision::Transmit(challenge) = responder.receive(&first, arrival, now) else { panic!("no challenge") };
    let nonce = Message::parse(&challenge.bytes).unwrap().text(AttributeType::NONCE).unwrap().unwrap().to_owned();
    let refresh = |sequence: u64| {
        begun()
            .text(AttributeType::REALM, rendezvous::credentials::REALM)
            .text(AttributeType::NONCE, &nonce)
            .attribute(AttributeType::PASSWORD_ALGORITHMS, &PASSWORD_ALGORITHM_SHA256)
            .attribute(AttributeType::PASSWORD_ALGORITHM, &PASSWORD_ALGORITHM_SHA256)
            .u64(AttributeType::RV_SEQUENCE, sequence)
            .integrity(&key)
            .fingerprint()
            .finish()
            .unwrap()
    };
    let mut answer = |bytes: &[u8]| {
        let Decision::Ask(question) = responder.receive(bytes, arrival, now) else { panic!("not asked") };
        let present = Present { deadline: now.plus_ms(65_000), offers: Offers::default(), draining: None };
        let applied = Applied { value: Told::Present(present), commit: 1, replayed: false };
        responder.answerer().answer(&question.reply, Ok(applied), now)
    };
    answer(&refresh(1));
    for sequence in 2..50 {
        let bytes = refresh(sequence);
        let info = allocation_counter::measure(|| drop(answer(&bytes)));
        assert!(info.count_total <= PRESENCE_MOST, "{} for one answer", info.count_total);
    }
}
