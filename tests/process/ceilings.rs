//! The ceilings, reached through the real edges: the next one is refused, and what lives goes on living (rules D1, D2, D4).
//!
//! Small ceilings by default; with `RENDEZVOUS_FULL_CEILINGS=1` the lane's are the default ones (25,000 listings, 10,000
//! attempts). It says how long filling them took: minutes in a debug build, so the lifetimes are at their longest.

use crate::child::until;
use crate::http::{Connection, Response};
use crate::say::say;
use crate::server::{Attempt, Listing, Server, bearer, guest, join, register};
use crate::udp::{Credential, Stun};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Clients that fill the store at once, each with a connection and a UDP socket of its own.
const FILLERS: usize = 4;
/// A nonce is fresh for 120 s; it is renewed well before.
const NONCE_AGE: Duration = Duration::from_secs(60);

struct Size {
    listings: usize,
    attempts: usize,
    /// Every how manieth live listing is looked at one by one.
    sample: usize,
    config: String,
}

fn size(store: &str) -> Size {
    let lives =
        "[lease]\nttl_ms = 300000\n[presence]\nttl_ms = 300000\n[attempt]\nttl_ms = 120000\nbind_window_ms = 60000\n";
    let is_full = std::env::var("RENDEZVOUS_FULL_CEILINGS").is_ok_and(|value| value == "1");
    // The single-lock store is what the lane is measured against; nobody serves so many from it.
    match is_full && store == "lane" {
        true => Size { listings: 25_000, attempts: 10_000, sample: 250, config: lives.to_owned() },
        false => {
            let limits = "[limits]\nlistings = 300\nattempts = 100\n";
            Size { listings: 300, attempts: 100, sample: 10, config: format!("{limits}{lives}") }
        }
    }
}

/// A UDP socket with a nonce that is good for every credential.
struct Authenticated {
    stun: Stun,
    nonce: Vec<u8>,
    since: Instant,
}

impl Authenticated {
    fn new(server: &Server, credential: &Credential) -> Self {
        let mut stun = Stun::new("127.0.0.1:0", server.udp);
        let nonce = stun.challenge(credential);
        Self { stun, nonce, since: Instant::now() }
    }

    fn succeed(&mut self, credential: &Credential, sequence: Option<u64>) {
        if self.since.elapsed() > NONCE_AGE {
            (self.nonce, self.since) = (self.stun.challenge(credential), Instant::now());
        }
        let answer = self.stun.ask(&credential.signed(&self.nonce, sequence));
        assert!(answer.is_success(), "{answer:?}");
        self.stun.aside.clear();
    }
}

/// Runs `work(i)` for 0 to `count` on [`FILLERS`] threads that each make their tools first.
fn shared<T: Send, R: Send>(
    count: usize,
    tools: impl Fn() -> T + Sync,
    work: impl Fn(&mut T, usize) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let run = || {
        let (mut tools, mut done) = (tools(), Vec::new());
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= count {
                return done;
            }
            done.push(work(&mut tools, i));
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..FILLERS).map(|_| scope.spawn(run)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    })
}

fn fill_listings(server: &Server, size: &Size) -> Vec<Listing> {
    let tools = || {
        let mut connection = server.connect();
        let token = guest(&mut connection);
        (connection, token, None)
    };
    shared(size.listings, tools, |(connection, token, udp), i| {
        let listing = register(connection, token, &format!("listing {i}").replace(' ', "-"), "")
            .unwrap_or_else(|refused| panic!("listing {i}: {refused:?}"));
        let credential = Credential::presence(&listing);
        udp.get_or_insert_with(|| Authenticated::new(server, &credential)).succeed(&credential, Some(1));
        listing
    })
}

fn fill_attempts(server: &Server, size: &Size, listings: &[Listing]) -> Vec<Attempt> {
    let tools = || {
        let mut connection = server.connect();
        let token = guest(&mut connection);
        (connection, token, None)
    };
    shared(size.attempts, tools, |(connection, token, udp), i| {
        let listing = &listings[i % listings.len()];
        let answer = join(connection, token, &listing.id, &format!("attempt-{i}"), "{}");
        let attempt = Attempt::of(token, &answer);
        let credential = Credential::joiner(&attempt);
        udp.get_or_insert_with(|| Authenticated::new(server, &credential)).succeed(&credential, None);
        attempt
    })
}

#[track_caller]
fn assert_ceiling(answer: &Response, resource: &str) {
    assert_eq!((answer.status, answer.code()), (503, "capacity_exceeded"), "{answer:?}");
    assert_eq!(answer.json["resource"], resource);
    assert!(answer.header("retry-after").is_some(), "{answer:?}");
}

