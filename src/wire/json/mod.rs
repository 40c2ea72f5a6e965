//! The one seam through which every body enters: a parser writes a tape, and this module refuses what JSON allows but no
//! honest client needs.
//!
//! Two parsers write the same tape: simd-json, and for bodies so short that it would take longer, serde_json.
//! simd-json alone judges what is malformed, so a refusal never depends on a body's length.
//!
//! Refused, each with a JSON pointer (RFC 6901): nesting deeper than [`DEPTH_MAX`], a member that appears twice in its
//! object, U+0000 in any text, lone surrogates, numbers that are not integers where an integer is read (`5.0`, `5e0`),
//! integers out of range, `null` where it is not asked for, and members that nobody read ([`Members::finish`]).

mod field;
mod short;
#[cfg(test)]
mod tests;
mod value;

use crate::domain::details::escape_pointer;
pub use field::{Field, Members};
use simd_json::Buffers;
use simd_json::tape::Node;
use std::cell::RefCell;
use value::Value;

/// Deepest nesting of a body. The deepest known body has three levels; the walk below recurses at most this far.
pub const DEPTH_MAX: usize = 16;

/// A refused field: a JSON pointer into the body, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// For example `/details/tags/3`; empty for the body as a whole.
    pub pointer: String,
    /// What is expected. Never echoes a value.
    pub detail: String,
}

impl FieldError {
    /// A refusal of the field at `pointer`.
    pub fn new(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), detail: detail.into() }
    }
}

/// What the parser starts with on each thread. Its room grows to that of the longest body, which the edge bounds; made
/// anew for each body it would cost more than parsing a short one.
const BUFFER_BYTES: usize = 1_024;

thread_local! {
    static BUFFERS: RefCell<Buffers> = RefCell::new(Buffers::with_max_depth(BUFFER_BYTES, DEPTH_MAX));
}

/// A parsed body, free of duplicates and of U+0000.
pub struct Document<'b> {
    tape: Vec<Node<'b>>,
}

impl<'b> Document<'b> {
    /// Parses `body` by the parser that fits its length and lets `read` read it. The buffer is overwritten.
    pub fn read<T>(
        body: &mut [u8],
        read: impl FnOnce(&Document<'_>) -> Result<T, FieldError>,
    ) -> Result<T, FieldError> {
        if let Some(tape) = short::tape(body) {
            return read(&Document::checked(tape)?);
        }
        read(&Document::parse(body)?)
    }

    /// As [`Document::read`], by simd-json whatever the length.
    #[cfg(feature = "fuzzing")]
    #[doc(hidden)]
    pub fn read_by_simd<T>(
        body: &mut [u8],
        read: impl FnOnce(&Document<'_>) -> Result<T, FieldError>,
    ) -> Result<T, FieldError> {
        read(&Document::parse(body)?)
    }

    /// Parses `body` in place by simd-json. The buffer is overwritten: strings are unescaped where they stand.
    fn parse(body: &'b mut [u8]) -> Result<Self, FieldError> {
        if body.is_empty() {
            return Err(FieldError::new("", "must be a JSON object, is empty"));
        }
        let parsed = BUFFERS.with_borrow_mut(|buffers| simd_json::to_tape_with_buffers(body, buffers));
        let tape = parsed.map_err(|error| {
            // Of what is wrong inside of a string the parser doesn't tell the place, but 0 or 1.
            let place = if error.index() > 1 { format!("; see byte {}", error.index()) } else { String::new() };
            FieldError::new("", format!("must be well-formed JSON in UTF-8 of at most {DEPTH_MAX} levels{place}"))
        })?;
        Self::checked(tape.0)
    }

    fn checked(tape: Vec<Node<'b>>) -> Result<Self, FieldError> {
        let document = Self { tape };
        check(document.root(), document.root())?;
        Ok(document)
    }

    /// The body's members. A body that is not an object is refused.
    pub fn members(&self) -> Result<Members<'_>, FieldError> {
        Field { root: self.root(), value: self.root() }.object()
    }

    fn root(&self) -> Value<'_> {
        Value(&self.tape)
    }
}

/// Refuses duplicate members and U+0000 anywhere, below members that nobody knows included.
fn check(root: Value<'_>, value: Value<'_>) -> Result<(), FieldError> {
    let refused = |below: &str, detail: &str| {
        let pointer = root.pointer_to(value).unwrap_or_default();
        Err(FieldError::new(format!("{pointer}{below}"), detail))
    };
    if value.text().is_some_and(|text| text.contains('\0')) {
        return refused("", "must not contain U+0000");
    }
    if value.is_object() {
        if let Some(twice) = named_twice(value) {
            return refused(&format!("/{}", escape_pointer(twice)), "appears twice");
        }
        if value.members().any(|(name, _)| name.contains('\0')) {
            return refused("", "must not name a member with U+0000");
        }
        return value.members().try_for_each(|(_, value)| check(root, value));
    }
    if value.is_array() {
        return value.inside().try_for_each(|item| check(root, item));
    }
    Ok(())
}

/// Objects of up to so many members are searched for duplicates by comparing all pairs: most bodies have no others, and
/// what would be collected and sorted need not be allocated.
const PAIRED_MEMBERS_MAX: usize = 8;

/// The name of a member that an object has twice.
fn named_twice(object: Value<'_>) -> Option<&str> {
    let names = || object.members().map(|(name, _)| name);
    if object.len() <= PAIRED_MEMBERS_MAX {
        return names()
            .enumerate()
            .find(|(place, name)| names().take(*place).any(|before| before == *name))
            .map(|it| it.1);
    }
    let mut sorted: Vec<&str> = names().collect();
    sorted.sort_unstable();
    sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}
