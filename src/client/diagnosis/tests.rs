//! Each kind of network as a row: what was seen, what it is called, and what it means for a join.

use super::*;
use crate::client::core::Reply;
use crate::domain::InstanceId;
use std::net::SocketAddr;
use std::time::Duration;

const LOCAL: &str = "10.0.0.2:50000";
const LOCAL6: &str = "[2001:db8::2]:50000";
/// Two ports of one address, and the same of another one.
const A1: &str = "203.0.113.10:3478";
const A2: &str = "203.0.113.10:3479";
const B1: &str = "203.0.113.11:3478";
const B2: &str = "203.0.113.11:3479";
const A6: &str = "[2001:db8:113::10]:3478";

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn answer(server: &str, local: &str, reply: Reply, report: Option<Report>) -> AnswerSeen {
    AnswerSeen { server: address(server), local: address(local), reply, report }
}

/// A family in which each of these addresses saw that one.
fn sees(local: &str, seen: &[(&str, &str)]) -> FamilySeen {
    let mapped = |text: &str| Reply::Mapped { mapped: address(text), round_trip_us: 23_000 };
    let answers = seen.iter().map(|(server, outside)| answer(server, local, mapped(outside), None)).collect();
    FamilySeen::Asked(Asked { answers, hairpin: None })
}

fn silent(servers: &[&str], report: Option<Report>) -> FamilySeen {
    let answers = servers.iter().map(|server| answer(server, LOCAL, Reply::Silent, report.clone())).collect();
    FamilySeen::Asked(Asked { answers, hairpin: None })
}

fn answering(takes_new: TakesNew) -> ServerSeen {
    ServerSeen::Answers { took_us: 3_100, instance: Some(InstanceId(7)), takes_new }
}

fn failure() -> Failure {
    Failure { message: "it happened".into(), advice: "do this".into() }
}

fn observations(v4: FamilySeen, v6: FamilySeen) -> Observations {
    Observations {
        server: answering(TakesNew::Yes),
        clock: Some(ClockSeen { ahead_ms: 0, error_ms: 500 }),
        addresses: AddressesSeen::Named(vec!["stun:203.0.113.10:3478".into()]),
        v4,
        v6,
        silence: None,
    }
}

fn found(diagnosis: &Diagnosis, topic: Topic, family: Option<Family>) -> &Check {
    let found = diagnosis.checks.iter().find(|check| check.topic == topic && check.family == family);
    found.unwrap_or_else(|| panic!("no {topic:?} of {family:?}"))
}

#[test]
fn mappings_are_told_apart_as_far_as_the_asked_addresses_allow() {
    use Grade::{Bad, Good, Unknown};
    const OUTSIDE: [&str; 4] = ["198.51.100.7:50000", "198.51.100.7:61001", "198.51.100.7:61002", "198.51.100.7:61003"];
    const KEPT: &str = OUTSIDE[0];
    const X: &str = OUTSIDE[1];
    const Y: &str = OUTSIDE[2];
    const Z: &str = OUTSIDE[3];
    type Row = (&'static str, &'static [(&'static str, &'static str)], &'static str, &'static str, Grade, Outlook);
    let rows: [Row; 13] = [
        ("nothing is changed", &[(A1, LOCAL), (A2, LOCAL)], "none", "no_nat", Good, Outlook::Direct),
        ("nothing, one address", &[(A1, LOCAL)], "none", "no_nat", Good, Outlook::Direct),
        ("port kept, two ports", &[(A1, KEPT), (A2, KEPT)], "port_kept", "same_for_ports", Good, Outlook::Direct),
        ("port changed, two ports", &[(A1, X), (A2, X)], "port_changed", "same_for_ports", Good, Outlook::Direct),
        ("two addresses", &[(A1, X), (B1, X)], "port_changed", "endpoint_independent", Good, Outlook::Direct),
        (
            "all four",
            &[(A1, X), (A2, X), (B1, X), (B2, X)],
            "port_changed",
            "endpoint_independent",
            Good,
            Outlook::Direct,
        ),
        ("only one", &[(A1, X)], "port_changed", "one_address", Unknown, Outlook::Direct),
        ("each port", &[(A1, X), (A2, Y)], "port_changed", "by_port", Bad, Outlook::Relay),
        ("each of four", &[(A1, X), (A2, Y), (B1, Z), (B2, KEPT)], "port_changed", "by_port", Bad, Outlook::Relay),
        ("kept at first", &[(A1, KEPT), (A2, Y)], "port_changed", "by_port", Bad, Outlook::Relay),
        ("each address", &[(A1, X), (A2, X), (B1, Y), (B2, Y)], "port_changed", "by_address", Bad, Outlook::Relay),
        ("two of each", &[(A1, X), (B1, Y)], "port_changed", "by_destination", Bad, Outlook::Relay),
        (
            "another address outside",
            &[(A1, X), (A2, "198.51.100.8:61001")],
            "port_changed",
            "by_port",
            Bad,
            Outlook::Relay,
        ),
    ];
    for (name, seen, nat, mapping, grade, outlook) in rows {
        let diagnosis = judge(&observations(sees(LOCAL, seen), FamilySeen::NotOffered));
        let finding = |topic| found(&diagnosis, topic, Some(Family::V4)).finding;
        assert_eq!((finding(Topic::Nat), finding(Topic::Mapping)), (nat, mapping), "{name}");
        let check = found(&diagnosis, Topic::Mapping, Some(Family::V4));
        assert_eq!((check.grade, diagnosis.outlook), (grade, outlook), "{name}: {check:?}");
        assert_eq!(check.advice.is_some(), grade == Bad, "{name}");
        assert_eq!(finding(Topic::Filtering), "unknown", "one server never can tell");
    }
}

