//! From the text of an environment variable or a value of TOML to what a key accepts.

use super::error::{ConfigError, Origin};
use super::keys::{Access, Key};
use crate::credentials::Secret;
use std::net::SocketAddr;
use std::path::PathBuf;
use toml::Value;

/// A value as found.
pub(super) enum Found<'a> {
    /// In a file.
    Toml(&'a Value),
    /// In the environment or a flag; lists are separated by commas.
    Words(&'a str),
}

impl Found<'_> {
    fn number(&self) -> Option<i64> {
        match self {
            Self::Toml(value) => value.as_integer(),
            Self::Words(text) => text.trim().parse().ok(),
        }
    }

    fn flag(&self) -> Option<bool> {
        match self {
            Self::Toml(value) => value.as_bool(),
            Self::Words(text) => text.trim().parse().ok(),
        }
    }

    fn text(&self) -> Option<&str> {
        match self {
            Self::Toml(value) => value.as_str(),
            Self::Words(text) => Some(text),
        }
    }

    /// One text stands for a list of one.
    fn texts(&self) -> Option<Vec<String>> {
        match self {
            Self::Toml(Value::Array(values)) => values.iter().map(|value| value.as_str().map(str::to_owned)).collect(),
            Self::Toml(value) => value.as_str().map(|text| vec![text.to_owned()]),
            Self::Words(text) => {
                Some(text.split(',').map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect())
            }
        }
    }

    /// What an error may show.
    fn shown(&self) -> String {
        match self {
            Self::Toml(value) => value.to_string(),
            Self::Words(text) => format!("{text:?}"),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Toml(value) => value.type_str(),
            Self::Words(_) => "text",
        }
    }
}

impl<T> Key<T> {
    /// Puts a found value in, or says what was expected.
    pub(super) fn apply(&self, target: &mut T, found: &Found<'_>, origin: &Origin) -> Result<(), ConfigError> {
        self.try_apply(target, found)
            .map_err(|(expected, seen)| ConfigError::value(origin.clone(), self.path, expected, seen))
    }

    fn try_apply(&self, target: &mut T, found: &Found<'_>) -> Result<(), (String, String)> {
        let expected = |what: &str| (what.to_owned(), found.shown());
        match &self.access {
            Access::Number { min, max, set, .. } => {
                let in_bounds = |n: &u32| (*min..=*max).contains(n);
                let number = found.number().and_then(|n| u32::try_from(n).ok()).filter(in_bounds);
                let refused = || expected(&format!("an integer from {min} to {max} ({})", self.unit));
                set(target, number.ok_or_else(refused)?);
            }
            Access::Flag { set, .. } => set(target, found.flag().ok_or_else(|| expected("true or false"))?),
            Access::Word { words, set, .. } => {
                let word = found.text().and_then(|text| words.iter().find(|word| **word == text.trim()));
                set(target, word.ok_or_else(|| expected(&format!("one of {}", words.join(", "))))?);
            }
            Access::Address { set, .. } => {
                let address = found.text().and_then(|text| text.trim().parse().ok());
                set(target, address.ok_or_else(|| expected("an address like 127.0.0.1:8080 or [::1]:8080"))?);
            }
            Access::Addresses { set, .. } => {
                let parse = |texts: Vec<String>| texts.iter().map(|text| text.parse().ok()).collect();
                let addresses: Option<Vec<SocketAddr>> = found.texts().and_then(parse);
                set(target, addresses.ok_or_else(|| expected("addresses like 127.0.0.1:3478 or [::1]:3478"))?);
            }
            Access::Text { set, .. } => set(target, found.text().ok_or_else(|| expected("a text"))?.to_owned()),
            Access::Texts { set, .. } => set(target, found.texts().ok_or_else(|| expected("a list of texts"))?),
            Access::Secret { set } => {
                let secret = found.text().ok_or_else(|| ("a text".to_owned(), found.kind().to_owned()))?;
                set(target, Secret::new(secret));
            }
            Access::Secrets { set } => {
                let secrets = found.texts().ok_or_else(|| ("a list of texts".to_owned(), found.kind().to_owned()))?;
                set(target, secrets.into_iter().map(Secret::new).collect());
            }
            Access::File { set } => {
                set(target, PathBuf::from(found.text().ok_or_else(|| expected("the path of a file"))?));
            }
        }
        Ok(())
    }
}
