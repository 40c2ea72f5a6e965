//! The servers: ours, nginx, Redis and the references, each in one process (nginx: with one worker) on loopback.

use super::child::{Server, free_port, is_installed};
use super::error::{CompareError, system};
use super::http::fetch_once;
use super::machine::Cores;
use super::prepare::{PAGES, PAGES_FOLDER};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

/// Lifetimes as long as they may be, and no budget per credential: what is measured is work, not refusals.
const OURS: &str = "[limits]\nlistings = 250000\nunproven_listings = 250000\nidempotency = 500000\n\
    [lease]\nttl_ms = 3600000\nttl_max_ms = 3600000\nunproven_window_ms = 3600000\n\
    [presence]\nttl_ms = 300000\n[idempotency]\nretention_ms = 3600000\n[udp]\nper_credential_per_s = 1000000\n";

/// Our server with its addresses.
pub(super) struct Ours {
    pub(super) server: Server,
    pub(super) http: SocketAddr,
    pub(super) udp: SocketAddr,
}

/// This binary, without what the environment might tell it.
fn own_binary() -> Result<Command, CompareError> {
    let mut command = Command::new(std::env::current_exe().map_err(system("the path of this program"))?);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("RENDEZVOUS_")) {
        command.env_remove(name);
    }
    Ok(command)
}

pub(super) fn ours(cores: Cores, folder: &Path) -> Result<Ours, CompareError> {
    const NAME: &str = "rendezvous";
    let config = folder.join("rendezvous.toml");
    fs::write(&config, OURS).map_err(system("the configuration of our server"))?;
    let mut command = own_binary()?;
    command.args([
        "serve",
        "--dev",
        "--http",
        "127.0.0.1:0",
        "--udp",
        "127.0.0.1:0",
        "--log-level",
        "warn",
        "--config",
    ]);
    let mut server = Server::start(NAME, command.arg(&config), cores, folder)?;
    let line = server.ready_line("ready ")?;
    let address = |name: &str| {
        let found = line.split(' ').find_map(|part| part.strip_prefix(name)?.strip_prefix('=')?.parse().ok());
        found.ok_or_else(|| CompareError::Server { name: NAME, said: line.clone() })
    };
    let (http, udp) = (address("http")?, address("udp")?);
    Ok(Ours { server, http, udp })
}

/// nginx with the pages as files. `None` where it isn't installed.
pub(super) fn nginx(cores: Cores, folder: &Path) -> Result<Option<(Server, SocketAddr)>, CompareError> {
    let Some(program) = is_installed("nginx") else { return Ok(None) };
    let address = free_port()?;
    let at = folder.display();
    // Root's workers would otherwise become a user who can't read the folder.
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("{kind}_temp_path {at}/nginx-{kind};\n"))
        .collect();
    let config = format!(
        "daemon off;\n{user}\nworker_processes 1;\npid {at}/nginx.pid;\nerror_log stderr error;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\naccess_log off;\nserver_tokens off;\nsendfile on;\ntcp_nopush on;\ntcp_nodelay on;\n\
         keepalive_timeout 600s;\nkeepalive_requests 1000000000;\n\
         open_file_cache max=16 inactive=600s;\nopen_file_cache_valid 600s;\n\
         types {{ application/json json; }}\n{temporary}\
         server {{ listen {address}; root {at}/{PAGES_FOLDER}; }}\n}}\n"
    );
    let file = folder.join("nginx.conf");
    fs::write(&file, config).map_err(system("the configuration of nginx"))?;
    let mut command = Command::new(program);
    command.args(["-e", "stderr", "-p"]).arg(folder).arg("-c").arg(&file);
    let mut server = Server::start("nginx", &mut command, cores, folder)?;
    server.listening(address)?;
    fetch_once(server.name(), address, &format!("/{}.json", PAGES[0].name))?;
    server.find_workers()?;
    Ok(Some((server, address)))
}

/// Redis without persistence. `None` where it isn't installed.
pub(super) fn redis(cores: Cores, folder: &Path) -> Result<Option<(Server, SocketAddr)>, CompareError> {
    let Some(program) = is_installed("redis-server") else { return Ok(None) };
    let address = free_port()?;
    let mut command = Command::new(program);
    command.args(["--bind", "127.0.0.1", "--port", &address.port().to_string(), "--save", "", "--appendonly", "no"]);
    command.args(["--daemonize", "no", "--loglevel", "warning", "--dir"]).arg(folder);
    let mut server = Server::start("redis", &mut command, cores, folder)?;
    server.listening(address)?;
    Ok(Some((server, address)))
}

/// Bare hyper with the pages as constants.
pub(super) fn bare_hyper(cores: Cores, folder: &Path) -> Result<(Server, SocketAddr), CompareError> {
    let mut command = own_binary()?;
    command.args(["load", "reference", "http", "--pages"]).arg(folder.join(PAGES_FOLDER));
    reference("bare hyper", command, cores, folder)
}

/// The loop that only receives and sends.
pub(super) fn bare_udp(cores: Cores, folder: &Path, answer_bytes: usize) -> Result<(Server, SocketAddr), CompareError> {
    let mut command = own_binary()?;
    command.args(["load", "reference", "udp", "--answer-bytes", &answer_bytes.to_string()]);
    reference("bare UDP", command, cores, folder)
}

fn reference(
    name: &'static str,
    mut command: Command,
    cores: Cores,
    folder: &Path,
) -> Result<(Server, SocketAddr), CompareError> {
    let mut server = Server::start(name, &mut command, cores, folder)?;
    let line = server.ready_line("ready ")?;
    let address = line.strip_prefix("ready ").and_then(|address| address.trim().parse().ok());
    Ok((server, address.ok_or(CompareError::Server { name, said: line })?))
}
