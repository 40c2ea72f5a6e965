//! From a script's small numbers to commands.

use super::{PROTOCOLS, Play};
use crate::script::{Beat, Bid, Joining, Nonce, Op, Opening, Proof, Renewing, Sequence};
use crate::support::*;
use rendezvous::domain::*;
use std::net::SocketAddr;

impl Play {
    /// `None` when the script names something that does not exist yet.
    pub(super) fn command(&mut self, op: &Op) -> Option<Command> {
        let command = match *op {
            Op::Register(opening) => Command::Register(Box::new(self.registration(opening))),
            Op::Renew(renewing) => Command::Renew(self.renewal(renewing)?),
            Op::Delete { listing, proof } => {
                Command::Delete(Delete { proof: choose(&recent(&self.hosts, listing)?, proof) })
            }
            Op::Presence(beat) => Command::Presence(self.beat(beat)?),
            Op::PresenceAgain { listing } => Command::Presence(recent(&self.beats, listing)?),
            Op::NoteUnverified(beat) => {
                let sent = self.beat(beat)?;
                let sequence = sent.sequence.unwrap_or(0);
                Command::NoteUnverified(NoteUnverified { listing: sent.listing, endpoint: sent.endpoint, sequence })
            }
            Op::Again { nth, other_body } => {
                let id = self.number();
                retried(recent(&self.creations, nth)?, id, other_body)
            }
            Op::CreateAttempt(joining) => Command::CreateAttempt(Box::new(self.joining(joining)?)),
            Op::Bind(bid) => {
                let bind = self.bid(bid)?;
                if bid.consume { Command::BindAndConsume(bind) } else { Command::Bind(bind) }
            }
            Op::BindAgain { attempt, consume } => {
                let bind = recent(&self.binds, attempt)?;
                if consume { Command::BindAndConsume(bind) } else { Command::Bind(bind) }
            }
            Op::Consume { attempt } => recent(&self.attempts, attempt)?.consume(),
            Op::Gate { attempt, admit, by } => {
                let attempt = recent(&self.attempts, attempt)?;
                let by = self.authority(&attempt, by);
                if admit { attempt.admit(by) } else { attempt.refuse(by) }
            }
            Op::Close { attempt, by } => recent(&self.attempts, attempt).map(|a| a.close(side(&a, by)))?,
            Op::Report { attempt, by } => {
                recent(&self.attempts, attempt).map(|a| a.report(side(&a, by), Path::Direct))?
            }
            Op::RevokeListing { listing, ttl_ms, key } => {
                revoke(Subject::Listing(recent(&self.hosts, listing)?.id), ttl_ms, key)
            }
            Op::RevokePrincipal { tenant, principal, ttl_ms, key } => {
                revoke(Subject::Principal(principal_of(TenantId(tenant), principal).key), ttl_ms, key)
            }
            Op::LiftListing { listing } => Command::LiftRevocation(Subject::Listing(recent(&self.hosts, listing)?.id)),
            Op::LiftPrincipal { tenant, principal } => {
                Command::LiftRevocation(Subject::Principal(principal_of(TenantId(tenant), principal).key))
            }
            Op::Drain { window_ms } => Command::Drain { window_ms },
            Op::Sweep => Command::Sweep,
            Op::Open(_) | Op::Meet(..) | Op::Wait(_) | Op::Jump(_) | Op::StepWall { .. } | Op::Tick | Op::Look => {
                return None;
            }
        };
        Some(command)
    }

    pub(super) fn registration(&mut self, opening: Opening) -> Register {
        let owner = principal_of(TenantId(opening.tenant), opening.owner);
        let scope = Scope::new(owner.tenant, PROTOCOLS[opening.protocol]).expect("a legal protocol");
        let declared = SocketAddr::from(([10, 0, 0, opening.owner as u8], 5_000));
        Register {
            source: opening.source.map(source),
            idempotency: Idempotency {
                key: IdempotencyKey(owner.key.0 << 32 | u128::from(opening.key)),
                fingerprint: Fingerprint(opening.body.into()),
            },
            visibility: if opening.unlisted { Visibility::Unlisted } else { Visibility::Public },
            ttl: ttl(opening.ttl_ms),
            gate: opening.gate,
            session: opening.key.is_multiple_of(2).then(|| SessionRef(u128::from(opening.key % 3))),
            candidates: Candidates::new([declared]).expect("a private address"),
            quota_per_owner: if opening.tight { 2 } else { 9 },
            quota_per_source: if opening.tight { 1 } else { 9 },
            ..register_in(scope, owner, self.number())
        }
    }

    fn renewal(&mut self, renewing: Renewing) -> Option<Renew> {
        let host = recent(&self.hosts, renewing.listing)?;
        let known = self.model.listings.iter().find(|listing| listing.asked.id == host.id);
        let version = known.map_or(1, |listing| listing.version);
        let visibility = renewing.unlisted.map(|yes| if yes { Visibility::Unlisted } else { Visibility::Public });
        let name = format!("renamed {}", self.number());
        Some(Renew {
            proof: choose(&host, renewing.proof),
            version: version.saturating_add_signed(renewing.version),
            ttl: renewing.ttl_ms.map(ttl),
            details: renewing.rename.then(|| Box::new(details(&name))),
            visibility,
        })
    }

