//! One family: whether UDP gets through, and what happens to addresses on the way.
//!
//! The words are those of RFC 4787. A mapping is what a NAT makes of a socket's address; a way can be punched when every
//! destination sees the same one, for then the address that the server saw is also the one that a peer has to send to.

use super::{AnswerSeen, Asked, Check, FamilySeen, Grade, Report, Topic, milliseconds, name};
use crate::client::core::Reply;
use crate::domain::Family;
use std::net::SocketAddr;

/// What a family is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// As far as can be told, it can be punched.
    Direct,
    /// Each destination sees another address.
    Relay,
    /// The server has addresses of it, and nothing comes back.
    Blocked,
    /// One of the two sides doesn't have it.
    Absent,
}

/// What one socket looks like from the addresses that told.
struct View {
    seen: Vec<Seen>,
    hairpin: Option<bool>,
}

/// One answer that told.
#[derive(Clone, Copy)]
struct Seen {
    server: SocketAddr,
    /// The socket's own address on the way there.
    local: SocketAddr,
    /// What the server saw.
    mapped: SocketAddr,
}

/// How the mapping depends on who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mapping {
    /// There is none.
    NoNat,
    /// Two addresses at least saw the same.
    Endpoint,
    /// Two ports of one address saw the same.
    Ports,
    /// Only one told.
    One,
    /// The same for the ports of an address, another for another address.
    ByAddress,
    /// Another for another port of the same address.
    ByPort,
    /// Two addresses saw two, and no two ports of one address were asked.
    ByEither,
}

/// The checks of a family, and what it is good for.
pub(super) fn judge(family: Family, seen: &FamilySeen) -> (Vec<Check>, Way) {
    let family_name = name(family);
    let alone = |grade, finding, seen: String, advice: Option<&str>| {
        let check = check(family, Topic::Udp, grade, finding, "an answer from each address", seen);
        vec![Check { advice: advice.map(str::to_owned), ..check }]
    };
    match seen {
        FamilySeen::NotAsked => {
            (alone(Grade::Unknown, "unknown", "not tried: no address is known".to_owned(), None), Way::Absent)
        }
        FamilySeen::NotOffered => {
            let seen = format!("the server has no {family_name} address");
            (alone(Grade::Note, "not_offered", seen, None), Way::Absent)
        }
        FamilySeen::NoRoute { cause } => {
            let seen = format!("this machine has no {family_name}: {cause}");
            let advice =
                "nothing, as long as the other side has the other family too: two that meet need one in common";
            (alone(Grade::Note, "no_route", seen, Some(advice)), Way::Absent)
        }
        FamilySeen::Asked(asked) => judge_asked(family, asked),
    }
}

fn judge_asked(family: Family, asked: &Asked) -> (Vec<Check>, Way) {
    let (udp, is_open) = udp(family, asked);
    let mut checks = vec![udp];
    if !is_open {
        return (checks, Way::Blocked);
    }
    let view = View { seen: asked.answers.iter().filter_map(Seen::of).collect(), hairpin: asked.hairpin };
    let mapping = view.mapping();
    checks.extend([nat(family, &view), mapping_check(family, &view, mapping), filtering(family, mapping)]);
    checks.push(hairpin(family, &view, mapping));
    let way = match mapping {
        // One that could not be told apart is not a reason to send anybody away.
        None | Some(Mapping::NoNat | Mapping::Endpoint | Mapping::Ports | Mapping::One) => Way::Direct,
        Some(Mapping::ByAddress | Mapping::ByPort | Mapping::ByEither) => Way::Relay,
    };
    (checks, way)
}

fn check(family: Family, topic: Topic, grade: Grade, finding: &'static str, expected: &str, seen: String) -> Check {
    let expected = expected.to_owned();
    Check { topic, family: Some(family), grade, finding, expected, seen, advice: None }
}

