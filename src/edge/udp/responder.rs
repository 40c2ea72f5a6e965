//! The order of checks, cheapest first. No I/O, no clock, no waiting.

use super::answerer::{Answerer, CHALLENGE_BYTES};
use super::budget::{BucketTable, Rate, UnprovenBudget};
use super::conversation::{Conversation, Conversations};
use super::cookie::CookieKey;
use super::question::{Arrival, Decision, Listener, Question, ReplyTo, Silence, Transmit};
use super::settings::{Budgets, Entropy};
use super::username::{MessageKey, Username};
use crate::credentials::{InstanceKey, REALM, fingerprint};
use crate::domain::{Endpoint, Fingerprint, InstanceId, MonoTime, NoteUnverified, Presence, Source};
use crate::service::{Ask, BindRequest};
use crate::stun::{
    AttributeType, Class, FINGERPRINT_ATTRIBUTE_BYTES, FingerprintCheck, HEADER_BYTES, Message, Method,
    PASSWORD_ALGORITHM_SHA256, ParseError,
};
use std::net::SocketAddr;
use std::sync::Arc;

/// Bytes of the value of MESSAGE-INTEGRITY-SHA256.
const INTEGRITY_VALUE_BYTES: usize = 32;

/// The secrets, the id and the freshness of one life of the process.
#[derive(Clone, Debug)]
pub struct Protocol {
    /// Derives presence and joiner passwords.
    pub credentials: InstanceKey,
    /// 32 random bytes; nonces and transaction ids are derived from them and the instance id.
    pub entropy: Entropy,
    /// This life of the process.
    pub instance: InstanceId,
    /// Age up to which a nonce is fresh.
    pub nonce_fresh_ms: u32,
}

/// Decides what one datagram deserves. Budgets and what sources have proven are its only state, in fixed tables.
#[derive(Debug)]
pub struct Responder {
    credentials: InstanceKey,
    cookie: CookieKey,
    answerer: Answerer,
    unproven: UnprovenBudget,
    per_credential: BucketTable,
    conversations: Conversations,
    own: Vec<SocketAddr>,
    classic: bool,
    nonce_fresh_ms: u32,
}

/// The parts of a request that carries integrity, USERNAME, REALM and NONCE.
struct Claim<'a> {
    username: &'a [u8],
    realm: &'a [u8],
    nonce: &'a [u8],
    sequence: Option<u64>,
    /// Whether an attribute that has to be understood is not.
    has_unknown: bool,
}

/// A request on its way through the checks.
struct Request<'a> {
    message: Message<'a>,
    arrival: Arrival,
    endpoint: Endpoint,
    now: MonoTime,
}

impl Responder {
    /// `own` are the addresses of the edge's sockets: nothing that comes from them is looked at.
    pub fn new(protocol: &Protocol, budgets: &Budgets, own: Vec<SocketAddr>, classic: bool) -> Self {
        let cookie = CookieKey::new(&protocol.entropy, protocol.instance);
        let answerer = Answerer::new(cookie.clone(), protocol.instance, own.clone());
        let per_credential = Rate::new(budgets.per_credential_per_s, budgets.per_credential_per_s);
        Self {
            credentials: protocol.credentials.clone(),
            cookie,
            answerer,
            unproven: UnprovenBudget::new(budgets.unproven_per_source_per_s, budgets.unproven_global_per_s),
            per_credential: BucketTable::new(per_credential),
            conversations: Conversations::new(),
            own,
            classic,
            nonce_fresh_ms: protocol.nonce_fresh_ms,
        }
    }

    /// Turns the lane's results into answers; a cheap copy that tasks may take along.
    pub fn answerer(&self) -> &Answerer {
        &self.answerer
    }

