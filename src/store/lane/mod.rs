//! The writer lane.
pub(crate) mod snapshot;

use super::*;
/// The writer lane.
pub struct Lane<C: Clock> {
    clock: C,
}
macro_rules! stub {
    ($t:ident) => {
        #[allow(clippy::todo, unused_variables)]
        impl<C: Clock> Store for $t<C> {
            async fn submit(&self, command: Command) -> Result<Reply, Failure> {
                todo!()
            }
            fn browse<R>(
                &self,
                query: &BrowseQuery<'_>,
                use_page: impl FnOnce(&PageView<'_>) -> R,
            ) -> Result<R, Failure> {
                todo!()
            }
            fn listing<R>(
                &self,
                tenant: TenantId,
                id: ListingId,
                use_row: impl FnOnce(&[u8], u64) -> R,
            ) -> Result<R, Failure> {
                todo!()
            }
            fn published_commit(&self) -> u64 {
                todo!()
            }
            fn last_commit(&self) -> u64 {
                todo!()
            }
            async fn published(&self, commit: u64) {
                todo!()
            }
            fn availability(&self) -> Availability {
                todo!()
            }
            fn queued(&self) -> (usize, usize) {
                todo!()
            }
            fn published_at(&self) -> MonoTime {
                todo!()
            }
        }
    };
}
pub(crate) use stub;
stub!(Lane);
