//! A value on the tape, whoever wrote the tape.

use crate::domain::details::escape_pointer;
use simd_json::StaticNode;
use simd_json::tape::Node;

/// One value on the tape: its node, followed by the nodes inside it.
#[derive(Clone, Copy)]
pub(super) struct Value<'t>(pub(super) &'t [Node<'t>]);

impl<'t> Value<'t> {
    fn extent(node: &Node<'_>) -> usize {
        match node {
            Node::Object { count, .. } | Node::Array { count, .. } => count + 1,
            Node::String(_) | Node::Static(_) => 1,
        }
    }

    pub(super) fn kind(self) -> &'static str {
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
    pub(super) fn inside(self) -> Inside<'t> {
        let end = self.0.first().map_or(0, Self::extent).min(self.0.len());
        Inside(self.0.get(1..end).unwrap_or_default())
    }

    pub(super) fn text(self) -> Option<&'t str> {
        match self.0.first() {
            Some(Node::String(text)) => Some(text),
            Some(Node::Object { .. } | Node::Array { .. } | Node::Static(_)) | None => None,
        }
    }

    pub(super) fn is_object(self) -> bool {
        matches!(self.0.first(), Some(Node::Object { .. }))
    }

    pub(super) fn is_array(self) -> bool {
        matches!(self.0.first(), Some(Node::Array { .. }))
    }

    /// Members of an object, items of an array.
    pub(super) fn len(self) -> usize {
        match self.0.first() {
            Some(Node::Object { len, .. } | Node::Array { len, .. }) => *len,
            Some(Node::String(_) | Node::Static(_)) | None => 0,
        }
    }

    pub(super) fn members(self) -> impl Iterator<Item = (&'t str, Value<'t>)> {
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
    pub(super) fn pointer_to(self, target: Self) -> Option<String> {
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

pub(super) struct Inside<'t>(&'t [Node<'t>]);

impl<'t> Iterator for Inside<'t> {
    type Item = Value<'t>;

    fn next(&mut self) -> Option<Value<'t>> {
        let extent = Value::extent(self.0.first()?).min(self.0.len());
        let (value, rest) = self.0.split_at(extent);
        self.0 = rest;
        Some(Value(value))
    }
}
