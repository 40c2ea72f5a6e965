//! The one table of keys: path, unit, reason, and how the value gets in and out.

use super::Config;
use super::admission::{HostEntry, Profile};
use super::sections::Tenant;
use crate::credentials::Secret;
use std::net::SocketAddr;
use std::path::PathBuf;

/// One key of a `T`: the whole configuration or a tenant.
pub(crate) struct Key<T: 'static> {
    /// For example `limits.listings`.
    pub(crate) path: &'static str,
    /// What a value counts or is.
    pub(crate) unit: &'static str,
    /// Why it exists and why its built-in value is what it is.
    pub(crate) reason: &'static str,
    /// A value to show where there is no built-in one, as TOML.
    pub(crate) example: &'static str,
    /// In and out.
    pub(crate) access: Access<T>,
}

/// The shape of a value, and how it gets in and out.
pub(crate) enum Access<T: 'static> {
    /// An integer from `min` to `max`; `None` comes out where the value follows from other keys.
    Number { min: u32, max: u32, get: fn(&T) -> Option<u32>, set: fn(&mut T, u32) },
    /// `true` or `false`.
    Flag { get: fn(&T) -> bool, set: fn(&mut T, bool) },
    /// One of a few words.
    Word { words: &'static [&'static str], get: fn(&T) -> Option<&'static str>, set: fn(&mut T, &'static str) },
    /// `ip:port`.
    Address { get: fn(&T) -> Option<SocketAddr>, set: fn(&mut T, SocketAddr) },
    /// One `ip:port` or several.
    Addresses { get: fn(&T) -> &[SocketAddr], set: fn(&mut T, Vec<SocketAddr>) },
    /// A text.
    Text { get: fn(&T) -> Option<&str>, set: fn(&mut T, String) },
    /// One text or several.
    Texts { get: fn(&T) -> &[String], set: fn(&mut T, Vec<String>) },
    /// A secret; never comes out.
    Secret { set: fn(&mut T, Secret) },
    /// One secret or several; never come out.
    Secrets { set: fn(&mut T, Vec<Secret>) },
    /// The path of a file that is read at start.
    File { set: fn(&mut T, PathBuf) },
}

macro_rules! number {
    ($path:literal, $min:literal..=$max:expr, $unit:literal, $reason:literal, $($field:ident).+) => {
        Key {
            path: $path,
            unit: $unit,
            reason: $reason,
            example: "",
            access: Access::Number {
                min: $min,
                max: $max,
                get: |c| Some(c.$($field).+),
                set: |c, value| c.$($field).+ = value,
            },
        }
    };
    ($path:literal, $min:literal..=$max:expr, $unit:literal, $reason:literal, derived $example:literal, $($field:ident).+) => {
        Key {
            path: $path,
            unit: $unit,
            reason: $reason,
            example: $example,
            access: Access::Number {
                min: $min,
                max: $max,
                get: |c| c.$($field).+,
                set: |c, value| c.$($field).+ = Some(value),
            },
        }
    };
}

/// A number that its owner keeps as `usize`.
macro_rules! count {
    ($path:literal, $min:literal..=$max:expr, $unit:literal, $reason:literal, $($field:ident).+) => {
        Key {
            path: $path,
            unit: $unit,
            reason: $reason,
            example: "",
            access: Access::Number {
                min: $min,
                max: $max,
                get: |c| u32::try_from(c.$($field).+).ok(),
                set: |c, value| c.$($field).+ = value as usize,
            },
        }
    };
}

/// A number of milliseconds that its owner keeps as a duration.
macro_rules! millis {
    ($path:literal, $min:literal..=$max:expr, $reason:literal, $($field:ident).+) => {
        Key {
            path: $path,
            unit: "ms",
            reason: $reason,
            example: "",
            access: Access::Number {
                min: $min,
                max: $max,
                get: |c| u32::try_from(c.$($field).+.as_millis()).ok(),
                set: |c, value| c.$($field).+ = std::time::Duration::from_millis(value.into()),
            },
        }
    };
}

/// A number that its owner keeps as `u64`.
macro_rules! wide {
    ($path:literal, $min:literal..=$max:expr, $unit:literal, $reason:literal, $($field:ident).+) => {
        Key {
            path: $path,
            unit: $unit,
            reason: $reason,
            example: "",
            access: Access::Number {
                min: $min,
                max: $max,
                get: |c| u32::try_from(c.$($field).+).ok(),
                set: |c, value| c.$($field).+ = value.into(),
            },
        }
    };
}

macro_rules! key {
    ($path:literal, $unit:literal, $reason:literal, $example:expr, $access:expr) => {
        Key { path: $path, unit: $unit, reason: $reason, example: $example, access: $access }
    };
}

// Below the macros that they use.
mod admission;
mod edges;
mod lifetimes;
mod limits;
mod server;
mod tenant;

/// Every key outside of `[[tenant]]`, in the order in which they are printed.
pub(crate) fn keys() -> impl Iterator<Item = &'static Key<Config>> + Clone {
    [server::KEYS, limits::KEYS, lifetimes::KEYS, edges::KEYS, admission::KEYS].into_iter().flatten()
}

/// Every key of a `[[tenant]]`.
pub(crate) fn tenant_keys() -> impl Iterator<Item = &'static Key<Tenant>> + Clone {
    tenant::KEYS.iter()
}

/// Every key of an `[[admission.profile]]`.
pub(crate) fn profile_keys() -> impl Iterator<Item = &'static Key<Profile>> + Clone {
    admission::PROFILE_KEYS.iter()
}

/// Every key of an `[[admission.host]]`.
pub(crate) fn host_keys() -> impl Iterator<Item = &'static Key<HostEntry>> + Clone {
    admission::HOST_KEYS.iter()
}
