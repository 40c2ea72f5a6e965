//! The one seam through which every body enters: simd-json parses to a tape, and this module refuses what JSON allows
//! but no honest client needs.
//!
//! Refused, each with a JSON pointer (RFC 6901): nesting deeper than [`DEPTH_MAX`], a member that appears twice in its
//! object, U+0000 in any text, lone surrogates, numbers that are not integers where an integer is read (`5.0`, `5e0`),
//! integers out of range, `null` where it is not asked for, and members that nobody read ([`Members::finish`]).

use crate::domain::details::escape_pointer;
use simd_json::tape::Node;
use simd_json::{Buffers, StaticNode, Tape};
use std::cell::RefCell;

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
    tape: Tape<'b>,
}

impl<'b> Document<'b> {
    /// Parses `body` in place. The buffer is overwritten: strings are unescaped where they stand.
    pub fn parse(body: &'b mut [u8]) -> Result<Self, FieldError> {
        if body.is_empty() {
            return Err(FieldError::new("", "must be a JSON object, is empty"));
        }
        let parsed = BUFFERS.with_borrow_mut(|buffers| simd_json::to_tape_with_buffers(body, buffers));
        let tape = parsed.map_err(|error| {
            // Of what is wrong inside of a string the parser doesn't tell the place, but 0 or 1.
            let place = if error.index() > 1 { format!("; see byte {}", error.index()) } else { String::new() };
            FieldError::new("", format!("must be well-formed JSON in UTF-8 of at most {DEPTH_MAX} levels{place}"))
        })?;
        let document = Self { tape };
        check(document.root(), document.root())?;
        Ok(document)
    }

    /// The body's members. A body that is not an object is refused.
    pub fn members(&self) -> Result<Members<'_>, FieldError> {
        Field { root: self.root(), value: self.root() }.object()
    }

    fn root(&self) -> Value<'_> {
        Value(&self.tape.0)
    }
}

/// One value on the tape: its node, followed by the nodes inside it.
#[derive(Clone, Copy)]
struct Value<'t>(&'t [Node<'t>]);

impl<'t> Value<'t> {
    fn extent(node: &Node<'_>) -> usize {
        match node {
            Node::Object { count, .. } | Node::Array { count, .. } => count + 1,
            Node::String(_) | Node::Static(_) => 1,
        }
    }

    fn kind(self) -> &'static str {
        match self.0.first() {
            Some(Node::String(_)) => "a string",
            Some(Node::Object { .. }) => "an object",
            Some(Node::Array { .. }) => "an array",
            Some(Node::Static(StaticNode::Bool(_))) => "a boolean",
            Some(Node::Static(StaticNode::Null)) | None => "null",
            Some(Node::Static(StaticNode::I64(_) | StaticNode::U64(_))) => "an integer",
            Some(Node::Static(StaticNode::F64(_))) => "a number with a fraction or an exponent",
        }
    }

    /// The values directly inside a container; for an object, names and values alternate.
    fn inside(self) -> Inside<'t> {
        let end = self.0.first().map_or(0, Self::extent).min(self.0.len());
        Inside(self.0.get(1..end).unwrap_or_default())
    }

    fn text(self) -> Option<&'t str> {
        match self.0.first() {
            Some(Node::String(text)) => Some(text),
            Some(Node::Object { .. } | Node::Array { .. } | Node::Static(_)) | None => None,
        }
    }

    fn is_object(self) -> bool {
        matches!(self.0.first(), Some(Node::Object { .. }))
    }

    fn is_array(self) -> bool {
        matches!(self.0.first(), Some(Node::Array { .. }))
    }

    fn members(self) -> impl Iterator<Item = (&'t str, Value<'t>)> {
        let mut inside = self.inside();
        std::iter::from_fn(move || {
            let (name, value) = (inside.next()?, inside.next()?);
            Some((name.text().unwrap_or_default(), value))
        })
    }

    fn is(self, other: Self) -> bool {
        std::ptr::eq(self.0.as_ptr(), other.0.as_ptr())
    }

    /// The pointer from this value to one inside it. Looked for when something is refused, so that what is accepted pays
    /// nothing for it.
    fn pointer_to(self, target: Self) -> Option<String> {
        if self.is(target) {
            return Some(String::new());
        }
        if self.is_object() {
            let inside =
                |(name, value): (&str, Self)| Some(format!("/{}{}", escape_pointer(name), value.pointer_to(target)?));
            return self.members().find_map(inside);
        }
        if self.is_array() {
            let inside = |(position, item): (usize, Self)| Some(format!("/{position}{}", item.pointer_to(target)?));
            return self.inside().enumerate().find_map(inside);
        }
        None
    }
}

