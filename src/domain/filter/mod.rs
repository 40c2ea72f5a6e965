//! Filters: which of the visible listings somebody wants to see, as one bounded expression over their details.
//!
//! ```text
//! filter    = all { "or" all }                      one of them holds
//! all       = condition { "and" condition }         each of them holds
//! condition = { "not" } ( "(" filter ")" | term )
//! term      = side ( "==" | "=" | "!=" | "<" | "<=" | ">" | ">=" ) side
//!           | side "in" "[" [ value { "," value } ] "]"
//!           | field "has" text                      a tag of `tags`, or a name in `attributes`
//!           | field                                 it is true
//! side      = field | value
//! field     = name | name "." ( key | text )        `players`, `attributes.skill`, `attributes."skill level"`
//! value     = text | integer | "true" | "false"     texts as in JSON
//! ```
//!
//! **Every term is true or false.** It is false where a field of it is unknown or absent, and where its two sides are of
//! different types; texts and integers are ordered, booleans are only equal or not. `not` turns that around, so it shows
//! exactly what would not be shown without it: `mode != "ctf"` is false for a listing that has no mode,
//! `not mode == "ctf"` is true for it.
//!
//! A row costs what its bytes and the filter's characters cost: each field of a row is read once, and each part of the
//! filter takes at least one of its [`CHARACTERS_MAX`] characters.

mod error;
mod fields;
mod parse;
mod rendered;
#[cfg(test)]
mod tests;
mod tree;

pub use error::{FilterError, FilterFault};
pub use fields::{Field, Fields, Value};
pub use rendered::Rendered;
use tree::Node;

/// Longest filter, in characters: what a game's own menu puts together takes a quarter of it.
pub const CHARACTERS_MAX: usize = 512;
/// Most terms of one filter.
pub const TERMS_MAX: usize = 32;
/// How deep parentheses may nest: reading and evaluating go down as far. The JSON seam has the same bound.
pub const NESTING_MAX: usize = 16;

/// A filter that was read, and so is within its bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    root: Node,
}

impl Filter {
    /// Reads a filter.
    ///
    /// # Errors
    /// What is expected, and where.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        parse::filter(text).map(|root| Self { root })
    }

    /// Whether it holds for these details.
    pub fn matches(&self, details: &impl Fields) -> bool {
        self.root.holds(details)
    }
}