    /// Judges one datagram.
    pub fn receive(&mut self, bytes: &[u8], arrival: Arrival, now: MonoTime) -> Decision {
        let message = match Message::parse(bytes) {
            Ok(message) => message,
            Err(error) => return self.not_stun(bytes, arrival, error, now),
        };
        if message.class() != Class::Request || message.method() != Method::BINDING {
            return Decision::Silence(Silence::NotABindingRequest);
        }
        let Some(endpoint) = self.outside(arrival) else { return Decision::Silence(Silence::Source) };
        if message.check_fingerprint() == FingerprintCheck::Wrong {
            return Decision::Silence(Silence::Fingerprint);
        }
        let request = Request { message, arrival, endpoint, now };
        if message.has_integrity() {
            return self.with_integrity(&request);
        }
        let names_somebody = [AttributeType::USERNAME, AttributeType::USERHASH];
        if names_somebody.iter().any(|attribute| message.attribute(*attribute).is_some()) {
            return self.challenge(&request, 401);
        }
        match arrival.listener {
            Listener::Plain => self.plain(&request),
            Listener::Challenging => self.challenge(&request, 401),
        }
    }

    /// The folded source, unless nobody outside can have it.
    fn outside(&self, arrival: Arrival) -> Option<Endpoint> {
        let endpoint = Endpoint::new(arrival.source)?;
        let source = endpoint.address();
        let asked = arrival.local.ip.map(|ip| crate::domain::endpoint::fold(SocketAddr::new(ip, 0)).ip());
        // A socket on a wildcard address owns its port on every local address; the one that was asked is known.
        let is_own = self.own.iter().any(|own| {
            own.port() == source.port()
                && (own.ip() == source.ip()
                    || own.ip().is_unspecified() && (asked == Some(source.ip()) || source.ip().is_loopback()))
        });
        if is_own { None } else { Some(endpoint) }
    }

    /// A Binding request of RFC 3489 has no cookie; it is answered only where the operator wants it.
    fn not_stun(&mut self, bytes: &[u8], arrival: Arrival, error: ParseError, now: MonoTime) -> Decision {
        let is_classic = error == ParseError::Cookie
            && bytes[..2] == [0x00, 0x01]
            && usize::from(u16::from_be_bytes([bytes[2], bytes[3]])) == bytes.len() - HEADER_BYTES;
        if !(self.classic && is_classic && arrival.listener == Listener::Plain) {
            return Decision::Silence(Silence::NotStun);
        }
        let Some(endpoint) = self.outside(arrival) else { return Decision::Silence(Silence::Source) };
        let answer = self.answerer.classic(bytes, endpoint);
        self.unproven_answer(arrival, endpoint, bytes.len(), answer, now)
    }

    /// No USERNAME and no integrity: a stock client that asks for its address.
    fn plain(&mut self, request: &Request<'_>) -> Decision {
        let unknown = request.message.unknown_required();
        let answer = if unknown.is_empty() {
            self.answerer.mapped_address(&request.message, request.endpoint)
        } else {
            self.answerer.unknown_attributes(request.message.transaction(), &unknown)
        };
        self.unproven_answer(request.arrival, request.endpoint, request.message.bytes().len(), answer, request.now)
    }

    /// Some integrity attribute is there; what does it prove?
    fn with_integrity(&mut self, request: &Request<'_>) -> Decision {
        let message = &request.message;
        let Some(claim) = claim(message) else { return self.no_claim(request) };
        let username = Username::parse(claim.username);
        let known = username.and_then(|username| self.conversations.find(request.endpoint, username, claim.nonce));
        let known = known.cloned();
        let issued = known.as_ref().map(|known| known.issued);
        let Some(issued) = issued.or_else(|| self.cookie.check(claim.nonce, request.endpoint)) else {
            return self.without_nonce(request, &claim, username);
        };
        let proven = match known {
            Some(known) => holds(request, &claim, &known.key).then_some(known),
            None => username.and_then(|username| self.prove(request, &claim, username, issued)),
        };
        let Some(proven) = proven else {
            let is_fresh = request.now.ms_since(issued) <= u64::from(self.nonce_fresh_ms);
            return if is_fresh { self.proven_challenge(request) } else { self.challenge(request, 401) };
        };
        let budget = proven.budget;
        let reply = ReplyTo {
            source: request.arrival.source,
            local: request.arrival.local,
            transaction: message.transaction(),
            datagram: datagram_fingerprint(message),
            proven,
        };
        if claim.has_unknown {
            return Decision::Transmit(self.answerer.unknown_attributes_signed(&reply, &message.unknown_required()));
        }
        if !self.per_credential.take_at(budget, request.now) {
            return Decision::Transmit(self.answerer.over_quota(&reply));
        }
        Decision::Ask(Box::new(Question { ask: ask(&claim, &reply), reply }))
    }