struct Inside<'t>(&'t [Node<'t>]);

impl<'t> Iterator for Inside<'t> {
    type Item = Value<'t>;

    fn next(&mut self) -> Option<Value<'t>> {
        let extent = Value::extent(self.0.first()?).min(self.0.len());
        let (value, rest) = self.0.split_at(extent);
        self.0 = rest;
        Some(Value(value))
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
        let mut names: Vec<&str> = value.members().map(|(name, _)| name).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return refused(&format!("/{}", escape_pointer(twice[0])), "appears twice");
        }
        if names.iter().any(|name| name.contains('\0')) {
            return refused("", "must not name a member with U+0000");
        }
        return value.members().try_for_each(|(_, value)| check(root, value));
    }
    if value.is_array() {
        return value.inside().try_for_each(|item| check(root, item));
    }
    Ok(())
}

/// The members of an object that nobody has read yet.
pub struct Members<'t> {
    root: Value<'t>,
    object: Value<'t>,
    left: Vec<(&'t str, Value<'t>)>,
}

impl<'t> Members<'t> {
    /// Takes a member, if it is there. A `null` is there.
    pub fn optional(&mut self, name: &str) -> Option<Field<'t>> {
        let position = self.left.iter().position(|(member, _)| *member == name)?;
        let (_, value) = self.left.swap_remove(position);
        Some(Field { root: self.root, value })
    }

    /// Takes a member that must be there.
    pub fn required(&mut self, name: &str) -> Result<Field<'t>, FieldError> {
        self.optional(name).ok_or_else(|| self.refused(name, "is required"))
    }

    /// All members that are left, with their names, in the order of the body.
    pub fn rest(self) -> impl Iterator<Item = (&'t str, Field<'t>)> {
        let root = self.root;
        self.left.into_iter().map(move |(name, value)| (name, Field { root, value }))
    }

    fn refused(&self, name: &str, detail: &str) -> FieldError {
        let pointer = self.root.pointer_to(self.object).unwrap_or_default();
        FieldError::new(format!("{pointer}/{}", escape_pointer(name)), detail)
    }

    /// Refuses the members that nobody has read, by name.
    pub fn finish(self) -> Result<(), FieldError> {
        match self.left.first() {
            Some((name, _)) => Err(self.refused(name, "is not a known field")),
            None => Ok(()),
        }
    }
}

/// One value and where it stands.
pub struct Field<'t> {
    root: Value<'t>,
    value: Value<'t>,
}

impl<'t> Field<'t> {
    /// Where the value stands in the body.
    pub fn pointer(&self) -> String {
        self.root.pointer_to(self.value).unwrap_or_default()
    }

    /// A refusal of this value.
    pub fn refused(&self, detail: impl Into<String>) -> FieldError {
        FieldError::new(self.pointer(), detail)
    }

    fn expected(&self, what: &str) -> FieldError {
        self.refused(format!("must be {what}, is {}", self.value.kind()))
    }

