use super::keys::{keys, tenant_keys};
use super::*;
use crate::domain::TenantId;
use std::io::Write;

fn layers(environment: &[(&str, &str)], flags: Flags) -> Layers {
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    Layers { environment, flags, ..Layers::default() }
}

fn parse(text: &str) -> Result<Config, ConfigErrors> {
    Config::from_toml(text, Origin::File("test.toml".into()))
}

fn problems(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn the_printed_defaults_read_back_as_the_defaults() {
    assert_eq!(parse(&default_text()), Ok(Config::default()));
}

#[test]
fn every_key_is_printed_and_its_commented_value_is_legal_too() {
    let text = default_text();
    for key in keys() {
        let name = key.path.rsplit('.').next().unwrap();
        assert!(text.lines().any(|line| line.trim_start_matches("# ").starts_with(&format!("{name} = "))), "{name}");
    }
    let uncommented: String = text
        .lines()
        .map(|line| {
            line.strip_prefix("# ").filter(|rest| rest.contains(" = ") || rest.starts_with("[[")).unwrap_or(line)
        })
        .filter(|line| !line.contains("_file = "))
        .map(|line| format!("{line}\n"))
        .collect();
    let config = parse(&uncommented).unwrap();
    assert_eq!(config.tenants[0].name, "demo");
    assert!(config.policy().turn.is_some());
    assert_eq!((config.limits.long_polls, config.limits.long_polls()), (Some(46_024), 46_024));
}

#[test]
fn derived_limits_follow_the_ceilings_they_belong_to() {
    let derived = Config::default();
    assert_eq!(derived.store_limits(), Limits::default());
    assert_eq!(derived.policy().long_polls, 25_000 + 2 * 10_000 + 1_024);
    let small = parse("[limits]\nlistings = 1000").unwrap().store_limits();
    assert_eq!((small.unproven_listings, small.presence), (500, 2_000));
}

#[test]
fn a_stronger_layer_overrides_a_weaker_one() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "[limits]\nlistings = 10\nattempts = 20\nreplay = 30\n[server]\nstore = \"single-lock\"").unwrap();
    let mut layers = layers(
        &[("RENDEZVOUS_LIMITS__ATTEMPTS", "21"), ("RENDEZVOUS_LIMITS__REPLAY", "31"), ("PATH", "/bin")],
        vec![("--store", "server.store", "lane".into()), ("--replay", "limits.replay", "32".into())],
    );
    layers.file = Some(file.path().to_owned());
    let config = layers.load().unwrap();
    let limits = &config.limits;
    assert_eq!((limits.listings, limits.attempts, limits.replay, config.server.store), (10, 21, 32, StoreKind::Lane));
}

#[test]
fn unknown_keys_are_refused_with_the_nearest_known_one() {
    assert_eq!(
        problems("[limits]\nlistngs = 5"),
        "test.toml: unknown key `limits.listngs`; the nearest known one is `limits.listings`"
    );
    let tenant = problems("[[tenant]]\nname = \"a\"\ngests = true");
    assert!(tenant.contains("`tenant[0].gests`; the nearest known one is `tenant[0].guests`"), "{tenant}");
    let environment = layers(&[("RENDEZVOUS_LIMITS__LISTING", "5")], vec![]).load().unwrap_err().to_string();
    assert!(environment.starts_with("environment RENDEZVOUS_LIMITS__LISTING: unknown key"), "{environment}");
}