#[test]
fn a_machine_in_two_networks_is_not_taken_for_one_behind_a_nat() {
    let tell = |near: &str, far: &[(&str, &str)]| {
        let FamilySeen::Asked(mut asked) = sees(LOCAL, far) else { unreachable!() };
        let other = "192.168.7.2:50000";
        let mapped = Reply::Mapped { mapped: address(near), round_trip_us: 900 };
        asked.answers.push(answer("192.168.7.1:3478", other, mapped, None));
        let diagnosis = judge(&observations(FamilySeen::Asked(asked), FamilySeen::NotOffered));
        let finding = |topic| found(&diagnosis, topic, Some(Family::V4)).finding;
        (finding(Topic::Nat), finding(Topic::Mapping), diagnosis.outlook)
    };
    let near = "192.168.7.2:50000";
    assert_eq!(tell(near, &[(A1, LOCAL)]), ("none", "no_nat", Outlook::Direct));
    let (x, y) = ("198.51.100.7:61001", "198.51.100.7:61002");
    assert_eq!(tell(near, &[(A1, x)]), ("port_changed", "one_address", Outlook::Direct));
    assert_eq!(tell(near, &[(A1, x), (B1, x)]), ("port_changed", "endpoint_independent", Outlook::Direct));
    assert_eq!(tell(near, &[(A1, x), (A2, y)]), ("port_changed", "by_port", Outlook::Relay));
}

#[test]
fn the_better_family_decides_and_the_other_is_named() {
    let fine = || sees(LOCAL6, &[(A6, LOCAL6)]);
    let symmetric = || sees(LOCAL, &[(A1, "198.51.100.7:61001"), (A2, "198.51.100.7:61002")]);
    let no_route = || FamilySeen::NoRoute { cause: "Network is unreachable".into() };
    let rows = [
        (
            symmetric(),
            fine(),
            Outlook::Direct,
            "over IPv6, as far as one server can tell. Over IPv4 they mostly need a relay.",
        ),
        (silent(&[A1], None), fine(), Outlook::Direct, "Over IPv4 nothing gets through."),
        (sees(LOCAL, &[(A1, LOCAL)]), fine(), Outlook::Direct, "over IPv4 and IPv6,"),
        (symmetric(), no_route(), Outlook::Relay, "relay"),
        (symmetric(), silent(&[A6], None), Outlook::Relay, "relay"),
        (silent(&[A1, A2], None), FamilySeen::NotOffered, Outlook::NoUdp, "does not see"),
        (FamilySeen::NotOffered, no_route(), Outlook::NoUdp, "does not see"),
    ];
    for (v4, v6, outlook, words) in rows {
        let diagnosis = judge(&observations(v4, v6));
        assert_eq!(diagnosis.outlook, outlook, "{diagnosis:?}");
        assert!(diagnosis.summary.contains(words), "{}", diagnosis.summary);
    }
}

