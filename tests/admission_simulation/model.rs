//! What must be true after each step, and at the end.

use crate::flaky::Request;
use crate::schedule::Report;
use rendezvous::admission::*;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Rule P5 in this model's own words: over at the deadline, not after it.
fn is_over(entry: &CommandEntry, at: Timestamp) -> bool {
    at.0 >= entry.deadline.0
}

/// A command's name.
pub(crate) type Name = (Tenant, SessionId, CommandSeq);

#[derive(Default)]
struct Known {
    /// Epochs that journaled that they applied it.
    effects: BTreeMap<Name, Vec<Epoch>>,
    /// How each ended, when it was first seen so.
    ended: BTreeMap<Name, (DispositionInboxEntry, usize)>,
    /// Admissions that a caller was told of, with the key.
    acknowledged: BTreeMap<Name, RequestKey>,
    /// Sessions that a caller was told of, by their create's key.
    sessions: BTreeMap<(Tenant, String), SessionId>,
    /// The greatest epoch seen.
    epochs: BTreeMap<(Tenant, SessionId), Epoch>,
    report: Report,
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Model(Mutex<Known>);

impl Model {
    pub(crate) fn count(&self, count: impl FnOnce(&mut Report)) {
        count(&mut self.0.lock().unwrap().report);
    }

    pub(crate) fn report(&self) -> Report {
        self.0.lock().unwrap().report.clone()
    }

    /// A caller was told that its create was admitted.
    pub(crate) fn created(&self, tenant: &Tenant, key: &str, entry: &DispositionInboxEntry) {
        let mut known = self.0.lock().unwrap();
        let session = known.sessions.entry((tenant.clone(), key.to_owned())).or_insert(entry.session);
        assert_eq!(*session, entry.session, "one key, two sessions");
        assert_eq!(entry.seq, CommandSeq(1));
        let name = (tenant.clone(), entry.session, entry.seq);
        known.acknowledged.insert(name, entry.key.clone());
    }

    /// A caller was told that its command was admitted.
    pub(crate) fn admitted(&self, entry: &DispositionInboxEntry) {
        let mut known = self.0.lock().unwrap();
        known.acknowledged.insert((entry.tenant.clone(), entry.session, entry.seq), entry.key.clone());
    }

    /// Looks at whatever the call named, in the store itself.
    pub(crate) async fn after<R: Request>(&self, store: &Store, request: &R, is_ok: bool) {
        self.count(|report| report.steps += 1);
        let Some((tenant, session)) = request.session() else { return };
        if let (Some(epoch), Some(seq), true) = (request.finishes(), request.seq(), is_ok) {
            let mut known = self.0.lock().unwrap();
            let epochs = known.effects.entry((tenant.clone(), session, seq)).or_default();
            if !epochs.contains(&epoch) {
                epochs.push(epoch);
            }
            assert_eq!(epochs.len(), 1, "{session:?} {seq} was applied twice, at {epochs:?}");
        }
        let Ok(entry) = store.get_catalog_entry(GetCatalogEntryRequest { tenant: tenant.clone(), session }).await
        else {
            return;
        };
        self.check_lease(&entry);
        if let Some(seq) = request.seq() {
            self.check_command(store, (tenant.clone(), session, seq)).await;
        }
    }

    fn check_lease(&self, entry: &CatalogEntry) {
        let Some(lease) = &entry.lease else { return };
        let mut known = self.0.lock().unwrap();
        let newest = known.epochs.entry((entry.tenant.clone(), entry.session)).or_default();
        assert!(lease.epoch >= *newest, "an epoch went back from {newest:?} to {lease:?}");
        *newest = lease.epoch;
    }

