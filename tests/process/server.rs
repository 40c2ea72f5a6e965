//! `rendezvous serve` in a process, and what a test asks of it.

use crate::child::{Process, rendezvous};
use crate::http::{Connection, Response};
use serde_json::Value;
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use tempfile::NamedTempFile;

pub(crate) const OPERATOR_KEY: &str = "operator-key-of-the-process-tests";

pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) http: SocketAddr,
    pub(crate) udp: SocketAddr,
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) instance: String,
    /// Kept, so that the file lives as long as the process.
    _config: Option<NamedTempFile>,
}

/// A listing as its owner knows it.
#[derive(Clone, Debug)]
pub(crate) struct Listing {
    pub(crate) id: String,
    pub(crate) token: String,
    pub(crate) lease_token: String,
    pub(crate) username: String,
    pub(crate) password: String,
    pub(crate) stun: Vec<SocketAddr>,
}

/// An attempt as its joiner knows it.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) id: String,
    pub(crate) token: String,
    pub(crate) username: String,
    pub(crate) password: String,
}

pub(crate) fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(text.as_bytes()).expect("room");
    file
}

impl Server {
    /// `serve --dev` on free ports.
    pub(crate) fn dev() -> Self {
        Self::start("", &[])
    }

    /// With a configuration file and more arguments.
    pub(crate) fn start(config: &str, arguments: &[&str]) -> Self {
        let listeners = ["--http", "127.0.0.1:0", "--udp", "127.0.0.1:0"];
        Self::with_listeners(config, &[&listeners, arguments].concat())
    }

    pub(crate) fn with_listeners(config: &str, arguments: &[&str]) -> Self {
        Self::launch(rendezvous(), config, arguments)
    }

    /// `serve --dev` by a command that leads to the binary.
    pub(crate) fn launch(mut command: Command, config: &str, arguments: &[&str]) -> Self {
        command.env("RENDEZVOUS_OPERATOR_KEY", OPERATOR_KEY).args(["serve", "--dev"]).args(arguments);
        Self::begin(command, config, Stdio::piped())
    }

    /// Without `--dev`, and so without tenants that the configuration does not name.
    pub(crate) fn launch_as_configured(mut command: Command, config: &str) -> Self {
        command.args(["serve", "--http", "127.0.0.1:0", "--udp", "127.0.0.1:0"]);
        Self::begin(command, config, Stdio::piped())
    }

    /// `serve --dev` with this standard error.
    pub(crate) fn with_stderr(stderr: Stdio) -> Self {
        let mut command = rendezvous();
        command.env("RENDEZVOUS_OPERATOR_KEY", OPERATOR_KEY);
        command.args(["serve", "--dev", "--http", "127.0.0.1:0", "--udp", "127.0.0.1:0"]);
        Self::begin(command, "", stderr)
    }

    fn begin(mut command: Command, config: &str, stderr: Stdio) -> Self {
        let config = (!config.is_empty()).then(|| file(config));
        if let Some(config) = &config {
            command.arg("--config").arg(config.path());
        }
        let mut process = Process::start_with(&mut command, stderr);
        let ready = process.next(|line| line.starts_with("ready ").then(|| line.to_owned()));
        let optional = |name: &str| ready.split(' ').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        let field = |name: &str| optional(name).unwrap_or_else(|| panic!("no {name} in {ready:?}")).to_owned();
        Self {
            http: field("http").parse().expect("an address"),
            udp: field("udp").parse().expect("an address"),
            metrics: optional("metrics").map(|address| address.parse().expect("an address")),
            instance: field("instance"),
            process,
            _config: config,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.http)
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.http)
    }

    /// A request on a connection of its own.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
        self.connect().ask(method, path, headers, body)
    }

    pub(crate) fn get(&self, path: &str) -> Response {
        self.ask("GET", path, &[], "")
    }

    /// As operator.
    pub(crate) fn operate(&self, method: &str, path: &str, body: &str) -> Response {
        self.ask(method, path, &[("Authorization", &format!("Bearer {OPERATOR_KEY}"))], body)
    }

    pub(crate) fn status(&self) -> Value {
        let answer = self.operate("GET", "/v1/operator/status", "");
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json
    }

    pub(crate) fn live(&self, what: &str) -> u64 {
        self.status()["counts"][what]["live"].as_u64().expect("a count")
    }

    /// A new guest's token.
    pub(crate) fn guest(&self) -> String {
        guest(&mut self.connect())
    }

    /// Registers a listing for a new guest.
    pub(crate) fn register(&self) -> Listing {
        let mut connection = self.connect();
        let token = guest(&mut connection);
        register(&mut connection, &token, "first", "").expect("registered")
    }

    /// Makes an attempt on the listing for a new guest.
    pub(crate) fn attempt(&self, listing: &Listing) -> Attempt {
        let mut connection = self.connect();
        let token = guest(&mut connection);
        let answer = join(&mut connection, &token, &listing.id, "first", "{}");
        Attempt::of(&token, &answer)
    }

    /// All ids that a browser of `arena/3` sees.
    pub(crate) fn browse(&self) -> Vec<String> {
        let (mut connection, mut cursor, mut ids) = (self.connect(), String::new(), Vec::new());
        loop {
            let path = format!("/v1/tenants/demo/listings?protocol=arena/3&limit=100{cursor}");
            let page = connection.ask("GET", &path, &[], "");
            assert_eq!(page.status, 200, "{page:?}");
            ids.extend(page.json["listings"].as_array().expect("rows").iter().map(|row| text(&row["listing_id"])));
            let Some(next) = page.json["next_cursor"].as_str() else { return ids };
            cursor = format!("&cursor={next}");
        }
    }

    pub(crate) fn terminate(&self) {
        self.process.terminate();
    }
}

