//! What never leaves the process by its logs, metrics and errors, and what never grows (cases O1, O2, N1).

use crate::child::{Process, rendezvous};
use crate::http::Response;
use crate::server::{Attempt, OPERATOR_KEY, Server, bearer, guest, join, register};
use crate::udp::{Credential, Stun};
use std::collections::HashSet;

/// Every secret that was minted or sent, and every text that is not an answer to its owner.
#[derive(Default)]
struct Book {
    secrets: Vec<String>,
    texts: Vec<String>,
}

impl Book {
    fn secret(&mut self, text: &str) {
        assert!(text.len() >= 8, "{text:?} would be found by chance");
        self.secrets.push(text.to_owned());
    }

    /// The body of an error, and every header of any answer.
    fn look_at(&mut self, answer: &Response) {
        if answer.status >= 400 {
            self.texts.push(answer.body.clone());
        }
        self.texts.push(format!("{:?}", answer.headers));
    }

    #[track_caller]
    fn assert_clean(&self) {
        for (i, secret) in self.secrets.iter().enumerate() {
            for text in &self.texts {
                // The secret itself is not printed here either.
                let line = text.lines().find(|line| line.contains(secret.as_str()));
                assert!(line.is_none(), "secret {i}, of {} bytes, is shown in {} bytes", secret.len(), text.len());
            }
        }
    }
}

/// Happy and failing ways of every route and datagram that carries a secret.
fn flows(server: &Server, book: &mut Book) {
    let mut connection = server.connect();
    let (owner, player) = (guest(&mut connection), guest(&mut connection));
    let key = "idempotency-key-of-the-owner";
    let listing = register(&mut connection, &owner, key, "").expect("registered");
    let mut host = Stun::new("127.0.0.1:0", server.udp);
    host.present(&listing);
    let attempt =
        Attempt::of(&player, &join(&mut connection, &player, &listing.id, "idempotency-key-of-the-player", "{}"));
    for secret in [&owner, &player, &listing.lease_token, &listing.password, &attempt.password] {
        book.secret(secret);
    }
    let derived = rendezvous::credentials::derive(listing.password.as_bytes(), &attempt.id);
    for secret in [key, "idempotency-key-of-the-player", OPERATOR_KEY, derived.expose()] {
        book.secret(secret);
    }
    let answer = join(&mut connection, &player, &listing.id, "idempotency-key-of-the-player", "{}");
    book.secret(answer.json["peer_key"].as_str().expect("a key"));
    book.secret(host.challenge(&Credential::presence(&listing)).escape_ascii().to_string().as_str());
    Stun::new("127.0.0.1:0", server.udp).bind(&Credential::joiner(&attempt));
    host.bind(&Credential::host(&listing, &attempt.id));
    let wrong = Credential::new(&listing.username, "wrong-password-of-somebody");
    let nonce = host.challenge(&wrong);
    host.ask(&wrong.signed(&nonce, Some(7)));
    book.secret("wrong-password-of-somebody");

    let authorization = bearer(&owner);
    let broken = r#"{"protocol":"arena/3","details":{"name":"x","max_players":1},"lease_token":"secret-in-a-body"}"#;
    book.secret("secret-in-a-body");
    book.secret("a-wrong-bearer-token");
    book.secret("a-wrong-lease-token");
    book.secret("a-wrong-operator-key");
    let listings = "/v1/tenants/demo/listings";
    let owned = [("Authorization", authorization.as_str()), ("Idempotency-Key", key)];
    let other_body = crate::server::registration(r#","ttl_ms":61000"#);
    for answer in [
        connection.ask("POST", listings, &owned, &other_body),
        connection.ask("POST", listings, &owned, broken),
        connection.ask("POST", listings, &[("Authorization", "Bearer a-wrong-bearer-token")], broken),
        connection.ask(
            "GET",
            &listing.path("/lease"),
            &[("Authorization", &authorization), ("Lease-Token", "a-wrong-lease-token")],
            "",
        ),
        listing.renew(&mut connection, 1),
        listing.renew(&mut connection, 1),
        connection.ask("GET", "/v1/operator/status", &[("Authorization", "Bearer a-wrong-operator-key")], ""),
        server.operate("POST", listings, broken),
        connection.ask("GET", &format!("{listings}?protocol=arena/3&token={owner}"), &[], ""),
        connection.ask("GET", &format!("/v1/tenants/demo/{}", listing.lease_token), &[], ""),
        connection.ask("POST", &attempt.path(), &[("Authorization", &bearer(&player))], ""),
        connection.ask("DELETE", &attempt.path(), &[("Authorization", &bearer(&player))], ""),
        listing.ask(&mut connection, "DELETE", ""),
    ] {
        book.look_at(&answer);
    }
    let subject = r#"{"tenant":"demo","principal":"guest:nobody","ttl_ms":60000}"#;
    book.secret("idempotency-key-of-the-operator");
    let headers = [("Authorization", &*bearer(OPERATOR_KEY)), ("Idempotency-Key", "idempotency-key-of-the-operator")];
    for _ in 0..2 {
        book.look_at(&connection.ask("POST", "/v1/operator/revocations", &headers, subject));
    }
    book.texts.push(server.get("/metrics").body);
}

fn case_o2(format: &str) {
    let mut server = Server::start("", &["--log-level", "trace", "--log", format]);
    let mut book = Book::default();
    flows(&server, &mut book);
    server.terminate();
    server.process.assert_exit(0);
    let log = server.process.stderr.text();
    assert!(log.lines().count() > 20, "nothing was logged at trace:\n{log}");
    book.texts.extend([log, server.process.stdout.text()]);
    book.assert_clean();
}

#[test]
fn case_o2_no_secret_in_text_logs_metrics_and_errors() {
    case_o2("text");
}

#[test]
fn case_o2_no_secret_in_json_logs_metrics_and_errors() {
    case_o2("json");
}

#[test]
fn case_o2_an_operators_key_from_a_file_is_in_no_message_about_it() {
    let file = crate::server::file("[operator]\nkeys = [\"short-secret-x\"]\nkey = \"a-key-under-a-wrong-name\"\n");
    let mut check = Process::start(rendezvous().args(["config", "check"]).arg(file.path()));
    check.assert_exit(2);
    let said = check.stdout.text() + &check.stderr.text();
    assert!(said.contains("operator.key"), "{said}");
    assert!(!said.contains("short-secret-x") && !said.contains("a-key-under-a-wrong-name"), "{said}");
}

/// A server without the secret that it was given would mint credentials that nobody takes.
#[cfg(unix)]
#[test]
fn case_o2_a_secret_that_is_not_unicode_is_refused_by_the_name_of_its_variable() {
    use std::os::unix::ffi::OsStrExt;
    let file = crate::server::file("[turn]\nuris = [\"turn:turn.example.net:3478\"]\n");
    let secret = std::ffi::OsStr::from_bytes(b"a-latin-1-s\xe9cret");
    let mut command = rendezvous();
    let mut check =
        Process::start(command.args(["config", "check"]).arg(file.path()).env("RENDEZVOUS_TURN__SECRET", secret));
    check.assert_exit(2);
    let said = check.stdout.text() + &check.stderr.text();
    assert!(said.contains("RENDEZVOUS_TURN__SECRET") && !said.contains("latin-1"), "{said}");
}

/// Names and labels of all series.
fn series(server: &Server) -> HashSet<String> {
    let text = server.get("/metrics").body;
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| line.rsplit_once(' ').unwrap_or_else(|| panic!("{line:?}")).0.to_owned()).collect()
}

