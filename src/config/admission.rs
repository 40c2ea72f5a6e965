//! `[admission]`: the command plane.

use super::Config;
use super::check::{is_tenant_name, is_token, one_of_two, secret_text};
use super::error::{ConfigError, Origin};
use crate::admission::{AgentId, HostLimits, HostTargetKey, Settings};
use crate::credentials::Secret;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

/// The key of the host credential that `--dev` brings along. Known to everybody, as good as none: `--dev` stays on loopback.
pub const DEV_HOST_KEY: &str = "dev-host-key";
/// The name of the profile and of its target key that `--dev` brings along.
pub const DEV_PROFILE: &str = "demo";

/// Shortest key of a host credential outside of `--dev`.
const HOST_KEY_MIN: usize = 16;
/// Most host credentials: each token is compared with all of them.
const HOSTS_MAX: usize = 256;
/// Longest name of a host credential: with its prefix it is a principal's name.
const HOST_NAME_MAX: usize = 64;

/// Where the command plane's rows are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdmissionStore {
    /// There is no command plane.
    #[default]
    Off,
    /// Nowhere: for trying out.
    Memory,
    /// In one file.
    Sqlite,
    /// In a PostgreSQL database that several processes may share.
    Postgres,
}

impl AdmissionStore {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Off, Self::Memory, Self::Sqlite, Self::Postgres];

    /// The word in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Memory => "memory",
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// One `[[admission.profile]]`: what a create may ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Its name in creates.
    pub name: String,
    /// What a host must be able to run.
    pub target_key: String,
    /// What the host launches.
    pub workload: String,
}

/// One `[[admission.host]]`: a credential of hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostEntry {
    /// Its name in logs and in what it settles.
    pub name: String,
    /// The bearer token.
    pub key: Option<Secret>,
    /// A file with it.
    pub key_file: Option<PathBuf>,
    /// Tenants whose sessions it may run.
    pub tenants: Vec<String>,
    /// Target keys that its hosts may register under.
    pub target_keys: Vec<String>,
}

/// `[admission]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionSection {
    /// Where rows are kept.
    pub store: AdmissionStore,
    /// The file of SQLite.
    pub path: Option<PathBuf>,
    /// The URL of PostgreSQL, which has a password in it.
    pub postgres_url: Option<Secret>,
    /// A file with the URL.
    pub postgres_url_file: Option<PathBuf>,
    /// Where sessions' objects lie.
    pub storage_binding_id: String,
    /// The version of that place's layout.
    pub binding_version: String,
    /// What a JWT's `scope` must name; empty for nothing.
    pub scope: String,
    /// Bounds of the store.
    pub settings: Settings,
    /// Bounds of what hosts are granted.
    pub hosts: HostLimits,
    /// What a command is given when its caller doesn't say.
    pub apply_deadline: Duration,
    /// Between two steps of the upkeep.
    pub sweep_interval: Duration,
    /// Rows of a page of a sweep.
    pub sweep_page_rows: usize,
    /// Pages of a sweep.
    pub sweep_pages: usize,
    /// How long a session's sweeping is claimed for.
    pub sweep_claim_ttl: Duration,
    /// Longest payload.
    pub payload_bytes: usize,
    /// Uploads at a time.
    pub uploads: usize,
    /// Downloads at a time.
    pub downloads: usize,
    /// `[[admission.profile]]`
    pub profiles: Vec<Profile>,
    /// `[[admission.host]]`
    pub credentials: Vec<HostEntry>,
}

impl Default for AdmissionSection {
    fn default() -> Self {
        Self {
            store: AdmissionStore::Off,
            path: None,
            postgres_url: None,
            postgres_url_file: None,
            storage_binding_id: "default".to_owned(),
            binding_version: "1".to_owned(),
            scope: "commands".to_owned(),
            settings: Settings::default(),
            hosts: HostLimits::default(),
            apply_deadline: Duration::from_secs(30),
            sweep_interval: Duration::from_millis(250),
            sweep_page_rows: 256,
            sweep_pages: 8,
            sweep_claim_ttl: Duration::from_secs(10),
            payload_bytes: crate::admission::PAYLOAD_MAX,
            uploads: 16,
            downloads: 32,
            profiles: Vec::new(),
            credentials: Vec::new(),
        }
    }
}

impl AdmissionSection {
    /// What `--dev` starts from: in memory, one profile, and a host credential that everybody knows.
    pub(super) fn dev(tenant: &str) -> Self {
        let demo = DEV_PROFILE.to_owned();
        Self {
            store: AdmissionStore::Memory,
            scope: String::new(),
            profiles: vec![Profile { name: demo.clone(), target_key: demo.clone(), workload: demo.clone() }],
            credentials: vec![HostEntry {
                name: "dev".to_owned(),
                key: Some(Secret::new(DEV_HOST_KEY)),
                key_file: None,
                tenants: vec![tenant.to_owned()],
                target_keys: vec![demo],
            }],
            ..Self::default()
        }
    }

    /// Whether the server has a command plane.
    pub fn is_on(&self) -> bool {
        self.store != AdmissionStore::Off
    }