fn udp(family: Family, asked: &Asked) -> (Check, bool) {
    let check = |grade, finding, seen| check(family, Topic::Udp, grade, finding, "an answer from each address", seen);
    let answers = &asked.answers;
    let times: Vec<u64> = answers
        .iter()
        .filter_map(|answer| match answer.reply {
            Reply::Silent => None,
            Reply::Challenged { round_trip_us } | Reply::Mapped { round_trip_us, .. } => Some(round_trip_us),
        })
        .collect();
    let silent: Vec<String> = answers
        .iter()
        .filter(|answer| answer.reply == Reply::Silent)
        .map(|answer| match &answer.report {
            Some(Report::Closed) => format!("{} (closed there)", answer.server),
            Some(Report::Undeliverable(words)) => format!("{} ({words})", answer.server),
            None => answer.server.to_string(),
        })
        .collect();
    let Some(fastest) = times.iter().min().copied().map(milliseconds) else {
        let is_closed = !answers.is_empty() && answers.iter().all(|answer| answer.report == Some(Report::Closed));
        let seen = format!("blocked: no answer from {}", silent.join(", "));
        let advice = if is_closed {
            "the way is open and nobody listens at its end: tell the server's operator that its UDP is down, or its address wrong"
        } else {
            "let UDP out to these addresses in the firewalls of this machine and of its network, or try another network; \
             if nobody gets through, the server's operator has to open its UDP ports"
        };
        return (Check { advice: Some(advice.to_owned()), ..check(Grade::Bad, "blocked", seen) }, false);
    };
    let count = format!("{} of {} answer, the fastest in {fastest}", times.len(), answers.len());
    if silent.is_empty() {
        return (check(Grade::Good, "open", count), true);
    }
    let seen = format!("{count}; nothing from {}", silent.join(", "));
    let advice = "hosting and joining work by those that answer; the server's operator should look at the others";
    (Check { advice: Some(advice.to_owned()), ..check(Grade::Note, "partly_open", seen) }, true)
}

impl Seen {
    fn of(answer: &AnswerSeen) -> Option<Self> {
        let Reply::Mapped { mapped, .. } = answer.reply else { return None };
        Some(Self { server: answer.server, local: answer.local, mapped })
    }

    fn is_unchanged(self) -> bool {
        self.mapped == self.local
    }
}

impl View {
    /// `None` when nobody told what it saw.
    fn mapping(&self) -> Option<Mapping> {
        self.seen.first()?;
        if self.seen.iter().all(|seen| seen.is_unchanged()) {
            return Some(Mapping::NoNat);
        }
        // Only what left by one address of this machine can be compared: another one is another way.
        let pairs = || {
            let all = self.seen.iter().enumerate();
            let each = all.flat_map(|(n, a)| self.seen[n + 1..].iter().map(move |b| (a, b)));
            each.filter(|(a, b)| a.local == b.local)
        };
        let same_host = |(a, b): (&Seen, &Seen)| a.server.ip() == b.server.ip();
        let differs = |(a, b): (&Seen, &Seen)| a.mapped != b.mapped;
        let has_ports = pairs().any(same_host);
        Some(match (pairs().any(differs), has_ports, pairs().any(|pair| !same_host(pair))) {
            (false, _, true) => Mapping::Endpoint,
            (false, true, false) => Mapping::Ports,
            (false, false, false) => Mapping::One,
            (true, _, _) if pairs().any(|pair| same_host(pair) && differs(pair)) => Mapping::ByPort,
            (true, true, _) => Mapping::ByAddress,
            (true, false, _) => Mapping::ByEither,
        })
    }

    /// What each of them saw, in words.
    fn list(&self) -> String {
        let each: Vec<_> = self.seen.iter().map(|seen| format!("{} sees {}", seen.server, seen.mapped)).collect();
        each.join(", ")
    }
}