impl Attempt {
    #[track_caller]
    pub(crate) fn of(token: &str, answer: &Response) -> Self {
        assert_eq!(answer.status, 201, "{answer:?}");
        Self {
            id: text(&answer.json["attempt_id"]),
            token: token.to_owned(),
            username: text(&answer.json["bind"]["username"]),
            password: text(&answer.json["bind"]["password"]),
        }
    }

    pub(crate) fn path(&self) -> String {
        format!("/v1/tenants/demo/attempts/{}", self.id)
    }
}

impl Listing {
    pub(crate) fn of(token: &str, answer: &Response) -> Self {
        let presence = &answer.json["presence"];
        let stun = presence["stun"].as_array().expect("URIs").iter();
        Self {
            id: text(&answer.json["listing_id"]),
            token: token.to_owned(),
            lease_token: text(&answer.json["lease_token"]),
            username: text(&presence["username"]),
            password: text(&presence["password"]),
            stun: stun.map(|uri| text(uri).trim_start_matches("stun:").parse().expect("an address")).collect(),
        }
    }

    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/v1/tenants/demo/listings/{}{rest}", self.id)
    }

    /// A request of the owner with the lease token.
    pub(crate) fn ask(&self, connection: &mut Connection, method: &str, rest: &str) -> Response {
        let headers = [("Authorization", &*bearer(&self.token)), ("Lease-Token", &self.lease_token)];
        connection.ask(method, &self.path(rest), &headers, "")
    }

    pub(crate) fn renew(&self, connection: &mut Connection, version: u64) -> Response {
        let version = format!("\"{version}\"");
        let authorization = bearer(&self.token);
        let headers = [("Authorization", &*authorization), ("Lease-Token", &self.lease_token), ("If-Match", &version)];
        connection.ask("POST", &self.path("/renew"), &headers, "{}")
    }
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

pub(crate) fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

pub(crate) fn guest(connection: &mut Connection) -> String {
    let answer = connection.ask("POST", "/v1/tenants/demo/guests", &[], "");
    assert_eq!(answer.status, 201, "{answer:?}");
    text(&answer.json["token"])
}

/// The request of a registration; `more` are further members.
pub(crate) fn registration(more: &str) -> String {
    format!(r#"{{"protocol":"arena/3","details":{{"name":"Friday night","max_players":8}}{more}}}"#)
}

/// Registers, or gives the answer that says why not.
pub(crate) fn register(
    connection: &mut Connection,
    token: &str,
    key: &str,
    more: &str,
) -> Result<Listing, Box<Response>> {
    let headers = [("Authorization", &*bearer(token)), ("Idempotency-Key", key)];
    let answer = connection.ask("POST", "/v1/tenants/demo/listings", &headers, &registration(more));
    if answer.status == 201 { Ok(Listing::of(token, &answer)) } else { Err(Box::new(answer)) }
}

pub(crate) fn join(connection: &mut Connection, token: &str, listing: &str, key: &str, body: &str) -> Response {
    let headers = [("Authorization", &*bearer(token)), ("Idempotency-Key", key)];
    connection.ask("POST", &format!("/v1/tenants/demo/listings/{listing}/attempts"), &headers, body)
}
