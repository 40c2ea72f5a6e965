//! A filter as it was read, and what it says of a listing.

use super::fields::{Field, Fields, Value};
use crate::domain::AttributeValue;
use std::cmp::Ordering;

/// A part of a filter. No deeper than the parser lets it become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// One of them holds.
    Any(Vec<Node>),
    /// Each of them holds.
    All(Vec<Node>),
    Not(Box<Node>),
    Term(Term),
}

/// What is said of one field or two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Term {
    Compares(Side, Comparison, Side),
    IsIn(Side, Vec<AttributeValue>),
    HasTag(String),
    /// There is a value, whatever it is.
    Exists(Field),
    /// `has` of a field that is no collection.
    Never,
    IsTrue(Field),
}

/// What stands on a side of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Field(Field),
    Value(AttributeValue),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

impl Node {
    pub(super) fn holds(&self, of: &impl Fields) -> bool {
        match self {
            Self::Any(nodes) => nodes.iter().any(|node| node.holds(of)),
            Self::All(nodes) => nodes.iter().all(|node| node.holds(of)),
            Self::Not(node) => !node.holds(of),
            Self::Term(term) => term.holds(of),
        }
    }
}

impl Term {
    fn holds(&self, of: &impl Fields) -> bool {
        match self {
            Self::Compares(left, comparison, right) => {
                let both = left.value(of).zip(right.value(of));
                both.is_some_and(|(left, right)| comparison.holds(left, right))
            }
            Self::IsIn(side, values) => {
                side.value(of).is_some_and(|value| values.iter().any(|one| value == one.into()))
            }
            Self::HasTag(tag) => of.has_tag(tag),
            Self::Exists(field) => of.value(field).is_some(),
            Self::Never => false,
            Self::IsTrue(field) => of.value(field) == Some(Value::Boolean(true)),
        }
    }
}

impl Side {
    fn value<'a>(&'a self, of: &'a impl Fields) -> Option<Value<'a>> {
        match self {
            Self::Field(field) => of.value(field),
            Self::Value(value) => Some(value.into()),
        }
    }
}

impl Comparison {
    fn holds(self, left: Value<'_>, right: Value<'_>) -> bool {
        let order = match (left, right) {
            (Value::Text(left), Value::Text(right)) => left.cmp(right),
            (Value::Integer(left), Value::Integer(right)) => left.cmp(&right),
            (Value::Boolean(left), Value::Boolean(right)) => {
                return match self {
                    Self::Equal => left == right,
                    Self::NotEqual => left != right,
                    Self::Less | Self::AtMost | Self::Greater | Self::AtLeast => false,
                };
            }
            (Value::Text(_) | Value::Integer(_) | Value::Boolean(_), _) => return false,
        };
        match self {
            Self::Equal => order == Ordering::Equal,
            Self::NotEqual => order != Ordering::Equal,
            Self::Less => order == Ordering::Less,
            Self::AtMost => order != Ordering::Greater,
            Self::Greater => order == Ordering::Greater,
            Self::AtLeast => order != Ordering::Less,
        }
    }
}
