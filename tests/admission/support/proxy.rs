//! Whatever stands between a process and its PostgreSQL, as a test wants it: it stops forwarding, or says something in
//! between, as a pool does that hands its sessions around.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// The end of an answer to a query outside of a transaction: ReadyForQuery, idle.
const IDLE: [u8; 6] = [b'Z', 0, 0, 0, 5, b'I'];

#[derive(Default)]
struct State {
    is_frozen: bool,
    is_over: bool,
    connections: Vec<Arc<Carried>>,
}

/// One connection.
struct Carried {
    client: TcpStream,
    server: UnixStream,
    /// What the server says is not for the client; what it said so far.
    swallowed: Mutex<Option<Vec<u8>>>,
    said: Condvar,
}

/// See the module's documentation. Ends when it is dropped.
pub(crate) struct Proxy {
    port: u16,
    state: Arc<(Mutex<State>, Condvar)>,
}

impl Proxy {
    /// Forwards to the server whose sockets lie in `directory`.
    pub(crate) fn start(directory: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let state: Arc<(Mutex<State>, Condvar)> = Arc::default();
        let (shared, socket) = (Arc::clone(&state), directory.join(".s.PGSQL.5432"));
        std::thread::spawn(move || accept(&listener, &socket, &shared));
        Self { port, state }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Nothing is forwarded any more, and nobody is told.
    pub(crate) fn freeze(&self) {
        self.state.0.lock().unwrap().is_frozen = true;
    }

    /// What waited is forwarded.
    pub(crate) fn thaw(&self) {
        self.state.0.lock().unwrap().is_frozen = false;
        self.state.1.notify_all();
    }

    /// Says `sql` in each session and keeps the answers for itself. Only while no transaction is open.
    pub(crate) fn say(&self, sql: &str) {
        let length = u32::try_from(4 + sql.len() + 1).expect("short");
        let message = [b"Q".as_slice(), &length.to_be_bytes(), sql.as_bytes(), &[0]].concat();
        let connections = self.state.0.lock().unwrap().connections.clone();
        for carried in connections {
            *carried.swallowed.lock().unwrap() = Some(Vec::new());
            if (&carried.server).write_all(&message).is_err() {
                continue;
            }
            let is_waiting = |said: &mut Option<Vec<u8>>| said.is_some();
            drop(carried.said.wait_while(carried.swallowed.lock().unwrap(), is_waiting).unwrap());
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let mut state = self.state.0.lock().unwrap();
        state.is_over = true;
        state.is_frozen = false;
        state.connections.iter().for_each(|carried| carried.end());
        drop(state);
        self.state.1.notify_all();
        // The accept that waits finds out.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

impl Carried {
    fn end(&self) {
        drop(self.client.shutdown(Shutdown::Both));
        drop(self.server.shutdown(Shutdown::Both));
        *self.swallowed.lock().unwrap() = None;
        self.said.notify_all();
    }

    /// What of it is for the client.
    fn heard(&self, bytes: &[u8]) -> bool {
        let mut swallowed = self.swallowed.lock().unwrap();
        let Some(said) = swallowed.as_mut() else { return true };
        said.extend_from_slice(bytes);
        if said.ends_with(&IDLE) {
            *swallowed = None;
            self.said.notify_all();
        }
        false
    }
}

fn accept(listener: &TcpListener, socket: &PathBuf, state: &Arc<(Mutex<State>, Condvar)>) {
    for client in listener.incoming() {
        let client = client.expect("a connection");
        let mut known = state.0.lock().unwrap();
        if known.is_over {
            return;
        }
        let server = UnixStream::connect(socket).expect("the server");
        let swallowed = Mutex::new(None);
        let carried = Arc::new(Carried { client, server, swallowed, said: Condvar::new() });
        known.connections.push(Arc::clone(&carried));
        drop(known);
        let (back, also) = (Arc::clone(&carried), Arc::clone(state));
        let there = Arc::clone(state);
        std::thread::spawn(move || {
            pump(&carried.client, &carried.server, &there, |_| true);
            carried.end();
        });
        std::thread::spawn(move || {
            pump(&back.server, &back.client, &also, |bytes| back.heard(bytes));
            back.end();
        });
    }
}

/// Carries one direction until an end closes.
fn pump(
    mut from: impl Read,
    mut to: impl Write,
    state: &(Mutex<State>, Condvar),
    is_for_other: impl Fn(&[u8]) -> bool,
) {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        drop(state.1.wait_while(state.0.lock().unwrap(), |state| state.is_frozen).unwrap());
        if is_for_other(&buffer[..length]) && to.write_all(&buffer[..length]).is_err() {
            return;
        }
    }
}

/// How long a test's store waits for its database.
pub(crate) const SHORT: Duration = Duration::from_millis(500);
