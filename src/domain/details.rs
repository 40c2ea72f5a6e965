//! What a listing says about its session: an immutable, validated object.

use super::text::{TextError, normalise};
use std::fmt;

/// Bounds of the single fields, in characters unless said otherwise.
pub mod bounds {
    /// `name`.
    pub const NAME_CHARS: usize = 64;
    /// `map`, `mode`, `region`.
    pub const LABEL_CHARS: usize = 64;
    /// Number of `tags`.
    pub const TAGS: usize = 16;
    /// One tag.
    pub const TAG_CHARS: usize = 32;
    /// Number of `attributes`.
    pub const ATTRIBUTES: usize = 32;
    /// One attribute's name.
    pub const ATTRIBUTE_NAME_CHARS: usize = 32;
    /// One attribute's text.
    pub const ATTRIBUTE_TEXT_CHARS: usize = 256;
    /// All details together, in bytes of JSON.
    pub const DETAILS_BYTES: usize = 2048;
    /// Integers stay exact in every JSON reader.
    pub const INTEGER_MAX: i64 = (1 << 53) - 1;
}

/// The value of a game's own attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    /// Text, normalised.
    Text(String),
    /// An integer within plus or minus 2^53 - 1.
    Integer(i64),
    /// A truth value.
    Boolean(bool),
}

/// The unchecked input of [`Details::new`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DetailsInput {
    /// Required.
    pub name: String,
    /// Optional label.
    pub map: Option<String>,
    /// Optional label.
    pub mode: Option<String>,
    /// Optional label.
    pub region: Option<String>,
    /// Players now, 0 when not given.
    pub players: u16,
    /// Required.
    pub max_players: u16,
    /// False when not given.
    pub password_required: bool,
    /// In the order given.
    pub tags: Vec<String>,
    /// In the order given; names are unique.
    pub attributes: Vec<(String, AttributeValue)>,
}

/// A refused field: a JSON pointer below `details`, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetailsError {
    /// For example `/tags/3`.
    pub pointer: String,
    /// What is expected.
    pub detail: String,
}

impl DetailsError {
    fn new(pointer: impl Into<String>, detail: impl fmt::Display) -> Self {
        Self { pointer: pointer.into(), detail: detail.to_string() }
    }
}

/// A validated description of a session. Attributes are sorted by name, so equal details are equal values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Details(DetailsInput);

impl Details {
    /// Normalises and checks every field (NFC, trimmed, bounded, visible).
    pub fn new(input: DetailsInput) -> Result<Self, DetailsError> {
        let text = |pointer: &str, text: &str, min: usize, max: usize| {
            normalise(text, min, max).map_err(|error: TextError| DetailsError::new(pointer, error))
        };
        let label = |pointer: &str, value: Option<String>| {
            value.map(|value| text(pointer, &value, 1, bounds::LABEL_CHARS)).transpose()
        };
        let name = text("/name", &input.name, 1, bounds::NAME_CHARS)?;
        let map = label("/map", input.map)?;
        let mode = label("/mode", input.mode)?;
        let region = label("/region", input.region)?;
        if input.players > input.max_players {
            return Err(DetailsError::new("/players", "must not exceed max_players"));
        }
        let tags = Self::tags(input.tags)?;
        let attributes = Self::attributes(input.attributes)?;
        let details = Self(DetailsInput { name, map, mode, region, tags, attributes, ..input });
        if details.json().len() > bounds::DETAILS_BYTES {
            return Err(DetailsError::new(
                "",
                format!("must be at most {} bytes of JSON together", bounds::DETAILS_BYTES),
            ));
        }
        Ok(details)
    }

    fn tags(input: Vec<String>) -> Result<Vec<String>, DetailsError> {
        if input.len() > bounds::TAGS {
            return Err(DetailsError::new("/tags", format!("must have at most {} items", bounds::TAGS)));
        }
        let mut tags: Vec<String> = Vec::with_capacity(input.len());
        for (position, tag) in input.iter().enumerate() {
            let pointer = format!("/tags/{position}");
            let tag = normalise(tag, 1, bounds::TAG_CHARS).map_err(|error| DetailsError::new(pointer, error))?;
            if !tags.contains(&tag) {
                tags.push(tag);
            }
        }
        Ok(tags)
    }

