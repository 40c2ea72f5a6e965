//! What the steps of a plan do.

use super::{NOBODYS, World, name_of, tenant_of};
use crate::actors::{Host, Joiner};
use crate::calls::{Call, Fate, Request, Task, renew_body, serve};
use crate::network::{Flight, Origin, SERVER_V4, SERVER_V6, STRANGER};
use crate::plan::{Act, Again, JoinAct};
use crate::server::{Server, limits};
use crate::truth::{OPERATOR, Truth};
use rendezvous::domain::*;
use rendezvous::service::{Caller, NamedSubject};
use rendezvous::stun::{AttributeType, Class, FINGERPRINT_ATTRIBUTE_BYTES, Message, MessageBuilder, Method};
use std::net::SocketAddr;

/// A day of the wall clock.
const DAY_MS: i64 = 86_400_000;
/// Bytes of MESSAGE-INTEGRITY-SHA256 and FINGERPRINT at a datagram's end: what is before them is covered.
const SEAL_BYTES: usize = 44;
/// RFC 8489 section 14.7.
const FINGERPRINT_XOR: u32 = 0x5354_554E;

impl World {
    pub(super) fn act(&mut self, act: Act) {
        match act {
            Act::Nothing => {}
            Act::Host(host, act) => self.turn(host, |it, _, turn| it.into_iter().for_each(|it| it.act(act, turn))),
            Act::Joiner(joiner, act) => self.act_of_joiner(joiner, act),
            Act::Freeze(actor, ms) => self.freeze(actor, ms),
            Act::Rebind(actor) => self.network.rebind(actor),
            Act::Vanish(actor) => self.replace(actor),
            Act::Lease(host) => {
                if let Some((listing, token)) = self.lease_of(host) {
                    self.send(host, NOBODYS, Request::Lease { listing, token }, 0);
                }
            }
            Act::RevokeListing(host) => {
                let listing = self.hosts[host].as_ref().and_then(Host::listing);
                listing.into_iter().for_each(|listing| self.revoke(tenant_of(host), NamedSubject::Listing(listing)));
            }
            Act::RevokePrincipal(actor) => self.revoke(tenant_of(actor), NamedSubject::Principal(name_of(actor))),
            Act::Lift => {
                let actor = self.rng.below(self.plan.knobs.actors() as u64) as usize;
                self.lift(actor);
            }
            Act::Status => self.order(Request::Status),
            Act::Drain(window_ms) => self.order(Request::Drain { window_ms }),
            Act::Wall(days) => {
                let wall = self.clock.wall_now().0.saturating_add_signed(days * DAY_MS);
                self.clock.set_wall(WallTime(wall));
            }
            Act::Stall(ms) => self.stalled_until = self.now().plus_ms(ms),
            Act::Restart(down_ms) => self.restart(down_ms),
            Act::Poison(while_stamping) => self.poison(while_stamping),
            Act::Replay(again) => self.replay(again),
            Act::Forge => self.forge(),
            Act::Contend => self.contend(),
        }
    }

    fn act_of_joiner(&mut self, joiner: usize, act: JoinAct) {
        match act {
            JoinAct::Join => {
                if let Some(listing) = self.some_listing() {
                    self.turn(joiner, |_, it, turn| it.into_iter().for_each(|it| it.join(listing, turn)));
                }
            }
            JoinAct::Close | JoinAct::Watch => {
                let attempt = self.some_attempt(joiner);
                let Some(attempt) = attempt else { return };
                let request = if act == JoinAct::Close {
                    Request::Close { attempt }
                } else {
                    let after = self.rng.chance(500).then(|| self.rng.below(40));
                    Request::Watch { attempt, after, wait_ms: self.rng.below(5_000) }
                };
                self.send(joiner, NOBODYS, request, 0);
            }
            JoinAct::Misuse => self.misuse(joiner),
        }
    }

    /// Any listing that ever was, most likely one of the last ones.
    fn some_listing(&self) -> Option<ListingId> {
        let ids: Vec<_> = self.truth.listings.keys().rev().copied().collect();
        let most = if self.rng.chance(850) { 3.min(ids.len()) } else { ids.len() };
        ids.get(self.rng.below(most as u64) as usize).copied()
    }

    fn some_attempt(&self, of: usize) -> Option<AttemptId> {
        let any = self.rng.chance(100);
        let ids = self.truth.attempts.iter().rev().filter(|(_, it)| any || it.joiner == of || it.host == of);
        let ids: Vec<_> = ids.map(|(id, _)| *id).take(3).collect();
        ids.get(self.rng.below(ids.len() as u64) as usize).copied()
    }

