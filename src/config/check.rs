//! What no single key can tell: secrets from files, and values that don't go together.

use super::Config;
use super::error::{ConfigError, Origin};
use super::load::read;
use super::sections::{JwtSection, Tenant};
use crate::credentials::Secret;
use crate::edge::http::{Cidr, is_origin};
use std::net::SocketAddr;
use std::path::Path;

/// Shortest key of an operator outside of `--dev`.
const OPERATOR_KEY_MIN: usize = 8;
/// Most tenants: a [`TenantId`](crate::domain::TenantId) has 16 bits.
const TENANTS_MAX: usize = 65_536;

impl Config {
    /// Reads what `*_file` keys name.
    pub(super) fn read_secret_files(&mut self, errors: &mut Vec<ConfigError>) {
        if let Some(path) = &self.operator.keys_file
            && let Some(text) = secret_text(path, errors)
        {
            let keys = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
            let before = self.operator.keys.len();
            self.operator.keys.extend(keys.map(Secret::new));
            if self.operator.keys.len() == before {
                errors.push(ConfigError::value(Origin::Whole, "operator.keys_file", "at least one key", "none"));
            }
        }
        if let Some(path) = self.turn.secret_file.clone() {
            one_of_two(self.turn.secret.is_some(), "turn.secret", "turn.secret_file", errors);
            self.turn.secret = secret_text(&path, errors).map(|text| Secret::new(text.trim()));
        }
        for (position, tenant) in self.tenants.iter_mut().enumerate() {
            tenant.jwt.read_files(position, errors);
        }
        self.admission.read_secret_files(errors);
    }

    /// Checks everything together.
    pub(super) fn check(&self, errors: &mut Vec<ConfigError>) {
        let mut refuse = |key: &str, expected: &str, seen: &str| {
            errors.push(ConfigError::value(Origin::Whole, key, expected, seen));
        };
        if let Err(error) = self.store_limits().check() {
            refuse(error.key, &error.expected, &error.seen.to_string());
        }
        if !self.dev && self.operator.keys.iter().any(|key| !is_token(key, OPERATOR_KEY_MIN)) {
            refuse("operator.keys", "keys of at least 8 visible ASCII characters", "another one");
        }
        if self.dev && self.operator.keys.iter().any(|key| !is_token(key, 1)) {
            refuse("operator.keys", "keys of visible ASCII characters", "another one");
        }
        match (&self.turn.secret, self.turn.uris.is_empty()) {
            (Some(secret), false) if secret.expose().is_empty() => refuse("turn.secret", "a secret", "nothing"),
            (Some(_), true) => refuse("turn.uris", "at least one URI beside turn.secret", "none"),
            (None, false) => refuse("turn.secret", "turn.secret or turn.secret_file beside turn.uris", "none"),
            (Some(_), false) | (None, true) => {}
        }
        if let Some(uri) = self.turn.uris.iter().find(|uri| !uri.starts_with("turn:") && !uri.starts_with("turns:")) {
            refuse("turn.uris", "URIs that begin with turn: or turns:", uri);
        }
        if let Some(uri) = self.server.stun.iter().find(|uri| !uri.starts_with("stun:")) {
            refuse("server.stun", "URIs that begin with stun:", uri);
        }
        if self.turn.ttl_ms < self.attempt.ttl_ms {
            refuse("turn.ttl_ms", "at least attempt.ttl_ms", &self.turn.ttl_ms.to_string());
        }
        if let Some(range) = self.trust.proxies.iter().find(|range| range.parse::<Cidr>().is_err()) {
            refuse("trust.proxies", "addresses or ranges like 10.0.0.0/8", range);
        }
        if let Some(origin) = self.http.cors_origins.iter().find(|origin| *origin != "*" && !is_origin(origin)) {
            let expected = "origins as browsers send them, like https://play.example.net \
                (lower case, no slash at the end, no port that is the scheme's own), or \"*\"";
            refuse("http.cors_origins", expected, &format!("{origin:?}"));
        }
        self.check_transport(errors);
        self.check_dev_addresses(errors);
        self.check_tenants(errors);
        self.check_admission(errors);
    }

