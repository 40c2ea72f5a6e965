//! A server on a free loopback port, and a client that sends what it is told.

#[path = "../support/http_message.rs"]
mod http_message;

pub(crate) use http_message::{Response, request};
use rendezvous::clock::{SharedClock, SystemClock};
use rendezvous::credentials::{Secret, fingerprint};
use rendezvous::domain::{Endpoint, ListingId, Presence, TenantId};
use rendezvous::edge::http::{
    BrowsePolicy, HttpHandle, HttpServer, HttpSettings, JwtAlgorithm, JwtKey, JwtVerifier, KeyFingerprint,
    TenantSettings,
};
use rendezvous::service::{
    Ask, Caller, Fanout, InstanceKeys, Service, ServiceParts, SystemIds, WaitingAttempts, Waits,
};
use rendezvous::store::lane::{Lane, LaneSettings};
use rendezvous::store::single_lock::SingleLock;
use rendezvous::store::{AnyStore, Observer};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub(crate) const OPERATOR: &str = "operator-key-of-the-test";
pub(crate) const JWT_SECRET: &str = "0123456789abcdef0123456789abcdef";
/// No answer takes this long; reaching it is a failure.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) handle: HttpHandle,
    pub(crate) service: Arc<Service>,
    pub(crate) running: JoinHandle<()>,
}

/// Tenants `demo` (public, guests, JWT) and `closed` (principals only, no guests, the same JWT key).
fn tenants() -> Vec<TenantSettings> {
    let jwt = || JwtVerifier::new(JwtAlgorithm::Hs256, &JwtKey::Secret(Secret::new(JWT_SECRET)), None).ok();
    let tenant = |name: &str, browse, guests| TenantSettings { name: name.into(), browse, guests, jwt: jwt() };
    vec![tenant("demo", BrowsePolicy::Public, true), tenant("closed", BrowsePolicy::Principal, false)]
}

fn service(lane: bool, listener: Option<Arc<dyn Observer>>, clock: SharedClock) -> Arc<Service> {
    let config = rendezvous::config::Config::default();
    let limits = rendezvous::domain::Limits::default();
    let (waits, waiting_attempts) = (Waits::new(1_024), Arc::new(WaitingAttempts::default()));
    let own: [Arc<dyn Observer>; 2] = [waits.clone(), waiting_attempts.clone()];
    let observer = Fanout::new(own.into_iter().chain(listener).collect());
    let store = if lane {
        AnyStore::Lane(Lane::new(limits.clone(), LaneSettings::default(), clock.clone(), observer).unwrap())
    } else {
        AnyStore::SingleLock(SingleLock::new(limits.clone(), clock.clone(), observer).unwrap())
    };
    let (instance, keys) = InstanceKeys::random().unwrap();
    let ids = Box::new(SystemIds::new(SystemClock::new()));
    let policy = config.policy();
    Arc::new(Service::new(ServiceParts { store, clock, instance, keys, limits, policy, ids, waits, waiting_attempts }))
}

impl Server {
    pub(crate) async fn start(lane: bool, change: impl FnOnce(&mut HttpSettings)) -> Self {
        Self::over(service(lane, None, Arc::new(SystemClock::new())), change).await
    }

    /// Over the lane, with somebody who hears what happens inside of it.
    pub(crate) async fn heard_by(listener: Arc<dyn Observer>, change: impl FnOnce(&mut HttpSettings)) -> Self {
        Self::over(service(true, Some(listener), Arc::new(SystemClock::new())), change).await
    }

    /// Over the lane, by another clock than the system's.
    pub(crate) async fn timed_by(clock: SharedClock, change: impl FnOnce(&mut HttpSettings)) -> Self {
        Self::over(service(true, None, clock), change).await
    }

    async fn over(service: Arc<Service>, change: impl FnOnce(&mut HttpSettings)) -> Self {
        let guest_key = InstanceKeys::derive(&[7; 32], service.instance()).guest_tokens;
        let mut settings = HttpSettings::new("127.0.0.1:0".parse().unwrap(), tenants(), guest_key);
        settings.operators = vec![KeyFingerprint::of(&Secret::new(OPERATOR))];
        change(&mut settings);
        let server = HttpServer::bind(settings, Arc::clone(&service)).await.unwrap();
        let (address, handle) = (server.local_addr().unwrap(), server.handle());
        Self { address, handle, service, running: tokio::spawn(server.run()) }
    }