#[test]
fn udp_that_does_not_get_through_says_where_it_ends() {
    let udp = |v4: FamilySeen| {
        let diagnosis = judge(&observations(v4, FamilySeen::NotOffered));
        found(&diagnosis, Topic::Udp, Some(Family::V4)).clone()
    };
    let blocked = udp(silent(&[A1, A2], None));
    assert_eq!((blocked.finding, blocked.grade), ("blocked", Grade::Bad));
    assert!(blocked.seen.contains(A1) && blocked.seen.contains(A2), "{blocked:?}");
    assert!(blocked.advice.unwrap().contains("firewalls"));
    let closed = udp(silent(&[A1], Some(Report::Closed)));
    assert!(closed.finding == "blocked" && closed.advice.unwrap().contains("nobody listens"));
    let lost = udp(silent(&[A1], Some(Report::Undeliverable("Operation not permitted".into()))));
    assert!(lost.seen.contains("Operation not permitted") && lost.advice.unwrap().contains("firewalls"));
    let FamilySeen::Asked(mut asked) = sees(LOCAL, &[(A1, LOCAL)]) else { unreachable!() };
    asked.answers.push(answer(A2, LOCAL, Reply::Silent, None));
    let partly = udp(FamilySeen::Asked(asked));
    assert_eq!((partly.finding, partly.grade), ("partly_open", Grade::Note));
    assert!(partly.seen.contains("1 of 2") && partly.seen.contains(A2), "{partly:?}");
    let absent = udp(FamilySeen::NotAsked);
    assert_eq!((absent.finding, absent.grade), ("unknown", Grade::Unknown));
}

#[test]
fn a_challenge_alone_shows_that_udp_is_open_and_no_more() {
    let answers = vec![answer(A2, LOCAL, Reply::Challenged { round_trip_us: 900 }, None)];
    let asked = Asked { answers, hairpin: None };
    let diagnosis = judge(&observations(FamilySeen::Asked(asked), FamilySeen::NotOffered));
    let finding = |topic| found(&diagnosis, topic, Some(Family::V4)).finding;
    assert_eq!([Topic::Udp, Topic::Nat, Topic::Mapping].map(finding), ["open", "unknown", "unknown"]);
}

#[test]
fn packets_are_turned_around_or_not_or_that_was_not_tried() {
    let rows = [
        (LOCAL, None, "not_needed", Grade::Good),
        ("198.51.100.7:61001", Some(true), "works", Grade::Good),
        ("198.51.100.7:61001", Some(false), "does_not", Grade::Note),
        ("198.51.100.7:61001", None, "unknown", Grade::Unknown),
    ];
    for (outside, hairpin, finding, grade) in rows {
        let FamilySeen::Asked(asked) = sees(LOCAL, &[(A1, outside)]) else { unreachable!() };
        let v4 = FamilySeen::Asked(Asked { hairpin, ..asked });
        let diagnosis = judge(&observations(v4, FamilySeen::NotOffered));
        let check = found(&diagnosis, Topic::Hairpin, Some(Family::V4));
        assert_eq!((check.finding, check.grade), (finding, grade), "{outside} {hairpin:?}");
    }
}

#[test]
fn a_server_that_takes_nobody_is_told_from_one_that_is_not_there() {
    let fine = || sees(LOCAL, &[(A1, LOCAL)]);
    let draining = TakesNew::Draining { deadline: Some("2026-03-01T12:00:00.000Z".into()) };
    let rows = [
        (ServerSeen::Failed(failure()), AddressesSeen::NotAsked, "no_answer", Outlook::Unreachable),
        (answering(draining), AddressesSeen::NotAsked, "draining", Outlook::Refused),
        (
            answering(TakesNew::Unavailable { reason: "lost".into() }),
            AddressesSeen::NotAsked,
            "unavailable",
            Outlook::Refused,
        ),
        (answering(TakesNew::Yes), AddressesSeen::Refused(failure()), "ready", Outlook::Refused),
        (answering(TakesNew::Yes), AddressesSeen::Failed(failure()), "ready", Outlook::Unreachable),
        (answering(TakesNew::Yes), AddressesSeen::Named(vec![]), "ready", Outlook::NoUdp),
        (answering(TakesNew::Yes), AddressesSeen::Unresolved(vec!["stun:x".into()]), "ready", Outlook::NoUdp),
    ];
    for (server, addresses, finding, outlook) in rows {
        let v4 = FamilySeen::NotAsked;
        let diagnosis = judge(&Observations { server, addresses, ..observations(v4, FamilySeen::NotAsked) });
        assert_eq!((found(&diagnosis, Topic::Server, None).finding, diagnosis.outlook), (finding, outlook));
        assert_ne!(found(&diagnosis, Topic::Addresses, None).grade, Grade::Good);
    }
    let drained = Observations {
        server: answering(TakesNew::Draining { deadline: None }),
        addresses: AddressesSeen::Given(vec!["stun:203.0.113.10".into()]),
        ..observations(fine(), FamilySeen::NotOffered)
    };
    let diagnosis = judge(&drained);
    assert_eq!(diagnosis.outlook, Outlook::Refused, "whatever UDP does");
    assert_eq!(found(&diagnosis, Topic::Udp, Some(Family::V4)).finding, "open", "and UDP was looked at");
}

