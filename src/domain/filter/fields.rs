//! What a filter can ask of a listing's details.

use crate::domain::{AttributeValue, Details};

/// A field as a filter names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// `name`.
    Name,
    /// `map`.
    Map,
    /// `mode`.
    Mode,
    /// `region`.
    Region,
    /// `players`.
    Players,
    /// `max_players`.
    MaxPlayers,
    /// `password_required`.
    PasswordRequired,
    /// `tags`, for `has` only.
    Tags,
    /// `attributes`, for `has` only.
    Attributes,
    /// `attributes.KEY`, normalised.
    Attribute(String),
    /// No listing has it.
    Unknown,
}

impl Field {
    /// The field with this name.
    pub(super) fn named(name: &str) -> Self {
        match name {
            "name" => Self::Name,
            "map" => Self::Map,
            "mode" => Self::Mode,
            "region" => Self::Region,
            "players" => Self::Players,
            "max_players" => Self::MaxPlayers,
            "password_required" => Self::PasswordRequired,
            "tags" => Self::Tags,
            "attributes" => Self::Attributes,
            _ => Self::Unknown,
        }
    }
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// Text, ordered by its code points.
    Text(&'a str),
    /// An integer.
    Integer(i64),
    /// A truth value.
    Boolean(bool),
}

impl<'a> From<&'a AttributeValue> for Value<'a> {
    fn from(value: &'a AttributeValue) -> Self {
        match value {
            AttributeValue::Text(text) => Self::Text(text),
            AttributeValue::Integer(n) => Self::Integer(*n),
            AttributeValue::Boolean(b) => Self::Boolean(*b),
        }
    }
}

/// Details, however they are kept.
pub trait Fields {
    /// The field's value; `None` where there is none, and for fields that are no single value.
    fn value(&self, field: &Field) -> Option<Value<'_>>;

    /// Whether this is one of the tags.
    fn has_tag(&self, tag: &str) -> bool;
}

impl Fields for Details {
    fn value(&self, field: &Field) -> Option<Value<'_>> {
        let fields = self.fields();
        match field {
            Field::Name => Some(Value::Text(&fields.name)),
            Field::Map => fields.map.as_deref().map(Value::Text),
            Field::Mode => fields.mode.as_deref().map(Value::Text),
            Field::Region => fields.region.as_deref().map(Value::Text),
            Field::Players => Some(Value::Integer(fields.players.into())),
            Field::MaxPlayers => Some(Value::Integer(fields.max_players.into())),
            Field::PasswordRequired => Some(Value::Boolean(fields.password_required)),
            Field::Attribute(key) => {
                let place = fields.attributes.binary_search_by(|(name, _)| name.as_str().cmp(key)).ok()?;
                Some((&fields.attributes[place].1).into())
            }
            Field::Tags | Field::Attributes | Field::Unknown => None,
        }
    }

    fn has_tag(&self, tag: &str) -> bool {
        self.fields().tags.iter().any(|known| known == tag)
    }
}
