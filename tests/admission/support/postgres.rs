//! A private PostgreSQL server in a temporary directory, from the binaries that Debian installs.

use crate::say::not_run;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// A running server. It ends with this process, however that ends: it is told by the end of its standard input.
pub(crate) struct Server {
    socket: PathBuf,
    schemas: AtomicU32,
    _input: ChildStdin,
    _child: Child,
}

/// Why there is none.
type Missing = String;

/// The newest installed server's binaries.
fn binaries() -> Result<PathBuf, Missing> {
    let root = Path::new("/usr/lib/postgresql");
    let mut versions: Vec<PathBuf> =
        fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path().join("bin")).collect();
    versions.retain(|bin| bin.join("initdb").exists() && bin.join("postgres").exists());
    versions.sort();
    versions.pop().ok_or(format!("no PostgreSQL server below {}", root.display()))
}

/// PostgreSQL refuses to run as root.
fn other_user() -> Option<&'static str> {
    let id = Command::new("id").arg("-u").output().ok()?;
    if String::from_utf8_lossy(&id.stdout).trim() != "0" {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    ["postgres", "nobody"].into_iter().find(|user| users.lines().any(|line| line.starts_with(&format!("{user}:"))))
}

/// The script: makes a cluster, serves it until standard input ends, removes it.
const SCRIPT: &str = r#"
set -e
dir="$1"; bin="$2"; fsync="$3"
trap 'rm -rf "$dir"' EXIT
"$bin/initdb" -D "$dir/data" -U tester -A trust -E UTF8 --no-locale -N >"$dir/log" 2>&1
"$bin/postgres" -D "$dir/data" -k "$dir" -c listen_addresses= -c fsync="$fsync" -c max_connections=200 \
    -c logging_collector=off >>"$dir/log" 2>&1 &
pid=$!
for _ in $(seq 300); do
    "$bin/pg_isready" -q -h "$dir" && break
    sleep 0.1
done
"$bin/pg_isready" -q -h "$dir" || { cat "$dir/log" >&2; exit 1; }
echo ready
read -r _ || true
kill -INT $pid
wait $pid || true
"#;

impl Server {
    /// Starts one; `fsync` as in a deployment, or not, where nobody measures or crashes anything.
    pub(crate) fn start(fsync: bool) -> Result<Self, Missing> {
        let bin = binaries()?;
        let dir = std::env::temp_dir().join(format!("rendezvous-pg-{}-{}", std::process::id(), u8::from(fsync)));
        drop(fs::remove_dir_all(&dir));
        fs::create_dir_all(&dir).map_err(|error| error.to_string())?;
        let mut command = Command::new("sh");
        if let Some(user) = other_user() {
            let owned = Command::new("chown").arg(user).arg(&dir).status();
            owned.map_err(|error| error.to_string())?;
            command = Command::new("runuser");
            command.args(["-u", user, "--", "sh"]);
        }
        command.args(["-c", SCRIPT, "postgres-for-tests"]).arg(&dir).arg(&bin).arg(if fsync { "on" } else { "off" });
        command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let input = child.stdin.take().expect("piped");
        let mut ready = [0; 5];
        child
            .stdout
            .take()
            .expect("piped")
            .read_exact(&mut ready)
            .map_err(|_| "the server did not start".to_owned())?;
        Ok(Self { socket: dir, schemas: AtomicU32::new(0), _input: input, _child: child })
    }

    /// A URL whose tables are nobody else's, and the statement that makes their schema.
    pub(crate) fn fresh_url(&self) -> (String, String) {
        let number = self.schemas.fetch_add(1, Ordering::Relaxed);
        let schema = format!("t{number}");
        let url =
            format!("host={} user=tester dbname=postgres options='-c search_path={schema}'", self.socket.display());
        (url, format!("CREATE SCHEMA {schema}"))
    }
}

/// The server of this test binary; `None` after saying `not run`, which is a failure where tools are required.
pub(crate) fn shared() -> Option<&'static Server> {
    static SERVER: OnceLock<Result<Server, Missing>> = OnceLock::new();
    match SERVER.get_or_init(|| Server::start(false)) {
        Ok(server) => Some(server),
        Err(missing) => {
            not_run(format_args!("PostgreSQL could not be started: {missing}"));
            None
        }
    }
}

/// Runs statements past every store.
pub(crate) fn execute(url: &str, sql: &str) {
    let work = async {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("a connection");
        tokio::spawn(connection);
        client.batch_execute(sql).await.expect("valid SQL");
    };
    // On a thread of its own: the caller may be inside a runtime.
    std::thread::scope(|scope| {
        let run =
            || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(work);
        scope.spawn(run).join().expect("no panic");
    });
}