    pub(super) fn read_secret_files(&mut self, errors: &mut Vec<ConfigError>) {
        if let Some(path) = &self.postgres_url_file {
            let both = self.postgres_url.is_some();
            one_of_two(both, "admission.postgres_url", "admission.postgres_url_file", errors);
            self.postgres_url = secret_text(path, errors).map(|text| Secret::new(text.trim()));
        }
        for (position, host) in self.credentials.iter_mut().enumerate() {
            if let Some(path) = &host.key_file {
                let name = |key: &str| format!("admission.host[{position}].{key}");
                one_of_two(host.key.is_some(), &name("key"), &name("key_file"), errors);
                host.key = secret_text(path, errors).map(|text| Secret::new(text.trim()));
            }
        }
    }
}

/// Collects refusals of the section.
struct Refusals<'e>(&'e mut Vec<ConfigError>);

impl Refusals<'_> {
    fn refuse(&mut self, key: &str, expected: impl Into<String>, seen: impl std::fmt::Display) {
        self.0.push(ConfigError::value(Origin::Whole, format!("admission.{key}"), expected.into(), seen));
    }

    fn needs(&mut self, is_there: bool, key: &str, expected: &str) {
        if !is_there {
            self.refuse(key, expected, "none");
        }
    }
}

impl Config {
    /// A section that is off is not looked at: it may be half written.
    pub(super) fn check_admission(&self, errors: &mut Vec<ConfigError>) {
        let section = &self.admission;
        if !section.is_on() {
            return;
        }
        let mut refusals = Refusals(errors);
        check_store(section, &mut refusals);
        check_times(section, &mut refusals);
        check_profiles(&section.profiles, &mut refusals);
        self.check_credentials(&mut refusals);
    }

    fn check_credentials(&self, refusals: &mut Refusals<'_>) {
        let hosts = &self.admission.credentials;
        if hosts.len() > HOSTS_MAX {
            refusals.refuse("host", format!("at most {HOSTS_MAX} credentials"), hosts.len());
        }
        let shortest = if self.dev { 1 } else { HOST_KEY_MIN };
        let known_keys: BTreeSet<_> = self.admission.profiles.iter().map(|profile| &profile.target_key).collect();
        for (position, host) in hosts.iter().enumerate() {
            let at = |key: &str| format!("host[{position}].{key}");
            let earlier = || hosts[..position].iter();
            if !is_tenant_name(&host.name) || host.name.len() > HOST_NAME_MAX {
                refusals.refuse(&at("name"), "1 to 64 of a-z 0-9 . _ -", format!("{:?}", host.name));
            }
            if earlier().any(|other| other.name == host.name) {
                refusals.refuse(&at("name"), "a name of its own", format!("{:?} again", host.name));
            }
            match &host.key {
                None => refusals.refuse(&at("key"), "key or key_file", "none"),
                Some(key) if !is_token(key, shortest) => {
                    refusals.refuse(&at("key"), format!("{shortest} visible ASCII characters and more"), "another one");
                }
                Some(key) if earlier().any(|other| other.key.as_ref() == Some(key)) => {
                    refusals.refuse(&at("key"), "a key of its own", "that of another host credential");
                }
                Some(key) if self.operator.keys.contains(key) => {
                    refusals.refuse(&at("key"), "a key of its own", "that of an operator");
                }
                Some(_) => {}
            }
            refusals.needs(!host.tenants.is_empty(), &at("tenants"), "at least one tenant");
            refusals.needs(!host.target_keys.is_empty(), &at("target_keys"), "at least one target key");
            let unknown = host.tenants.iter().find(|name| self.tenants.iter().all(|tenant| tenant.name != **name));
            if let Some(name) = unknown {
                refusals.refuse(&at("tenants"), "names of configured tenants", format!("{name:?}"));
            }
            if let Some(key) = host.target_keys.iter().find(|key| !known_keys.contains(key)) {
                refusals.refuse(&at("target_keys"), "target keys of configured profiles", format!("{key:?}"));
            }
        }
    }
}

fn check_store(section: &AdmissionSection, refusals: &mut Refusals<'_>) {
    match section.store {
        AdmissionStore::Sqlite => refusals.needs(section.path.is_some(), "path", "a file beside store = \"sqlite\""),
        AdmissionStore::Postgres => {
            let expected = "postgres_url or postgres_url_file beside store = \"postgres\"";
            refusals.needs(section.postgres_url.is_some(), "postgres_url", expected);
            if cfg!(not(feature = "postgres")) {
                refusals.refuse("store", "a store that this binary was built with", "postgres");
            }
        }
        AdmissionStore::Off | AdmissionStore::Memory => {}
    }
    let bindings = [("storage_binding_id", &section.storage_binding_id), ("binding_version", &section.binding_version)];
    for (key, text) in bindings {
        if AgentId::new(text).is_err() {
            refusals.refuse(key, "1 to 64 visible ASCII characters", format!("{text:?}"));
        }
    }
    if section.scope.bytes().any(|byte| !byte.is_ascii_graphic() || b"\"\\".contains(&byte)) {
        refusals.refuse("scope", "one word of visible ASCII characters, or nothing", format!("{:?}", section.scope));
    }
}