#[test]
fn a_clock_is_off_when_it_is_surely_more_than_a_minute_wrong() {
    let rows = [
        (0, 510, "right", "the same"),
        (-400, 510, "right", "the same"),
        (4_000, 510, "right", "4 s ahead of"),
        (60_400, 510, "right", "1 min 1 s ahead of"),
        (-60_511, 510, "off", "1 min 1 s behind"),
        (125_000, 510, "off", "2 min 5 s ahead of"),
        (-7_260_000, 510, "off", "2 h 1 min behind"),
        (90_000_000, 510, "off", "1 days 1 h ahead of"),
    ];
    for (ahead_ms, error_ms, finding, words) in rows {
        let clock = Some(ClockSeen { ahead_ms, error_ms });
        let diagnosis = judge(&Observations { clock, ..observations(FamilySeen::NotOffered, FamilySeen::NotOffered) });
        let check = found(&diagnosis, Topic::Clock, None);
        assert_eq!((check.finding, check.advice.is_some()), (finding, finding == "off"), "{check:?}");
        assert!(check.seen.contains(words), "{check:?}");
    }
    let none = Observations { clock: None, ..observations(FamilySeen::NotOffered, FamilySeen::NotOffered) };
    assert_eq!(found(&judge(&none), Topic::Clock, None).finding, "unknown");
}

#[test]
fn a_date_of_whole_seconds_leaves_half_a_second_and_the_way() {
    let date_ms = 1_000_000_000_000;
    let seen = |before: u64, after: u64| ClockSeen::new(before, after, date_ms);
    // Both clocks right: whenever in that second it was, the truth lies within the error.
    for at in [0, 400, 999] {
        let ClockSeen { ahead_ms, error_ms } = seen(date_ms + at, date_ms + at + 40);
        assert!(ahead_ms.unsigned_abs() <= error_ms && error_ms <= 520, "{at}: {ahead_ms} +- {error_ms}");
    }
    let ClockSeen { ahead_ms, error_ms } = seen(date_ms + 90_000, date_ms + 90_000);
    assert!(ahead_ms.abs_diff(90_000) <= error_ms);
    let ClockSeen { ahead_ms, .. } = seen(date_ms - 90_000, date_ms - 90_000);
    assert!(ahead_ms < -89_000);
}

#[test]
fn what_came_of_a_silence_is_told() {
    let rows = [
        (SilenceEnd::LetIn, "let_in", Grade::Good),
        (SilenceEnd::Moved, "moved", Grade::Bad),
        (SilenceEnd::ShutOut, "shut_out", Grade::Bad),
        (SilenceEnd::Forgotten { after: Duration::from_secs(65) }, "unknown", Grade::Unknown),
        (SilenceEnd::Failed(failure()), "unknown", Grade::Unknown),
    ];
    for (end, finding, grade) in rows {
        let silence = Some(SilenceSeen { family: Family::V4, lasted: Duration::from_secs(30), end });
        let v4 = sees(LOCAL, &[(A1, LOCAL)]);
        let diagnosis = judge(&Observations { silence, ..observations(v4, FamilySeen::NotOffered) });
        let check = found(&diagnosis, Topic::Silence, Some(Family::V4));
        assert_eq!((check.finding, check.grade), (finding, grade));
        assert_eq!(check.advice.is_some(), grade != Grade::Good);
    }
}
