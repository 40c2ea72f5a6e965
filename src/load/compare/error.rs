//! Why a comparison ended without a result.

use std::fmt;
use std::io;

/// What went wrong, where.
#[derive(Debug)]
pub(crate) enum CompareError {
    /// The system refused something.
    System {
        /// What was tried.
        what: String,
        /// Its word.
        error: io::Error,
    },
    /// A server did not start, or ended.
    Server {
        /// Which.
        name: &'static str,
        /// The end of what it said.
        said: String,
    },
    /// An answer that the measurement can't count.
    Answer {
        /// Whose.
        name: &'static str,
        /// What was expected and what came.
        detail: String,
    },
    /// Our server refused while the measurement was prepared.
    Prepare(crate::client::Error),
    /// Ctrl-C.
    Stopped,
}

impl fmt::Display for CompareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System { what, error } => write!(f, "{what}: {error}"),
            Self::Server { name, said } => write!(f, "{name} did not start or ended early: {said}"),
            Self::Answer { name, detail } => write!(f, "{name}: {detail}"),
            Self::Prepare(error) => write!(f, "preparing the server: {error}"),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

impl std::error::Error for CompareError {}

impl From<crate::client::Error> for CompareError {
    fn from(error: crate::client::Error) -> Self {
        Self::Prepare(error)
    }
}

/// Names what was tried.
pub(super) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> CompareError {
    let what = what.into();
    move |error| CompareError::System { what, error }
}