    /// A string.
    pub fn text(&self) -> Result<&'t str, FieldError> {
        self.value.text().ok_or_else(|| self.expected("a string"))
    }

    /// A boolean.
    pub fn boolean(&self) -> Result<bool, FieldError> {
        match self.value.0.first() {
            Some(Node::Static(StaticNode::Bool(value))) => Ok(*value),
            Some(Node::String(_) | Node::Object { .. } | Node::Array { .. } | Node::Static(_)) | None => {
                Err(self.expected("a boolean"))
            }
        }
    }

    /// An integer that is spelled as one.
    pub fn integer(&self) -> Result<i64, FieldError> {
        match self.value.0.first() {
            Some(Node::Static(StaticNode::I64(value))) => Ok(*value),
            Some(Node::Static(StaticNode::U64(value))) => {
                i64::try_from(*value).map_err(|_| self.refused("must be within plus or minus 2^53 - 1"))
            }
            Some(Node::String(_) | Node::Object { .. } | Node::Array { .. } | Node::Static(_)) | None => {
                Err(self.expected("an integer"))
            }
        }
    }

    /// An integer from 0 to `max`.
    pub fn unsigned(&self, max: u64) -> Result<u64, FieldError> {
        let value = u64::try_from(self.integer()?).ok().filter(|value| *value <= max);
        value.ok_or_else(|| self.refused(format!("must be an integer from 0 to {max}")))
    }

    /// An object.
    pub fn object(&self) -> Result<Members<'t>, FieldError> {
        if !self.value.is_object() {
            return Err(self.expected("an object"));
        }
        Ok(Members { root: self.root, object: self.value, left: self.value.members().collect() })
    }

    /// The items of an array of at most `max`.
    pub fn items(&self, max: usize) -> Result<Vec<Field<'t>>, FieldError> {
        if !self.value.is_array() {
            return Err(self.expected("an array"));
        }
        let items: Vec<_> = self.value.inside().take(max + 1).collect();
        if items.len() > max {
            return Err(self.refused(format!("must have at most {max} items")));
        }
        Ok(items.into_iter().map(|value| Field { root: self.root, value }).collect())
    }

    /// Calls the reader that fits the value: text, integer or boolean.
    pub fn scalar<T>(
        &self,
        text: impl FnOnce(&'t str) -> T,
        integer: impl FnOnce(i64) -> T,
        boolean: impl FnOnce(bool) -> T,
    ) -> Result<T, FieldError> {
        match self.value.0.first() {
            Some(Node::String(value)) => Ok(text(value)),
            Some(Node::Static(StaticNode::Bool(value))) => Ok(boolean(*value)),
            Some(Node::Static(StaticNode::I64(_) | StaticNode::U64(_))) => self.integer().map(integer),
            Some(Node::Object { .. } | Node::Array { .. } | Node::Static(_)) | None => {
                Err(self.expected("a string, an integer or a boolean"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointer_of(text: &str) -> String {
        let mut body = text.as_bytes().to_vec();
        Document::parse(&mut body).map(|_| ()).expect_err(text).pointer
    }

    fn read<T>(text: &str, read: impl FnOnce(&mut Members<'_>) -> Result<T, FieldError>) -> Result<T, FieldError> {
        let mut body = text.as_bytes().to_vec();
        let document = Document::parse(&mut body)?;
        let mut members = document.members()?;
        read(&mut members)
    }

    #[test]
    fn case_i7_duplicates_are_refused_everywhere() {
        assert_eq!(pointer_of(r#"{"a":1,"b":2,"a":1}"#), "/a");
        assert_eq!(pointer_of(r#"{"x":{"unknown":[{"a~/b":1,"\u0061~/b":2}]}}"#), "/x/unknown/0/a~0~1b");
        assert!(read(r#"{"a":{"a":1},"b":{"a":1}}"#, |_| Ok(())).is_ok());
    }

    #[test]
    fn integers_have_one_spelling() {
        let integer = |spelling: &str| read(&format!(r#"{{"n":{spelling}}}"#), |m| m.required("n")?.unsigned(1 << 52));
        assert_eq!(integer("5"), Ok(5));
        for other in
            ["5.0", "5e0", "\"5\"", "-1", "0.5", "1e999", "18446744073709551616", "null", "true", "[5]", "05", "+5"]
        {
            assert!(integer(other).is_err(), "{other}");
        }
        let signed = |spelling: &str| read(&format!(r#"{{"n":{spelling}}}"#), |m| m.required("n")?.integer());
        assert_eq!(signed("-9007199254740993"), Ok(-9_007_199_254_740_993), "exact, not rounded to a double");
        assert_eq!(signed("9223372036854775807"), Ok(i64::MAX));
        assert!(signed("9223372036854775808").is_err());
    }

    #[test]
    fn case_b5_nul_and_lone_surrogates_are_refused() {
        assert_eq!(pointer_of(r#"{"a":["x","\u0000"]}"#), "/a/1");
        assert_eq!(pointer_of(r#"{"a":{"\u0000":1}}"#), "/a");
        for lone in [r#""\ud800""#, r#""\udc00""#, r#""\ud800x""#, r#""\ud800\ud800""#, r#""\ud800A""#] {
            assert_eq!(pointer_of(&format!(r#"{{"a":{lone}}}"#)), "", "{lone}");
        }
        assert_eq!(
            read(r#"{"a":"\ud83d\ude00"}"#, |m| Ok(m.required("a")?.text()?.to_owned())),
            Ok("\u{1F600}".into())
        );
    }

    #[test]
    fn case_h6_hostile_bodies_are_refused_not_fatal() {
        let deep = |open: &str, close: &str, n: usize| format!("{{\"x\":{}1{}}}", open.repeat(n), close.repeat(n));
        pointer_of(&deep("[", "]", 100_000));
        pointer_of(&deep("{\"a\":", "}", 100_000));
        pointer_of(&"[".repeat(100_000));
        pointer_of(&"{\"a\":".repeat(20_000));
        pointer_of(&format!("{{\"a\":\"{}", "x".repeat(16_000)));
        pointer_of(&"\\".repeat(65_536));
        pointer_of(&format!("{{\"a\":\"{}\"}}", "\\".repeat(16_383)));
        for bytes in
            [&b"{\"a\":\"\xff\"}"[..], b"\xef\xbb\xbf{}", b"", b" ", b"\0", b"{", b"nul", b"{\"a\":\"\x01\"}", b"{} {}"]
        {
            assert!(Document::parse(&mut bytes.to_vec()).is_err(), "{bytes:?}");
        }
        assert!(Document::parse(&mut b"[]".to_vec()).unwrap().members().is_err());
        for length in (0..5).chain(28..36).chain(60..68).chain(124..132) {
            let text = format!(r#"{{"a":"{}"}}"#, "x".repeat(length));
            assert_eq!(read(&text, |m| Ok(m.required("a")?.text()?.len())), Ok(length));
            for cut in 0..text.len() {
                assert!(Document::parse(&mut text.as_bytes()[..cut].to_vec()).is_err(), "{length} {cut}");
            }
        }
    }

    #[test]
    fn nesting_is_refused_one_level_past_the_bound() {
        let nested = |levels: usize| format!("{}{}", "{\"a\":".repeat(levels - 1) + "{", "}".repeat(levels));
        assert!(Document::parse(nested(DEPTH_MAX).into_bytes().as_mut_slice()).is_ok());
        assert!(Document::parse(nested(DEPTH_MAX + 1).into_bytes().as_mut_slice()).is_err());
    }

    #[test]
    fn unknown_members_are_named_and_null_is_not_absent() {
        let finish = |text: &str| {
            let mut body = text.as_bytes().to_vec();
            let document = Document::parse(&mut body).unwrap();
            let mut members = document.members().unwrap();
            members.optional("known");
            members.finish().unwrap_err().pointer
        };
        assert_eq!(finish(r#"{"known":1,"a/b":2}"#), "/a~1b");
        let null = read(r#"{"n":null}"#, |m| m.optional("n").map(|field| field.text().map(str::to_owned)).transpose());
        assert_eq!(null.unwrap_err().pointer, "/n");
    }
}