    fn lease_of(&self, host: usize) -> Option<(ListingId, String)> {
        let host = self.hosts[host].as_ref()?;
        Some((host.listing()?, host.token()?.to_owned()))
    }

    /// Uses what belongs to somebody else, with and without its token: it must look absent.
    fn misuse(&mut self, who: usize) {
        let host = self.rng.below(self.plan.knobs.hosts as u64) as usize;
        let Some((listing, token)) = self.lease_of(host) else { return };
        let token = if self.rng.chance(500) { token } else { "guessed".to_owned() };
        let attempt = self.truth.attempts.keys().next_back().copied();
        let version = self.truth.listings.get(&listing).map_or(1, |listing| listing.version);
        let request = match (self.rng.below(6), attempt) {
            (0, _) => Request::Delete { listing, token },
            (1, _) => Request::Renew { listing, token, version, body: renew_body(None, None, None) },
            (2, _) => Request::Lease { listing, token },
            (3, _) => Request::Offers { listing, token, after: 0, wait_ms: 0 },
            (4, Some(attempt)) => Request::Admit { attempt, token, admit: true },
            (_, Some(attempt)) => Request::Watch { attempt, after: None, wait_ms: 0 },
            (_, None) => return,
        };
        // Sometimes the owner itself, with a token that is not the listing's.
        let who = if token_is_wrong(&request) && self.rng.chance(300) { host } else { who };
        self.send(who, NOBODYS, request, 0);
    }

    fn freeze(&mut self, actor: usize, ms: u64) {
        let (until, hosts) = (self.now().plus_ms(ms), self.plan.knobs.hosts);
        if actor < hosts {
            self.hosts[actor].iter_mut().for_each(|host| host.frozen_until = until);
        } else {
            self.joiners[actor - hosts].iter_mut().for_each(|joiner| joiner.frozen_until = until);
        }
    }

    /// An actor's process is gone; another one begins.
    pub(super) fn replace(&mut self, actor: usize) {
        let (now, seed, hosts, polls) = (self.now(), self.plan.seed, self.plan.knobs.hosts, self.plan.knobs.polls);
        if actor < hosts {
            self.hosts[actor].iter_mut().for_each(|it| *it = Host::new(actor, it.life + 1, seed, polls, now));
        } else {
            self.joiners[actor - hosts].iter_mut().for_each(|it| *it = Joiner::new(actor, it.life + 1, seed));
        }
    }

    fn revoke(&mut self, tenant: TenantId, subject: NamedSubject) {
        // Now and then a key that was used before.
        let number = if self.rng.chance(100) { 1 } else { self.number() };
        let ttl_ms = 1_000 + self.rng.below(5_000);
        self.order(Request::Revoke { tenant, subject, ttl_ms, key: format!("order {number}") });
    }

    pub(super) fn lift(&mut self, actor: usize) {
        let subject = NamedSubject::Principal(name_of(actor));
        self.order(Request::Lift { tenant: tenant_of(actor), subject });
    }

    /// An operator's call, which is done at once.
    pub(super) fn order(&mut self, request: Request) {
        let Some(server) = &self.server else { return };
        if self.stalled_until > self.now() {
            return;
        }
        let principal = server.service.principal(TenantId(0), "operator");
        let task = serve(server.service.clone(), Caller { principal, guest_source: None }, request.clone());
        let (now, mut task) = (self.now(), Task::new(task));
        let answer = task.go_on().expect("an idle lane answers at once");
        let call = Call { who: OPERATOR, life: 0, request, task, fate: Fate::Answered, starts: now, gives_up: now };
        self.finish(call, answer);
    }

    /// The process ends without a word. What was under way is over, and nobody knows whether it was done.
    pub(super) fn restart(&mut self, down_ms: u64) {
        self.server = None;
        self.report.restarts += 1;
        (self.ends_at, self.back_at) = (None, Some(self.now().plus_ms(down_ms)));
        for call in std::mem::take(&mut self.calls) {
            self.answer(call, None, 0);
        }
    }

    pub(super) fn begin_life(&mut self) {
        self.back_at = None;
        self.life += 1;
        self.server = Some(Server::start(&self.plan, self.life, &self.clock));
        self.truth = Truth::new(limits(&self.plan.knobs.caps), self.plan.knobs.caps.clone());
        (self.next_tick, self.stalled_until) = (self.now(), MonoTime(0));
    }