#[test]
fn errors_name_key_expected_and_seen_all_at_once() {
    let text = problems(
        "[limits]\nlistings = \"many\"\n[lease]\nttl_ms = -5\n[server]\nhttp = \"localhost\"\nstore = \"disk\"",
    );
    for part in [
        "`limits.listings`: expected an integer from 1 to 1000000 (records), seen \"many\"",
        "`lease.ttl_ms`: expected an integer from 100 to 3600000 (ms), seen -5",
        "`server.http`: expected an address like 127.0.0.1:8080 or [::1]:8080, seen \"localhost\"",
        "`server.store`: expected one of lane, single-lock, seen \"disk\"",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let text = problems("[limits]\n[turn]\nsecret = \"hunter2");
    assert!(text.contains("expected TOML") && text.contains("line 3") && !text.contains("hunter2"), "{text}");
}

#[test]
fn rule_d_a_ceiling_that_breaks_a_promise_refuses_the_start() {
    let text = problems("[limits]\nidempotency = 34999");
    assert!(text.contains("`limits.idempotency`") && text.contains("35000"), "{text}");
    assert!(problems("[idempotency]\nretention_ms = 299999").contains("`idempotency.retention_ms`"));
    assert!(parse("[lease]\nttl_ms = 1000\nttl_min_ms = 1000").is_ok());
}

#[test]
fn a_layer_that_names_udp_listeners_names_all_of_them() {
    let config = layers(&[], vec![("--udp", "server.udp", "127.0.0.1:0,[::1]:0".into())]).load().unwrap();
    assert_eq!((config.server.udp.len(), config.server.udp_auth.len()), (2, 0));
    let config = parse("[server]\nudp_auth = \"127.0.0.1:0\"").unwrap();
    assert_eq!((config.server.udp.len(), config.server.udp_auth.len()), (0, 1));
    let both = Config::default().server;
    assert_eq!((both.udp[0].port(), both.udp_auth[0].port()), (3478, 3479));
}

#[test]
fn dev_stays_on_loopback_wildcards_included() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:0.0.0.0]:0"] {
        for key in ["server.http", "server.udp", "server.udp_auth", "server.metrics"] {
            let dev = Layers { dev: true, ..layers(&[], vec![("--x", key, address.into())]) };
            let text = dev.load().unwrap_err().to_string();
            assert!(text.contains(&format!("`{key}`: expected a loopback address")), "{text}");
        }
    }
    let dev = Layers { dev: true, ..layers(&[(load::OPERATOR_KEY, "k")], vec![]) }.load().unwrap();
    assert_eq!((dev.tenants[0].name.as_str(), dev.tenants[0].guests, dev.operator.keys.len()), (DEV_TENANT, true, 1));
}

#[test]
fn secrets_come_from_files_and_never_show() {
    let mut keys = tempfile::NamedTempFile::new().unwrap();
    writeln!(keys, "# operators\nfirst-operator-key\n\n  second-operator-key").unwrap();
    let mut secret = tempfile::NamedTempFile::new().unwrap();
    writeln!(secret, "a-secret-of-the-tenant-with-32-bytes").unwrap();
    let (keys_path, secret) = (keys.path().display(), secret.path().display());
    let config = parse(&format!(
        "[operator]\nkeys_file = \"{keys_path}\"\n[turn]\nuris = \"turn:a\"\nsecret_file = \"{secret}\"\n\
         [[tenant]]\nname = \"a\"\n[tenant.jwt]\nalgorithm = \"HS256\"\nkey_file = \"{secret}\""
    ))
    .unwrap();
    let seen: Vec<_> = config.operator.keys.iter().map(Secret::expose).collect();
    assert_eq!(seen, ["first-operator-key", "second-operator-key"]);
    let key = config.tenants[0].jwt.key.as_ref().map(Secret::expose);
    assert_eq!(key, Some("a-secret-of-the-tenant-with-32-bytes"));
    let shown = format!("{config:?}");
    assert!(!shown.contains("operator-key") && !shown.contains("32-bytes"), "{shown}");
    assert!(problems("[operator]\nkeys_file = \"/nowhere/at/all\"").contains("expected a readable file"));
}