    /// `--dev` has known keys and no limiters: it stays on this machine.
    fn check_dev_addresses(&self, errors: &mut Vec<ConfigError>) {
        let listeners = |key: &'static str, addresses: &[SocketAddr]| {
            addresses.iter().map(|address| (key, *address)).collect::<Vec<_>>()
        };
        let all = [
            listeners("server.http", &[self.server.http]),
            listeners("server.udp", &self.server.udp),
            listeners("server.udp_auth", &self.server.udp_auth),
            listeners("server.metrics", self.server.metrics.as_slice()),
        ];
        for (key, address) in all.into_iter().flatten() {
            if self.dev && !crate::domain::endpoint::fold(address).ip().is_loopback() {
                let expected = "a loopback address with --dev, which has no defences";
                errors.push(ConfigError::value(Origin::Whole, key, expected, address));
            }
        }
    }

    fn check_tenants(&self, errors: &mut Vec<ConfigError>) {
        let mut refuse = |key: String, expected: &str, seen: &str| {
            errors.push(ConfigError::value(Origin::Whole, key, expected, seen));
        };
        if self.tenants.len() > TENANTS_MAX {
            refuse("tenant".to_owned(), "at most 65536 tenants", &self.tenants.len().to_string());
        }
        for (position, tenant) in self.tenants.iter().enumerate() {
            if !is_tenant_name(&tenant.name) {
                refuse(format!("tenant[{position}].name"), "1 to 64 of a-z 0-9 . _ -", &format!("{:?}", tenant.name));
            }
            if self.tenants[..position].iter().any(|earlier| earlier.name == tenant.name) {
                refuse(format!("tenant[{position}].name"), "a name of its own", &format!("{:?} again", tenant.name));
            }
            if let Some((key, expected, seen)) = wrong_jwt(tenant) {
                refuse(format!("tenant[{position}].{key}"), &expected, seen);
            }
        }
    }
}

impl JwtSection {
    fn read_files(&mut self, position: usize, errors: &mut Vec<ConfigError>) {
        let name = |key: &str| format!("tenant[{position}].jwt.{key}");
        if let Some(path) = &self.key_file {
            one_of_two(self.key.is_some(), &name("key"), &name("key_file"), errors);
            // A secret's file usually ends with a line break that is not part of it; to PEM it means nothing.
            self.key = secret_text(path, errors).map(|text| Secret::new(text.trim_end_matches(['\r', '\n'])));
        }
        if let Some(path) = &self.jwks_file {
            one_of_two(self.key.is_some(), &name("key"), &name("jwks_file"), errors);
            self.jwks = secret_text(path, errors).map(Secret::new);
        }
    }
}

/// A key without its algorithm or the reverse, or a key that the algorithm can't use: key, expected, seen.
fn wrong_jwt(tenant: &Tenant) -> Option<(&'static str, String, &'static str)> {
    let jwt = &tenant.jwt;
    let has_key = jwt.key.is_some() || jwt.jwks.is_some();
    match (jwt.algorithm, jwt.verifier()) {
        (None, _) if has_key => Some(("jwt.algorithm", "an algorithm beside the key".to_owned(), "none")),
        (Some(_), None) => Some(("jwt.key", "jwt.key, jwt.key_file or jwt.jwks_file".to_owned(), "none")),
        (Some(_), Some(Err(error))) => Some(("jwt.key", format!("a key for this algorithm ({error})"), "another one")),
        (Some(_), Some(Ok(_))) | (None, _) => None,
    }
}

pub(super) fn secret_text(path: &Path, errors: &mut Vec<ConfigError>) -> Option<String> {
    read(path).map_err(|error| errors.push(error)).ok()
}

pub(super) fn one_of_two(both: bool, one: &str, other: &str, errors: &mut Vec<ConfigError>) {
    if both {
        errors.push(ConfigError::value(Origin::Whole, one, format!("either it or `{other}`"), "both"));
    }
}

pub(super) fn is_token(secret: &Secret, min: usize) -> bool {
    secret.expose().len() >= min && secret.expose().bytes().all(|byte| byte.is_ascii_graphic())
}

pub(super) fn is_tenant_name(name: &str) -> bool {
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-_".contains(&b);
    (1..=64).contains(&name.len()) && name.bytes().all(legal) && name != "." && name != ".."
}
