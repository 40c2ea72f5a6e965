//! Reading members and values one by one: each is asked for by name and kind, and what nobody asked for is refused.

use super::FieldError;
use super::value::Value;
use crate::domain::details::escape_pointer;
use simd_json::StaticNode;
use simd_json::tape::Node;

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
    pub(super) root: Value<'t>,
    pub(super) value: Value<'t>,
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

    /// A text, an object or an array, as it is; `null` is refused inside of it as anywhere.
    pub fn text_or_container(&self) -> Result<serde_json::Value, FieldError> {
        if self.value.text().is_none() && !self.value.is_object() && !self.value.is_array() {
            return Err(self.expected("a string, an object or an array"));
        }
        self.free_form()
    }

    fn free_form(&self) -> Result<serde_json::Value, FieldError> {
        let below = |value| Field { root: self.root, value }.free_form();
        match self.value.0.first() {
            Some(Node::String(text)) => Ok((*text).into()),
            Some(Node::Object { .. }) => {
                let members = self.value.members().map(|(name, value)| Ok((name.to_owned(), below(value)?)));
                Ok(serde_json::Value::Object(members.collect::<Result<_, FieldError>>()?))
            }
            Some(Node::Array { .. }) => {
                Ok(serde_json::Value::Array(self.value.inside().map(below).collect::<Result<_, _>>()?))
            }
            Some(Node::Static(StaticNode::Bool(value))) => Ok((*value).into()),
            Some(Node::Static(StaticNode::I64(value))) => Ok((*value).into()),
            Some(Node::Static(StaticNode::U64(value))) => Ok((*value).into()),
            // Not finite can't be written in JSON.
            Some(Node::Static(StaticNode::F64(value))) => Ok((*value).into()),
            Some(Node::Static(StaticNode::Null)) | None => Err(self.expected("anything but null")),
        }
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