#[test]
fn a_wrong_secret_is_refused_and_not_shown() {
    for (text, key) in [
        ("[operator]\nkeys = [\"hunter2\"]", "`operator.keys`"),
        ("[operator]\nkeys = [\"hunter2 hunter2\"]", "`operator.keys`"),
        ("[turn]\nuris = [\"turn:a\"]", "`turn.secret`"),
        ("[turn]\nsecret = \"hunter2\"", "`turn.uris`"),
        ("[[tenant]]\nname = \"a\"\njwt.algorithm = \"HS256\"\njwt.key = \"hunter2\"", "`tenant[0].jwt.key`"),
        ("[[tenant]]\nname = \"a\"\njwt.algorithm = \"HS256\"", "`tenant[0].jwt.key`"),
        ("[[tenant]]\nname = \"a\"\njwt.key = \"hunter2\"", "`tenant[0].jwt.algorithm`"),
        ("[[tenant]]\nname = \"a\"\njwt.algorithm = \"EdDSA\"\njwt.key = \"hunter2\"", "`tenant[0].jwt.key`"),
        ("[[tenant]]\nname = \"A\"", "`tenant[0].name`"),
        ("[[tenant]]\nname = \"a\"\n[[tenant]]\nname = \"a\"", "`tenant[1].name`"),
        ("[trust]\nproxies = [\"10.0.0.0/33\"]", "`trust.proxies`"),
        ("[trust]\nproxies = [\"::ffff:10.0.0.0/8\"]", "`trust.proxies`"),
        ("[http]\ncors_origins = [\"*\", \"https://game.example/\"]", "`http.cors_origins`"),
        ("[http]\ncors_origins = \"game.example\"", "`http.cors_origins`"),
        ("[http]\ncors_origins = \"https://Game.example\"", "`http.cors_origins`"),
    ] {
        let problems = problems(text);
        assert!(problems.contains(key) && !problems.contains("hunter2"), "{problems}");
    }
}

#[test]
fn a_file_of_operators_keys_has_one() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "# to be filled in\n\n").unwrap();
    let text = problems(&format!("[operator]\nkeys = \"another-operator-key\"\nkeys_file = {:?}", file.path()));
    assert_eq!(text, "configuration: `operator.keys_file`: expected at least one key, seen none");
}

/// A secret that is passed over in silence leaves the server without it.
#[cfg(unix)]
#[test]
fn a_variable_of_ours_that_is_not_unicode_is_refused_by_name() {
    use std::os::unix::ffi::OsStringExt;
    let other = std::ffi::OsString::from_vec(b"hunter2\xff".to_vec());
    for name in ["RENDEZVOUS_TURN__SECRET", load::OPERATOR_KEY] {
        let layers = Layers { environment: vec![(name.into(), other.clone())], ..Layers::default() };
        let text = layers.load().unwrap_err().to_string();
        assert!(
            text.starts_with(&format!("environment {name}: ")) && text.ends_with("expected UTF-8, seen other bytes")
        );
        assert!(!text.contains("hunter2"), "{text}");
    }
    let none_of_ours = vec![("PATH".into(), other.clone()), ("RENDEZVOUS_DIR".into(), other)];
    assert!(Layers { environment: none_of_ours, ..Layers::default() }.load().is_ok());
}

#[test]
fn tenants_keep_their_order() {
    let config = parse("[[tenant]]\nname = \"a\"\n[[tenant]]\nname = \"b\"\nbrowse = \"principal\"").unwrap();
    let named = |id: TenantId| &config.tenants[usize::from(id.0)];
    assert_eq!((named(TenantId(0)).browse, named(TenantId(1)).browse), (Browse::Public, Browse::Principal));
}

#[test]
fn every_key_says_its_unit_and_reason() {
    let words: Vec<_> = keys().map(|key| (key.path, key.unit, key.reason)).collect();
    let tenants = tenant_keys().map(|key| (key.path, key.unit, key.reason));
    for (path, unit, reason) in words.into_iter().chain(tenants) {
        assert!(!unit.is_empty() && reason.ends_with('.'), "{path}");
    }
}