    fn poison(&mut self, while_stamping: bool) {
        let Some(server) = &self.server else { return };
        self.truth.may_be_lost = true;
        if while_stamping && self.stalled_until <= self.now() {
            self.clock.panic_next();
            self.order(Request::Status);
            assert!(self.truth.is_lost, "J1: a panic while a command is stamped goes by unnoticed");
        } else {
            server.watch.panic_next();
        }
    }

    /// Sends a captured datagram once more.
    fn replay(&mut self, again: Again) {
        let Some(mut flight) = self.network.captured(&self.rng) else { return };
        let Origin::Actor(actor) = flight.origin else { return };
        let (now, rng) = (self.now(), self.rng.clone());
        match again {
            Again::SameSource => flight.origin = Origin::Repeated(actor),
            Again::Elsewhere => {
                flight.origin = Origin::Attacker;
                let is_v4 = flight.from.is_ipv4();
                // The same host by another port, or somebody else.
                flight.from = match rng.below(2) {
                    0 => SocketAddr::new(flight.from.ip(), flight.from.port() ^ 1),
                    _ if is_v4 => STRANGER,
                    _ => SocketAddr::from(([0x2001, 0xdb8, 0xbad, 0, 0, 0, 0, 1], 6_666)),
                };
            }
            Again::Turned => {
                flight.origin = Origin::Attacker;
                let covered = flight.bytes.len().saturating_sub(SEAL_BYTES).max(1);
                let place = rng.below(covered as u64) as usize;
                flight.bytes[place] ^= 1 << rng.below(8);
                renew_fingerprint(&mut flight.bytes);
            }
        }
        self.report.replayed += 1;
        self.network.fly(flight, now, &rng);
    }

    /// Something that the server never said, seemingly from it: whoever can see a request can write such an answer.
    fn forge(&mut self) {
        let Some(seen) = self.network.captured(&self.rng) else { return };
        let Ok(request) = Message::parse(&seen.bytes) else { return };
        let (now, rng) = (self.now(), self.rng.clone());
        let stranger = |message: MessageBuilder| message.xor_address(AttributeType::RV_PEER_ADDRESS, STRANGER);
        let name = request.text(AttributeType::USERNAME).ok().flatten().unwrap_or("p1.nobody").to_owned();
        // The attempt that the request names, so that a client which believes this has a use for it.
        let named = name.rsplit('.').next().and_then(AttemptId::parse);
        let attempt = named.or_else(|| self.parties.keys().next_back().copied()).map_or(0, |attempt| attempt.0);
        let message = match rng.below(4) {
            0 => MessageBuilder::new(Class::Error, Method::BINDING, request.transaction())
                .error_code(if rng.chance(500) { 401 } else { 438 })
                .text(AttributeType::REALM, "rendezvous")
                .text(AttributeType::NONCE, "obMatJos2gAAAforged-forged-forged-forge")
                .id(AttributeType::RV_INSTANCE, rng.next().into()),
            1 => stranger(MessageBuilder::new(Class::Success, Method::BINDING, request.transaction()))
                .xor_address(AttributeType::XOR_MAPPED_ADDRESS, STRANGER)
                .id(AttributeType::RV_INTRODUCTION, attempt),
            2 => MessageBuilder::new(Class::Error, Method::BINDING, request.transaction())
                .error_code(403)
                .u16(AttributeType::RV_REASON, 1),
            _ => stranger(MessageBuilder::new(Class::Indication, Method::INTRODUCE, request.transaction()))
                .text(AttributeType::USERNAME, &name)
                .id(AttributeType::RV_INTRODUCTION, attempt),
        };
        let message = if rng.chance(500) { message.integrity(&[rng.next() as u8; 32]) } else { message };
        let bytes = message.fingerprint().finish().expect("a short message");
        let from = if seen.from.is_ipv4() { SERVER_V4 } else { SERVER_V6 };
        self.network.fly(Flight { from, to: seen.from, bytes, origin: Origin::Attacker }, now, &rng);
    }
}

/// FINGERPRINT is no secret: whoever turns a bit makes it right again.
fn renew_fingerprint(bytes: &mut [u8]) {
    if let Some(end) = bytes.len().checked_sub(FINGERPRINT_ATTRIBUTE_BYTES) {
        let value = crc32fast::hash(&bytes[..end]) ^ FINGERPRINT_XOR;
        bytes[end + 4..].copy_from_slice(&value.to_be_bytes());
    }
}

fn token_is_wrong(request: &Request) -> bool {
    match request {
        Request::Delete { token, .. } | Request::Renew { token, .. } | Request::Lease { token, .. } => {
            token == "guessed"
        }
        _ => false,
    }
}
