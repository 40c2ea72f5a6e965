//! The language by examples.

use super::*;

#[track_caller]
fn hold(details: &Details, filters: &[&str]) {
    filters.iter().for_each(|filter| assert!(holds(filter, details), "{filter}"));
}

#[track_caller]
fn fail(details: &Details, filters: &[&str]) {
    filters.iter().for_each(|filter| assert!(!holds(filter, details), "{filter}"));
}

#[test]
fn every_field_can_be_asked_for() {
    let fields = [
        r#"name == "Friday \"night\" \\o/""#,
        r#"map == "dust""#,
        r#"mode == "ctf""#,
        r#"region == "eu-west""#,
        "players == 3",
        "max_players == 16",
        "password_required == false",
        r#"tags has "modded""#,
        "attributes.skill == 1200",
        "attributes.voice == true",
        r#"attributes.engine == "id/3""#,
        "attributes.game.build-id == -7",
        r#"attributes."skill \"level\"" == "high""#,
        r#"attributes has "skill \"level\"""#,
    ];
    hold(&arena(), &fields);
    fail(&plain(), &fields[..6]);
    fail(&plain(), &fields[7..]);
}

#[test]
fn comparisons() {
    hold(
        &arena(),
        &["players < max_players", "players <= 3", "3 >= players", "players != 4", "players = 3", "16>players"],
    );
    fail(
        &arena(),
        &["players > max_players", "players < 3", "players>=4", "players != 3", "players = 4", "players <-1"],
    );
    hold(&arena(), &[r#"map < "dusty""#, r#"map >= "dust""#, r#"map > "Zebra""#, r#"name < mode"#]);
    hold(&arena(), &["attributes.voice != password_required", "attributes.skill <= 9007199254740991", "2 > 1"]);
    fail(&arena(), &["false < true", "attributes.voice >= password_required", "false <= false"]);
}

#[test]
fn lists_tags_and_truths() {
    hold(
        &arena(),
        &[
            r#"region in ["eu-west","eu-north"]"#,
            r#"players in [ 1 , 3, "x", true ]"#,
            r#"attributes.skill in [1200]"#,
            r#""x" in ["x"]"#,
            "attributes.voice",
            "not password_required",
        ],
    );
    fail(
        &arena(),
        &[
            r#"region in ["eu-north"]"#,
            r#"players in ["3"]"#,
            "players in []",
            r#"tags has "Modded""#,
            r#"tags has "mod""#,
            r#"attributes has "ping""#,
            "password_required",
            "attributes.skill",
        ],
    );
}

#[test]
fn and_binds_closer_than_or_and_not_closest() {
    hold(&arena(), &["players == 3 or players == 4 and players == 5", "not players == 4 and players == 3"]);
    fail(&arena(), &["(players == 3 or players == 4) and players == 5", "not (players == 4 or players == 3)"]);
    hold(&arena(), &["not not players == 3", "not (not (players == 3))", "not not not players == 4"]);
    hold(&arena(), &["players==3 and(max_players==16)", "(players == 3)or(players == 4)", "\n players\t==\r3 "]);
    hold(&arena(), &[r#"players < max_players and region in ["eu-west","eu-north"] and tags has "modded""#]);
}

/// A term is false where there is nothing to compare, and `not` shows what would not be shown without it.
#[test]
fn what_is_absent_unknown_or_of_another_type_is_false() {
    let false_terms = [
        r#"mode == "ctf""#,
        r#"mode != "ctf""#,
        r#"mode < "ctf""#,
        r#"mode in ["ctf"]"#,
        "mode == map",
        "ping < 100",
        "ping != 100",
        "details.players == 0",
        "listing_id > \"\"",
        "players == \"0\"",
        "players != \"0\"",
        "players < \"1\"",
        "name == 1",
        "players == false",
        "players",
        "name",
        "mode",
        "tags == \"modded\"",
        "tags in [\"modded\"]",
        "tags",
        "attributes",
        "attributes.skill < 5",
        "attributes.skill != 5",
        "name has \"plain\"",
        "attributes.skill has \"plain\"",
        "ping has \"plain\"",
    ];
    fail(&plain(), &false_terms);
    for term in false_terms {
        assert!(holds(&format!("not {term}"), &plain()), "not {term}");
        assert!(holds(&format!("not (players > 0 and {term})"), &plain()), "{term}");
    }
}

#[test]
fn texts_are_those_of_json_and_normalised_as_listings_are() {
    hold(&arena(), &[r#"tags has "caf\u00e9""#, "tags has \"cafe\u{301}\"", r#"tags has "cafe\u0301""#]);
    hold(&arena(), &[r#"attributes.engine == "id\/3""#, r#"name > "\b\f\n\r\t""#, r#""\ud83d\ude00" == "😀""#]);
    let accented = DetailsInput {
        name: "x".into(),
        attributes: vec![("n\u{e9}".into(), AttributeValue::Integer(1))],
        ..DetailsInput::default()
    };
    let accented = Details::new(accented).expect("valid details");
    hold(&accented, &["attributes.\"ne\u{301}\" == 1", "attributes has \"ne\u{301}\""]);
}

#[test]
fn reserved_words_are_whole_words() {
    fail(&arena(), &["order", "android", "nothing", "inside == 1", "hash == 2", "trueish", "falsehood == false"]);
    hold(&arena(), &["not order and not nothing", "true == true", "not true == false"]);
    fail(&plain(), &["attributes.and == 1", "attributes.not"]);
}