    async fn check_command(&self, store: &Store, name: Name) {
        let (tenant, session, seq) = name.clone();
        let request = GetDispositionCommandRequest { tenant: tenant.clone(), session, seq };
        let Ok((entry, _)) = store.get_disposition_command(request).await else { return };
        let journal = store.read_journal(tenant.clone(), session, seq, 100).await.expect("a journal");
        let fences = store.read_journal(tenant, session, CommandSeq(0), 500).await.expect("a journal");
        let is_fenced =
            |step: &JournalEntry| fences.iter().any(|fence| fence.position < step.position && fence.epoch > step.epoch);
        assert!(!journal.iter().any(is_fenced), "an older epoch wrote behind a fence: {journal:?} {fences:?}");
        if let Some(claim) = &entry.claim {
            assert!(claim.until <= entry.deadline, "a claim outlives its deadline: {entry:?}");
        }
        let finished = journal.iter().filter(|step| step.step == JournalStep::FinishApplied).count();
        let begun = journal.iter().filter(|step| step.step == JournalStep::Begin).count();
        assert!(finished <= 1, "applied twice: {journal:?}");
        let Some(outcome) = &entry.outcome else { return };
        let code = outcome.code.as_str();
        match entry.state {
            CommandState::Applied => assert_eq!(finished, 1, "applied without an effect: {journal:?}"),
            CommandState::Rejected => {
                assert_eq!(finished, 0, "rejected after it had an effect: {entry:?} {journal:?}");
                let never = code == OutcomeCode::NEVER_CLAIMED;
                assert!(!never || (begun == 0 && entry.deliveries == 0), "{entry:?} {journal:?}");
                let by_sweep = outcome.by.starts_with("service:");
                assert!(!by_sweep || begun == 0, "the sweep rejected what had begun: {entry:?} {journal:?}");
                assert!(!outcome.code.is_expiry() || is_over(&entry, outcome.at), "expired in time: {entry:?}");
            }
            _ => panic!("an outcome without an end: {entry:?}"),
        }
        let late = journal.iter().any(|step| {
            matches!(step.step, JournalStep::FinishApplied | JournalStep::FinishRejected) && is_over(&entry, step.at)
        });
        assert_eq!(outcome.late, late, "{entry:?} {journal:?}");
        assert!(
            journal.iter().all(|step| step.step != JournalStep::Begin || !is_over(&entry, step.at)),
            "begun after the deadline: {journal:?}"
        );
        let mut known = self.0.lock().unwrap();
        let is_first = !known.ended.contains_key(&name);
        let first = known.ended.entry(name).or_insert_with(|| (entry.clone(), journal.len()));
        assert_eq!(*first, (entry.clone(), journal.len()), "what had ended moved");
        if is_first {
            known.report.count_end(&entry);
        }
    }

    /// Once nothing goes wrong any more and time has passed: nothing is forgotten, nothing is open, all counts agree.
    pub(crate) async fn check_all(&self, store: &Store, tenants: &[Tenant], hosts: &[HostId]) {
        let (acknowledged, sessions): (Vec<_>, Vec<_>) = {
            let known = self.0.lock().unwrap();
            let sessions = known.sessions.iter().map(|((tenant, _), session)| (tenant.clone(), *session)).collect();
            (known.acknowledged.clone().into_iter().collect(), sessions)
        };
        for ((tenant, session, seq), key) in &acknowledged {
            let request = GetDispositionCommandRequest { tenant: tenant.clone(), session: *session, seq: *seq };
            let (entry, _) = store.get_disposition_command(request).await.expect("what was acknowledged is there");
            assert_eq!(entry.key, *key);
        }
        let mut placed: BTreeMap<HostId, u32> = BTreeMap::new();
        for (tenant, session) in &sessions {
            self.check_session(store, tenant, *session, tenants, &mut placed).await;
        }
        for shard in 0..DispositionDue::control_shards(store) {
            let due_by = Timestamp(i64::MAX as u64);
            let request = ListDueCommandsRequest { shard, due_by, after: None, limit: 1_000 };
            let page = store.list_due_disposition_commands(request).await.expect("a page");
            assert_eq!(page.commands, [], "somebody was forgotten");
        }
        for host in hosts {
            if let Ok(entry) = store.get_host(host.clone()).await {
                // A session whose create was never acknowledged is placed too, and nobody here knows it.
                let known = placed.get(host).copied().unwrap_or(0);
                assert!(entry.placed >= known, "{host:?} has {entry:?}, a recount gives {known}");
            }
        }
    }

    async fn check_session(
        &self,
        store: &Store,
        tenant: &Tenant,
        session: SessionId,
        tenants: &[Tenant],
        placed: &mut BTreeMap<HostId, u32>,
    ) {
        let request = |tenant: &Tenant| GetCatalogEntryRequest { tenant: tenant.clone(), session };
        let entry = store.get_catalog_entry(request(tenant)).await.expect("what was acknowledged is there");
        assert_eq!(entry.open, 0, "{entry:?}");
        let fences = store.read_journal(tenant.clone(), session, CommandSeq(0), 500).await.expect("a journal");
        let epochs: Vec<u64> = fences.iter().map(|fence| fence.epoch.0).collect();
        let granted: Vec<u64> = (1..=entry.lease.as_ref().map_or(0, |lease| lease.epoch.0)).collect();
        assert_eq!(epochs, granted, "a lease without its fence, or a fence without its lease");
        for seq in 1..=entry.commands {
            self.check_command(store, (tenant.clone(), session, CommandSeq(seq))).await;
            let get = GetDispositionCommandRequest { tenant: tenant.clone(), session, seq: CommandSeq(seq) };
            let (command, _) = store.get_disposition_command(get).await.expect("numbers have no gaps");
            assert!(command.state.is_terminal(), "not settled within the bound: {command:?}");
        }
        for other in tenants.iter().filter(|other| *other != tenant) {
            let foreign = store.get_catalog_entry(request(other)).await;
            assert_eq!(foreign, Err(StoreError::Refused(Refusal::UnknownSession)), "seen from another tenant");
        }
        if let Some(host) = entry.placed {
            *placed.entry(host).or_default() += 1;
        }
    }
}
