//! Filters: any text is read or refused at a place in it, and what is read means the same for details and for their row, and
//! with `not` before it the opposite.
#![no_main]

#[path = "../world/input.rs"]
mod input;

use input::Input;
use libfuzzer_sys::fuzz_target;
use rendezvous::domain::details::DetailsInput;
use rendezvous::domain::filter::{CHARACTERS_MAX, Fields, Rendered};
use rendezvous::domain::{AttributeValue, Details, Filter};

/// An explanation longer than this repeats what was sent.
const ERROR_BYTES_MAX: usize = 120;
/// What `not` and parentheses add.
const NEGATION_CHARS: usize = "not ()".len();

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let details = details(&mut input);
    let text = String::from_utf8_lossy(input.rest());
    let filter = match Filter::parse(&text) {
        Ok(filter) => filter,
        Err(error) => {
            assert!((1..=text.chars().count() + 1).contains(&error.position), "{error:?}");
            assert!(error.to_string().len() <= ERROR_BYTES_MAX, "{error}");
            return;
        }
    };
    let holds = filter.matches(&details);
    let json = details.json();
    let rendered = Rendered::read(&json).expect("canonical JSON");
    assert_eq!(filter.matches(&rendered), holds, "{text} of {json}");
    if text.chars().count() + NEGATION_CHARS <= CHARACTERS_MAX {
        // One level deeper is one too many for some.
        if let Ok(opposite) = Filter::parse(&format!("not ({text})")) {
            assert_eq!(opposite.matches(&details), !holds, "{text} of {json}");
        }
    }
    // A row that is cut off is none, or has less.
    let cut = json.char_indices().map(|(at, _)| at).nth(json.len() / 2).unwrap_or_default();
    if let Some(part) = Rendered::read(&json[..cut]) {
        let _ = (filter.matches(&part), part.has_tag("a"));
    }
});

/// Details out of the first bytes, from texts of which some have to be escaped.
fn details(input: &mut Input<'_>) -> Details {
    const TEXTS: [&str; 8] = ["a", "b", "q\"\\q", "caf\u{e9}", "\u{1F600}", "eu-west", "modded", "ctf"];
    const KEYS: [&str; 4] = ["skill", "a.b-c", "two words", "q\"\\q"];
    let text = |byte: u8| TEXTS[usize::from(byte) % TEXTS.len()].to_owned();
    let label = |byte: u8| (byte % 3 > 0).then(|| text(byte / 3));
    let value = |byte: u8| match byte % 3 {
        0 => AttributeValue::Text(text(byte / 3)),
        1 => AttributeValue::Integer(i64::from(byte / 3) - 40),
        _ => AttributeValue::Boolean(byte > 127),
    };
    let flags = input.byte();
    let max_players = input.number();
    let details = DetailsInput {
        name: text(input.byte()),
        map: label(input.byte()),
        mode: label(input.byte()),
        region: label(input.byte()),
        players: input.number().min(max_players),
        max_players,
        password_required: flags & 1 == 1,
        tags: (0..flags >> 1 & 3).map(|_| text(input.byte())).collect(),
        attributes: KEYS
            .iter()
            .take(usize::from(flags >> 3 & 7))
            .map(|key| ((*key).to_owned(), value(input.byte())))
            .collect(),
    };
    Details::new(details).expect("valid details")
}
