use super::*;
use proptest::prelude::*;

/// Reads `text` by the parser that fits it; what simd-json makes of it must be the same.
fn read<T: PartialEq + std::fmt::Debug>(
    text: &[u8],
    read: impl Fn(&mut Members<'_>) -> Result<T, FieldError>,
) -> Result<T, FieldError> {
    let whole = |document: &Document<'_>| read(&mut document.members()?);
    let result = Document::read(&mut text.to_vec(), whole);
    let by_simd = Document::parse(&mut text.to_vec()).and_then(|document| whole(&document));
    assert_eq!(result, by_simd, "{}", String::from_utf8_lossy(text));
    result
}

fn parse(text: impl AsRef<[u8]>) -> Result<(), FieldError> {
    read(text.as_ref(), |_| Ok(()))
}

fn pointer_of(text: &str) -> String {
    parse(text).expect_err(text).pointer
}

#[test]
fn case_i7_duplicates_are_refused_everywhere() {
    assert_eq!(pointer_of(r#"{"a":1,"b":2,"a":1}"#), "/a");
    assert_eq!(pointer_of(r#"{"x":{"unknown":[{"a~/b":1,"\u0061~/b":2}]}}"#), "/x/unknown/0/a~0~1b");
    assert!(parse(r#"{"a":{"a":1},"b":{"a":1}}"#).is_ok());
}

#[test]
fn integers_have_one_spelling() {
    let integer =
        |spelling: &str| read(format!(r#"{{"n":{spelling}}}"#).as_bytes(), |m| m.required("n")?.unsigned(1 << 52));
    assert_eq!(integer("5"), Ok(5));
    for other in
        ["5.0", "5e0", "\"5\"", "-1", "0.5", "1e999", "18446744073709551616", "null", "true", "[5]", "05", "+5"]
    {
        assert!(integer(other).is_err(), "{other}");
    }
    let signed = |spelling: &str| read(format!(r#"{{"n":{spelling}}}"#).as_bytes(), |m| m.required("n")?.integer());
    assert_eq!(signed("-9007199254740993"), Ok(-9_007_199_254_740_993), "exact, not rounded to a double");
    assert_eq!(signed("9223372036854775807"), Ok(i64::MAX));
    assert!(signed("9223372036854775808").is_err());
}

#[test]
fn case_b5_nul_and_lone_surrogates_are_refused() {
    assert_eq!(pointer_of(r#"{"a":["x","\u0000"]}"#), "/a/1");
    assert_eq!(pointer_of(r#"{"a":{"\u0000":1}}"#), "/a");
    for lone in [r#""\ud800""#, r#""\udc00""#, r#""\ud800x""#, r#""\ud800\ud800""#, r#""\ud800A""#] {
        assert_eq!(pointer_of(&format!(r#"{{"a":{lone}}}"#)), "", "{lone}");
    }
    assert_eq!(read(br#"{"a":"\ud83d\ude00"}"#, |m| Ok(m.required("a")?.text()?.to_owned())), Ok("\u{1F600}".into()));
}

#[test]
fn case_h6_hostile_bodies_are_refused_not_fatal() {
    let deep = |open: &str, close: &str, n: usize| format!("{{\"x\":{}1{}}}", open.repeat(n), close.repeat(n));
    pointer_of(&deep("[", "]", 100_000));
    pointer_of(&deep("{\"a\":", "}", 100_000));
    pointer_of(&"[".repeat(100_000));
    pointer_of(&"{\"a\":".repeat(20_000));
    pointer_of(&format!("{{\"a\":\"{}", "x".repeat(16_000)));
    pointer_of(&"\\".repeat(65_536));
    pointer_of(&format!("{{\"a\":\"{}\"}}", "\\".repeat(16_383)));
    for bytes in
        [&b"{\"a\":\"\xff\"}"[..], b"\xef\xbb\xbf{}", b"", b" ", b"\0", b"{", b"nul", b"{\"a\":\"\x01\"}", b"{} {}"]
    {
        assert!(parse(bytes).is_err(), "{bytes:?}");
    }
    assert!(parse("[]").is_err());
    for length in (0..5).chain(28..36).chain(60..68).chain(124..132) {
        let text = format!(r#"{{"a":"{}"}}"#, "x".repeat(length));
        assert_eq!(read(text.as_bytes(), |m| Ok(m.required("a")?.text()?.len())), Ok(length));
        for cut in 0..text.len() {
            assert!(parse(&text[..cut]).is_err(), "{length} {cut}");
        }
    }
}

#[test]
fn nesting_is_refused_one_level_past_the_bound() {
    let nested = |levels: usize| format!("{}{}", "{\"a\":".repeat(levels - 1) + "{", "}".repeat(levels));
    assert!(parse(nested(DEPTH_MAX)).is_ok());
    assert!(parse(nested(DEPTH_MAX + 1)).is_err());
}

#[test]
fn unknown_members_are_named_and_null_is_not_absent() {
    let finish = |text: &str| {
        let first_unread = |document: &Document<'_>| {
            let mut members = document.members()?;
            members.optional("known");
            members.finish()
        };
        Document::read(&mut text.as_bytes().to_vec(), first_unread).unwrap_err().pointer
    };
    assert_eq!(finish(r#"{"known":1,"a/b":2}"#), "/a~1b");
    let null = read(br#"{"n":null}"#, |m| m.optional("n").map(|field| field.text().map(str::to_owned)).transpose());
    assert_eq!(null.unwrap_err().pointer, "/n");
}

/// JSON as bodies have it and as they should not: names that repeat, numbers of every spelling, escapes, depth.
fn json() -> impl Strategy<Value = String> {
    let scalar = prop::sample::select(vec![
        "null",
        "true",
        "false",
        "0",
        "-0",
        "-0.0",
        "7",
        "-7",
        "007",
        "1.5",
        "1e3",
        "1E400",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "-9223372036854775809",
        "18446744073709551615",
        "18446744073709551616",
        "\"\"",
        "\"a\"",
        "\"\u{e9}\u{1F600}\"",
        "\"\\n\"",
        "\"\\u0000\"",
        "\"\\ud800\"",
        "nul",
        "+1",
        "\"\t\"",
        "[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]",
        "[[[[[[[[[[[[[[]]]]]]]]]]]]]]",
    ]);
    let name = prop::sample::select(vec!["ttl_ms", "details", "a", "b", "", "a/b"]);
    let gap = prop::sample::select(vec!["", " ", "\n\t", "\r"]);
    let scalar = scalar.prop_map(str::to_owned);
    scalar.prop_recursive(3, 12, 4, move |inside| {
        let member = (name.clone(), gap.clone(), inside.clone())
            .prop_map(|(name, gap, value)| format!("\"{name}\"{gap}:{value}"));
        prop_oneof![
            prop::collection::vec(inside, 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            (prop::collection::vec(member, 0..4), gap.clone())
                .prop_map(|(members, gap)| format!("{{{}}}", members.join(&format!("{gap},")))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn both_parsers_accept_and_refuse_the_same(
        text in json(),
        change in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
        pad in 0..20_usize,
    ) {
        let mut body = text.into_bytes();
        if let Some((place, byte)) = change {
            let place = place.index(body.len());
            body[place] = byte;
        }
        // Around the length at which the parser changes.
        body.extend(std::iter::repeat_n(b' ', pad));
        let _ = read(&body, |members| members.optional("ttl_ms").map(|field| field.unsigned(1 << 53)).transpose());
        if let Some(short) = short::tape(&body) {
            let mut body = body.clone();
            let long = BUFFERS.with_borrow_mut(|buffers| simd_json::to_tape_with_buffers(&mut body, buffers));
            prop_assert_eq!(format!("{:?}", short), format!("{:?}", long.map(|tape| tape.0).unwrap_or_default()));
        }
    }
}

#[test]
fn what_clients_send_often_takes_the_short_way_and_what_is_doubtful_does_not() {
    for plain in [r#"{"ttl_ms":60000}"#, r#"{"path":"direct"}"#, r#"{"admit":true}"#, "{}", r#"{"a":[null,true,-1]}"#] {
        assert!(short::tape(plain.as_bytes()).is_some(), "{plain}");
    }
    for doubtful in ["", "{", r#"{"a":-0}"#, r#"{"a":1.0}"#, r#"{"a":"\n"}"#, r#"{"a":18446744073709551616}"#, "{} x"] {
        assert!(short::tape(doubtful.as_bytes()).is_none(), "{doubtful}");
    }
    assert!(short::tape(&[b"{}".as_slice(), &[b' '; short::SHORT_BYTES_MAX - 2]].concat()).is_some());
    assert!(short::tape(&[b"{}".as_slice(), &[b' '; short::SHORT_BYTES_MAX - 1]].concat()).is_none());
}
