//! Random filters over random details, against an evaluator that knows neither the parser nor its tree.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Few, so that what is compared is often equal; with what JSON has to escape, and what sorts oddly.
const TEXTS: [&str; 7] = ["a", "b", "ab", "q\"\\q", "caf\u{e9}", "\u{1F600}", "eu-west"];
const KEYS: [&str; 5] = ["skill", "a.b-c", "two words", "q\"\\q", "caf\u{e9}"];
const FIELDS: [&str; 10] =
    ["name", "map", "mode", "region", "players", "max_players", "password_required", "tags", "attributes", "ping"];
const OPERATORS: [&str; 7] = ["==", "=", "!=", "<", "<=", ">", ">="];

#[derive(Clone, Debug)]
enum Side {
    Field(&'static str),
    Attribute(&'static str),
    Value(AttributeValue),
}

#[derive(Clone, Debug)]
enum Expression {
    Or(Vec<Expression>),
    And(Vec<Expression>),
    Not(Box<Expression>),
    Compare(Side, &'static str, Side),
    In(Side, Vec<AttributeValue>),
    Has(Side, &'static str),
    Alone(Side),
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn shown(value: &AttributeValue) -> String {
    match value {
        AttributeValue::Text(text) => quoted(text),
        AttributeValue::Integer(n) => n.to_string(),
        AttributeValue::Boolean(b) => b.to_string(),
    }
}

impl Side {
    fn text(&self) -> String {
        match self {
            Self::Field(name) => (*name).to_owned(),
            Self::Attribute(key @ ("skill" | "a.b-c")) => format!("attributes.{key}"),
            Self::Attribute(key) => format!("attributes.{}", quoted(key)),
            Self::Value(value) => shown(value),
        }
    }

    fn value(&self, details: &Details) -> Option<AttributeValue> {
        let fields = details.fields();
        let text = |text: &Option<String>| text.clone().map(AttributeValue::Text);
        match self {
            Self::Value(value) => Some(value.clone()),
            Self::Attribute(key) => {
                fields.attributes.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone())
            }
            Self::Field("name") => Some(AttributeValue::Text(fields.name.clone())),
            Self::Field("map") => text(&fields.map),
            Self::Field("mode") => text(&fields.mode),
            Self::Field("region") => text(&fields.region),
            Self::Field("players") => Some(AttributeValue::Integer(fields.players.into())),
            Self::Field("max_players") => Some(AttributeValue::Integer(fields.max_players.into())),
            Self::Field("password_required") => Some(AttributeValue::Boolean(fields.password_required)),
            Self::Field(_) => None,
        }
    }
}

impl Expression {
    /// With no more parentheses than it needs: `outer` says how closely the surroundings bind.
    fn text(&self, outer: u8) -> String {
        let joined = |parts: &[Self], word: &str, own: u8| {
            let text = parts.iter().map(|part| part.text(own)).collect::<Vec<_>>().join(word);
            if outer > own { format!("({text})") } else { text }
        };
        match self {
            Self::Or(parts) => joined(parts, " or ", 1),
            Self::And(parts) => joined(parts, " and ", 2),
            Self::Not(part) => format!("not {}", part.text(3)),
            Self::Compare(left, operator, right) => format!("{} {operator} {}", left.text(), right.text()),
            Self::In(side, values) => {
                format!("{} in [{}]", side.text(), values.iter().map(shown).collect::<Vec<_>>().join(", "))
            }
            Self::Has(side, sought) => format!("{} has {}", side.text(), quoted(sought)),
            Self::Alone(side) => side.text(),
        }
    }

    fn holds(&self, details: &Details) -> bool {
        match self {
            Self::Or(parts) => parts.iter().any(|part| part.holds(details)),
            Self::And(parts) => parts.iter().all(|part| part.holds(details)),
            Self::Not(part) => !part.holds(details),
            Self::Compare(left, operator, right) => compared(left.value(details), operator, right.value(details)),
            Self::In(side, values) => side.value(details).is_some_and(|value| values.contains(&value)),
            Self::Has(Side::Field("tags"), sought) => details.fields().tags.iter().any(|tag| tag == sought),
            Self::Has(Side::Field("attributes"), sought) => {
                details.fields().attributes.iter().any(|(name, _)| name == sought)
            }
            Self::Has(_, _) => false,
            Self::Alone(side) => side.value(details) == Some(AttributeValue::Boolean(true)),
        }
    }
}

fn compared(left: Option<AttributeValue>, operator: &str, right: Option<AttributeValue>) -> bool {
    fn ordered<T: Ord>(left: T, operator: &str, right: T) -> bool {
        match operator {
            "==" | "=" => left == right,
            "!=" => left != right,
            "<" => left < right,
            "<=" => left <= right,
            ">" => left > right,
            ">=" => left >= right,
            other => panic!("{other}"),
        }
    }
    match (left, right) {
        (Some(AttributeValue::Text(left)), Some(AttributeValue::Text(right))) => {
            ordered(left.chars().collect::<Vec<_>>(), operator, right.chars().collect())
        }
        (Some(AttributeValue::Integer(left)), Some(AttributeValue::Integer(right))) => ordered(left, operator, right),
        (Some(AttributeValue::Boolean(left)), Some(AttributeValue::Boolean(right))) => {
            ["==", "=", "!="].contains(&operator) && ordered(left, operator, right)
        }
        (_, _) => false,
    }
}

fn values() -> impl Strategy<Value = AttributeValue> {
    prop_oneof![
        select(&TEXTS[..]).prop_map(|text| AttributeValue::Text(text.to_owned())),
        (-2_i64..5).prop_map(AttributeValue::Integer),
        any::<bool>().prop_map(AttributeValue::Boolean),
    ]
}

fn fields() -> impl Strategy<Value = Side> {
    prop_oneof![3 => select(&FIELDS[..]).prop_map(Side::Field), 1 => select(&KEYS[..]).prop_map(Side::Attribute)]
}

fn sides() -> impl Strategy<Value = Side> {
    prop_oneof![2 => fields(), 1 => values().prop_map(Side::Value)]
}

fn expressions() -> impl Strategy<Value = Expression> {
    let sought = || prop_oneof![select(&TEXTS[..]), select(&KEYS[..])];
    let terms = prop_oneof![
        4 => (sides(), select(&OPERATORS[..]), sides()).prop_map(|(l, o, r)| Expression::Compare(l, o, r)),
        1 => (sides(), vec(values(), 0..4)).prop_map(|(side, values)| Expression::In(side, values)),
        1 => (fields(), sought()).prop_map(|(side, sought)| Expression::Has(side, sought)),
        1 => fields().prop_map(Expression::Alone),
    ];
    terms.prop_recursive(4, 12, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 2..4).prop_map(Expression::Or),
            vec(inner.clone(), 2..4).prop_map(Expression::And),
            inner.prop_map(|part| Expression::Not(Box::new(part))),
        ]
    })
}

fn details() -> impl Strategy<Value = Details> {
    let label = || proptest::option::of(select(&TEXTS[..]).prop_map(str::to_owned));
    let attributes = proptest::collection::btree_map(select(&KEYS[..]).prop_map(str::to_owned), values(), 0..4);
    let numbers = (0_u16..5).prop_flat_map(|max_players| (0..=max_players, Just(max_players)));
    let tags = vec(select(&TEXTS[..]).prop_map(str::to_owned), 0..4);
    let name = select(&TEXTS[..]);
    (name, (label(), label(), label()), numbers, any::<bool>(), tags, attributes).prop_map(
        |(name, (map, mode, region), (players, max_players), password_required, tags, attributes)| {
            let (name, attributes) = (name.to_owned(), attributes.into_iter().collect());
            let input =
                DetailsInput { name, map, mode, region, players, max_players, password_required, tags, attributes };
            Details::new(input).expect("valid details")
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4_096) })]

    #[test]
    fn filters_mean_what_a_naive_evaluator_says(expression in expressions(), details in details()) {
        let text = expression.text(0);
        match Filter::parse(&text) {
            Ok(_) => prop_assert_eq!(holds(&text, &details), expression.holds(&details), "{}", text),
            Err(error) => {
                let is_bound = matches!(error.fault, FilterFault::TooLong | FilterFault::TooManyTerms);
                prop_assert!(is_bound, "{}: {}", text, error);
            }
        }
    }

    #[test]
    fn pieces_of_filters_never_panic_and_are_refused_at_a_place_in_them(
        pieces in vec(select(&["(", ")", "not ", " and ", " or ", "players", "tags", "has", "in", "[", "]", ",", "\"", "\\u00",
            "\\", "e9", "-", "1", ".", "attributes.", "==", "<", "!", " ", "\u{e9}", "\0", "true"][..]), 0..24),
        details in details(),
    ) {
        let text = pieces.concat();
        match Filter::parse(&text) {
            Ok(_) => { holds(&text, &details); }
            Err(error) => prop_assert!((1..=text.chars().count() + 1).contains(&error.position), "{}: {:?}", text, error),
        }
    }

    #[test]
    fn details_are_read_from_their_json_as_they_are(details in details(), cut in any::<prop::sample::Index>()) {
        let json = details.json();
        let rendered = Rendered::read(&json).expect("canonical JSON");
        let keys = KEYS.iter().map(|key| Field::Attribute((*key).to_owned()));
        for field in FIELDS.iter().map(|name| Field::named(name)).chain(keys) {
            prop_assert_eq!(rendered.value(&field), details.value(&field), "{:?}", field);
        }
        for tag in TEXTS {
            prop_assert_eq!(rendered.has_tag(tag), details.has_tag(tag));
        }
        // What is not whole is read as far as it goes, or not at all.
        let mut end = cut.index(json.len());
        while !json.is_char_boundary(end) {
            end -= 1;
        }
        if let Some(part) = Rendered::read(&json[..end]) {
            let _ = (part.has_tag("a"), part.value(&Field::Attribute("skill".into())));
        }
    }
}
