//! TLS, certificates that change, and proxies, against programs of others: curl and haproxy.

use crate::child::{Process, rendezvous, until};
use crate::http::{Connection, request};
use crate::say::not_run;
use crate::server::{OPERATOR_KEY, Server, file};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Where a program is; `None` after saying `not run`, which is a failure where tools are required.
fn tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    // Servers live where a user's PATH doesn't lead.
    let folders = path.split(':').chain(["/usr/sbin", "/sbin"]);
    let found = folders.map(|folder| Path::new(folder).join(name)).find(|program| program.is_file());
    if found.is_none() {
        not_run(format_args!("{name} is not installed"));
    }
    found
}

/// A folder with `cert.pem` and `key.pem` of its own authority.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        let files = Self(tempfile::tempdir().expect("a folder"));
        files.renew();
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Another certificate and its key.
    fn renew(&self) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        // By rename, as deployment tools do it: nobody sees half a file.
        for (name, text) in [("key.pem", made.signing_key.serialize_pem()), ("cert.pem", made.cert.pem())] {
            let next = self.path("next");
            std::fs::write(&next, text).expect("room");
            std::fs::rename(next, self.path(name)).expect("the same folder");
        }
    }

    fn section(&self, reload_ms: u32) -> String {
        let (certificate, key) = (self.path("cert.pem"), self.path("key.pem"));
        format!("[tls]\ncertificate_file = {certificate:?}\nkey_file = {key:?}\nreload_ms = {reload_ms}\n")
    }

    /// Status and version of HTTP, or nothing where curl does not trust what it is shown.
    fn curl(&self, program: &Path, server: &Server, options: &[&str]) -> Option<String> {
        let port = server.http.port();
        let output = Command::new(program)
            .args(["--silent", "--output", "/dev/null", "--write-out", "%{http_code} %{http_version}"])
            .args(["--noproxy", "*", "--resolve", &format!("localhost:{port}:127.0.0.1"), "--cacert"])
            .arg(self.path("cert.pem"))
            .args(options)
            .arg(format!("https://localhost:{port}/livez"))
            .output()
            .expect("curl");
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

#[test]
fn curl_speaks_both_versions_and_sees_a_new_certificate() {
    let Some(curl) = tool("curl") else { return };
    const NEVER: u32 = 86_400_000;
    for by_signal in [true, false] {
        let files = Files::new();
        let server = Server::start(&files.section(if by_signal { NEVER } else { 100 }), &[]);
        let told = |event: &str| server.process.stderr.text().contains(event);
        let look = || by_signal.then(|| server.process.signal("HUP"));
        assert_eq!(files.curl(&curl, &server, &[]).as_deref(), Some("200 2"));
        assert_eq!(files.curl(&curl, &server, &["--http1.1"]).as_deref(), Some("200 1.1"));
        assert_eq!(files.curl(&curl, &server, &["--tls-max", "1.2"]).as_deref(), Some("200 2"));

        let good = std::fs::read(files.path("key.pem")).expect("written");
        std::fs::write(files.path("key.pem"), "no key").expect("room");
        look();
        until("a refusal of the bad key", || told("certificate_refused").then_some(()));
        assert_eq!(files.curl(&curl, &server, &[]).as_deref(), Some("200 2"), "the one before is kept");
        std::fs::write(files.path("key.pem"), good).expect("room");

        files.renew();
        look();
        until("the new certificate", || files.curl(&curl, &server, &[]));
        assert!(told("certificate_loaded"));
        assert!(!server.process.stderr.text().contains("PRIVATE KEY"));
    }
}

/// haproxy in front of `server`, at a port of its own.
fn haproxy(program: &Path, server: &Server) -> (Process, SocketAddr) {
    until("a haproxy that finds its port free", || {
        let address = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port");
        let config = file(&format!(
            "defaults\n mode tcp\n timeout connect 5s\n timeout client 60s\n timeout server 60s\n\
             frontend in\n bind {address}\n default_backend out\n\
             backend out\n server one {} send-proxy-v2\n",
            server.http
        ));
        let mut process = Process::start(Command::new(program).args(["-db", "-f"]).arg(config.path()));
        until("an end or a listener", || {
            let listens = Connection::try_open(address).is_ok();
            (listens || !process.is_running()).then_some(())
        });
        process.is_running().then_some((process, address))
    })
}

#[test]
fn case_x7_clients_behind_haproxy_are_told_apart() {
    let Some(program) = tool("haproxy") else { return };
    let config = "[trust]\nproxies = [\"127.0.0.1\"]\nproxy_protocol = true\n[limits]\nconnections_per_source = 1\n";
    let server = Server::start(config, &[]);
    let (_haproxy, front) = haproxy(&program, &server);
    let from = |source: &str| Connection::from(source.parse::<IpAddr>().expect("an address"), front);
    let half = request("POST", "/v1/tenants/demo/guests", &[("Expect", "100-continue")], "{}");
    let mut busy = from("127.0.0.2");
    busy.send(half.trim_end_matches('}').as_bytes());
    // Until the server is heard to wait for the rest, the connection may still be idle to it, and make room for another.
    assert_eq!(busy.response().expect("an interim answer").status, 100);
    let refused = from("127.0.0.2").ask("GET", "/livez", &[], "");
    assert_eq!((refused.status, refused.json["resource"].as_str()), (429, Some("connections_per_source")));
    assert_eq!(from("127.0.0.3").ask("GET", "/livez", &[], "").status, 200);
    busy.send(b"}");
    assert_eq!(busy.response().expect("an answer").status, 201);
    let mut direct = server.connect();
    direct.send(request("GET", "/livez", &[], "").as_bytes());
    assert!(direct.is_closed(), "without a header");
}

/// In a network of its own, where the server has an address that is not this machine's loopback.
const FROM_OUTSIDE: &str = r#"
ip link set lo up && ip address add 203.0.113.1/32 dev lo || exit 8
"$0" serve --config "$1" > "$2" & server=$!
until grep -q ^ready "$2"; do kill -0 $server || exit 9; sleep 0.02; done
for address in 203.0.113.1 127.0.0.1; do
  for key in "$3" wrong ""; do
    curl --silent --noproxy '*' --output /dev/null --write-out '%{http_code} ' ${key:+-H "Authorization: Bearer $key"} \
      http://$address:8080$4
  done
done
curl --silent --noproxy '*' -H "Authorization: Bearer $3" http://203.0.113.1:8080$4
kill $server; wait $server
"#;

/// What a server with this configuration says to a key, to a wrong one and to none, from outside and from its own machine;
/// then the whole answer to the key from outside. `None` where that can't be seen.
fn told_from_outside(config: &str, key: &str, path: &str) -> Option<String> {
    let (Some(unshare), Some(_), Some(_)) = (tool("unshare"), tool("ip"), tool("curl")) else { return None };
    let permitted = Command::new(&unshare).args(["--net", "--map-root-user", "true"]).status();
    if !permitted.is_ok_and(|status| status.success()) {
        not_run("unshare --net is not permitted here");
        return None;
    }
    let (config, ready) = (file(config), file(""));
    let mut process = Process::start(
        Command::new(&unshare)
            .args(["--net", "--map-root-user", "sh", "-c", FROM_OUTSIDE])
            .arg(rendezvous().get_program())
            .args([config.path(), ready.path()])
            .args([key, path]),
    );
    process.assert_exit(0);
    Some(process.stdout.text())
}

#[test]
fn operators_keys_are_taken_over_plain_http_from_this_machine_only_unless_insecure_is_said() {
    for (insecure, expected) in [(false, "403 403 401 200 401 401 "), (true, "200 401 401 200 401 401 ")] {
        let config = format!(
            "[server]\nhttp = \"0.0.0.0:8080\"\ninsecure = {insecure}\n[operator]\nkeys = [\"{OPERATOR_KEY}\"]\n"
        );
        let Some(said) = told_from_outside(&config, OPERATOR_KEY, "/v1/operator/status") else { return };
        assert!(said.starts_with(expected), "{said}");
        assert_eq!(said.contains("plain_http"), !insecure, "{said}");
    }
}

/// On a host's own routes a key is refused unseen; on those that it shares with others, once it turns out to be one.
#[test]
fn hosts_keys_are_taken_over_plain_http_from_this_machine_only_unless_insecure_is_said() {
    const KEY: &str = "host-key-of-the-process-tests";
    let lease = format!("/v1/tenants/demo/listings/{}/lease", "0".repeat(32));
    let claim = format!("/v1/tenants/demo/sessions/{}/payloads/{}", "0".repeat(32), "0".repeat(64));
    for (path, insecure, expected) in [
        ("/v1/hosts/h/work", false, "403 403 401 404 401 401 "),
        ("/v1/hosts/h/work", true, "404 401 401 404 401 401 "),
        (&claim, false, "403 403 401 400 401 401 "),
        (&lease, false, "403 401 401 400 401 401 "),
        (&lease, true, "400 401 401 400 401 401 "),
    ] {
        let config = format!(
            "[server]\nhttp = \"0.0.0.0:8080\"\ninsecure = {insecure}\n[[tenant]]\nname = \"demo\"\nguests = true\n\
             [admission]\nstore = \"memory\"\n[[admission.profile]]\nname = \"arena\"\ntarget_key = \"arena\"\n\
             [[admission.host]]\nname = \"eu\"\nkey = \"{KEY}\"\ntenants = [\"demo\"]\ntarget_keys = [\"arena\"]\n"
        );
        let Some(said) = told_from_outside(&config, KEY, path) else { return };
        assert!(said.starts_with(expected), "{path}: {said}");
        assert_eq!(said.contains("plain_http"), !insecure, "{path}: {said}");
    }
}
