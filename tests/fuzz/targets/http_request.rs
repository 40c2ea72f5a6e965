//! Bytes of one HTTP connection through the shipped edge, hyper and all, down to both planes' stores and back, in two worlds
//! that differ in one thing: in one the short way answers plain browses and renewals. Nobody may see which.
#![no_main]

#[path = "../world/plane.rs"]
mod plane;
#[path = "../world/mod.rs"]
mod world;

use libfuzzer_sys::fuzz_target;
use rendezvous::credentials::{Secret, fingerprint};
use rendezvous::domain::{Endpoint, Presence};
use rendezvous::edge::http::fuzzing::Wire;
use rendezvous::edge::http::{
    BrowsePolicy, HttpSettings, JwtAlgorithm, JwtKey, JwtVerifier, KeyFingerprint, TenantSettings,
};
use rendezvous::service::{Ask, Caller, Service};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use world::{ManualClock, TENANT};

/// Between what arrives at once and what arrives later. No request contains it: it is no text.
const PAUSE: &[u8] = b"\xFF\xFE";
/// Longest input that is sent: a few requests.
const INPUT_MAX: usize = 4_096;
/// More than any answers to it.
const ROOM: usize = 1 << 20;
/// Turns of the server between two arrivals: it reads, asks the idle lane and answers in one.
const TURNS: usize = 4;
/// In the order of their ids.
const TENANTS: [&str; 2] = ["demo", "closed"];
const OPERATOR: &str = "operator-key-of-the-fuzzer";
const JWT_SECRET: &str = "0123456789abcdef0123456789abcdef";
const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9));
/// Listings that are there to be browsed.
const LISTINGS: u64 = 3;

fuzz_target!(|data: &[u8]| {
    // A guest's name is drawn by the system: two worlds would differ in it.
    if data.len() > INPUT_MAX || data.windows(6).any(|window| window.eq_ignore_ascii_case(b"guests")) {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let (short, long) =
        runtime.expect("a runtime").block_on(async { (answers(data, true).await, answers(data, false).await) });
    assert!(short == long, "{}\n----\n{}", String::from_utf8_lossy(&short), String::from_utf8_lossy(&long));
});

/// Everything that one connection is sent, without what no rule fixes.
async fn answers(data: &[u8], is_short: bool) -> Vec<u8> {
    let clock = ManualClock::new();
    let service = world::service(&clock);
    populate(&service, &clock).await;
    let wire = Wire::new(settings(), Arc::clone(&service)).expect("no TLS to set up");
    let (server, client) = tokio::io::duplex(ROOM);
    let serving = wire.serve(server, PEER, is_short);
    let (answered, ()) = tokio::join!(exchange(client, data), serving);
    assert_eq!(wire.connections(), 0);
    normalised(&answered)
}

/// Sends one piece after the other, and reads until the server ends the connection: time that nobody uses passes at once,
/// so a silent client meets its deadline.
async fn exchange(mut client: DuplexStream, data: &[u8]) -> Vec<u8> {
    let mut rest = data;
    while !rest.is_empty() {
        let at = rest.windows(PAUSE.len()).position(|window| window == PAUSE);
        let (piece, after) = rest.split_at(at.unwrap_or(rest.len()));
        rest = after.strip_prefix(PAUSE).unwrap_or(after);
        if client.write_all(piece).await.is_err() {
            break;
        }
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
        }
    }
    let mut answered = Vec::new();
    // A reset ends what was read as the end does.
    let _ = client.read_to_end(&mut answered).await;
    answered
}

/// Without the date, and with each head's lines in one order: both ways promise the lines, not their order.
fn normalised(answered: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(answered);
    let mut lines: Vec<&str> = text.split("\r\n").collect();
    let mut from = 0;
    while let Some(start) = lines[from..].iter().position(|line| is_status(line)).map(|at| from + at) {
        let end = lines[start..].iter().position(|line| line.is_empty()).map_or(lines.len(), |at| start + at);
        lines[start + 1..end].sort_unstable();
        let head = &lines[start..end];
        assert!(!head[0].contains("HTTP/1.1 500 "), "an internal error: {head:?}");
        let has_instance = head.iter().any(|line| line.starts_with("rendezvous-instance: "));
        assert!(has_instance || head[0].ends_with("100 Continue"), "an answer that is not ours: {head:?}");
        from = end;
    }
    lines.retain(|line| !line.starts_with("date: "));
    lines.join("\n").into_bytes()
}

/// A body has no line breaks, so the status line of the next answer stands at its end.
fn is_status(line: &str) -> bool {
    let version = line.rfind("HTTP/1.").and_then(|at| line.get(at + "HTTP/1.".len()..));
    // A minor version, three digits, and the reason.
    version.and_then(|rest| rest.get(1..)).is_some_and(|rest| {
        let code = rest.strip_prefix(' ').and_then(|rest| rest.get(..4));
        code.is_some_and(|code| code.ends_with(' ') && code[..3].bytes().all(|byte| byte.is_ascii_digit()))
    })
}

fn settings() -> HttpSettings {
    let jwt = || JwtVerifier::new(JwtAlgorithm::Hs256, &JwtKey::Secret(Secret::new(JWT_SECRET)), None).ok();
    let tenant = |name: &str, browse| TenantSettings { name: name.into(), browse, guests: false, jwt: jwt() };
    let tenants = vec![tenant(TENANTS[0], BrowsePolicy::Public), tenant(TENANTS[1], BrowsePolicy::Principal)];
    let listen = "127.0.0.1:0".parse().expect("an address");
    let mut settings = HttpSettings::new(listen, tenants, world::keys().guest_tokens);
    settings.operators = vec![KeyFingerprint::of(&Secret::new(OPERATOR))];
    // Their tables are hashed by a secret of the process.
    settings.rates = None;
    settings.commands = Some(plane::commands(&TENANTS));
    settings
}

async fn populate(service: &Arc<Service>, clock: &ManualClock) {
    for number in 0..LISTINGS {
        let request = world::registration(service, number as usize, number == 0);
        let caller = Caller { principal: service.principal(TENANT, "alice"), guest_source: None };
        let granted = service.register(&caller, &number.to_string(), request).await.expect("room");
        let presence = Presence {
            listing: granted.value.listing,
            endpoint: Endpoint::new("192.0.2.1:5000".parse().expect("an address")).expect("outside"),
            datagram: fingerprint(&number.to_be_bytes()),
            sequence: Some(1),
            nonce_issued: clock.now(),
        };
        service.ask(Ask::Presence(presence)).await.expect("room");
    }
    service.tick();
}
