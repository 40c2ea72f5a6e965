//! The three questions that this edge asks, as a seam: the service is the lane in the product, tests have one that they
//! can stall.

use crate::domain::{
    AttemptId, Bound, Endpoint, Failure, Fingerprint, ListingId, MonoTime, NoteUnverified, Presence, Present, Role,
};
use crate::service::{Applied, Service};
use std::future::Future;

/// What answers questions.
pub(super) trait Lane: Send + Sync + 'static {
    /// One authenticated presence datagram.
    fn presence(&self, presence: Presence) -> impl Future<Output = Result<Applied<Present>, Failure>> + Send;

    /// One authenticated bind datagram.
    fn bind(&self, bind: BindRequest) -> impl Future<Output = Result<Applied<Bound>, Failure>> + Send;

    /// An authentic datagram without a nonce of its source.
    fn note(&self, note: NoteUnverified) -> impl Future<Output = Result<Applied<()>, Failure>> + Send;
}

/// The arguments of a bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindRequest {
    /// The attempt named by the credential.
    pub attempt: AttemptId,
    /// The role named by the credential.
    pub role: Role,
    /// As host, the listing named by the credential.
    pub listing: Option<ListingId>,
    /// The observed source.
    pub endpoint: Endpoint,
    /// Fingerprint of the whole datagram.
    pub datagram: Fingerprint,
    /// Issue time of the nonce.
    pub nonce_issued: MonoTime,
}

impl Lane for Service {
    async fn presence(&self, presence: Presence) -> Result<Applied<Present>, Failure> {
        Self::presence(self, presence).await
    }

    async fn bind(&self, bind: BindRequest) -> Result<Applied<Bound>, Failure> {
        let BindRequest { attempt, role, listing, endpoint, datagram, nonce_issued } = bind;
        Self::bind(self, attempt, role, listing, endpoint, datagram, nonce_issued).await
    }

    async fn note(&self, note: NoteUnverified) -> Result<Applied<()>, Failure> {
        self.note_unverified(note).await
    }
}