/// Everything that was live still is.
fn assert_alive(server: &Server, size: &Size, listings: &[Listing], attempts: &[Attempt]) {
    let mut connection = server.connect();
    for listing in listings.iter().step_by(size.sample) {
        let lease = listing.ask(&mut connection, "GET", "/lease");
        assert_eq!((lease.status, lease.json["presence"].as_str()), (200, Some("verified")), "{lease:?}");
    }
    for attempt in attempts.iter().step_by(size.sample) {
        let state = connection.ask("GET", &attempt.path(), &[("Authorization", &bearer(&attempt.token))], "");
        assert_eq!((state.status, state.json["state"].as_str()), (200, Some("waiting")), "{state:?}");
    }
    // The newest of them become visible within a publish interval (rule S5).
    let seen = until("every row", || Some(server.browse()).filter(|seen| seen.len() >= size.listings));
    let known: HashSet<&str> = listings.iter().map(|listing| listing.id.as_str()).collect();
    assert_eq!(seen.len(), size.listings, "rows");
    assert_eq!(seen.iter().filter(|id| known.contains(id.as_str())).count(), size.listings, "each of ours, once");
    assert_eq!(server.live("attempts"), size.attempts as u64);
}

/// Renews every listing while two clients register without pause; the number of registrations that were refused.
fn renew_in_a_flood(server: &Server, listings: &[Listing]) -> usize {
    let (renewed, refused) = (AtomicBool::new(false), AtomicUsize::new(0));
    let flood = |who: usize| {
        let mut connection = server.connect();
        let token = guest(&mut connection);
        let mut round = 0;
        while !renewed.load(Ordering::Relaxed) {
            let key = format!("flood-{who}-{round}");
            let answer = register(&mut connection, &token, &key, "").expect_err("there is no room");
            assert_ceiling(&answer, "listings");
            refused.fetch_add(1, Ordering::Relaxed);
            round += 1;
        }
    };
    thread::scope(|scope| {
        let floods = [scope.spawn(|| flood(0)), scope.spawn(|| flood(1))];
        let mut connection: Connection = server.connect();
        for listing in listings {
            let answer = listing.renew(&mut connection, 1);
            assert_eq!((answer.status, answer.json["version"].as_u64()), (200, Some(2)), "{answer:?}");
        }
        renewed.store(true, Ordering::Relaxed);
        floods.into_iter().for_each(|flood| flood.join().expect("every refusal was the right one"));
    });
    refused.into_inner()
}

fn ceilings(store: &str) {
    let size = size(store);
    let server = Server::start(&size.config, &["--store", store]);
    let begun = Instant::now();
    let listings = fill_listings(&server, &size);
    let filled = begun.elapsed();
    let attempts = fill_attempts(&server, &size, &listings);
    let (all, both) = (size.listings, begun.elapsed());
    say(format_args!("{store}: {all} listings in {filled:.1?}, {} attempts after {both:.1?}", size.attempts));
    let mut connection = server.connect();
    let token = guest(&mut connection);
    let refused = register(&mut connection, &token, "one more", "").expect_err("a bad key");
    assert_eq!(refused.status, 400, "a key with a space: {refused:?}");
    assert_ceiling(&register(&mut connection, &token, "one-more", "").expect_err("full"), "listings");
    assert_ceiling(&join(&mut connection, &token, &listings[0].id, "one-more", "{}"), "attempts");
    assert_alive(&server, &size, &listings, &attempts);

    let begun = Instant::now();
    let refused = renew_in_a_flood(&server, &listings);
    let renewed = begun.elapsed();
    say(format_args!("{store}: {all} renewals in {renewed:.1?}, {refused} registrations refused meanwhile"));
    assert!(refused > 0, "there was no flood");
    assert_alive(&server, &size, &listings, &attempts);

    // Room is room: what is let go of can be had again, under the key that was refused (case I4).
    assert_eq!(listings[0].ask(&mut connection, "DELETE", "").status, 204);
    register(&mut connection, &token, "one-more", "").expect("there is room for one");
    let closed = connection.ask("DELETE", &attempts[1].path(), &[("Authorization", &bearer(&attempts[1].token))], "");
    assert_eq!(closed.status, 204, "{closed:?}");
    let answer = join(&mut connection, &token, &listings[1].id, "one-more", "{}");
    assert_eq!(answer.status, 201, "{answer:?}");
}

#[test]
fn rule_d2_ceilings_refuse_the_next_and_keep_what_lives() {
    ceilings("lane");
}

#[test]
fn rule_d2_ceilings_refuse_the_next_and_keep_what_lives_on_the_single_lock_store() {
    ceilings("single-lock");
}