    fn attributes(input: Vec<(String, AttributeValue)>) -> Result<Vec<(String, AttributeValue)>, DetailsError> {
        if input.len() > bounds::ATTRIBUTES {
            return Err(DetailsError::new("/attributes", format!("must have at most {} members", bounds::ATTRIBUTES)));
        }
        let mut attributes = Vec::with_capacity(input.len());
        for (name, value) in input {
            let pointer = format!("/attributes/{}", escape_pointer(&name));
            let refused = |error: TextError| DetailsError::new(pointer.clone(), error);
            let name = normalise(&name, 1, bounds::ATTRIBUTE_NAME_CHARS).map_err(refused)?;
            let value = match value {
                AttributeValue::Text(text) => {
                    AttributeValue::Text(normalise(&text, 1, bounds::ATTRIBUTE_TEXT_CHARS).map_err(refused)?)
                }
                AttributeValue::Integer(n) if n.unsigned_abs() > bounds::INTEGER_MAX.unsigned_abs() => {
                    return Err(DetailsError::new(pointer, "must be within plus or minus 2^53 - 1"));
                }
                value @ (AttributeValue::Integer(_) | AttributeValue::Boolean(_)) => value,
            };
            attributes.push((name, value));
        }
        attributes.sort_by(|a, b| a.0.cmp(&b.0));
        if let Some(twice) = attributes.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let pointer = format!("/attributes/{}", escape_pointer(&twice[0].0));
            return Err(DetailsError::new(pointer, "appears twice after normalisation"));
        }
        Ok(attributes)
    }

    /// The fields, all valid.
    pub fn fields(&self) -> &DetailsInput {
        &self.0
    }

    /// The canonical JSON object; also what the 2 KiB bound counts.
    pub fn json(&self) -> String {
        let mut out = String::with_capacity(256);
        out.push('{');
        self.write_members(&mut out);
        out.push('}');
        out
    }

    /// Writes the members of the JSON object without its braces, in a fixed order.
    pub fn write_members(&self, out: &mut String) {
        use fmt::Write;
        let fields = &self.0;
        out.push_str("\"name\":");
        write_json_text(out, &fields.name);
        for (name, value) in [("map", &fields.map), ("mode", &fields.mode), ("region", &fields.region)] {
            if let Some(value) = value {
                let _ = write!(out, ",\"{name}\":");
                write_json_text(out, value);
            }
        }
        let _ = write!(
            out,
            ",\"players\":{},\"max_players\":{},\"password_required\":{},\"tags\":[",
            fields.players, fields.max_players, fields.password_required
        );
        for (position, tag) in fields.tags.iter().enumerate() {
            if position > 0 {
                out.push(',');
            }
            write_json_text(out, tag);
        }
        out.push_str("],\"attributes\":{");
        for (position, (name, value)) in fields.attributes.iter().enumerate() {
            if position > 0 {
                out.push(',');
            }
            write_json_text(out, name);
            out.push(':');
            match value {
                AttributeValue::Text(text) => write_json_text(out, text),
                AttributeValue::Integer(n) => {
                    let _ = write!(out, "{n}");
                }
                AttributeValue::Boolean(b) => {
                    let _ = write!(out, "{b}");
                }
            }
        }
        out.push('}');
    }
}

/// Escapes a member's name for use in a JSON pointer (RFC 6901 section 3).
pub fn escape_pointer(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Appends `text` as a JSON string (RFC 8259 section 7).
pub fn write_json_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if u32::from(c) < 0x20 => {
                use fmt::Write;
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minimal() -> DetailsInput {
        DetailsInput { name: "x".into(), max_players: 8, ..DetailsInput::default() }
    }

    #[test]
    fn minimal_details_render() {
        let json = Details::new(minimal()).unwrap().json();
        assert_eq!(
            json,
            r#"{"name":"x","players":0,"max_players":8,"password_required":false,"tags":[],"attributes":{}}"#
        );
    }

    #[test]
    fn case_b5_odd_text_round_trips_as_json() {
        let name = "q\" b\\ \u{1F600} /";
        let json = Details::new(DetailsInput { name: name.into(), ..minimal() }).unwrap().json();
        assert!(json.contains(r#""q\" b\\ 😀 /""#), "{json}");
    }

    #[test]
    fn each_refusal_names_its_field() {
        let pointer = |input: DetailsInput| Details::new(input).unwrap_err().pointer;
        assert_eq!(pointer(DetailsInput { name: " ".into(), ..minimal() }), "/name");
        assert_eq!(pointer(DetailsInput { players: 9, ..minimal() }), "/players");
        assert_eq!(pointer(DetailsInput { tags: vec!["a".into(), "\n".into()], ..minimal() }), "/tags/1");
        assert_eq!(pointer(DetailsInput { tags: vec!["a".into(); 17], ..minimal() }), "/tags");
        let attribute = |name: &str, value| DetailsInput { attributes: vec![(name.into(), value)], ..minimal() };
        assert_eq!(pointer(attribute("a/b", AttributeValue::Integer(1 << 53))), "/attributes/a~1b");
        let twice =
            vec![("e\u{301}".into(), AttributeValue::Boolean(true)), ("\u{e9}".into(), AttributeValue::Boolean(true))];
        assert_eq!(pointer(DetailsInput { attributes: twice, ..minimal() }), "/attributes/\u{e9}");
        let big = (0..9).map(|n| (format!("k{n}"), AttributeValue::Text("v".repeat(256)))).collect();
        assert_eq!(pointer(DetailsInput { attributes: big, ..minimal() }), "");
    }
}
