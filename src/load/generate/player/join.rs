//! A whole introduction: the attempt over HTTP, both binds over UDP, and the answer that names the other side.

use super::Player;
use super::host::{IDEMPOTENCY_KEY, bearer};
use crate::client::http::JoinTicket;
use crate::credentials::{REALM, host_password, host_username, long_term_key};
use crate::domain::AttemptId;
use crate::load::generate::http::Ask;
use crate::load::generate::tally::Outcome;
use crate::load::generate::udp::Signer;
use bytes::Bytes;
use hyper::{Method, header};

impl Player {
    /// Joins a listing of this worker's own, as another principal and from another socket, and closes the attempt.
    pub(super) async fn join(&mut self) -> Result<Outcome, Outcome> {
        let position = self.next_lease().ok_or(Outcome::Unexpected)?;
        let ticket = self.attempt(position).await?;
        let met = self.meet(position, &ticket).await;
        // Whatever became of it, the attempt is not left behind. Closing it is no part of the latency that players see, so a
        // failure here is the attempt's own end by its deadline.
        let _ends_by_itself = self.close(ticket.attempt_id).await;
        met
    }

    async fn attempt(&mut self, position: usize) -> Result<JoinTicket, Outcome> {
        let path = format!("{}/listings/{}/attempts", self.base, self.leases[position].id);
        let (bearer, key) = (bearer(self.identity.joiner.expose()), self.entropy.key());
        let headers = [(header::AUTHORIZATION, bearer.as_str()), (IDEMPOTENCY_KEY, key.as_str())];
        let body = Bytes::from_static(b"{}");
        let answer = self.connection.ask(Ask { method: Method::POST, path: &path, headers: &headers, body }).await?;
        serde_json::from_slice(&answer.body).map_err(|_| Outcome::Unexpected)
    }

    /// Both binds, and the repetition by which the joiner hears where the host is.
    async fn meet(&mut self, position: usize, ticket: &JoinTicket) -> Result<Outcome, Outcome> {
        let Self { ports, leases, entropy, .. } = self;
        let ports = ports.as_mut().ok_or(Outcome::Unexpected)?;
        let lease = &leases[position];
        let joiner_key = long_term_key(&ticket.bind.username, REALM, &ticket.bind.password);
        let joiner = Signer { username: &ticket.bind.username, key: &joiner_key };
        let host_name = host_username(lease.id, ticket.attempt_id);
        let host_key = long_term_key(&host_name, REALM, &host_password(&lease.password, ticket.attempt_id));
        let host = Signer { username: &host_name, key: &host_key };
        let bound = ports.joiner.bind(&joiner, entropy).await?;
        ports.host.exchange(&host, None, entropy).await?;
        // The joiner's own datagram again: only that one is answered with the introduction.
        let success = ports.joiner.repeat(&bound, &joiner).await?;
        if success.introduced { Ok(Outcome::Done) } else { Err(Outcome::Unexpected) }
    }

    async fn close(&mut self, attempt: AttemptId) -> Result<(), Outcome> {
        let path = format!("{}/attempts/{attempt}", self.base);
        let bearer = bearer(self.identity.joiner.expose());
        let headers = [(header::AUTHORIZATION, bearer.as_str())];
        let ask = Ask { method: Method::DELETE, path: &path, headers: &headers, body: Bytes::new() };
        self.connection.ask(ask).await.map(|_| ())
    }
}
