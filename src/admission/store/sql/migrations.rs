//! The schema, as steps that are in the binary. A step that was released is never edited.

use crate::admission::store::settings::OpenError;

/// All steps in order; the schema's version is how many have been taken.
const STEPS: [&str; 1] = [include_str!("0001_initial.sql")];

/// The newest version that this build knows.
pub(crate) const KNOWN: u32 = STEPS.len() as u32;

/// The steps from `version` on. A newer schema is refused, never guessed at.
pub(crate) fn steps_from(version: u32) -> Result<&'static [&'static str], OpenError> {
    STEPS.get(version as usize..).ok_or(OpenError::NewerSchema { found: version, known: KNOWN })
}

/// A step in the words of PostgreSQL. Text is compared by bytes, as everywhere else.
#[cfg(feature = "postgres")]
pub(crate) fn for_postgres(step: &str) -> String {
    step.replace(") STRICT, WITHOUT ROWID;", ");")
        .replace(") STRICT;", ");")
        .replace(" INTEGER", " bigint")
        .replace(" BLOB", " bytea")
        .replace(" TEXT", " text COLLATE \"C\"")
}