    /// Integrity without what it needs: a name that is hidden can be challenged, all else is malformed.
    fn no_claim(&mut self, request: &Request<'_>) -> Decision {
        let message = &request.message;
        let names = |attribute| message.attribute(attribute).is_some();
        if !names(AttributeType::USERNAME) && names(AttributeType::USERHASH) {
            return self.challenge(request, 401);
        }
        let answer = self.answerer.bad_request(message.transaction());
        self.unproven_answer(request.arrival, request.endpoint, message.bytes().len(), answer, request.now)
    }

    /// Derives the key of a credential, and remembers it for this source where the integrity holds.
    fn prove(
        &mut self,
        request: &Request<'_>,
        claim: &Claim<'_>,
        username: Username,
        issued: MonoTime,
    ) -> Option<Arc<Conversation>> {
        let key = username.key(&self.credentials);
        if !holds(request, claim, &key) {
            return None;
        }
        let budget = self.per_credential.place(username);
        let nonce = claim.nonce.try_into().ok()?;
        let proven = Arc::new(Conversation { source: request.endpoint, username, nonce, issued, key, budget });
        self.conversations.note(Arc::clone(&proven));
        Some(proven)
    }

    /// The nonce is not one of ours for this source: 438. A presence datagram may still be a host whose NAT gave it another
    /// address while it can't read our challenge; then the owner's view shall show where it is.
    fn without_nonce(&mut self, request: &Request<'_>, claim: &Claim<'_>, username: Option<Username>) -> Decision {
        let note = self.unverified(request, claim, username);
        let answer = self.challenge(request, 438);
        match (note, answer) {
            (None, answer) => answer,
            (Some(note), Decision::Transmit(transmit)) => Decision::Note(note, Some(transmit)),
            (Some(note), _) => Decision::Note(note, None),
        }
    }

    /// The note about an authentic `p1` datagram, within the budget of its source and the credential's own one for notes:
    /// whoever repeats a captured datagram from many sources must not spend what the host's refreshes live on.
    fn unverified(
        &mut self,
        request: &Request<'_>,
        claim: &Claim<'_>,
        username: Option<Username>,
    ) -> Option<NoteUnverified> {
        let Some(username @ Username::Presence(listing)) = username else { return None };
        let sequence = claim.sequence?;
        if !self.unproven.take(Source::of(request.endpoint.address().ip()), request.now) {
            return None;
        }
        if !holds(request, claim, &username.key(&self.credentials)) || claim.has_unknown {
            return None;
        }
        if !self.per_credential.take(("note", username), request.now) {
            return None;
        }
        Some(NoteUnverified { listing, endpoint: request.endpoint, sequence })
    }

    /// 401 or 438 towards a source that has not proven itself. The cost of the nonce comes after the budget.
    fn challenge(&mut self, request: &Request<'_>, code: u16) -> Decision {
        let length = request.message.bytes().len();
        if length < CHALLENGE_BYTES && !self.afford(request.endpoint, request.now) {
            return Decision::Silence(Silence::Budget);
        }
        let bytes = self.answerer.challenge(code, request.message.transaction(), request.endpoint, request.now);
        Decision::Transmit(transmit(request.arrival, bytes))
    }

    /// 401 towards a source whose nonce proves it.
    fn proven_challenge(&self, request: &Request<'_>) -> Decision {
        let bytes = self.answerer.challenge(401, request.message.transaction(), request.endpoint, request.now);
        Decision::Transmit(transmit(request.arrival, bytes))
    }

