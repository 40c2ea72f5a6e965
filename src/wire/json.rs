//! The one seam through which every body enters: simd-json parses to a tape, and this module refuses what JSON allows
//! but no honest client needs.
//!
//! Refused, each with a JSON pointer (RFC 6901): nesting deeper than [`DEPTH_MAX`], a member that appears twice in its
//! object, U+0000 in any text, lone surrogates, numbers that are not integers where an integer is read (`5.0`, `5e0`),
//! integers out of range, `null` where it is not asked for, and members that nobody read ([`Members::finish`]).

use crate::domain::details::escape_pointer;
use simd_json::tape::Node;
use simd_json::{Buffers, StaticNode, Tape};

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
        let mut buffers = Buffers::with_max_depth(body.len(), DEPTH_MAX);
        let tape = simd_json::to_tape_with_buffers(body, &mut buffers).map_err(|error| {
            // Of what is wrong inside of a string the parser doesn't tell the place, but 0 or 1.
            let place = if error.index() > 1 { format!("; see byte {}", error.index()) } else { String::new() };
            FieldError::new("", format!("must be well-formed JSON in UTF-8 of at most {DEPTH_MAX} levels{place}"))
        })?;
        let document = Self { tape };
        check(document.root(), &mut Vec::new())?;
        Ok(document)
    }

    /// The body's members. A body that is not an object is refused.
    pub fn members(&self) -> Result<Members<'_>, FieldError> {
        Field { pointer: String::new(), value: self.root() }.object()
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

    fn members(self) -> Vec<(&'t str, Value<'t>)> {
        let mut inside = self.inside();
        let mut members = Vec::new();
        while let (Some(name), Some(value)) = (inside.next(), inside.next()) {
            members.push((name.text().unwrap_or_default(), value));
        }
        members
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
fn check<'t>(value: Value<'t>, path: &mut Vec<String>) -> Result<(), FieldError> {
    let here = |path: &[String]| path.iter().map(|segment| format!("/{}", escape_pointer(segment))).collect::<String>();
    if value.text().is_some_and(|text| text.contains('\0')) {
        return Err(FieldError::new(here(path), "must not contain U+0000"));
    }
    if value.is_object() {
        let members = value.members();
        let mut names: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            path.push(twice[0].to_owned());
            return Err(FieldError::new(here(path), "appears twice"));
        }
        for (name, value) in members {
            path.push(name.to_owned());
            if name.contains('\0') {
                return Err(FieldError::new(here(&path[..path.len() - 1]), "must not name a member with U+0000"));
            }
            check(value, path)?;
            path.pop();
        }
    } else if value.is_array() {
        for (position, value) in value.inside().enumerate() {
            path.push(position.to_string());
            check(value, path)?;
            path.pop();
        }
    }
    Ok(())
}

/// The members of an object that nobody has read yet.
pub struct Members<'t> {
    pointer: String,
    left: Vec<(&'t str, Value<'t>)>,
}

impl<'t> Members<'t> {
    /// Takes a member, if it is there. A `null` is there.
    pub fn optional(&mut self, name: &str) -> Option<Field<'t>> {
        let position = self.left.iter().position(|(member, _)| *member == name)?;
        let (_, value) = self.left.swap_remove(position);
        Some(Field { pointer: format!("{}/{name}", self.pointer), value })
    }

    /// Takes a member that must be there.
    pub fn required(&mut self, name: &str) -> Result<Field<'t>, FieldError> {
        self.optional(name).ok_or_else(|| FieldError::new(format!("{}/{name}", self.pointer), "is required"))
    }

    /// All members that are left, with their names, in the order of the body.
    pub fn rest(self) -> impl Iterator<Item = (&'t str, Field<'t>)> {
        let pointer = self.pointer;
        self.left
            .into_iter()
            .map(move |(name, value)| (name, Field { pointer: format!("{pointer}/{}", escape_pointer(name)), value }))
    }

    /// Refuses the members that nobody has read, by name.
    pub fn finish(self) -> Result<(), FieldError> {
        match self.left.first() {
            Some((name, _)) => {
                Err(FieldError::new(format!("{}/{}", self.pointer, escape_pointer(name)), "is not a known field"))
            }
            None => Ok(()),
        }
    }
}

/// One value and where it stands.
pub struct Field<'t> {
    pointer: String,
    value: Value<'t>,
}

impl<'t> Field<'t> {
    /// Where the value stands in the body.
    pub fn pointer(&self) -> &str {
        &self.pointer
    }

    /// A refusal of this value.
    pub fn refused(&self, detail: impl Into<String>) -> FieldError {
        FieldError::new(self.pointer.clone(), detail)
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
        Ok(Members { pointer: self.pointer.clone(), left: self.value.members() })
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
        let numbered = items.into_iter().enumerate();
        Ok(numbered.map(|(n, value)| Field { pointer: format!("{}/{n}", self.pointer), value }).collect())
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
