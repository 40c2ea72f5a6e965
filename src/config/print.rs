//! The text of `rendezvous config default`: every key, its unit, its reason and its built-in value.

use super::Config;
use super::keys::{Access, Key, host_keys, keys, profile_keys, tenant_keys};
use std::fmt::Write;
use toml::Value;

/// A TOML file that says what is built in. Keys without a built-in value are commented out, with an example.
pub fn default_text() -> String {
    let mut out = String::from(
        "# Configuration of `rendezvous serve`. Every key is here; the values are the built-in ones, and what is\n\
         # commented out has none. The environment (RENDEZVOUS_LIMITS__LISTINGS=...) overrides this file, flags override both.\n",
    );
    let config = Config::default();
    let mut section = "";
    for key in keys() {
        let (own, name) = key.path.split_once('.').unwrap_or(("", key.path));
        if own != section {
            section = own;
            let _ = write!(out, "\n[{section}]\n");
        }
        write_key(&mut out, key, name, key.value(&config));
    }
    write_rows(&mut out, "tenant", "for each game or studio", tenant_keys());
    write_rows(&mut out, "admission.profile", "for each thing that a create may ask for", profile_keys());
    write_rows(&mut out, "admission.host", "for each credential of hosts", host_keys());
    out
}

/// Commented out as a whole: these are nothing that everybody has.
fn write_rows<T: 'static>(out: &mut String, path: &str, what: &str, keys: impl Iterator<Item = &'static Key<T>>) {
    let _ = write!(out, "\n# One [[{path}]] {what}.\n# [[{path}]]\n");
    for key in keys {
        write_key(out, key, key.path, None);
    }
}

fn write_key<T>(out: &mut String, key: &Key<T>, name: &str, value: Option<Value>) {
    let _ = writeln!(out, "# {} Unit: {}.", key.reason, key.unit);
    let _ = match value {
        Some(value) => writeln!(out, "{name} = {value}"),
        None => writeln!(out, "# {name} = {}", key.example),
    };
}

impl<T> Key<T> {
    /// The value that `target` holds, as TOML; `None` for an unset one and for secrets.
    pub(crate) fn value(&self, target: &T) -> Option<Value> {
        let text = |text: &str| Value::String(text.to_owned());
        match &self.access {
            Access::Number { get, .. } => get(target).map(|number| Value::Integer(number.into())),
            Access::Flag { get, .. } => Some(Value::Boolean(get(target))),
            Access::Word { get, .. } => get(target).map(text),
            Access::Address { get, .. } => get(target).map(|address| Value::String(address.to_string())),
            Access::Addresses { get, .. } => {
                Some(Value::Array(get(target).iter().map(|address| Value::String(address.to_string())).collect()))
            }
            Access::Text { get, .. } => get(target).map(text),
            Access::Texts { get, .. } => {
                let texts = get(target);
                (!texts.is_empty()).then(|| Value::Array(texts.iter().map(|item| text(item)).collect()))
            }
            Access::Secret { .. } | Access::Secrets { .. } | Access::File { .. } => None,
        }
    }
}