fn check_times(section: &AdmissionSection, refusals: &mut Refusals<'_>) {
    let HostLimits { ttl_min, ttl_max, ttl_default, .. } = section.hosts;
    if ttl_min > ttl_max {
        refusals.refuse("lease_ttl_min_ms", "at most lease_ttl_max_ms", ttl_min.as_millis());
    } else if !(ttl_min..=ttl_max).contains(&ttl_default) {
        refusals.refuse("lease_ttl_ms", "from lease_ttl_min_ms to lease_ttl_max_ms", ttl_default.as_millis());
    }
}

fn check_profiles(profiles: &[Profile], refusals: &mut Refusals<'_>) {
    refusals.needs(!profiles.is_empty(), "profile", "at least one [[admission.profile]]");
    for (position, profile) in profiles.iter().enumerate() {
        let at = |key: &str| format!("profile[{position}].{key}");
        if let Err(error) = AgentId::new(&profile.name) {
            refusals.refuse(&at("name"), error.to_string(), format!("{:?}", profile.name));
        }
        if profiles[..position].iter().any(|earlier| earlier.name == profile.name) {
            refusals.refuse(&at("name"), "a name of its own", format!("{:?} again", profile.name));
        }
        if let Err(error) = HostTargetKey::new(&profile.target_key) {
            refusals.refuse(&at("target_key"), error.to_string(), format!("{:?}", profile.target_key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[[tenant]]\nname = \"demo\"\n[admission]\nstore = \"sqlite\"\npath = \"/x\"\n\
        [[admission.profile]]\nname = \"arena\"\ntarget_key = \"arena/eu\"\n\
        [[admission.host]]\nname = \"eu\"\nkey = \"0123456789abcdef\"\ntenants = [\"demo\"]\ntarget_keys = [\"arena/eu\"]\n";

    fn parse(text: &str) -> Result<Config, String> {
        Config::from_toml(text, Origin::Flag("the test")).map_err(|errors| errors.to_string())
    }

    #[test]
    fn a_whole_section_is_taken_and_each_mistake_is_named() {
        let config = parse(GOOD).unwrap();
        assert_eq!((config.admission.store, config.admission.profiles.len()), (AdmissionStore::Sqlite, 1));
        assert_eq!(config.admission.credentials[0].tenants, ["demo"]);
        for (from, to, expected) in [
            ("path = \"/x\"\n", "", "`admission.path`"),
            ("\"sqlite\"", "\"postgres\"", "`admission.postgres_url`"),
            ("\"sqlite\"", "\"mysql\"", "one of off, memory, sqlite, postgres"),
            ("store =", "stoer =", "nearest known one is `admission.store`"),
            (
                "target_key = \"arena/eu\"",
                "target_kee = \"x\"",
                "nearest known one is `admission.profile[0].target_key`",
            ),
            ("name = \"arena\"", "name = \"\"", "`admission.profile[0].name`"),
            ("[\"demo\"]", "[\"demi\"]", "`admission.host[0].tenants`: expected names of configured tenants"),
            ("[\"arena/eu\"]", "[\"arena/us\"]", "`admission.host[0].target_keys`"),
            ("0123456789abcdef", "0123", "`admission.host[0].key`"),
            ("path = \"/x\"", "path = \"/x\"\nlease_ttl_ms = 400000", "`admission.lease_ttl_ms`"),
            ("path = \"/x\"", "path = \"/x\"\nscope = \"a b\"", "`admission.scope`"),
        ] {
            let errors = parse(&GOOD.replacen(from, to, 1)).unwrap_err();
            assert!(errors.contains(expected), "{to}: {errors}");
            assert!(!errors.contains("0123"), "a secret is never shown: {errors}");
        }
    }

    #[test]
    fn rows_are_tables_with_two_brackets() {
        assert!(parse("[admission]\nhost = 7").unwrap_err().contains("[[admission.host]] with two brackets"));
    }

    #[test]
    fn a_key_opens_one_door() {
        let twice = format!("{GOOD}{}", &GOOD[GOOD.find("[[admission.host]]").unwrap()..].replace("\"eu\"", "\"us\""));
        assert!(parse(&twice).unwrap_err().contains("`admission.host[1].key`"));
        let operators = format!("[operator]\nkeys = [\"0123456789abcdef\"]\n{GOOD}");
        assert!(parse(&operators).unwrap_err().contains("that of an operator"));
    }

    #[test]
    fn a_section_that_is_off_may_be_half_written() {
        assert!(!parse("[admission]\npath = \"/x\"\n[[admission.host]]\nname = \"eu\"\n").unwrap().admission.is_on());
    }

    #[test]
    fn keys_come_from_files() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, b"0123456789abcdef-from-a-file\n").unwrap();
        let text = GOOD.replace("key = \"0123456789abcdef\"", &format!("key_file = \"{}\"", file.path().display()));
        let config = parse(&text).unwrap();
        assert_eq!(config.admission.credentials[0].key, Some(Secret::new("0123456789abcdef-from-a-file")));
        assert!(!format!("{config:?}").contains("from-a-file"));
    }
}
