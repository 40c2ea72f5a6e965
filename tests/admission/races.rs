//! Real concurrency: many callers, two processes over one database (cases L1, L5, Q7).

use crate::support::*;
use rendezvous::admission::*;
use std::sync::Arc;
use tokio::task::JoinSet;

contract!(
    case_l1_a_renewal_and_a_release_race,
    case_l5_one_claim_per_revision,
    case_q7_mixed_operations_over_few_sessions_never_stall,
    two_processes_admit_without_gaps_or_doubles,
    one_lease_at_a_time,
);

async fn case_l1_a_renewal_and_a_release_race(world: World) {
    let world = Arc::new(world);
    let session = world.session("k").await;
    let host = world.host("eu-1").await;
    let second = world.reopened(small());
    for _ in 0..25 {
        let lease = world.lease(&host, session).await;
        let renew = world.store.renew_lease(lease.clone(), TTL);
        let release = second.release_lease(ReleaseLeaseRequest { lease: lease.clone(), close: false });
        let (renewed, released) = tokio::join!(renew, release);
        released.expect("whoever is first, the release is the last word");
        let owner = world.store.owner(arena(), session).await.expect("an answer");
        assert_eq!(owner, None, "renewed: {}", renewed.is_ok());
    }
}

async fn case_l5_one_claim_per_revision(world: World) {
    let session = world.session("k").await;
    let host = world.host("eu-1").await;
    let lease = world.lease(&host, session).await;
    let seen = world.read(session, CommandSeq(1)).await.revision;
    let stores = [world.store.clone(), world.reopened(small())];
    let mut calls = JoinSet::new();
    for n in 0..50 {
        let store = stores[n % 2].clone();
        let lease = lease.clone();
        calls.spawn(async move {
            let request = ClaimCommandRequest { lease, seq: CommandSeq(1), ttl: TTL, revision: Some(seen) };
            store.claim_command(request).await
        });
    }
    let mut won = 0;
    while let Some(answer) = calls.join_next().await {
        match answer.expect("no panic") {
            Ok(_) => won += 1,
            Err(StoreError::Refused(Refusal::RevisionMoved { current })) => assert_eq!(current.0, seen.0 + 1),
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(won, 1);
}

/// 64 callers of two processes over four sessions of two tenants: every call is answered.
async fn case_q7_mixed_operations_over_few_sessions_never_stall(world: World) {
    let world = Arc::new(world);
    let mut sessions = Vec::new();
    for tenant in ["arena", "chess"] {
        for key in ["one", "two"] {
            let who = tenant_principal(tenant, "user:alice");
            sessions.push((
                who.clone(),
                world.service().admit_create(&who, create(key)).await.expect("a create").0.session,
            ));
        }
    }
    let host = world.host("eu-1").await;
    let second = world.reopened(small());
    let mut calls = JoinSet::new();
    for n in 0..64usize {
        let (world, host, second) = (Arc::clone(&world), host.clone(), second.clone());
        let (who, session) = sessions[n % 4].clone();
        calls.spawn(async move {
            let service = Service::new(Config { commands: Arc::new(second.clone()), ..world.config() }).expect("valid");
            for round in 0..4 {
                let tenant = who.as_tenant().expect("a tenant").tenant.clone();
                match (n + round) % 4 {
                    0 => drop(service.admit_input(&who, input(session, &format!("{n}-{round}"))).await),
                    1 => {
                        let request = AcquireLeaseRequest { tenant, session, host: host.clone(), key: key(), ttl: TTL };
                        drop(second.acquire_lease(request).await);
                    }
                    2 => drop(world.store.place_due(4).await.expect("placement")),
                    _ => drop(world.sweeper(&format!("{n}")).sweep(&operator()).await.expect("a sweep")),
                }
            }
        });
    }
    while let Some(done) = calls.join_next().await {
        done.expect("every call is answered");
    }
}

async fn two_processes_admit_without_gaps_or_doubles(world: World) {
    let session = world.session("k").await;
    let stores = [Arc::new(world.store.clone()), Arc::new(world.reopened(small()))];
    let mut calls = JoinSet::new();
    for n in 0..14 {
        // Each key comes through both processes at once.
        let service = Service::new(Config { commands: stores[n % 2].clone(), ..world.config() }).expect("valid");
        calls.spawn(async move {
            let request = InputRequest { ..input(session, &format!("i{}", n / 2)) };
            service.admit_input(&alice(), request).await.map(|(entry, created)| (entry.seq.0, created))
        });
    }
    let mut seqs = Vec::new();
    while let Some(answer) = calls.join_next().await {
        let (seq, created) = answer.expect("no panic").expect("admitted");
        seqs.extend(created.then_some(seq));
    }
    seqs.sort_unstable();
    assert_eq!(seqs, [2, 3, 4, 5, 6, 7, 8]);
}

async fn one_lease_at_a_time(world: World) {
    let session = world.session("k").await;
    let stores = [world.store.clone(), world.reopened(small())];
    let mut hosts = Vec::new();
    for n in 0..8 {
        hosts.push(world.host(&format!("eu-{n}")).await);
    }
    let mut calls = JoinSet::new();
    for (n, host) in hosts.into_iter().enumerate() {
        let store = stores[n % 2].clone();
        calls.spawn(async move {
            store.acquire_lease(AcquireLeaseRequest { tenant: arena(), session, host, key: key(), ttl: TTL }).await
        });
    }
    let mut granted = 0;
    while let Some(answer) = calls.join_next().await {
        granted += usize::from(answer.expect("no panic").is_ok());
    }
    assert_eq!(granted, 1);
}