fn nat(family: Family, view: &View) -> Check {
    let check =
        |grade, finding, seen| check(family, Topic::Nat, grade, finding, "none, or one that can be punched", seen);
    // The first that is changed tells the most.
    let Some(Seen { local, mapped, .. }) = view.seen.iter().find(|seen| !seen.is_unchanged()).or(view.seen.first())
    else {
        return check(Grade::Unknown, "unknown", "nobody told how it sees this side".to_owned());
    };
    let keeps_port = view.seen.iter().all(|seen| seen.mapped.port() == seen.local.port());
    if mapped == local {
        check(Grade::Good, "none", format!("none: the server sees {local}, this machine's own address"))
    } else if mapped.ip() == local.ip() {
        let seen = format!("the server sees {mapped} for {local}: this machine's own address, another port");
        check(Grade::Note, "port_changed", seen)
    } else if keeps_port {
        check(Grade::Good, "port_kept", format!("the server sees {mapped} for {local}: a NAT, which keeps the port"))
    } else {
        let seen = format!("the server sees {mapped} for {local}: a NAT, which changes the port");
        check(Grade::Good, "port_changed", seen)
    }
}

fn mapping_check(family: Family, view: &View, mapping: Option<Mapping>) -> Check {
    let expected = "one address outside, whoever is asked";
    let (grade, finding, seen) = match mapping {
        None => (Grade::Unknown, "unknown", "nobody told how it sees this side".to_owned()),
        Some(Mapping::NoNat) => (Grade::Good, "no_nat", format!("nothing is mapped: {}", counted(view))),
        Some(Mapping::Endpoint) => (Grade::Good, "endpoint_independent", format!("the same: {}", counted(view))),
        Some(Mapping::Ports) => {
            let seen = format!(
                "the same for {} ports of one address; whether another address sees another one, this server can't tell",
                view.seen.len()
            );
            (Grade::Good, "same_for_ports", seen)
        }
        Some(Mapping::One) => {
            (Grade::Unknown, "one_address", "one address and port alone can't tell: it takes two to compare".to_owned())
        }
        Some(Mapping::ByAddress) => (Grade::Bad, "by_address", format!("another for each address: {}", view.list())),
        Some(Mapping::ByPort) => {
            (Grade::Bad, "by_port", format!("symmetric, another for each destination: {}", view.list()))
        }
        Some(Mapping::ByEither) => (Grade::Bad, "by_destination", format!("depends on who is asked: {}", view.list())),
    };
    let advice = (grade == Grade::Bad).then(|| {
        "joins will need a relay, unless the other side lets everybody in: use IPv6 on both sides, another network, or, \
         to host, a UDP port that the router forwards; or ask the server's operator for a TURN relay"
            .to_owned()
    });
    Check { advice, ..check(family, Topic::Mapping, grade, finding, expected, seen) }
}

/// How many told.
fn counted(view: &View) -> String {
    match view.seen.len() {
        1 => "1 address told".to_owned(),
        told => format!("{told} addresses and ports told"),
    }
}

fn filtering(family: Family, mapping: Option<Mapping>) -> Check {
    let expected = "lets in who was sent to";
    let seen = if mapping == Some(Mapping::NoNat) {
        "a firewall lets answers in; whether also others, one server can't tell, for it answers only from where it was asked"
    } else {
        "answers are let in; whether also others, one server can't tell, for it answers only from where it was asked"
    };
    check(family, Topic::Filtering, Grade::Unknown, "unknown", expected, seen.to_owned())
}

fn hairpin(family: Family, view: &View, mapping: Option<Mapping>) -> Check {
    let expected = "two behind one NAT reach each other";
    let check = |grade, finding, seen: &str| check(family, Topic::Hairpin, grade, finding, expected, seen.to_owned());
    match (mapping, view.hairpin) {
        (Some(Mapping::NoNat), _) => check(Grade::Good, "not_needed", "no NAT, nothing to turn around"),
        (_, Some(true)) => check(Grade::Good, "works", "two sockets of this machine did"),
        (_, Some(false)) => {
            let advice = "two in this very network meet by their private addresses, which `host` and `join` declare; \
                          two networks behind one NAT need a relay";
            let no = check(Grade::Note, "does_not", "two sockets of this machine did not");
            Check { advice: Some(advice.to_owned()), ..no }
        }
        (_, None) => check(Grade::Unknown, "unknown", "not tried: it takes two addresses outside"),
    }
}
