//! Hosting: register, keep alive, take down.

use super::browse::protocol;
use super::{Lease, Player};
use crate::client::http::{ListingDetails, Registered, Registration};
use crate::clock::Clock;
use crate::credentials::{REALM, long_term_key};
use crate::load::generate::http::Ask;
use crate::load::generate::tally::Outcome;
use crate::load::generate::udp::Signer;
use bytes::Bytes;
use hyper::Method;
use hyper::header::{self, HeaderName};

pub(in super::super) const LEASE_TOKEN: HeaderName = HeaderName::from_static("lease-token");
pub(in super::super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

impl Player {
    /// Registers one listing, under a new key.
    pub(in super::super) async fn register(&mut self) -> Result<Outcome, Outcome> {
        let number = self.entropy.bits();
        let registration = serde_json::to_vec(&registration(number)).map_err(|_| Outcome::Unexpected)?;
        let (path, key) = (format!("{}/listings", self.base), self.entropy.key());
        let bearer = bearer(self.identity.host.expose());
        let headers = [(header::AUTHORIZATION, bearer.as_str()), (IDEMPOTENCY_KEY, key.as_str())];
        let ask = Ask { method: Method::POST, path: &path, headers: &headers, body: Bytes::from(registration) };
        let answer = self.connection.ask(ask).await?;
        let mut registered: Registered = serde_json::from_slice(&answer.body).map_err(|_| Outcome::Unexpected)?;
        self.stun = std::mem::take(&mut registered.presence.stun);
        let lease = self.lease(registered);
        self.leases.push(lease);
        self.plan_upkeep();
        Ok(Outcome::Done)
    }

    fn lease(&self, registered: Registered) -> Lease {
        let now = self.clock.mono();
        let presence = registered.presence;
        Lease {
            id: registered.listing_id,
            token: registered.lease_token,
            version: registered.version,
            ttl_ms: registered.ttl_ms,
            key: long_term_key(&presence.username, REALM, &presence.password),
            username: presence.username,
            password: presence.password,
            // Milliseconds, as the client library counts, so that no restart of a run falls behind.
            sequence: now.0 / 1_000_000,
            presence_due: now,
            presence_interval_ms: presence.interval_ms,
            renewal_due: now.plus_ms(u64::from(registered.ttl_ms) / 2),
        }
    }

    /// Renews the lease whose turn it is.
    pub(super) async fn renew_next(&mut self) -> Result<Outcome, Outcome> {
        let position = self.next_lease().ok_or(Outcome::Unexpected)?;
        self.renew(position).await
    }

    /// Renews one lease by its version.
    pub(super) async fn renew(&mut self, position: usize) -> Result<Outcome, Outcome> {
        let lease = &mut self.leases[position];
        let path = format!("{}/listings/{}/renew", self.base, lease.id);
        let (bearer, version) = (bearer(self.identity.host.expose()), format!("\"{}\"", lease.version));
        let headers = [
            (header::AUTHORIZATION, bearer.as_str()),
            (LEASE_TOKEN, lease.token.expose()),
            (header::IF_MATCH, version.as_str()),
        ];
        let body = Bytes::from_static(b"{}");
        lease.renewal_due = self.clock.mono().plus_ms(u64::from(lease.ttl_ms) / 2);
        let answer = self.connection.ask(Ask { method: Method::POST, path: &path, headers: &headers, body }).await;
        match answer {
            Ok(answer) => lease.version = answer.version().ok_or(Outcome::Unexpected)?,
            // Whether it happened is unknown: the next one may find the version moved, which is a conflict and told as one.
            Err(outcome) => {
                if let Some(current) = self.connection.current_version.take() {
                    lease.version = current;
                }
                return Err(outcome);
            }
        }
        Ok(Outcome::Done)
    }

    /// Presence of the lease whose turn it is.
    pub(super) async fn presence_next(&mut self) -> Result<Outcome, Outcome> {
        let position = self.next_lease().ok_or(Outcome::Unexpected)?;
        self.presence(position).await
    }

    /// One presence exchange.
    pub(in super::super) async fn presence(&mut self, position: usize) -> Result<Outcome, Outcome> {
        let lease = &mut self.leases[position];
        let now = self.clock.mono();
        lease.sequence = (lease.sequence + 1).max(now.0 / 1_000_000);
        lease.presence_due = now.plus_ms(lease.presence_interval_ms.into());
        let signer = Signer { username: &lease.username, key: &lease.key };
        let ports = self.ports.as_mut().ok_or(Outcome::Unexpected)?;
        ports.host.exchange(&signer, Some(lease.sequence), &mut self.entropy).await?;
        Ok(Outcome::Done)
    }

    /// Deletes the lease that was registered first.
    pub(in super::super) async fn delete_oldest(&mut self) -> Result<Outcome, Outcome> {
        let lease = self.leases.first().ok_or(Outcome::Unexpected)?;
        let path = format!("{}/listings/{}", self.base, lease.id);
        let bearer = bearer(self.identity.host.expose());
        let headers = [(header::AUTHORIZATION, bearer.as_str()), (LEASE_TOKEN, lease.token.expose())];
        self.connection.ask(Ask { method: Method::DELETE, path: &path, headers: &headers, body: Bytes::new() }).await?;
        self.leases.remove(0);
        Ok(Outcome::Done)
    }
}

pub(super) fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// A game like many: about 290 bytes as JSON.
fn registration(number: u64) -> Registration {
    Registration {
        protocol: protocol(number),
        details: ListingDetails {
            name: format!("Load {}", number % 1_000_000),
            map: Some("dust".into()),
            mode: Some("ctf".into()),
            region: Some("eu-west".into()),
            players: (number % 16) as u16,
            max_players: 16,
            tags: vec!["modded".into()],
            attributes: std::collections::BTreeMap::from([
                ("skill".to_owned(), serde_json::json!(1200)),
                ("voice".to_owned(), serde_json::json!(true)),
            ]),
            ..ListingDetails::default()
        },
        ..Registration::default()
    }
}
