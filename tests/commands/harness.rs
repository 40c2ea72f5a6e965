//! A server with a command plane, and who speaks with it.

#[path = "../support/http_message.rs"]
mod http_message;

pub(crate) use http_message::{Response, request};
use rendezvous::config::{Config, Origin};
use rendezvous::server::Server;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::ops::Deref;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

pub(crate) const OPERATOR: &str = "operator-key-of-the-test";
pub(crate) const JWT_SECRET: &str = "0123456789abcdef0123456789abcdef";
/// Of the credential `eu`, which serves tenant `demo` with target keys `arena/eu` and `arena/us`.
pub(crate) const EU_KEY: &str = "host-key-of-eu-0123456789";
/// Of the credential `rival`, which serves the same.
pub(crate) const RIVAL_KEY: &str = "host-key-of-rival-0123456789";
/// Of the credential `far`, which serves tenant `other` only.
pub(crate) const FAR_KEY: &str = "host-key-of-far-0123456789";
/// No answer takes this long; reaching it is a failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct World {
    server: Server,
    pub(crate) address: SocketAddr,
}

impl Deref for World {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

/// The configuration of these tests: `admission` is added to the section.
pub(crate) fn config(admission: &str) -> Config {
    let jwt = format!("[tenant.jwt]\nalgorithm = \"HS256\"\nkey = \"{JWT_SECRET}\"\n");
    let host = |name: &str, key: &str, tenant: &str| {
        format!(
            "[[admission.host]]\nname = \"{name}\"\nkey = \"{key}\"\ntenants = [\"{tenant}\"]\n\
             target_keys = [\"arena/eu\", \"arena/us\"]\n"
        )
    };
    let profile = |name: &str, key: &str| {
        format!("[[admission.profile]]\nname = \"{name}\"\ntarget_key = \"{key}\"\nworkload = \"map dust\"\n")
    };
    let text = format!(
        "[server]\nhttp = \"127.0.0.1:0\"\nudp = \"127.0.0.1:0\"\n[operator]\nkeys = [\"{OPERATOR}\"]\n\
         [[tenant]]\nname = \"demo\"\nguests = true\n{jwt}[[tenant]]\nname = \"other\"\n{jwt}\
         [admission]\nsweep_interval_ms = 20\ncontrol_shards = 2\n{admission}\n{}{}{}{}{}",
        profile("arena", "arena/eu"),
        profile("arena-us", "arena/us"),
        host("eu", EU_KEY, "demo"),
        host("rival", RIVAL_KEY, "demo"),
        host("far", FAR_KEY, "other"),
    );
    Config::from_toml(&text, Origin::Flag("the test")).unwrap()
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::with("store = \"memory\"").await
    }

    pub(crate) async fn with(admission: &str) -> Self {
        Self::of(Server::start(config(admission)).await.unwrap())
    }

    pub(crate) fn of(server: Server) -> Self {
        Self { address: server.http_addr(), server }
    }

    pub(crate) fn into_server(self) -> Server {
        self.server
    }

    pub(crate) async fn client(&self) -> Client {
        Client { stream: TcpStream::connect(self.address).await.unwrap(), buffer: Vec::new() }
    }

