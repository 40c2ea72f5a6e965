//! From text to tree, by winnow.
//!
//! The first character or word of everything says what it is, so only words and symbols are tried and put back; once
//! a rule has begun, a failure is final and says what was expected there.

use super::error::{FilterError, FilterFault};
use super::fields::Field;
use super::tree::{Comparison, Node, Side, Term};
use super::{CHARACTERS_MAX, NESTING_MAX, TERMS_MAX};
use crate::domain::AttributeValue;
use crate::domain::details::bounds::INTEGER_MAX;
use unicode_normalization::UnicodeNormalization;
use winnow::Parser;
use winnow::ascii::multispace0;
use winnow::combinator::{alt, delimited, eof, not, opt, preceded, repeat, separated};
use winnow::error::{ErrMode, ParserError};
use winnow::stream::{Stateful, Stream};
use winnow::token::{any, one_of, take, take_while};

/// Words that are no fields.
const RESERVED: [&str; 5] = ["and", "or", "not", "in", "has"];

/// The text that is left, and what of the bounds is used up.
type Input<'t> = Stateful<&'t str, Used>;
type Parsed<T> = Result<T, ErrMode<Failure>>;

#[derive(Clone, Copy, Debug, Default)]
struct Used {
    terms: usize,
    levels: usize,
}

/// What was expected with so many bytes left.
#[derive(Clone, Copy, Debug)]
struct Failure {
    left: usize,
    fault: FilterFault,
}

impl<'t> ParserError<Input<'t>> for Failure {
    type Inner = Self;

    /// For words and symbols, whose caller knows what it expected.
    fn from_input(input: &Input<'t>) -> Self {
        Self { left: input.eof_offset(), fault: FilterFault::NoEnd }
    }

    fn into_inner(self) -> Result<Self, Self> {
        Ok(self)
    }
}

pub(super) fn filter(text: &str) -> Result<Node, FilterError> {
    if text.chars().nth(CHARACTERS_MAX).is_some() {
        return Err(FilterError { position: CHARACTERS_MAX + 1, fault: FilterFault::TooLong });
    }
    let mut input = Input { input: text, state: Used::default() };
    let failed = |failure: Failure| {
        let before = text.get(..text.len() - failure.left).unwrap_or(text);
        FilterError { position: before.chars().count() + 1, fault: failure.fault }
    };
    let root = any_of(&mut input).and_then(|root| {
        expect(&mut input, eof, FilterFault::NoEnd)?;
        Ok(root)
    });
    root.map_err(|error| failed(error.into_inner().unwrap_or_else(|_| Failure::from_input(&input))))
}

fn any_of(input: &mut Input<'_>) -> Parsed<Node> {
    let mut nodes: Vec<Node> = separated(1.., all_of, word("or")).parse_next(input)?;
    Ok(if nodes.len() == 1 { nodes.swap_remove(0) } else { Node::Any(nodes) })
}

fn all_of(input: &mut Input<'_>) -> Parsed<Node> {
    let mut nodes: Vec<Node> = separated(1.., condition, word("and")).parse_next(input)?;
    Ok(if nodes.len() == 1 { nodes.swap_remove(0) } else { Node::All(nodes) })
}

fn condition(input: &mut Input<'_>) -> Parsed<Node> {
    // Counted, not nested: a row of them costs no depth.
    let nots: usize = repeat(0.., word("not")).parse_next(input)?;
    let node = if is_next(input, "(")? { parenthesised(input)? } else { Node::Term(term(input)?) };
    Ok(if nots % 2 == 1 { Node::Not(Box::new(node)) } else { node })
}

fn parenthesised(input: &mut Input<'_>) -> Parsed<Node> {
    if input.state.levels == NESTING_MAX {
        return failed(input, FilterFault::TooDeep);
    }
    symbol("(").parse_next(input)?;
    input.state.levels += 1;
    let node = any_of(input)?;
    input.state.levels -= 1;
    expect(input, ")", FilterFault::NoParenthesis)?;
    Ok(node)
}

