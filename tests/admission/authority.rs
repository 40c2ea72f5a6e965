//! Who may do what (rule P1), and that no tenant sees another's.

use crate::support::*;
use rendezvous::admission::*;
use std::future::ready;
use std::sync::{Arc, Mutex};
use std::time::Duration;

contract!(
    adm_p1_every_entry_point_asks_again,
    adm_p1_no_other_kind_of_principal_controls,
    adm_p1_only_the_deployment_sweeps,
    adm_p1_another_tenants_session_is_unknown,
    adm_p1_a_host_serves_what_its_credential_names,
    adm_p1_a_sweep_never_asks_the_tenants_authority,
);

/// Says no, and remembers what it was asked.
#[derive(Default)]
struct Refuses(Mutex<Vec<String>>);

impl Refuses {
    fn no(&self, what: String) -> Pending<'static, Result<(), Error>> {
        self.0.lock().unwrap().push(what);
        Box::pin(ready(Err(Error::new(ErrorCode::Forbidden))))
    }
}

impl Authorizer for Refuses {
    fn authorize_control<'a>(
        &'a self,
        _: &'a Principal,
        _: SessionId,
        kind: CommandKind,
    ) -> Pending<'a, Result<(), Error>> {
        self.no(kind.as_str().into())
    }

    fn authorize_service_sweep<'a>(&'a self, _: &'a Principal) -> Pending<'a, Result<(), Error>> {
        self.no("sweep".into())
    }
}

/// Whatever an edge had decided: the service asks, and what is refused writes nothing.
async fn adm_p1_every_entry_point_asks_again(world: World) {
    let session = world.session("k").await;
    let before = world.due().await;
    let refuses = Arc::new(Refuses::default());
    let service = Service::new(Config { authorizer: refuses.clone(), ..world.config() }).expect("valid");
    let (who, key) = (alice(), request_key("x"));
    let sha256 = Sha256::of(b"x");
    let codes = [
        code(service.admit_create(&who, create("x")).await),
        code(service.admit_input(&who, input(session, "x")).await),
        code(
            service
                .admit_interrupt(
                    &who,
                    InterruptRequest { session, key: key.clone(), payload: bytes(""), apply_within: None },
                )
                .await,
        ),
        code(
            service
                .admit_gate_response(
                    &who,
                    GateResponseRequest { session, key: key.clone(), attempt_id: 1, admit: true, apply_within: None },
                )
                .await,
        ),
        code(
            service.admit_restore(&who, RestoreRequest { session, key, payload: bytes("s"), apply_within: None }).await,
        ),
        code(
            service
                .admit_legacy_create(&who, LegacyCreateRequest { agent_id: agent(), blocks: Bytes::from_static(b"[]") })
                .await,
        ),
        code(service.put_payload(&who, session, sha256, Bytes::from_static(b"x")).await),
        code(service.command(&who, session, CommandSeq(1), Duration::ZERO).await),
        code(service.session(&who, session).await),
    ];
    assert_eq!(codes, [ErrorCode::Forbidden; 9]);
    let asked = refuses.0.lock().unwrap().clone();
    let kinds = ["create", "input", "interrupt", "gate_response", "restore", "create", "input", "input", "input"];
    assert_eq!(asked, kinds, "each asked once, with its kind");
    assert_eq!(world.due().await, before);
}

async fn adm_p1_no_other_kind_of_principal_controls(world: World) {
    let session = world.session("k").await;
    for principal in [credential(), operator()] {
        let refused = world.service().admit_input(&principal, input(session, "x")).await;
        assert_eq!(code(refused), ErrorCode::Forbidden);
        assert_eq!(code(world.service().admit_create(&principal, create("x")).await), ErrorCode::Forbidden);
    }
}

async fn adm_p1_only_the_deployment_sweeps(world: World) {
    let legacy = Reconciler::new(world.legacy_config("a")).expect("valid");
    for principal in [alice(), credential()] {
        assert_eq!(code(world.sweeper("a").sweep(&principal).await), ErrorCode::Forbidden);
        assert_eq!(code(legacy.sweep(&principal).await), ErrorCode::Forbidden);
    }
    assert!(world.sweeper("a").sweep(&operator()).await.is_ok());
    assert!(legacy.sweep(&operator()).await.is_ok());
}

