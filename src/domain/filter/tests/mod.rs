//! What filters mean, where they are refused, and that nothing else is ever decided.

mod meaning;
mod random;
mod refusals;

use super::*;
use crate::domain::details::DetailsInput;
use crate::domain::{AttributeValue, Details};

/// A listing that has every field.
fn arena() -> Details {
    let text = |text: &str| Some(text.to_owned());
    let attribute = |name: &str, value| (name.to_owned(), value);
    Details::new(DetailsInput {
        name: "Friday \"night\" \\o/".into(),
        map: text("dust"),
        mode: text("ctf"),
        region: text("eu-west"),
        players: 3,
        max_players: 16,
        password_required: false,
        tags: vec!["modded".into(), "caf\u{e9}".into()],
        attributes: vec![
            attribute("skill", AttributeValue::Integer(1_200)),
            attribute("voice", AttributeValue::Boolean(true)),
            attribute("engine", AttributeValue::Text("id/3".into())),
            attribute("game.build-id", AttributeValue::Integer(-7)),
            attribute("skill \"level\"", AttributeValue::Text("high".into())),
        ],
    })
    .expect("valid details")
}

/// A listing that has only what it must.
fn plain() -> Details {
    Details::new(DetailsInput { name: "plain".into(), max_players: 2, ..DetailsInput::default() })
        .expect("valid details")
}

/// Whether a filter holds, by the details and by their JSON behind the members that a row has before them.
#[track_caller]
fn holds(text: &str, details: &Details) -> bool {
    let filter = Filter::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut row =
        String::from(r#"{"listing_id":"0190b5d2a3c47e8f9a0b1c2d3e4f5a6b","protocol":"a/1","created_at":"2026","#);
    details.write_members(&mut row);
    row.push('}');
    let rendered = Rendered::read(&row).unwrap_or_else(|| panic!("{row}"));
    let holds = filter.matches(details);
    assert_eq!(filter.matches(&rendered), holds, "{text} of {row}");
    holds
}
