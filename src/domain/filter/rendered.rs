//! Details in their canonical JSON, as a row of a page has them, read without being taken apart.

use super::fields::{Field, Fields, Value};
use std::borrow::Cow;
use std::cell::OnceCell;

/// The members of a JSON object that [`Details::write_members`](crate::domain::Details::write_members) has written, perhaps
/// behind others. Texts stay where they are unless they have escapes. Tags and attributes, which come last, are read when
/// they are asked for, and once.
#[derive(Debug)]
pub struct Rendered<'a> {
    name: Option<Member<'a>>,
    map: Option<Member<'a>>,
    mode: Option<Member<'a>>,
    region: Option<Member<'a>>,
    players: Option<Member<'a>>,
    max_players: Option<Member<'a>>,
    password_required: Option<Member<'a>>,
    /// From the tags' bracket on.
    rest: Reader<'a>,
    collections: OnceCell<Collections<'a>>,
}

#[derive(Debug, Default)]
struct Collections<'a> {
    tags: Vec<Cow<'a, str>>,
    /// Sorted by name.
    attributes: Vec<(Cow<'a, str>, Member<'a>)>,
}

#[derive(Debug)]
enum Member<'a> {
    Text(Cow<'a, str>),
    Integer(i64),
    Boolean(bool),
}

impl Member<'_> {
    fn value(&self) -> Value<'_> {
        match self {
            Self::Text(text) => Value::Text(text),
            Self::Integer(n) => Value::Integer(*n),
            Self::Boolean(b) => Value::Boolean(*b),
        }
    }
}

impl<'a> Rendered<'a> {
    /// Finds the members; `None` where this is no such object.
    pub fn read(object: &'a str) -> Option<Self> {
        let mut reader = Reader { rest: object };
        let mut read = Self {
            name: None,
            map: None,
            mode: None,
            region: None,
            players: None,
            max_players: None,
            password_required: None,
            rest: reader,
            collections: OnceCell::new(),
        };
        reader.pass('{')?;
        loop {
            let name = reader.name()?;
            let place = match &*name {
                "name" => &mut read.name,
                "map" => &mut read.map,
                "mode" => &mut read.mode,
                "region" => &mut read.region,
                "players" => &mut read.players,
                "max_players" => &mut read.max_players,
                "password_required" => &mut read.password_required,
                "tags" => {
                    read.rest = reader;
                    return Some(read);
                }
                _ => &mut None,
            };
            *place = Some(reader.member()?);
            reader.pass(',')?;
        }
    }

    fn collections(&self) -> &Collections<'a> {
        self.collections.get_or_init(|| self.rest.collections().unwrap_or_default())
    }
}

impl Fields for Rendered<'_> {
    fn value(&self, field: &Field) -> Option<Value<'_>> {
        let member = match field {
            Field::Name => self.name.as_ref(),
            Field::Map => self.map.as_ref(),
            Field::Mode => self.mode.as_ref(),
            Field::Region => self.region.as_ref(),
            Field::Players => self.players.as_ref(),
            Field::MaxPlayers => self.max_players.as_ref(),
            Field::PasswordRequired => self.password_required.as_ref(),
            Field::Attribute(key) => {
                let attributes = &self.collections().attributes;
                let place = attributes.binary_search_by(|(name, _)| (**name).cmp(key)).ok()?;
                Some(&attributes[place].1)
            }
            Field::Tags | Field::Attributes | Field::Unknown => None,
        };
        member.map(Member::value)
    }

    fn has_tag(&self, tag: &str) -> bool {
        self.collections().tags.iter().any(|known| known == tag)
    }
}

/// What is left of the text. It has no white space between its tokens.
#[derive(Clone, Copy, Debug)]
struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn pass(&mut self, token: char) -> Option<()> {
        self.rest = self.rest.strip_prefix(token)?;
        Some(())
    }

    /// A member's name and its colon.
    fn name(&mut self) -> Option<Cow<'a, str>> {
        let name = self.text()?;
        self.pass(':')?;
        Some(name)
    }

    fn member(&mut self) -> Option<Member<'a>> {
        match self.rest.as_bytes().first()? {
            b'"' => self.text().map(Member::Text),
            b't' => self.rest.strip_prefix("true").map(|rest| self.is(true, rest)),
            b'f' => self.rest.strip_prefix("false").map(|rest| self.is(false, rest)),
            _ => {
                let digits = self.rest.bytes().take_while(|byte| matches!(byte, b'-' | b'0'..=b'9')).count();
                let (number, rest) = self.rest.split_at(digits);
                self.rest = rest;
                number.parse().ok().map(Member::Integer)
            }
        }
    }

    fn is(&mut self, truth: bool, rest: &'a str) -> Member<'a> {
        self.rest = rest;
        Member::Boolean(truth)
    }

    fn text(&mut self) -> Option<Cow<'a, str>> {
        let text = self.rest.strip_prefix('"')?;
        let end = memchr::memchr2(b'"', b'\\', text.as_bytes())?;
        if text.as_bytes()[end] == b'"' {
            self.rest = &text[end + 1..];
            return Some(Cow::Borrowed(&text[..end]));
        }
        let mut unescaped = text[..end].to_owned();
        let mut chars = text[end..].chars();
        loop {
            match chars.next()? {
                '"' => {
                    self.rest = chars.as_str();
                    return Some(Cow::Owned(unescaped));
                }
                '\\' => unescaped.push(match chars.next()? {
                    'u' => {
                        let (digits, rest) = chars.as_str().split_at_checked(4)?;
                        chars = rest.chars();
                        char::from_u32(u32::from_str_radix(digits, 16).ok()?)?
                    }
                    c => c,
                }),
                c => unescaped.push(c),
            }
        }
    }

    fn collections(mut self) -> Option<Collections<'a>> {
        let mut found = Collections::default();
        self.pass('[')?;
        while self.pass(']').is_none() {
            found.tags.push(self.text()?);
            let _last_has_none = self.pass(',');
        }
        self.pass(',')?;
        self.name()?;
        self.pass('{')?;
        while self.pass('}').is_none() {
            found.attributes.push((self.name()?, self.member()?));
            let _last_has_none = self.pass(',');
        }
        Some(found)
    }
}