    pub(crate) async fn client(&self) -> Client {
        Client { stream: TcpStream::connect(self.address).await.unwrap(), buffer: Vec::new() }
    }

    /// A request on a connection of its own.
    pub(crate) async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
        self.client().await.ask(method, path, headers, body).await
    }

    /// A new guest's `Authorization`.
    pub(crate) async fn guest(&self) -> String {
        let answer = self.ask("POST", "/v1/tenants/demo/guests", &[], "").await;
        assert_eq!(answer.status, 201, "{answer:?}");
        format!("Bearer {}", answer.json["token"].as_str().unwrap())
    }

    /// Publishes what is due, as the server's ticker does.
    pub(crate) async fn tick(&self) {
        let service = Arc::clone(&self.service);
        tokio::task::spawn_blocking(move || service.tick()).await.unwrap();
    }

    /// Registers a listing of `demo` and proves its presence.
    pub(crate) async fn host(&self, token: &str, key: &str, details: &str) -> Value {
        let body = format!(r#"{{"protocol":"arena/3","details":{details}}}"#);
        let headers = [("authorization", token), ("idempotency-key", key)];
        let answer = self.ask("POST", "/v1/tenants/demo/listings", &headers, &body).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        self.present(answer.json["listing_id"].as_str().unwrap(), key).await;
        answer.json
    }

    pub(crate) async fn present(&self, listing: &str, seed: &str) {
        let presence = Presence {
            listing: ListingId::parse(listing).unwrap(),
            endpoint: Endpoint::new("192.0.2.1:5000".parse().unwrap()).unwrap(),
            datagram: fingerprint(seed.as_bytes()),
            sequence: Some(1),
            nonce_issued: self.service.clock().mono(),
        };
        self.service.ask(Ask::Presence(presence)).await.unwrap();
        self.tick().await;
    }

    /// Deletes a listing of `demo` on a thread of its own, not over HTTP.
    pub(crate) fn delete_beside(&self, listing: &Value, owner: &str) -> JoinHandle<()> {
        let (service, runtime) = (Arc::clone(&self.service), tokio::runtime::Handle::current());
        let caller = Caller { principal: service.principal(tenant(), owner), guest_source: None };
        let id = ListingId::parse(listing["listing_id"].as_str().unwrap()).unwrap();
        let token = listing["lease_token"].as_str().unwrap().to_owned();
        let delete = move || runtime.block_on(service.delete(&caller, id, &token)).map(|_| ()).unwrap();
        tokio::task::spawn_blocking(delete)
    }

    /// Waits until `holds`, giving way to the server in between.
    pub(crate) async fn until(&self, holds: impl Fn(&Self) -> bool) {
        let reached = async {
            while !holds(self) {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, reached).await.expect("never reached");
    }
}

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    pub(crate) async fn ask(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
        self.send(request(method, path, headers, body).as_bytes()).await;
        self.response(method == "HEAD").await.expect("an answer")
    }

    /// The next response; `None` when the connection ends before one.
    pub(crate) async fn response(&mut self, head_only: bool) -> Option<Response> {
        timeout(PATIENCE, self.read_response(head_only)).await.expect("no answer in time")
    }

    async fn read_response(&mut self, head_only: bool) -> Option<Response> {
        loop {
            if let Some(response) = Response::take(&mut self.buffer, head_only) {
                return Some(response);
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> Option<()> {
        let mut bytes = [0; 4_096];
        let read = self.stream.read(&mut bytes).await.ok().filter(|read| *read > 0)?;
        self.buffer.extend_from_slice(&bytes[..read]);
        Some(())
    }

    /// Reads until the server closes; true when nothing but the end came.
    pub(crate) async fn is_closed(&mut self) -> bool {
        timeout(PATIENCE, self.fill()).await.expect("the connection stays open").is_none()
    }
}

pub(crate) fn tenant() -> TenantId {
    TenantId(0)
}

/// A JWT for `sub` of `tenant`, good for an hour.
pub(crate) fn jwt(tenant: &str, sub: &str) -> String {
    use jsonwebtoken::{EncodingKey, Header, encode, get_current_timestamp};
    let claims = serde_json::json!({"sub": sub, "tenant": tenant, "exp": get_current_timestamp() + 3_600});
    let key = EncodingKey::from_secret(JWT_SECRET.as_bytes()).unwrap();
    format!("Bearer {}", encode(&Header::default(), &claims, &key).unwrap())
}
