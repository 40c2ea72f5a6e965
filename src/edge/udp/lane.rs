//! The questions that this edge asks, as a seam: the service is the lane in the product, tests have one that they can stall.

use crate::domain::{Failure, NoteUnverified};
use crate::service::{Applied, Ask, Service, Together, Told};
use std::future::Future;

/// What answers questions.
pub(super) trait Lane: Send + Sync + 'static {
    /// What one authenticated datagram asks for.
    fn ask(&self, ask: Ask) -> impl Future<Output = Result<Applied<Told>, Failure>> + Send;

    /// What each of a batch asks for, at once; false, with nothing asked, where the lane is busy.
    fn ask_together(
        &self,
        asks: impl Iterator<Item = Ask>,
        memory: &mut Together,
        tell: impl FnMut(Result<Applied<Told>, Failure>),
    ) -> bool;

    /// An authentic datagram without a nonce of its source.
    fn note(&self, note: NoteUnverified) -> impl Future<Output = Result<Applied<()>, Failure>> + Send;
}

impl Lane for Service {
    async fn ask(&self, ask: Ask) -> Result<Applied<Told>, Failure> {
        Self::ask(self, ask).await
    }

    fn ask_together(
        &self,
        asks: impl Iterator<Item = Ask>,
        memory: &mut Together,
        tell: impl FnMut(Result<Applied<Told>, Failure>),
    ) -> bool {
        Self::ask_together(self, asks, memory, tell)
    }

    async fn note(&self, note: NoteUnverified) -> Result<Applied<()>, Failure> {
        self.note_unverified(note).await
    }
}