    /// Sends `answer` if it is no longer than its request or a token pays for it.
    fn unproven_answer(
        &mut self,
        arrival: Arrival,
        endpoint: Endpoint,
        request_bytes: usize,
        answer: Vec<u8>,
        now: MonoTime,
    ) -> Decision {
        if answer.len() > request_bytes && !self.afford(endpoint, now) {
            return Decision::Silence(Silence::Budget);
        }
        Decision::Transmit(transmit(arrival, answer))
    }

    fn afford(&mut self, endpoint: Endpoint, now: MonoTime) -> bool {
        self.unproven.take(Source::of(endpoint.address().ip()), now)
    }
}

fn transmit(arrival: Arrival, bytes: Vec<u8>) -> Transmit {
    Transmit { to: arrival.source, local: arrival.local, bytes }
}

/// Everything that the long-term mechanism asks for, well-formed; otherwise 400. SHA-1 alone proves nothing, but its
/// sender can do better once it sees our challenge, so a missing SHA-256 attribute is no error of form.
fn claim<'a>(message: &Message<'a>) -> Option<Claim<'a>> {
    if message.integrity_sha256().is_some_and(|value| value.len() != 32) {
        return None;
    }
    // One walk for all of them; of each the first occurrence counts.
    const WANTED: [AttributeType; 6] = [
        AttributeType::USERNAME,
        AttributeType::REALM,
        AttributeType::NONCE,
        AttributeType::PASSWORD_ALGORITHMS,
        AttributeType::PASSWORD_ALGORITHM,
        AttributeType::RV_SEQUENCE,
    ];
    let mut found = [None; WANTED.len()];
    let mut has_unknown = false;
    for (attribute, value) in message.attributes() {
        has_unknown |= attribute.is_comprehension_required() && !attribute.is_known();
        if let Some(position) = WANTED.iter().position(|wanted| *wanted == attribute) {
            found[position].get_or_insert(value);
        }
    }
    let [username, realm, nonce, algorithms, algorithm, sequence] = found;
    let echoed = [algorithms, algorithm].iter().all(|echo| *echo == Some(&PASSWORD_ALGORITHM_SHA256[..]));
    let sequence = sequence.map(|value| value.try_into().map(u64::from_be_bytes)).transpose().ok()?;
    echoed.then_some(Claim { username: username?, realm: realm?, nonce: nonce?, sequence, has_unknown })
}

/// REALM and integrity.
fn holds(request: &Request<'_>, claim: &Claim<'_>, key: &MessageKey) -> bool {
    claim.realm == REALM.as_bytes() && request.message.verify_integrity_by(&key.prepared)
}

/// The fingerprint of a datagram whose integrity holds: equal for identical bytes only. The integrity value is a hash of
/// what is before it; behind it there is usually a right FINGERPRINT, which follows from the rest and adds nothing. Anything
/// else there, also nothing, is hashed with it.
fn datagram_fingerprint(message: &Message<'_>) -> Fingerprint {
    let sealed = message.integrity_and_rest().unwrap_or_default();
    let Some((value, rest)) = sealed.split_first_chunk::<INTEGRITY_VALUE_BYTES>() else { return fingerprint(sealed) };
    // A wrong one, or one of another length, has been dropped before.
    let is_fingerprint = rest.starts_with(&AttributeType::FINGERPRINT.0.to_be_bytes());
    if is_fingerprint && rest.len() == FINGERPRINT_ATTRIBUTE_BYTES {
        let mut first = [0; 16];
        first.copy_from_slice(&value[..16]);
        return Fingerprint(u128::from_be_bytes(first));
    }
    fingerprint(sealed)
}

/// The question that a verified request asks.
fn ask(claim: &Claim<'_>, reply: &ReplyTo) -> Ask {
    let (endpoint, datagram, nonce_issued) = (reply.endpoint(), reply.datagram, reply.proven.issued);
    let bind = |attempt, listing| Ask::Bind(BindRequest { attempt, listing, endpoint, datagram, nonce_issued });
    match reply.proven.username {
        Username::Presence(listing) => {
            Ask::Presence(Presence { listing, endpoint, datagram, sequence: claim.sequence, nonce_issued })
        }
        Username::Joiner(attempt) => bind(attempt, None),
        Username::Host(listing, attempt) => bind(attempt, Some(listing)),
    }
}
