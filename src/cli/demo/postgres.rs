//! The story of the command plane over PostgreSQL: two server processes, of which one is killed in the middle.

use super::commands::{BackEnd, HostTask, SWEEP_MS, Stage, UNSERVED};
use super::{Failure, Narrator};
use crate::client::http::Directory;
use crate::client::idempotency_key;
use crate::clock::{Clock, SystemClock};
use crate::config::{DEV_PROFILE, DEV_TENANT};
use crate::credentials::Secret;
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long the host takes for each command: the kill falls into it.
const WORKS_FOR: Duration = Duration::from_millis(300);

/// Tells it.
pub(super) async fn story(url: &Secret, narrator: Narrator) -> Result<(), Failure> {
    let (tenant_secret, host_key) = (idempotency_key()?, idempotency_key()?);
    // Made for its owner only: the database's password may be in it.
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(configuration(url, &tenant_secret, &host_key).as_bytes())?;
    let mut first = Process::start(file.path(), narrator, "server 1")?;
    let mut second = Process::start(file.path(), narrator, "server 2")?;
    let token = token(&tenant_secret)?;
    let directory = |url: &str| Directory::new(url, DEV_TENANT);
    let (at_first, at_second) = (directory(&first.url)?, directory(&second.url)?);
    let urls = [first.url.clone(), second.url.clone()];
    let servers = [&at_first, &at_second].map(|directory| directory.clone().with_token(token.clone()));
    let mut stage = Stage {
        back_end: BackEnd { servers: servers.into() },
        browser: at_first,
        host: HostTask::start(&urls, Secret::new(host_key), WORKS_FOR, narrator)?,
        narrator,
    };
    let game = stage.create().await?;
    stage.steer(game).await?;
    let command = stage.under_way(game).await?;
    first.kill()?;
    narrator.say("server 1", "killed while the host applies the command");
    stage.applied(&command).await?;
    stage.browser = at_second;
    stage.expire().await?;
    stage.gate(game).await?;
    stage.close(game).await?;
    stage.host.stop().await?;
    second.kill()?;
    narrator.say("server 2", "stopped");
    Ok(())
}

/// What both servers are told.
fn configuration(url: &Secret, tenant_secret: &str, host_key: &str) -> String {
    let text = |text: &str| toml::Value::from(text).to_string();
    format!(
        "[admission]
store = \"postgres\"
postgres_url = {url}
scope = \"\"
control_shards = 1
sweep_interval_ms = {SWEEP_MS}

[[admission.profile]]
name = {profile}
target_key = {profile}
workload = {profile}

[[admission.profile]]
name = {unserved}
target_key = {unserved}
workload = \"nothing\"

[[admission.host]]
name = \"demo\"
key = {host_key}
tenants = [{tenant}]
target_keys = [{profile}]

[[tenant]]
name = {tenant}
guests = true

[tenant.jwt]
algorithm = \"HS256\"
key = {tenant_secret}
",
        url = text(url.expose()),
        profile = text(DEV_PROFILE),
        unserved = text(UNSERVED),
        host_key = text(host_key),
        tenant = text(DEV_TENANT),
        tenant_secret = text(tenant_secret),
    )
}

/// The back end's token: one principal at both servers, so that a key means the same command at either.
fn token(tenant_secret: &str) -> Result<Secret, Failure> {
    let failed = |error: jsonwebtoken::errors::Error| Failure::Unexpected(format!("no token: {error}"));
    // A second installation in one process changes nothing.
    let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
    let expires_s = SystemClock::new().wall().0 / 1_000 + 3_600;
    let claims = json!({ "sub": "back-end", "tenant": DEV_TENANT, "exp": expires_s });
    let key = jsonwebtoken::EncodingKey::from_secret(tenant_secret.as_bytes()).map_err(failed)?;
    jsonwebtoken::encode(&jsonwebtoken::Header::default(), &claims, &key).map(Secret::new).map_err(failed)
}

/// `rendezvous serve` in a process of its own, which ends with its handle.
struct Process {
    child: Child,
    url: String,
}

impl Process {
    /// Completes when it is ready. What it has to complain about goes to standard error.
    fn start(configuration: &Path, narrator: Narrator, name: &str) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("RENDEZVOUS_")) {
            command.env_remove(name);
        }
        command.args(["serve", "--http", "127.0.0.1:0", "--udp", "127.0.0.1:0", "--log-level", "error", "--config"]);
        let mut child = command.arg(configuration).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take();
        let mut process = Self { child, url: String::new() };
        let mut ready = String::new();
        if let Some(stdout) = stdout {
            tokio::task::block_in_place(|| BufReader::new(stdout).read_line(&mut ready))?;
        }
        let http = ready.split(' ').find_map(|word| word.strip_prefix("http="));
        let http = http.ok_or_else(|| Failure::Unexpected(format!("{name} did not become ready")))?;
        process.url = format!("http://{http}");
        let url = &process.url;
        narrator.say(name, &format!("ready: {url}, process {}, commands in PostgreSQL", process.child.id()));
        Ok(process)
    }

    /// SIGKILL, and its end.
    fn kill(&mut self) -> Result<(), Failure> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have been killed already.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