fn term(input: &mut Input<'_>) -> Parsed<Term> {
    if input.state.terms == TERMS_MAX {
        return failed(input, FilterFault::TooManyTerms);
    }
    input.state.terms += 1;
    let left = side(input)?;
    if let Some(comparison) = opt(comparison).parse_next(input)? {
        return Ok(Term::Compares(left, comparison, side(input)?));
    }
    if opt(word("in")).parse_next(input)?.is_some() {
        return Ok(Term::IsIn(left, list(input)?));
    }
    let Side::Field(field) = left else { return failed(input, FilterFault::NoComparison) };
    if opt(word("has")).parse_next(input)?.is_none() {
        return Ok(Term::IsTrue(field));
    }
    if !is_next(input, "\"")? {
        return failed(input, FilterFault::NoText);
    }
    let sought = text(input)?;
    Ok(match field {
        Field::Tags => Term::HasTag(sought),
        Field::Attributes => Term::Exists(Field::Attribute(sought)),
        Field::Name
        | Field::Map
        | Field::Mode
        | Field::Region
        | Field::Players
        | Field::MaxPlayers
        | Field::PasswordRequired
        | Field::Attribute(_)
        | Field::Unknown => Term::Never,
    })
}

fn comparison(input: &mut Input<'_>) -> Parsed<Comparison> {
    let longest_first = alt((
        "==".value(Comparison::Equal),
        "=".value(Comparison::Equal),
        "!=".value(Comparison::NotEqual),
        "<=".value(Comparison::AtMost),
        "<".value(Comparison::Less),
        ">=".value(Comparison::AtLeast),
        ">".value(Comparison::Greater),
    ));
    preceded(multispace0, longest_first).parse_next(input)
}

fn side(input: &mut Input<'_>) -> Parsed<Side> {
    if let Some(value) = value(input)? {
        return Ok(Side::Value(value));
    }
    let start = input.checkpoint();
    let name = (one_of(|c: char| c.is_ascii_alphabetic() || c == '_'), take_while(0.., in_name)).take();
    let name: Option<&str> = opt(name).parse_next(input)?;
    let Some(name) = name.filter(|name| !RESERVED.contains(name)) else {
        input.reset(&start);
        return failed(input, FilterFault::NoOperand);
    };
    let field = Field::named(name);
    if opt('.').parse_next(input)?.is_none() {
        return Ok(Side::Field(field));
    }
    let key = key(input)?;
    // Nothing but attributes has members.
    Ok(Side::Field(if field == Field::Attributes { Field::Attribute(key) } else { Field::Unknown }))
}

fn key(input: &mut Input<'_>) -> Parsed<String> {
    if input.input.starts_with('"') {
        return text(input);
    }
    let bare = opt(take_while(1.., |c: char| in_name(c) || c == '-' || c == '.')).parse_next(input)?;
    bare.map(str::to_owned).map_or_else(|| failed(input, FilterFault::NoKey), Ok)
}

/// A value, if one stands here.
fn value(input: &mut Input<'_>) -> Parsed<Option<AttributeValue>> {
    multispace0.parse_next(input)?;
    match input.input.bytes().next() {
        Some(b'"') => text(input).map(|text| Some(AttributeValue::Text(text))),
        Some(b'-' | b'0'..=b'9') => integer(input).map(|n| Some(AttributeValue::Integer(n))),
        Some(_) | None => {
            let mut boolean = opt(alt((word("true").value(true), word("false").value(false))));
            Ok(boolean.parse_next(input)?.map(AttributeValue::Boolean))
        }
    }
}

fn list(input: &mut Input<'_>) -> Parsed<Vec<AttributeValue>> {
    expect(input, "[", FilterFault::NoList)?;
    if opt(symbol("]")).parse_next(input)?.is_some() {
        return Ok(Vec::new());
    }
    let item = |input: &mut Input<'_>| match value(input)? {
        Some(value) => Ok(value),
        None => failed(input, FilterFault::NoValue),
    };
    let values = separated(1.., item, symbol(",")).parse_next(input)?;
    expect(input, "]", FilterFault::NoListEnd)?;
    Ok(values)
}

