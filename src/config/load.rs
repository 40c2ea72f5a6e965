//! The layers: built-in values, file, environment, flags.

use super::Config;
use super::admission::{HostEntry, Profile};
use super::error::{ConfigError, ConfigErrors, Origin, Problem};
use super::keys::{Key, host_keys, keys, profile_keys, tenant_keys};
use super::nearest::nearest;
use super::value::Found;
use crate::credentials::Secret;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Prefix of the environment's keys; `__` stands for the dot of a key.
const PREFIX: &str = "RENDEZVOUS_";
/// An operator's key for all modes, the only variable without `__` that the server reads.
pub const OPERATOR_KEY: &str = "RENDEZVOUS_OPERATOR_KEY";

/// Values from the command line: a flag's name, the key that it stands for, and its value.
pub type Flags = Vec<(&'static str, &'static str, String)>;

/// Where values come from besides the built-in ones, weakest first.
#[derive(Clone, Default)]
pub struct Layers {
    /// Start from the built-in values of `--dev`.
    pub dev: bool,
    /// A TOML file.
    pub file: Option<PathBuf>,
    /// Variables of the environment, all of them. What is not Unicode in a name stands as U+FFFD.
    pub environment: Vec<(String, OsString)>,
    /// Flags.
    pub flags: Flags,
}

/// Of the environment the names only: the values may be secrets.
impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.environment.iter().map(|(name, _)| name).collect();
        f.debug_struct("Layers")
            .field("dev", &self.dev)
            .field("file", &self.file)
            .field("environment", &names)
            .field("flags", &self.flags)
            .finish()
    }
}

impl Layers {
    /// Reads, checks and joins all layers. Every problem that can be told is told at once.
    pub fn load(&self) -> Result<Config, ConfigErrors> {
        let mut config = if self.dev { Config::dev() } else { Config::default() };
        let mut errors = Vec::new();
        if let Some(path) = &self.file {
            let origin = Origin::File(path.clone());
            match read(path).and_then(|text| parse(&text, &origin)) {
                Ok(table) => apply_table(&mut config, &table, &origin, &mut errors),
                Err(error) => return Err(error.into()),
            }
        }
        self.apply_environment(&mut config, &mut errors);
        self.apply_flags(&mut config, &mut errors);
        config.read_secret_files(&mut errors);
        if errors.is_empty() {
            config.check(&mut errors);
        }
        if errors.is_empty() { Ok(config) } else { Err(ConfigErrors(errors)) }
    }

    fn apply_environment(&self, config: &mut Config, errors: &mut Vec<ConfigError>) {
        let mut named = Vec::new();
        let mut operator_key = None;
        for (name, value) in &self.environment {
            let Some(rest) = name.strip_prefix(PREFIX) else { continue };
            if name != OPERATOR_KEY && !rest.contains("__") {
                continue;
            }
            let (key, origin) = (rest.replace("__", ".").to_lowercase(), Origin::Environment(name.clone()));
            match value.to_str() {
                None => errors.push(ConfigError::value(origin, key, "UTF-8", "other bytes")),
                Some(text) if name == OPERATOR_KEY => operator_key = Some(text).filter(|text| !text.is_empty()),
                Some(text) => named.push((key, Found::Words(text), origin)),
            }
        }
        apply_all(config, named, errors);
        // After the others: it adds a key, where `operator.keys` replaces them all.
        if let Some(key) = operator_key {
            config.add_operator_key(Secret::new(key));
        }
    }

    fn apply_flags(&self, config: &mut Config, errors: &mut Vec<ConfigError>) {
        let named =
            self.flags.iter().map(|(flag, key, text)| ((*key).to_owned(), Found::Words(text), Origin::Flag(flag)));
        apply_all(config, named.collect(), errors);
    }
}

impl Config {
    /// Reads one TOML text, as `config check` does, without environment and flags.
    pub fn from_toml(text: &str, origin: Origin) -> Result<Self, ConfigErrors> {
        let mut config = Self::default();
        let mut errors = Vec::new();
        apply_table(&mut config, &parse(text, &origin)?, &origin, &mut errors);
        config.read_secret_files(&mut errors);
        if errors.is_empty() {
            config.check(&mut errors);
        }
        if errors.is_empty() { Ok(config) } else { Err(ConfigErrors(errors)) }
    }
}

pub(super) fn read(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|error| ConfigError {
        origin: Origin::File(path.to_owned()),
        problem: Problem::Unreadable { reason: error.to_string() },
    })
}

fn parse(text: &str, origin: &Origin) -> Result<Table, ConfigError> {
    text.parse().map_err(|error: toml::de::Error| {
        // The error's own text quotes the line, which may hold a secret.
        let before = &text[..error.span().map_or(0, |span| span.start.min(text.len()))];
        let line = before.matches('\n').count() + 1;
        let message = format!("{} (line {line})", error.message().trim_end());
        ConfigError { origin: origin.clone(), problem: Problem::Syntax { message } }
    })
}

