//! What the UDP edge asks for once a datagram's integrity holds.

use super::{Applied, Service, foreign, secret_fingerprint};
use crate::domain::{
    AttemptId, Bind, Bound, Command, Endpoint, Failure, Fingerprint, ListingId, MonoTime, NoteUnverified, Outcome,
    Presence, Present, Rejection, Role,
};

impl Service {
    /// One authenticated presence datagram (`p1`).
    pub async fn presence(&self, presence: Presence) -> Result<Applied<Present>, Failure> {
        let reply = self.submit(Command::Presence(presence)).await?;
        let Outcome::Present(value) = reply.outcome else { return Err(foreign(&reply.outcome)) };
        Ok(Applied { value, commit: reply.commit, replayed: false })
    }

    /// An authentic `p1` datagram whose nonce was not issued for its source.
    pub async fn note_unverified(&self, note: NoteUnverified) -> Result<Applied<()>, Failure> {
        let reply = self.submit(Command::NoteUnverified(note)).await?;
        let Outcome::Noted = reply.outcome else { return Err(foreign(&reply.outcome)) };
        Ok(Applied { value: (), commit: reply.commit, replayed: false })
    }

    /// One authenticated bind datagram (`j1` or `h1`); introduces in the same transition when it completes a family.
    /// The service fills in the capability, because the verified integrity proves that the sender has it.
    pub async fn bind(
        &self,
        attempt: AttemptId,
        role: Role,
        listing: Option<ListingId>,
        endpoint: Endpoint,
        datagram: Fingerprint,
        nonce_issued: MonoTime,
    ) -> Result<Applied<Bound>, Failure> {
        let capability = match (role, listing) {
            (Role::Host, Some(listing)) => self.key.host_password(listing, attempt),
            (Role::Joiner, None) => self.key.joiner_password(attempt),
            // A host's credential names its listing and a joiner's does not: such a credential does not exist.
            (Role::Host, None) | (Role::Joiner, Some(_)) => return Err(Rejection::NotFound.into()),
        };
        let capability = secret_fingerprint(&capability);
        let bind = Bind { attempt, role, listing, capability, endpoint, datagram, nonce_issued };
        let reply = self.submit(Command::BindAndConsume(bind)).await?;
        let Outcome::Bound(value) = reply.outcome else { return Err(foreign(&reply.outcome)) };
        Ok(Applied { value, commit: reply.commit, replayed: false })
    }
}