async fn adm_p1_a_sweep_never_asks_the_tenants_authority(world: World) {
    let refuses = Arc::new(Refuses::default());
    let config = DispositionReconcilerConfig { authorizer: refuses.clone(), ..world.sweep_config("a") };
    let sweeper = DispositionReconciler::new(config).expect("valid");
    assert_eq!(code(sweeper.sweep(&operator()).await), ErrorCode::Forbidden);
    let config = ReconcilerConfig { authorizer: refuses.clone(), ..world.legacy_config("a") };
    assert_eq!(code(Reconciler::new(config).expect("valid").sweep(&operator()).await), ErrorCode::Forbidden);
    assert_eq!(*refuses.0.lock().unwrap(), ["sweep", "sweep"]);
}

async fn adm_p1_another_tenants_session_is_unknown(world: World) {
    let session = world.session("k").await;
    let mallory = tenant_principal("chess", "user:mallory");
    let service = world.service();
    assert_eq!(code(service.session(&mallory, session).await), ErrorCode::UnknownSession);
    assert_eq!(
        code(service.command(&mallory, session, CommandSeq(1), Duration::ZERO).await),
        ErrorCode::UnknownCommand
    );
    assert_eq!(code(service.admit_input(&mallory, input(session, "x")).await), ErrorCode::UnknownSession);
    let nothing = SessionId(u128::MAX);
    assert_eq!(
        service.session(&mallory, session).await.expect_err("unknown"),
        service.session(&mallory, nothing).await.expect_err("unknown"),
        "a foreign session looks like none"
    );
    // Also by a digest that it knows.
    let content = Bytes::from_static(b"secret");
    service.put_payload(&alice(), session, Sha256::of(&content), content.clone()).await.expect("stored");
    let by_reference = InputRequest { payload: RequestPayload::Stored(Sha256::of(&content)), ..input(session, "x") };
    assert_eq!(code(service.admit_input(&mallory, by_reference).await), ErrorCode::UnknownSession);
}

async fn adm_p1_a_host_serves_what_its_credential_names(world: World) {
    let session = world.session("k").await;
    let hosts = world.hosts();
    let eu = world.host("eu-1").await;
    let other_key = HostTargetKey::new("chess/linux").unwrap();
    let refused = hosts.heartbeat(&credential(), HostId::new("eu-2").unwrap(), other_key, 1).await;
    assert_eq!(code(refused), ErrorCode::Forbidden);
    let refused = hosts.heartbeat(&alice(), HostId::new("eu-2").unwrap(), key(), 1).await;
    assert_eq!(code(refused), ErrorCode::Forbidden);
    // Another credential can neither use the host nor take its id while it is in use.
    let stranger = host_principal("host:us", &["arena"]);
    assert_eq!(code(hosts.work(&stranger, &eu, Duration::ZERO).await), ErrorCode::UnknownHost);
    assert_eq!(code(hosts.heartbeat(&stranger, eu.clone(), key(), 1).await), ErrorCode::HostTaken);
    assert_eq!(code(hosts.acquire_lease(&stranger, &eu, arena(), session, None).await), ErrorCode::UnknownHost);
    // A credential for another tenant finds none of this tenant's work and gets no lease of it.
    let chess = host_principal("host:chess", &["chess"]);
    let us = HostId::new("us-1").unwrap();
    hosts.heartbeat(&chess, us.clone(), key(), 1_000).await.expect("a heartbeat");
    assert_eq!(code(hosts.acquire_lease(&chess, &us, arena(), session, None).await), ErrorCode::Forbidden);
    let foreign = AcquireLeaseRequest { tenant: arena(), session, host: us.clone(), key: key(), ttl: TTL };
    let lease = world.store.acquire_lease(foreign).await.expect("the store itself does not know credentials");
    assert_eq!(hosts.work(&chess, &us, Duration::ZERO).await, Ok(Vec::new()));
    let lease = LeaseRef::new(arena(), session, us, lease.epoch);
    assert_eq!(code(hosts.claim(&chess, lease, CommandSeq(1), None, None).await), ErrorCode::Forbidden);
}