fn apply_table(config: &mut Config, table: &Table, origin: &Origin, errors: &mut Vec<ConfigError>) {
    let mut named = Vec::new();
    for (section, value) in table {
        match (section.as_str(), value) {
            ("tenant", Value::Array(tenants)) => {
                config.tenants.extend(apply_rows("tenant", tenant_keys(), tenants, origin, errors));
            }
            ("admission", Value::Table(admission)) => {
                apply_admission(config, admission, origin, &mut named, errors);
            }
            ("tenant", other) => {
                let expected = "tables: [[tenant]] with two brackets";
                errors.push(ConfigError::value(origin.clone(), "tenant", expected, other.type_str()));
            }
            _ => flatten(section, value, &mut named),
        }
    }
    let named = named.into_iter().map(|(key, value)| (key, Found::Toml(value), origin.clone()));
    apply_all(config, named.collect(), errors);
}

/// Rows of profiles and host credentials replace those that are built in: `--dev` brings one of each along.
fn apply_admission<'a>(
    config: &mut Config,
    admission: &'a Table,
    origin: &Origin,
    named: &mut Vec<(String, &'a Value)>,
    errors: &mut Vec<ConfigError>,
) {
    for (name, value) in admission {
        match (name.as_str(), value) {
            ("profile", Value::Array(rows)) => {
                let rows: Vec<Profile> = apply_rows("admission.profile", profile_keys(), rows, origin, errors);
                config.admission.profiles = rows;
            }
            ("host", Value::Array(rows)) => {
                let rows: Vec<HostEntry> = apply_rows("admission.host", host_keys(), rows, origin, errors);
                config.admission.credentials = rows;
            }
            ("profile" | "host", other) => {
                let key = format!("admission.{name}");
                let expected = format!("tables: [[{key}]] with two brackets");
                errors.push(ConfigError::value(origin.clone(), key, expected, other.type_str()));
            }
            _ => flatten(&format!("admission.{name}"), value, named),
        }
    }
}

/// Reads an array of tables, each with the same keys. Errors name the row.
fn apply_rows<T: Default + 'static>(
    path: &str,
    keys: impl Iterator<Item = &'static Key<T>> + Clone,
    values: &[Value],
    origin: &Origin,
    errors: &mut Vec<ConfigError>,
) -> Vec<T> {
    let mut rows = Vec::with_capacity(values.len());
    for (position, value) in values.iter().enumerate() {
        let mut row = T::default();
        let mut named = Vec::new();
        let prefix = format!("{path}[{position}].");
        match value.as_table() {
            Some(table) => table.iter().for_each(|(name, value)| flatten(name, value, &mut named)),
            None => errors.push(ConfigError::value(origin.clone(), path, "tables", value.type_str())),
        }
        for (key, value) in named {
            if let Err(mut error) = apply(keys.clone(), &mut row, &key, &Found::Toml(value), origin) {
                match &mut error.problem {
                    Problem::Value { key, .. } => key.insert_str(0, &prefix),
                    Problem::Unknown { key, nearest } => {
                        key.insert_str(0, &prefix);
                        nearest.iter_mut().for_each(|nearest| nearest.insert_str(0, &prefix));
                    }
                    Problem::Unreadable { .. } | Problem::Syntax { .. } => {}
                }
                errors.push(error);
            }
        }
        rows.push(row);
    }
    rows
}

/// Turns nested tables into dotted keys.
fn flatten<'a>(path: &str, value: &'a Value, named: &mut Vec<(String, &'a Value)>) {
    match value {
        Value::Table(table) => table.iter().for_each(|(name, value)| flatten(&format!("{path}.{name}"), value, named)),
        Value::String(_)
        | Value::Integer(_)
        | Value::Float(_)
        | Value::Boolean(_)
        | Value::Datetime(_)
        | Value::Array(_) => named.push((path.to_owned(), value)),
    }
}

/// Puts one layer in. A layer that names UDP listeners of one kind names all that there are.
fn apply_all(config: &mut Config, named: Vec<(String, Found<'_>, Origin)>, errors: &mut Vec<ConfigError>) {
    if named.iter().any(|(key, ..)| key == "server.udp" || key == "server.udp_auth") {
        config.server.udp.clear();
        config.server.udp_auth.clear();
    }
    for (key, found, origin) in named {
        if let Err(error) = apply(keys(), config, &key, &found, &origin) {
            errors.push(error);
        }
    }
}

fn apply<T: 'static>(
    keys: impl Iterator<Item = &'static Key<T>> + Clone,
    target: &mut T,
    path: &str,
    found: &Found<'_>,
    origin: &Origin,
) -> Result<(), ConfigError> {
    match keys.clone().find(|key| key.path == path) {
        Some(key) => key.apply(target, found, origin),
        None => {
            let nearest = nearest(path, keys.map(|key| key.path)).map(str::to_owned);
            Err(ConfigError { origin: origin.clone(), problem: Problem::Unknown { key: path.to_owned(), nearest } })
        }
    }
}