#[test]
fn case_o1_strangers_make_no_series() {
    let server = Server::dev();
    let mut connection = server.connect();
    let methods = ["GET", "POST", "DELETE", "PUT", "PATCH", "OPTIONS", "BREW", "X%7B"];
    let round = |connection: &mut crate::http::Connection, i: usize| {
        let odd = format!("{i:x}%22%7D%201%0Aup%200");
        let path = match i % 5 {
            0 => format!("/{odd}"),
            1 => format!("/v1/tenants/{odd}/listings?protocol=arena/3"),
            2 => format!("/v1/tenants/demo/listings?protocol=p{i}"),
            3 => format!("/v1/tenants/demo/listings/{odd}"),
            _ => format!("/v1/{odd}/{odd}"),
        };
        let answer = connection.ask(methods[(i / 5) % methods.len()], &path, &[("Host", &odd)], "");
        if answer.header("connection") == Some("close") {
            *connection = server.connect();
        }
    };
    // Every kind once, so that what is known in advance is there.
    (0..40).for_each(|i| round(&mut connection, i));
    // The first look at the metrics is itself a series from then on.
    series(&server);
    let before = series(&server);
    (40..1_040).for_each(|i| round(&mut connection, i));
    let after = series(&server);
    let new: Vec<_> = after.difference(&before).collect();
    assert!(new.is_empty(), "{new:?}");
    assert!(after.len() > 10);
}

#[test]
fn case_n1_control_characters_never_reach_a_line() {
    let mut server = Server::start("", &["--log-level", "trace"]);
    let token = server.guest();
    let headers = [("Authorization", &*bearer(&token)), ("Idempotency-Key", "k")];
    for name in [r"a\nb", r"\u001b[2J", r"\u009b", r"a\u2028b", r"\u202e"] {
        let body = format!(r#"{{"protocol":"arena/3","details":{{"name":"{name}","max_players":8}}}}"#);
        let answer = server.ask("POST", "/v1/tenants/demo/listings", &headers, &body);
        assert_eq!((answer.status, answer.code()), (400, "invalid"), "{name}: {answer:?}");
        assert_eq!(answer.json["errors"][0]["pointer"], "/details/name", "{answer:?}");
        assert!(!answer.body.chars().any(char::is_control), "{answer:?}");
    }
    server.get("/%1b%5b2J%0a");
    server.terminate();
    server.process.assert_exit(0);
    assert!(!server.process.stderr.text().chars().any(|c| c.is_control() && c != '\n'));
}
