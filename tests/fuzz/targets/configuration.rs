//! Configuration texts, and variables of the environment above them: refused with an error that tells no secret, or read
//! to the same configuration every time.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rendezvous::config::{Config, Layers, Origin};

/// In every seed the value of the secrets; errors and debug output must not repeat it.
const SECRET: &str = "Zq9Zq9Zq9Zq9Zq9Zq9Zq9Zq9Zq9Zq9Zq9";
/// The keys that hold secrets, without their sections.
const SECRET_KEYS: [&str; 3] = ["secret", "keys", "key"];
/// Divides the file from the environment's lines.
const DIVIDER: &str = "\n#environment\n";

fuzz_target!(|text: &str| {
    // Nothing here may open a file, or wait for one.
    if text.to_ascii_lowercase().contains("file") {
        return;
    }
    let (file, lines) = text.split_once(DIVIDER).unwrap_or((text, ""));
    let origin = Origin::File("rendezvous.toml".into());
    let read = Config::from_toml(file, origin.clone());
    assert_eq!(read, Config::from_toml(file, origin));
    let keeps_secrets = is_only_a_secret(file);
    match &read {
        Ok(config) => {
            config.store_limits().check().expect("checked");
            let _ = config.policy();
            assert!(!keeps_secrets || !format!("{config:?}").contains(SECRET), "{config:?}");
        }
        Err(errors) => {
            let told = format!("{errors} {errors:?}");
            assert!(!keeps_secrets || !told.contains(SECRET), "{told}");
            assert!(!told.is_empty());
        }
    }
    let environment = lines.lines().filter_map(|line| line.split_once('='));
    let environment = environment.map(|(name, value)| (name.to_owned(), value.into())).collect();
    let layers = Layers { dev: file.len() % 2 == 1, environment, ..Layers::default() };
    let loaded = layers.load();
    assert_eq!(loaded, layers.load());
    if let Ok(config) = loaded {
        config.store_limits().check().expect("checked");
    }
});

/// Whether the marker stands nowhere but as the value of a secret's key: elsewhere nobody could know what it is.
fn is_only_a_secret(text: &str) -> bool {
    let whole: toml::Table = match text.parse() {
        Ok(whole) => whole,
        // In a line that assigns it, at least; anywhere else it may be the name of something.
        Err(_) => return text.lines().filter(|line| line.contains(SECRET)).all(assigns_a_secret),
    };
    value_is_only_a_secret(&toml::Value::Table(whole), false)
}

fn assigns_a_secret(line: &str) -> bool {
    let Some((name, value)) = line.split_once('=') else { return false };
    SECRET_KEYS.contains(&name.trim()) && value.matches(SECRET).count() == 1
}

fn value_is_only_a_secret(value: &toml::Value, below_secret: bool) -> bool {
    match value {
        toml::Value::Table(table) => table.iter().all(|(name, value)| {
            let is_secret = SECRET_KEYS.contains(&name.as_str());
            !name.contains(SECRET) && value_is_only_a_secret(value, is_secret)
        }),
        toml::Value::Array(items) => items.iter().all(|item| value_is_only_a_secret(item, below_secret)),
        toml::Value::String(text) => below_secret || !text.contains(SECRET),
        _ => true,
    }
}
