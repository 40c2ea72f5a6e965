//! Short bodies, read by serde_json to the tape that simd-json would have written.
//!
//! simd-json copies a body to a padded buffer and indexes it in blocks of 64 bytes before it reads the first value. For a
//! renewal, which fills a quarter of one block, that costs more than reading it byte by byte.
//!
//! Only what both parsers read alike is read here. Everything else (an error, an escape, a number that is no 64-bit
//! integer, nesting that is too deep) is left to simd-json unjudged.

use super::DEPTH_MAX;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use simd_json::StaticNode;
use simd_json::tape::Node;
use std::fmt;

/// Longest body that is read here: half a block of simd-json's. With 16 bytes serde_json is faster, with 56 simd-json is
/// (`cargo bench --bench json -- --table`).
pub(super) const SHORT_BYTES_MAX: usize = 32;

/// What a tape begins with: a body of this length rarely has more values.
const NODES: usize = 8;

/// The tape of a short and plain body.
pub(super) fn tape(body: &[u8]) -> Option<Vec<Node<'_>>> {
    if body.is_empty() || body.len() > SHORT_BYTES_MAX {
        return None;
    }
    let mut nodes = Vec::with_capacity(NODES);
    let mut parser = serde_json::Deserializer::from_slice(body);
    Append { tape: &mut nodes, levels_left: DEPTH_MAX }.deserialize(&mut parser).ok()?;
    parser.end().ok()?;
    Some(nodes)
}

/// Appends one value with everything inside it.
struct Append<'t, 'b> {
    tape: &'t mut Vec<Node<'b>>,
    levels_left: usize,
}

impl<'b> Append<'_, 'b> {
    fn scalar<E>(self, node: Node<'b>) -> Result<(), E> {
        self.tape.push(node);
        Ok(())
    }

    /// Appends a container: a node in front of what `fill` appends, which says how many values it appended.
    fn container<E: Error>(
        self,
        node: fn(usize, usize) -> Node<'b>,
        mut fill: impl FnMut(Append<'_, 'b>) -> Result<bool, E>,
    ) -> Result<(), E> {
        let Some(levels_left) = self.levels_left.checked_sub(1) else { return Err(E::custom("too deep")) };
        let place = self.tape.len();
        self.tape.push(node(0, 0));
        let mut len = 0;
        while fill(Append { tape: &mut *self.tape, levels_left })? {
            len += 1;
        }
        self.tape[place] = node(len, self.tape.len() - place - 1);
        Ok(())
    }
}

impl<'b> DeserializeSeed<'b> for Append<'_, 'b> {
    type Value = ();

    fn deserialize<D: Deserializer<'b>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// No `visit_str`: a text with escapes can't be borrowed. No `visit_f64`: `-0` and integers of more than 64 bits arrive by
/// it as well as fractions.
impl<'b> Visitor<'b> for Append<'_, 'b> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value without escapes, fractions and exponents")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.scalar(Node::Static(StaticNode::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.scalar(Node::Static(StaticNode::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.scalar(Node::Static(StaticNode::I64(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.scalar(Node::Static(StaticNode::U64(value)))
    }

    fn visit_borrowed_str<E>(self, text: &'b str) -> Result<(), E> {
        self.scalar(Node::String(text))
    }

    fn visit_seq<A: SeqAccess<'b>>(self, mut items: A) -> Result<(), A::Error> {
        let node = |len, count| Node::Array { len, count };
        self.container(node, |inside| Ok(items.next_element_seed(inside)?.is_some()))
    }

    fn visit_map<A: MapAccess<'b>>(self, mut members: A) -> Result<(), A::Error> {
        let node = |len, count| Node::Object { len, count };
        self.container(node, |inside| {
            let name = Append { tape: &mut *inside.tape, levels_left: 0 };
            if members.next_key_seed(name)?.is_none() {
                return Ok(false);
            }
            let value = Append { tape: &mut *inside.tape, levels_left: inside.levels_left };
            members.next_value_seed(value)?;
            Ok(true)
        })
    }
}
