//! What must be true of a store that came back.

use crate::Acknowledged;
use crate::load::{alice, arena, create, input, open, service};
use rendezvous::admission::*;
use std::collections::BTreeSet;
use std::path::Path;

/// Every acknowledged admission is there, and none is half there.
pub(crate) fn everything_is_there(path: &Path, acknowledged: &Acknowledged, round: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let store = open(path);
        let mut sessions = BTreeSet::new();
        for (key, (session, seq)) in acknowledged {
            let session = SessionId::parse(session).expect("an id");
            let request = GetDispositionCommandRequest { tenant: arena(), session, seq: CommandSeq(*seq) };
            let found = store.get_disposition_command(request).await;
            let (entry, _) = found.unwrap_or_else(|error| panic!("round {round}: {key} was acknowledged: {error}"));
            assert_eq!(entry.key.as_str(), key);
            sessions.insert(session);
        }
        let mut open_commands = 0;
        for session in &sessions {
            open_commands += whole(&store, *session).await;
        }
        assert!(due(&store).await >= open_commands, "an open command that no sweep would ever find");
        // A caller who was not told asks again: the same key is the same command, or a new one that was never there.
        let service = service(store);
        for (key, (session, seq)) in acknowledged.iter().rev().take(8) {
            let session = SessionId::parse(session).expect("an id");
            let again = if *seq == 1 {
                service.admit_create(&alice(), create(key)).await
            } else {
                service.admit_input(&alice(), input(session, key)).await
            };
            let (entry, created) = again.expect("the same");
            assert_eq!((entry.session, entry.seq.0, created), (session, *seq, false), "{key}");
        }
    });
}

/// A session's rows agree with each other; gives how many of its commands are open.
async fn whole(store: &Store, session: SessionId) -> usize {
    let request = GetCatalogEntryRequest { tenant: arena(), session };
    let entry = store.get_catalog_entry(request).await.expect("a command's session is there");
    for seq in 1..=entry.commands {
        let request = GetDispositionCommandRequest { tenant: arena(), session, seq: CommandSeq(seq) };
        let (command, _) = store.get_disposition_command(request).await.expect("numbers have no gaps");
        if let Payload::Stored(reference) = &command.payload {
            let request = GetCommandPayloadRequest { tenant: arena(), session, sha256: reference.sha256 };
            let content = store.get_command_payload(request).await.expect("a reference leads somewhere");
            assert_eq!(Sha256::of(&content), reference.sha256);
        }
    }
    let after = GetDispositionCommandRequest { tenant: arena(), session, seq: CommandSeq(entry.commands + 1) };
    assert!(store.get_disposition_command(after).await.is_err(), "a command that its session does not count");
    assert_eq!(u64::from(entry.open), entry.commands);
    entry.open as usize
}

async fn due(store: &Store) -> usize {
    let mut count = 0;
    for shard in 0..DispositionDue::control_shards(store) {
        let mut after = None;
        loop {
            let due_by = Timestamp(i64::MAX as u64);
            let request = ListDueCommandsRequest { shard, due_by, after, limit: 1_000 };
            let page = store.list_due_disposition_commands(request).await.expect("a page");
            assert_eq!(page.unreadable, 0);
            count += page.examined;
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    count
}
