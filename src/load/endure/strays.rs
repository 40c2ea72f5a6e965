//! Clients who come and don't take leave: what they leave behind has to end by its own deadlines.

use super::TENANT;
use super::plain::{Answer, ask, send};
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Between two of them: about a hundred a second, enough to have every kind in every collection at any time.
const PAUSE: Duration = Duration::from_millis(10);
/// Connections that are left open, silent or waiting; the oldest is dropped for the next.
const LEFT_OPEN: usize = 32;

/// Counts of what was done; none may be zero after a run that is worth its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Strayed {
    /// Listings registered and never proven.
    pub(super) listings: u64,
    /// Attempts made and never bound.
    pub(super) attempts: u64,
    /// Revocations that were left to end.
    pub(super) revoked: u64,
    /// Revocations that were lifted.
    pub(super) lifted: u64,
    /// Long polls whose client went away.
    pub(super) polls: u64,
    /// Connections that said half of something.
    pub(super) halves: u64,
}

impl Strayed {
    /// Whether every collection had its visitors.
    pub(super) fn is_complete(&self) -> bool {
        let Self { listings, attempts, revoked, lifted, polls, halves } = *self;
        [listings, attempts, revoked, lifted, polls, halves].into_iter().all(|count| count > 0)
    }
}

/// Until `stop`, one visitor after the other.
///
/// # Errors
/// The server could not be reached. What it refuses is no error.
pub(super) fn stray(server: SocketAddr, operator_key: &str, stop: &AtomicBool) -> io::Result<Strayed> {
    let mut strayed = Strayed::default();
    let mut left_open: VecDeque<TcpStream> = VecDeque::with_capacity(LEFT_OPEN + 1);
    let mut round = 0_u64;
    // A flag and nothing else is told through it.
    while !stop.load(Ordering::Relaxed) {
        round += 1;
        visit(server, operator_key, round, &mut strayed, &mut left_open)?;
        while left_open.len() > LEFT_OPEN {
            left_open.pop_front();
        }
        thread::sleep(PAUSE);
    }
    Ok(strayed)
}

fn visit(
    server: SocketAddr,
    operator_key: &str,
    round: u64,
    strayed: &mut Strayed,
    left_open: &mut VecDeque<TcpStream>,
) -> io::Result<()> {
    let base = format!("/v1/tenants/{TENANT}");
    let guest = ask(server, "POST", &format!("{base}/guests"), &[], "")?;
    let (Some(token), Some(principal)) = (guest.text("/token"), guest.text("/principal")) else { return Ok(()) };
    let bearer = format!("Bearer {token}");
    let registered = register(server, &base, &bearer)?;
    let (Some(listing), Some(lease)) = (registered.text("/listing_id"), registered.text("/lease_token")) else {
        return Ok(());
    };
    strayed.listings += 1;
    // Not present, so this is refused; the one below joins what the load has registered.
    let headers = [("Authorization", bearer.as_str()), ("Idempotency-Key", "join")];
    if let Some(present) = first_listing(server, &base, round)? {
        let joined = ask(server, "POST", &format!("{base}/listings/{present}/attempts"), &headers, "{}")?;
        strayed.attempts += u64::from(joined.status == 201);
    }
    let key = format!("revocation-{round}");
    let operator = format!("Bearer {operator_key}");
    let headers = [("Authorization", operator.as_str()), ("Idempotency-Key", key.as_str())];
    let body = format!(r#"{{"tenant":"{TENANT}","principal":"{principal}","ttl_ms":1000}}"#);
    match round % 4 {
        0 => {
            let answer = ask(server, "POST", "/v1/operator/revocations", &headers, &body)?;
            strayed.revoked += u64::from(answer.status == 200);
        }
        1 => {
            ask(server, "POST", "/v1/operator/revocations", &headers, &body)?;
            let path = format!("/v1/operator/revocations?tenant={TENANT}&principal={principal}");
            let answer = ask(server, "DELETE", &path, &headers[..1], "")?;
            strayed.lifted += u64::from(answer.status == 204);
        }
        2 => {
            let headers = [("Authorization", bearer.as_str()), ("Lease-Token", lease.as_str()), ("Prefer", "wait=30")];
            left_open.push_back(send(server, "GET", &format!("{base}/listings/{listing}/attempts"), &headers, "")?);
            strayed.polls += 1;
        }
        _ => {
            // A request whose body never comes.
            let headers = [("Authorization", bearer.as_str()), ("Idempotency-Key", "half"), ("Content-Length", "64")];
            left_open.push_back(send(server, "POST", &format!("{base}/listings"), &headers, "")?);
            strayed.halves += 1;
        }
    }
    Ok(())
}

fn register(server: SocketAddr, base: &str, bearer: &str) -> io::Result<Answer> {
    let headers = [("Authorization", bearer), ("Idempotency-Key", "first")];
    let body = r#"{"protocol":"stray","details":{"name":"stray","max_players":4}}"#;
    ask(server, "POST", &format!("{base}/listings"), &headers, body)
}

/// A listing of the load, from its ten protocols in turn.
fn first_listing(server: SocketAddr, base: &str, round: u64) -> io::Result<Option<String>> {
    let protocol = crate::load::generate::protocol(round);
    let path = format!("{base}/listings?protocol={}&limit=1", protocol.replace('/', "%2F"));
    Ok(ask(server, "GET", &path, &[], "")?.text("/listings/0/listing_id"))
}