/// The limits page can't fall behind: it has a row for every number, with the built-in value.
#[test]
fn the_limits_page_names_every_limit_and_its_default() {
    let page = include_str!("../../docs/limits.md");
    let config = Config::default();
    let derived = ["limits.unproven_listings", "limits.presence", "limits.long_polls"];
    for key in keys().filter(|key| matches!(key.access, keys::Access::Number { .. })) {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{}` |", key.path)));
        let row = row.unwrap_or_else(|| panic!("docs/limits.md has no row for `{}`", key.path));
        let default = row.split('|').nth(2).map(str::trim).unwrap();
        match key.value(&config) {
            Some(value) => assert_eq!(default, value.to_string(), "{}", key.path),
            None => assert!(derived.contains(&key.path) && default.contains("limits."), "{}", key.path),
        }
    }
}

#[test]
fn case_o2_no_secret_is_in_the_debug_text_of_a_configuration() {
    let mut jwks = tempfile::NamedTempFile::new().unwrap();
    write!(jwks, r#"{{"keys":[{{"kty":"oct","alg":"HS256","k":"bWFya2VybWFya2VybWFya2VybWFya2VybWFya2Vy"}}]}}"#)
        .unwrap();
    let path = jwks.path().display();
    let text = format!("[[tenant]]\nname = \"a\"\n[tenant.jwt]\nalgorithm = \"HS256\"\njwks_file = \"{path}\"\n");
    let config = parse(&text).unwrap();
    assert!(config.tenants[0].jwt.jwks.is_some());
    assert!(!format!("{config:?}").contains("bWFya2Vy"), "{config:?}");
    let layers = layers(&[("RENDEZVOUS_TURN__SECRET", "marker"), (load::OPERATOR_KEY, "marker")], vec![]);
    let shown = format!("{layers:?}");
    assert!(shown.contains("RENDEZVOUS_TURN__SECRET") && !shown.contains("marker"), "{shown}");
}

#[test]
fn the_operators_own_variable_adds_a_key_whatever_else_names_keys() {
    let both = [(load::OPERATOR_KEY, "first-operator-key"), ("RENDEZVOUS_OPERATOR__KEYS", "second-operator-key")];
    for order in [both, [both[1], both[0]]] {
        let config = layers(&order, vec![]).load().unwrap();
        let mut keys: Vec<_> = config.operator.keys.iter().map(Secret::expose).collect();
        keys.sort_unstable();
        assert_eq!(keys, ["first-operator-key", "second-operator-key"]);
    }
}

#[test]
fn limits_that_do_not_go_together_say_what_was_expected_and_seen() {
    let text = problems("[limits]\nlistings = 250000");
    assert_eq!(text, "configuration: `limits.idempotency`: expected an integer from 260000 to 16000000, seen 250000");
}

#[test]
fn a_certificate_is_checked_with_its_key_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let made = |name: &str| {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        std::fs::write(path(&format!("{name}.cert")), made.cert.pem()).unwrap();
        std::fs::write(path(&format!("{name}.key")), made.signing_key.serialize_pem()).unwrap();
    };
    made("a");
    made("b");
    let text = |certificate: &str, key: &str| {
        format!("[tls]\ncertificate_file = {:?}\nkey_file = {:?}\n", path(certificate), path(key))
    };
    assert_eq!(parse(&text("a.cert", "a.key")).unwrap().tls.files().unwrap().key, path("a.key"));
    let refused = problems(&text("a.cert", "b.key"));
    assert!(refused.contains("`tls.certificate_file`: expected PEM that goes together"), "{refused}");
    let refused = problems(&text("a.cert", "a.cert"));
    assert!(
        refused.contains("`tls.key_file`: expected PEM that goes together") && !refused.contains("BEGIN"),
        "{refused}"
    );
    assert!(problems(&text("a.cert", "none")).contains("none: expected a readable file"));
    let alone = problems(&format!("[tls]\ncertificate_file = {:?}", path("a.cert")));
    assert!(alone.contains("`tls.key_file`: expected a key beside tls.certificate_file, seen none"), "{alone}");
    let proxies = problems("[trust]\nproxy_protocol = true");
    assert!(proxies.contains("`trust.proxies`: expected the proxies that speak the PROXY protocol, seen none"));
}
