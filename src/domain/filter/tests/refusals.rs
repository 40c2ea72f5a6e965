//! What is no filter, and where it stops being one.

use super::FilterFault::*;
use super::*;

#[track_caller]
fn refused(text: &str) -> (usize, FilterFault) {
    let error = Filter::parse(text).expect_err(text);
    assert!((1..=text.chars().count() + 1).contains(&error.position), "{text}: {error:?}");
    (error.position, error.fault)
}

#[test]
fn a_refusal_says_what_was_expected_where() {
    let refusals = [
        ("", 1, NoOperand),
        ("   ", 4, NoOperand),
        ("players <", 10, NoOperand),
        ("players < ", 11, NoOperand),
        ("players < and", 11, NoOperand),
        ("players <> 3", 10, NoOperand),
        ("players == 3 and", 17, NoOperand),
        ("players == 3 && name", 14, NoEnd),
        ("players == 3 AND name", 14, NoEnd),
        ("players == 3 players", 14, NoEnd),
        ("0 < players < 5", 13, NoEnd),
        ("players + 1 < 5", 9, NoEnd),
        ("players == 3)", 13, NoEnd),
        ("(players == 3", 14, NoParenthesis),
        ("(players == 3 players", 15, NoParenthesis),
        ("()", 2, NoOperand),
        ("not", 4, NoOperand),
        ("!password_required", 1, NoOperand),
        ("'x' == name", 1, NoOperand),
        ("name == 'x'", 9, NoOperand),
        ("in [1]", 1, NoOperand),
        ("1", 2, NoComparison),
        ("true", 5, NoComparison),
        ("\"modded\" has \"x\"", 10, NoComparison),
        ("region in \"eu\"", 11, NoList),
        ("region in [\"eu\" \"us\"]", 17, NoListEnd),
        ("region in [\"eu\"", 16, NoListEnd),
        ("region in [\"eu\",]", 17, NoValue),
        ("region in [mode]", 12, NoValue),
        ("region in [", 12, NoValue),
        ("tags has modded", 10, NoText),
        ("tags has 1", 10, NoText),
        ("tags has", 9, NoText),
        ("attributes. == 1", 13, NoKey),
        ("name == \"x", 9, NoTextEnd),
        ("name == \"\u{e9}\\\"", 9, NoTextEnd),
        (r#"name == "\x""#, 10, NoEscape),
        (r#"name == "\u12g4""#, 10, NoEscape),
        (r#"name == "\ud800""#, 10, NoEscape),
        (r#"name == "\ud800\u0041""#, 10, NoEscape),
        (r#"name == "\udc00""#, 10, NoEscape),
        (r#"name == "\u+041""#, 10, NoEscape),
        ("name == \"\\", 10, NoEscape),
        ("players < 1.5", 11, NoInteger),
        ("players < 1e3", 11, NoInteger),
        ("players < 0x1", 11, NoInteger),
        ("players < 3and name", 11, NoInteger),
        ("players < -", 11, NoInteger),
        ("players < +1", 11, NoOperand),
        ("players < 9007199254740992", 11, NoInteger),
        ("players > -9007199254740992", 11, NoInteger),
        ("players < 99999999999999999999", 11, NoInteger),
        ("\u{e9} == 1", 1, NoOperand),
        ("name == \"\u{1F600}\u{1F600}\" x", 14, NoEnd),
        ("players\0 < 1", 8, NoEnd),
    ];
    for (text, position, fault) in refusals {
        assert_eq!(refused(text), (position, fault), "{text}");
    }
}

#[test]
fn messages_are_sentences_that_repeat_nothing() {
    let message = |text: &str| Filter::parse(text).expect_err(text).to_string();
    assert_eq!(message("players < s3cret!"), "must end, or go on with `and` or `or`, at character 17");
    assert_eq!(message("players <"), "must have a field or a value at character 10");
    assert_eq!(message(&"x".repeat(513)), "must have at most 512 characters");
    assert_eq!(message(&["x"; 33].join(" or ")), "must have at most 32 terms; one more begins at character 161");
}

#[test]
fn a_filter_has_at_most_512_characters() {
    let of_length = |length: usize| format!("name == \"{}\"", "\u{e9}".repeat(length - 10));
    assert!(Filter::parse(&of_length(CHARACTERS_MAX)).is_ok());
    assert_eq!(refused(&of_length(CHARACTERS_MAX + 1)), (CHARACTERS_MAX + 1, TooLong));
    assert_eq!(refused(&"(".repeat(1 << 20)), (CHARACTERS_MAX + 1, TooLong));
}

#[test]
fn a_filter_has_at_most_32_terms() {
    let of_terms = |terms: usize| vec!["a<1"; terms].join(" or ");
    assert!(Filter::parse(&of_terms(TERMS_MAX)).is_ok());
    assert_eq!(refused(&of_terms(TERMS_MAX + 1)), (TERMS_MAX * 7 + 1, TooManyTerms));
    let nested = format!("({}) and (x)", of_terms(TERMS_MAX));
    assert_eq!(refused(&nested).1, TooManyTerms, "counted over all levels");
}

/// No stack is used up, whatever is sent.
#[test]
fn parentheses_nest_at_most_16_deep_and_other_things_not_at_all() {
    let nested = |levels: usize| format!("{}x{}", "(".repeat(levels), ")".repeat(levels));
    assert!(Filter::parse(&nested(NESTING_MAX)).is_ok());
    assert_eq!(refused(&nested(NESTING_MAX + 1)), (NESTING_MAX + 1, TooDeep));
    assert_eq!(refused(&"(".repeat(CHARACTERS_MAX)), (NESTING_MAX + 1, TooDeep));
    assert_eq!(refused(&"not(".repeat(128)), (NESTING_MAX * 4 + 4, TooDeep));
    let side_by_side = format!("{} or {}", nested(NESTING_MAX), nested(NESTING_MAX));
    assert!(Filter::parse(&side_by_side).is_ok(), "what is closed does not count");
    let negated = format!("{}password_required", "not ".repeat(123));
    assert!(holds(&negated, &plain()));
}
