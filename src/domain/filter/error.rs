//! Why a text is no filter.

use super::{CHARACTERS_MAX, NESTING_MAX, TERMS_MAX};
use std::fmt;

/// What was expected where the text stops being a filter. Prints as a sentence about the filter, and repeats none of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// The character that can't stand there, counted from 1; one beyond the last when something is missing at the end.
    pub position: usize,
    /// What was expected.
    pub fault: FilterFault,
}

/// What is wrong with a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterFault {
    /// More than [`CHARACTERS_MAX`] characters.
    TooLong,
    /// More than [`TERMS_MAX`] terms.
    TooManyTerms,
    /// Parentheses deeper than [`NESTING_MAX`].
    TooDeep,
    /// Neither a field nor a value.
    NoOperand,
    /// A value of which nothing is said.
    NoComparison,
    /// Something behind a whole term.
    NoEnd,
    /// A parenthesis that is not closed.
    NoParenthesis,
    /// Not a list.
    NoList,
    /// A list that is not closed.
    NoListEnd,
    /// Not a value of a list.
    NoValue,
    /// Not the text that `has` looks for.
    NoText,
    /// Not the name of an attribute.
    NoKey,
    /// A text that is not closed.
    NoTextEnd,
    /// Not an escape that JSON has.
    NoEscape,
    /// A number that no field can have.
    NoInteger,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.position;
        match self.fault {
            FilterFault::TooLong => write!(f, "must have at most {CHARACTERS_MAX} characters"),
            FilterFault::TooManyTerms => {
                write!(f, "must have at most {TERMS_MAX} terms; one more begins at character {at}")
            }
            FilterFault::TooDeep => {
                write!(f, "must nest at most {NESTING_MAX} deep; one more level begins at character {at}")
            }
            FilterFault::NoOperand => write!(f, "must have a field or a value at character {at}"),
            FilterFault::NoComparison => write!(f, "must have a comparison or `in` at character {at}"),
            FilterFault::NoEnd => write!(f, "must end, or go on with `and` or `or`, at character {at}"),
            FilterFault::NoParenthesis => write!(f, "must go on with `and`, `or` or `)` at character {at}"),
            FilterFault::NoList => write!(f, "must have `[` at character {at}"),
            FilterFault::NoListEnd => write!(f, "must have `,` or `]` at character {at}"),
            FilterFault::NoValue => {
                write!(f, "must have a text in double quotes, an integer, true or false at character {at}")
            }
            FilterFault::NoText => write!(f, "must have a text in double quotes at character {at}"),
            FilterFault::NoKey => write!(f, "must have a name, quoted or of A-Z a-z 0-9 _ - ., at character {at}"),
            FilterFault::NoTextEnd => write!(f, "must close the text that begins at character {at}"),
            FilterFault::NoEscape => write!(f, "must escape as JSON does at character {at}"),
            FilterFault::NoInteger => {
                write!(f, "must have an integer within plus or minus 2^53 - 1, in digits, at character {at}")
            }
        }
    }
}

impl std::error::Error for FilterError {}