    /// A request on a connection of its own.
    pub(crate) async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
        self.client().await.ask(method, path, headers, body).await
    }

    /// The back end of `demo`.
    pub(crate) async fn post(&self, path: &str, key: &str, body: Value) -> Response {
        let (token, body) = (backend(), body.to_string());
        self.ask("POST", path, &[("authorization", &token), ("idempotency-key", key)], &body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.ask("GET", path, &[("authorization", &backend())], "").await
    }

    /// A host of `demo` with the key of its credential.
    pub(crate) async fn host(&self, key: &str, method: &str, path: &str, body: Value) -> Response {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.ask(method, path, &[("authorization", &format!("Bearer {key}"))], &body).await
    }

    pub(crate) async fn operate(&self, method: &str, path: &str) -> Response {
        self.ask(method, path, &[("authorization", &format!("Bearer {OPERATOR}"))], "").await
    }

    /// A new session of profile `arena`.
    pub(crate) async fn session(&self, key: &str) -> String {
        let answer = self.post(SESSIONS, key, json!({"profile": "arena", "payload": "start"})).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        answer.json["session_id"].as_str().unwrap().to_owned()
    }

    /// Registers a host and takes the session's lease once it is proposed to it; gives the epoch.
    pub(crate) async fn runs(&self, key: &str, host: &str, session: &str) -> u64 {
        let body = json!({"target_key": "arena/eu", "capacity": 8});
        let answer = self.host(key, "PUT", &format!("/v1/hosts/{host}"), body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        self.work(key, host, "acquire").await;
        let body = json!({"action": "acquire", "host": host});
        let answer = self.host(key, "POST", &format!("{SESSIONS}/{session}/lease"), body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json["epoch"].as_u64().unwrap()
    }

    /// Waits for a task of this kind; gives its command.
    pub(crate) async fn work(&self, key: &str, host: &str, task: &str) -> Value {
        loop {
            let answer = self.host(key, "GET", &format!("/v1/hosts/{host}/work?wait_ms=10000"), Value::Null).await;
            assert_eq!(answer.status, 200, "{answer:?}");
            let work = answer.json["work"].as_array().unwrap();
            let mut tasks = work.iter().flat_map(|work| work["tasks"].as_array().unwrap());
            if let Some(found) = tasks.find(|found| found["task"] == task) {
                return found["command"].clone();
            }
        }
    }

    /// One step of an application.
    pub(crate) async fn step(&self, session: &str, command: u64, step: &str, body: Value) -> Response {
        let path = format!("{SESSIONS}/{session}/commands/{command}/{step}");
        self.host(EU_KEY, "POST", &path, body).await
    }

    /// Claims and begins a command.
    pub(crate) async fn begins(&self, session: &str, command: u64, host: &str, epoch: u64) {
        for step in ["claim", "begin"] {
            let answer = self.step(session, command, step, json!({"host": host, "epoch": epoch})).await;
            assert_eq!(answer.status, 200, "{step}: {answer:?}");
        }
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

    /// Polls of the command plane that wait.
    pub(crate) async fn waiting(&self) -> u64 {
        let answer = self.operate("GET", "/v1/operator/admission").await;
        answer.json["waiting_polls"].as_u64().unwrap()
    }

    /// Waits until so many polls of the command plane wait.
    pub(crate) async fn until_waiting(&self, polls: u64) {
        let reached = async { while self.waiting().await != polls {} };
        timeout(PATIENCE, reached).await.expect("never so many");
    }
}

pub(crate) const SESSIONS: &str = "/v1/tenants/demo/sessions";

/// The token of `demo`'s back end.
pub(crate) fn backend() -> String {
    jwt(json!({"sub": "backend", "tenant": "demo", "scope": "read commands"}))
}

/// A JWT with these claims, good for an hour.
pub(crate) fn jwt(mut claims: Value) -> String {
    use jsonwebtoken::{EncodingKey, Header, encode, get_current_timestamp};
    claims["exp"] = json!(get_current_timestamp() + 3_600);
    let key = EncodingKey::from_secret(JWT_SECRET.as_bytes()).unwrap();
    format!("Bearer {}", encode(&Header::default(), &claims, &key).unwrap())
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
        self.response().await
    }

    /// The next response.
    pub(crate) async fn response(&mut self) -> Response {
        timeout(PATIENCE, self.read_response()).await.expect("no answer in time")
    }

    async fn read_response(&mut self) -> Response {
        loop {
            if let Some(response) = Response::take(&mut self.buffer, false) {
                return response;
            }
            let mut bytes = [0; 16_384];
            let read = self.stream.read(&mut bytes).await.expect("an answer");
            assert!(read > 0, "the connection ended without an answer");
            self.buffer.extend_from_slice(&bytes[..read]);
        }
    }
}
