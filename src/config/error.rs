//! What is wrong with a configuration: where it was said, which key, what was expected, what was seen.

use std::fmt;
use std::path::PathBuf;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The configuration file.
    File(PathBuf),
    /// An environment variable.
    Environment(String),
    /// A flag of the command line.
    Flag(&'static str),
    /// The values of all layers taken together.
    Whole,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
            Self::Whole => f.write_str("configuration"),
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The file can't be read.
    Unreadable {
        /// Why.
        reason: String,
    },
    /// The file is not TOML.
    Syntax {
        /// The reader's message, with line and column.
        message: String,
    },
    /// There is no such key.
    Unknown {
        /// As written.
        key: String,
        /// The nearest known one, when one is near.
        nearest: Option<String>,
    },
    /// A key has a value that it can't have.
    Value {
        /// The key.
        key: String,
        /// What it can have.
        expected: String,
        /// What it has; secrets are described, never shown.
        seen: String,
    },
}

/// A problem and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Where.
    pub origin: Origin,
    /// What.
    pub problem: Problem,
}

impl ConfigError {
    pub(super) fn value(
        origin: Origin,
        key: impl Into<String>,
        expected: impl fmt::Display,
        seen: impl fmt::Display,
    ) -> Self {
        let problem = Problem::Value { key: key.into(), expected: expected.to_string(), seen: seen.to_string() };
        Self { origin, problem }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.origin)?;
        match &self.problem {
            Problem::Unreadable { reason } => write!(f, "expected a readable file, but {reason}"),
            Problem::Syntax { message } => write!(f, "expected TOML: {}", message.trim_end()),
            Problem::Unknown { key, nearest: Some(nearest) } => {
                write!(f, "unknown key `{key}`; the nearest known one is `{nearest}`")
            }
            Problem::Unknown { key, nearest: None } => {
                write!(f, "unknown key `{key}`; `rendezvous config default` prints all keys")
            }
            Problem::Value { key, expected, seen } => write!(f, "`{key}`: expected {expected}, seen {seen}"),
        }
    }
}

impl std::error::Error for ConfigError {}

/// Everything that is wrong, never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, error) in self.0.iter().enumerate() {
            if position > 0 {
                writeln!(f)?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        Self(vec![error])
    }
}
