//! The reasons of the surface's source, where no other file has them.

use crate::support::*;
use rendezvous::admission::*;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

contract!(commands_are_one_bound, the_legacy_family_is_swept_and_never_written);

/// The clock names types of the standard library only: another crate's clock of the same shape needs no type of ours.
#[test]
fn a_clock_needs_nothing_of_this_crate() {
    mod elsewhere {
        use std::time::{Duration, SystemTime};

        pub(super) struct Theirs;

        impl Theirs {
            pub(super) fn now(&self) -> SystemTime {
                SystemTime::UNIX_EPOCH
            }

            pub(super) fn after(&self, _: Duration, run: Box<dyn FnOnce() + Send>) -> Box<dyn FnOnce() -> bool + Send> {
                run();
                Box::new(|| false)
            }
        }
    }
    struct Adapter(elsewhere::Theirs);
    impl Clock for Adapter {
        fn now(&self) -> SystemTime {
            self.0.now()
        }

        fn after(&self, delay: Duration, run: Box<dyn FnOnce() + Send>) -> Box<dyn FnOnce() -> bool + Send> {
            self.0.after(delay, run)
        }
    }
    let clock: Arc<dyn Clock> = Arc::new(Adapter(elsewhere::Theirs));
    let (ring, rang) = std::sync::mpsc::channel();
    let stop = clock.after(Duration::ZERO, Box::new(move || ring.send(()).expect("heard")));
    rang.recv().expect("rang");
    assert!(!stop(), "it had run, so it was not prevented");
    assert_eq!(clock.now(), SystemTime::UNIX_EPOCH);
}

/// A sweep's seam offers the rejection and nothing of a lease holder's: whoever implements one method has all of it.
#[test]
fn a_settlement_is_exactly_one_method() {
    struct Only;
    impl Settlement for Only {
        fn reject_command(&self, _: RejectCommandRequest) -> StoreAnswer<'_, InboxEntry> {
            Box::pin(std::future::ready(Err(Refusal::Settled.into())))
        }
    }
    impl DispositionSettlement for Only {
        fn reject_disposition_command(
            &self,
            _: RejectDispositionCommandRequest,
        ) -> StoreAnswer<'_, (DispositionInboxEntry, bool)> {
            Box::pin(std::future::ready(Err(Refusal::Settled.into())))
        }
    }
    let _: (Arc<dyn Settlement>, Arc<dyn DispositionSettlement>) = (Arc::new(Only), Arc::new(Only));
}

/// A reconciliation claim can't name ownership: it has a holder and a time.
#[test]
fn a_reconciliation_claim_names_no_epoch() {
    let ReconciliationClaimEntry { holder, until } =
        ReconciliationClaimEntry { holder: "a".into(), until: Timestamp(1) };
    assert_eq!((holder.as_str(), until), ("a", Timestamp(1)));
}

/// Rule P7: the number of shards is read from the store, and no reconciler takes one.
#[test]
fn a_reconciler_has_no_number_of_shards() {
    let world = World::memory(small()).expect("in memory");
    let DispositionReconcilerConfig {
        authorizer: _,
        due,
        settlement: _,
        claims: _,
        clock: _,
        holder_id: _,
        claim_ttl: _,
        page_limit: _,
        max_pages: _,
    } = world.sweep_config("a");
    assert_eq!(due.control_shards(), 4);
}

/// A binding template has what a deployment owns and nothing else.
#[test]
fn a_binding_template_has_two_members() {
    let SessionBindingTemplate { storage_binding_id, binding_version } = template();
    assert_eq!((storage_binding_id.as_str(), binding_version.as_str()), ("embedded", "1"));
}

async fn commands_are_one_bound(world: World) {
    fn whole<T: Commands>(store: &T) -> u32 {
        DueCommands::control_shards(store)
    }
    assert_eq!(whole(&world.store), 4);
}

async fn the_legacy_family_is_swept_and_never_written(world: World) {
    let allowed = Settings { allow_legacy: true, control_shards: 1, ..small() };
    let world = match world.backing {
        Backing::Memory => World::memory(allowed),
        Backing::Sqlite(_) => World::sqlite(allowed),
        Backing::Postgres(_) => World::postgres(allowed),
    };
    let Some(world) = world else { return };
    let request = LegacyCreateRequest { agent_id: agent(), blocks: Bytes::from_static(b"[]") };
    let LegacyCreateResult { session_id, entry } =
        world.service().admit_legacy_create(&alice(), request).await.expect("a migration may");
    assert_eq!((entry.session, entry.seq, entry.kind), (session_id, CommandSeq(1), CommandKind::Create));
    assert_eq!(
        code(world.service().admit_input(&alice(), input(session_id, "i")).await),
        ErrorCode::LegacySessionUnsupported
    );
    assert_eq!(world.due().await, 0, "not in the other family's view");
    let legacy = Reconciler::new(world.legacy_config("a")).expect("valid");
    let early = legacy.sweep(&operator()).await.expect("a sweep");
    assert_eq!((early.due, early.rejected), (0, 0));
    world.clock.advance(DEADLINE);
    assert_eq!(world.sweep_all(&world.sweeper("a")).await, [].into(), "each sweep has its family");
    let request = RejectDispositionCommandRequest {
        tenant: arena(),
        session: session_id,
        seq: CommandSeq(1),
        revision: Revision(1),
        by: name("service:sweep"),
    };
    let refused = world.store.reject_disposition_command(request).await.map(drop);
    assert_eq!(refused, Err(StoreError::Refused(Refusal::UnknownCommand)));
    let result = legacy.sweep(&operator()).await.expect("a sweep");
    assert_eq!((result.rejected, result.claimed, result.released, result.resumed), (1, 1, 1, false));
    assert_eq!(legacy.sweep(&operator()).await.expect("a sweep").due, 0);
    assert_eq!(
        code(world.service().command(&alice(), session_id, CommandSeq(1), Duration::ZERO).await),
        ErrorCode::UnknownCommand
    );
}