    fn beat(&self, beat: Beat) -> Option<Presence> {
        let host = recent(&self.hosts, beat.listing)?;
        let endpoint = if beat.v6 { v6(1, beat.port) } else { v4(1, beat.port) };
        let listing = self.model.listings.iter().find(|listing| listing.asked.id == host.id);
        let known = listing.and_then(|listing| listing.known[endpoint.family().index()].as_ref());
        let highest = known.and_then(|known| known.highest).unwrap_or(1_000);
        let sequence = match beat.sequence {
            Sequence::Absent => None,
            Sequence::Exactly(sequence) => Some(sequence),
            Sequence::Plus(by) => Some(highest.saturating_add_signed(by)),
            Sequence::Paced(by) => {
                let anchor = known.and_then(|known| known.anchor);
                let (first, since) = anchor.unwrap_or((1_000, self.clock.now()));
                Some(first.saturating_add(self.clock.now().ms_since(since)).saturating_add_signed(by))
            }
        };
        let nonce_issued = self.issued(beat.nonce, known.map(|known| known.nonce_issued));
        let content =
            (u128::from(sequence.map_or(u64::MAX, |s| s.wrapping_mul(31))) << 64) ^ u128::from(nonce_issued.0);
        let place = u128::from(beat.port) << 1 | u128::from(beat.v6);
        let datagram = Fingerprint(content ^ host.id.0 ^ place << 100);
        Some(Presence { listing: host.id, endpoint, datagram, sequence, nonce_issued })
    }

    fn issued(&self, nonce: Nonce, last: Option<MonoTime>) -> MonoTime {
        let now = self.clock.now().0;
        let fresh_ns = u64::from(self.model.limits.nonce_fresh_ms) * 1_000_000;
        match nonce {
            Nonce::Ms(ms) => MonoTime(now - ms * 1_000_000),
            Nonce::Same => last.unwrap_or(MonoTime(now)),
            Nonce::Border(ns) => MonoTime((now - fresh_ns).saturating_add_signed(-i64::from(ns))),
        }
    }

    pub(super) fn joining(&mut self, joining: Joining) -> Option<CreateAttempt> {
        let host = recent(&self.hosts, joining.listing)?;
        let tenant = joining.tenant.map_or(host.owner.tenant, TenantId);
        let joiner = principal_of(tenant, joining.joiner);
        let number = self.number();
        let declared = SocketAddr::from(([10, 0, 1, joining.joiner as u8], 5_000));
        Some(CreateAttempt {
            source: joining.source.map(source),
            idempotency: Idempotency {
                key: IdempotencyKey(joiner.key.0 << 32 | 1 << 120 | u128::from(joining.key)),
                fingerprint: Fingerprint(joining.body.into()),
            },
            protocol: joining.protocol.map(|position| PROTOCOLS[position].into()),
            candidates: Candidates::new([declared]).expect("a private address"),
            payload: Some(format!("payload {number}").into()),
            quota: match joining.tight {
                true => AttemptQuota { per_tenant: 4, per_listing: 3, per_principal: 2, per_source: 1 },
                false => AttemptQuota { per_tenant: 9, per_listing: 9, per_principal: 9, per_source: 9 },
            },
            ..attempt_on(&host, joiner, number)
        })
    }

    fn bid(&self, bid: Bid) -> Option<Bind> {
        let attempt = recent(&self.attempts, bid.attempt)?;
        let role = if bid.joiner { Role::Joiner } else { Role::Host };
        // Ports 1 and 2 are shared by the roles: the first behind one address, the second the very same endpoint.
        let (host, port) = match (bid.port, role) {
            (0, Role::Host) => (1, 4_000),
            (0, Role::Joiner) => (2, 5_000),
            (1, _) => (3, 6_000 + role.index() as u16),
            _ => (4, 7_000),
        };
        let endpoint = if bid.v6 { v6(host, port) } else { v4(host as u8, port) };
        let bind = attempt.bind(role, endpoint, self.issued(bid.nonce, None));
        Some(match bid.wrong {
            1 => Bind { capability: Fingerprint(!bind.capability.0), ..bind },
            2 => Bind { datagram: Fingerprint(!bind.datagram.0), ..bind },
            3 if role == Role::Host => Bind { listing: Some(ListingId(!attempt.listing.0)), ..bind },
            _ => bind,
        })
    }

    fn authority(&self, attempt: &Try, by: u8) -> GateAuthority {
        let host = self.hosts.iter().find(|host| host.id == attempt.listing).expect("the attempt's listing");
        match by {
            0 | 1 => host.authority(),
            2 => GateAuthority::CommandPlane {
                tenant: TenantId(u16::from(self.numbers.is_multiple_of(2))),
                session: SessionRef(u128::from(self.numbers % 3)),
            },
            _ => GateAuthority::Owner { caller: attempt.joiner, lease: host.lease },
        }
    }
}

/// A retry draws a new id, as an edge does.
fn retried(mut creation: Command, id: u64, other_body: bool) -> Command {
    let idempotency = match &mut creation {
        Command::Register(register) => {
            register.id.0 += u128::from(id) << 32;
            &mut register.idempotency
        }
        Command::CreateAttempt(create) => {
            create.id.0 += u128::from(id) << 32;
            &mut create.idempotency
        }
        other => panic!("not a creation: {other:?}"),
    };
    if other_body {
        idempotency.fingerprint.0 ^= 1;
    }
    creation
}

fn side(attempt: &Try, by: u8) -> Principal {
    match by {
        0 => attempt.joiner,
        1 => attempt.host,
        _ => principal(999),
    }
}

fn choose(host: &Host, proof: Proof) -> LeaseProof {
    proof.map_or_else(|| host.proof(), |wrong| host.wrong_proofs()[wrong])
}

/// The n-th newest.
fn recent<T: Clone>(all: &[T], nth: usize) -> Option<T> {
    (!all.is_empty()).then(|| all[all.len() - 1 - nth.min(all.len() - 1)].clone())
}