fn integer(input: &mut Input<'_>) -> Parsed<i64> {
    let start = input.checkpoint();
    let digits = (opt('-'), take_while(1.., |c: char| c.is_ascii_digit())).take();
    let ends = not(one_of(|c: char| in_name(c) || c == '.'));
    let digits: Option<&str> = opt((digits, ends).map(|(digits, ())| digits)).parse_next(input)?;
    let n = digits.and_then(|digits| digits.parse::<i64>().ok());
    match n.filter(|n| n.unsigned_abs() <= INTEGER_MAX.unsigned_abs()) {
        Some(n) => Ok(n),
        None => {
            input.reset(&start);
            failed(input, FilterFault::NoInteger)
        }
    }
}

/// A text in double quotes, with the escapes of RFC 8259 section 7, normalised as listings' texts are.
fn text(input: &mut Input<'_>) -> Parsed<String> {
    let opening = input.eof_offset();
    '"'.parse_next(input)?;
    let mut text = String::new();
    loop {
        let plain: &str = take_while(0.., |c: char| c != '"' && c != '\\').parse_next(input)?;
        text.push_str(plain);
        let escape = input.eof_offset();
        match opt(any).parse_next(input)? {
            Some('"') => return Ok(text.nfc().collect()),
            Some(_backslash) => match opt(escaped).parse_next(input)?.flatten() {
                Some(c) => text.push(c),
                None => return Err(ErrMode::Cut(Failure { left: escape, fault: FilterFault::NoEscape })),
            },
            None => return Err(ErrMode::Cut(Failure { left: opening, fault: FilterFault::NoTextEnd })),
        }
    }
}

/// What stands behind a backslash; `None` where JSON knows no such escape.
fn escaped(input: &mut Input<'_>) -> Parsed<Option<char>> {
    Ok(match any.parse_next(input)? {
        c @ ('"' | '\\' | '/') => Some(c),
        'b' => Some('\u{8}'),
        'f' => Some('\u{c}'),
        'n' => Some('\n'),
        'r' => Some('\r'),
        't' => Some('\t'),
        'u' => {
            let first = code_unit(input)?;
            // The second half of a pair is an escape of its own.
            let is_first_half = (0xD800..0xDC00).contains(&first);
            let second = if is_first_half { Some(preceded("\\u", code_unit).parse_next(input)?) } else { None };
            char::decode_utf16([first].into_iter().chain(second)).next().and_then(Result::ok)
        }
        _ => None,
    })
}

fn code_unit(input: &mut Input<'_>) -> Parsed<u16> {
    let digits = take(4_usize).verify(|digits: &str| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
    digits.verify_map(|digits| u16::from_str_radix(digits, 16).ok()).parse_next(input)
}

fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// A word that is not the beginning of a longer one.
fn word<'t>(wanted: &'static str) -> impl Parser<Input<'t>, &'t str, ErrMode<Failure>> {
    delimited(multispace0, wanted, not(one_of(in_name)))
}

fn symbol<'t>(wanted: &'static str) -> impl Parser<Input<'t>, &'t str, ErrMode<Failure>> {
    preceded(multispace0, wanted)
}

/// Whether this symbol comes next, which it still does afterwards.
fn is_next(input: &mut Input<'_>, wanted: &str) -> Parsed<bool> {
    multispace0.parse_next(input)?;
    Ok(input.input.starts_with(wanted))
}

/// What has to come next.
fn expect<'t>(
    input: &mut Input<'t>,
    wanted: impl Parser<Input<'t>, &'t str, ErrMode<Failure>>,
    fault: FilterFault,
) -> Parsed<()> {
    multispace0.parse_next(input)?;
    match opt(wanted).parse_next(input)? {
        Some(_) => Ok(()),
        None => failed(input, fault),
    }
}

/// A final failure at what comes next.
fn failed<T>(input: &mut Input<'_>, fault: FilterFault) -> Parsed<T> {
    multispace0.parse_next(input)?;
    Err(ErrMode::Cut(Failure { left: input.eof_offset(), fault }))
}
