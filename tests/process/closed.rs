//! Readers of our output that stand still or have gone away: neither stops a server, and neither is a failure.

use crate::child::{Process, rendezvous};
use crate::server::{Server, file};
use std::io::{ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

/// A stream to write to whose reader has gone away.
fn gone() -> Stdio {
    let (ours, theirs) = UnixStream::pair().expect("two sockets");
    drop(theirs);
    OwnedFd::from(ours).into()
}

/// A stream with no more room, and its reader, who takes nothing.
fn full() -> (Stdio, UnixStream) {
    let (mut ours, theirs) = UnixStream::pair().expect("two sockets");
    ours.set_nonblocking(true).expect("an option");
    while match ours.write(&[b'.'; 1_024]) {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::WouldBlock => false,
        Err(error) => panic!("{error}"),
    } {}
    // The last bytes that fit, so that no line does.
    while ours.write(b".").is_ok() {}
    ours.set_nonblocking(false).expect("an option");
    (OwnedFd::from(ours).into(), theirs)
}

#[test]
fn a_command_whose_reader_has_gone_away_ends_as_it_would_have() {
    let good = file("[server]\nhttp = \"127.0.0.1:0\"\n");
    let bad = file("[server]\nhttp = 7\n");
    for (file, code) in [(good, 0), (bad, 2)] {
        let mut command = rendezvous();
        command.args(["config", "check"]).arg(file.path()).stdin(Stdio::null()).stdout(gone()).stderr(gone());
        assert_eq!(command.status().expect("it runs").code(), Some(code));
    }
    let mut command = rendezvous();
    command.args(["completions", "bash"]).stdin(Stdio::null()).stdout(gone()).stderr(gone());
    assert_eq!(command.status().expect("it runs").code(), Some(0), "a script that nobody reads");
    let mut command = rendezvous();
    command.args(["browse", "--server", "http://127.0.0.1:9", "--protocol", "arena/3"]).stdout(gone()).stderr(gone());
    assert_eq!(command.status().expect("it runs").code(), Some(3), "nobody listens there");
}

#[test]
fn a_server_whose_log_has_lost_its_reader_goes_on() {
    let mut server = Server::with_stderr(gone());
    for _ in 0..3 {
        assert_eq!(server.get("/livez").status, 200);
    }
    server.terminate();
    server.process.assert_exit(0);
}

#[test]
fn a_server_whose_log_nobody_reads_serves_and_drains() {
    let (stderr, _reader) = full();
    let mut server = Server::with_stderr(stderr);
    assert_eq!(server.get("/livez").status, 200);
    let metrics = server.get("/metrics").body;
    assert!(metrics.contains("rendezvous_log_lines_dropped_total 0"), "some thousand lines may wait");
    server.terminate();
    server.process.assert_exit(0);
}

#[test]
fn a_server_that_can_not_start_says_why_before_it_ends() {
    let server = Server::dev();
    let mut command = rendezvous();
    let mut second =
        Process::start(command.args(["serve", "--dev", "--http", &server.http.to_string(), "--udp", "127.0.0.1:0"]));
    second.assert_exit(1);
    let said = second.stderr.text();
    assert!(said.contains(&format!("error: server.http: {} could not be bound", server.http)), "{said}");
}
