//! From all observations to all checks, and to what they mean for a join.

use super::families::{self, Way};
use super::{
    AddressesSeen, Check, ClockSeen, Diagnosis, Failure, Grade, Observations, Outlook, ServerSeen, SilenceEnd,
    SilenceSeen, TakesNew, Topic, milliseconds, name,
};
use crate::domain::Family;

/// The server's patience with what a token says of its beginning; with its end it has none.
const CLOCK_OFF_MS: u64 = 60_000;

/// What the observations mean.
pub fn judge(seen: &Observations) -> Diagnosis {
    let mut checks = vec![server(&seen.server), clock(seen.clock), addresses(&seen.addresses)];
    let mut ways = Vec::new();
    for (family, family_seen) in [(Family::V4, &seen.v4), (Family::V6, &seen.v6)] {
        let (more, way) = families::judge(family, family_seen);
        checks.extend(more);
        ways.push((family, way));
    }
    checks.extend(seen.silence.as_ref().map(silence));
    let outlook = outlook(seen, &ways);
    Diagnosis { checks, outlook, summary: summary(outlook, &ways) }
}

/// A check that concerns no family.
fn check(topic: Topic, grade: Grade, finding: &'static str, expected: &str, seen: String) -> Check {
    Check { topic, family: None, grade, finding, expected: expected.to_owned(), seen, advice: None }
}

fn advised(check: Check, advice: impl Into<String>) -> Check {
    Check { advice: Some(advice.into()), ..check }
}

fn server(seen: &ServerSeen) -> Check {
    let check =
        |grade, finding, seen| check(Topic::Server, grade, finding, "a rendezvous server that takes games", seen);
    let (took_us, instance, takes_new) = match seen {
        ServerSeen::Failed(Failure { message, advice }) => {
            return advised(check(Grade::Bad, "no_answer", message.clone()), advice);
        }
        ServerSeen::Answers { took_us, instance, takes_new } => (*took_us, instance, takes_new),
    };
    let instance = instance.map_or_else(String::new, |instance| format!(", instance {instance}"));
    let answers = format!("answers in {}{instance}", milliseconds(took_us));
    match takes_new {
        TakesNew::Yes => check(Grade::Good, "ready", answers),
        TakesNew::Draining { deadline } => {
            let until = deadline.as_ref().map_or_else(String::new, |deadline| format!(" until {deadline}"));
            let seen = format!("{answers}, and goes down: it drains{until} and takes nothing new");
            advised(check(Grade::Bad, "draining", seen), "wait for its successor and try again")
        }
        TakesNew::Unavailable { reason } => {
            let seen = format!("{answers}, and can't work: {reason}");
            advised(check(Grade::Bad, "unavailable", seen), "tell the server's operator")
        }
    }
}

fn clock(seen: Option<ClockSeen>) -> Check {
    let check = |grade, finding, seen| check(Topic::Clock, grade, finding, "within a minute of the server's", seen);
    let Some(ClockSeen { ahead_ms, error_ms }) = seen else {
        return check(Grade::Unknown, "unknown", "the server told no time".to_owned());
    };
    let off_ms = ahead_ms.unsigned_abs();
    if off_ms <= error_ms {
        return check(Grade::Good, "right", format!("the same, as far as {} can tell", span(2 * error_ms)));
    }
    let seen = format!("{} {} the server's", span(off_ms), if ahead_ms > 0 { "ahead of" } else { "behind" });
    if off_ms <= CLOCK_OFF_MS + error_ms {
        return check(Grade::Good, "right", seen);
    }
    let advice = "set the clock of whichever is wrong, best by NTP: a token that is signed by one and judged by the other \
                  begins or ends (`exp`) at the wrong time";
    advised(check(Grade::Bad, "off", seen), advice)
}

/// A time in the two largest of its units.
fn span(ms: u64) -> String {
    let s = ms.div_ceil(1_000);
    match s {
        0..60 => format!("{s} s"),
        60..3_600 => format!("{} min {} s", s / 60, s % 60),
        3_600..86_400 => format!("{} h {} min", s / 3_600, s % 3_600 / 60),
        _ => format!("{} days {} h", s / 86_400, s % 86_400 / 3_600),
    }
}

fn addresses(seen: &AddressesSeen) -> Check {
    let check = |grade, finding, seen| check(Topic::Addresses, grade, finding, "the server's STUN addresses", seen);
    match seen {
        AddressesSeen::Named(uris) | AddressesSeen::Given(uris) if uris.is_empty() => {
            let none = check(Grade::Bad, "none", "the server has no UDP address".to_owned());
            advised(none, "tell the server's operator: hosts and players are met over UDP")
        }
        AddressesSeen::Named(uris) => check(Grade::Good, "named", uris.join(", ")),
        AddressesSeen::Given(uris) => check(Grade::Good, "given", format!("as given: {}", uris.join(", "))),
        AddressesSeen::Unresolved(uris) => {
            let seen = format!("these names lead to no address: {}", uris.join(", "));
            advised(check(Grade::Bad, "unresolved", seen), "check the names, and this machine's name server")
        }
        AddressesSeen::Refused(Failure { message, advice }) => {
            let refused = check(Grade::Bad, "refused", format!("the server told none: {message}"));
            advised(refused, format!("{advice}; `--stun` looks at UDP all the same"))
        }
        AddressesSeen::Failed(Failure { message, advice }) => {
            advised(check(Grade::Bad, "no_answer", format!("asked for, without an answer: {message}")), advice)
        }
        AddressesSeen::NotAsked => {
            let seen = "not asked for: only a server that takes games tells them".to_owned();
            advised(check(Grade::Unknown, "unknown", seen), "`--stun` looks at UDP all the same")
        }
    }
}

fn silence(seen: &SilenceSeen) -> Check {
    let lasted = span(u64::try_from(seen.lasted.as_millis()).unwrap_or(u64::MAX));
    let (grade, finding, words, advice) = match &seen.end {
        SilenceEnd::LetIn => {
            (Grade::Good, "let_in", format!("what the server sent unasked after {lasted} of silence arrived"), None)
        }
        SilenceEnd::Moved => {
            let words =
                format!("nothing came in after {lasted} of silence, and the address outside is another one now");
            (Grade::Bad, "moved", words, Some(SPEAK_MORE_OFTEN.to_owned()))
        }
        SilenceEnd::ShutOut => {
            let words = format!("nothing came in after {lasted} of silence; it does again once this side has spoken");
            (Grade::Bad, "shut_out", words, Some(SPEAK_MORE_OFTEN.to_owned()))
        }
        SilenceEnd::Forgotten { after } => {
            let after = span(u64::try_from(after.as_millis()).unwrap_or(u64::MAX));
            let words = format!("not tried: the server forgets a host that was silent for {after}");
            (Grade::Unknown, "unknown", words, Some("ask for a shorter silence".to_owned()))
        }
        SilenceEnd::Failed(Failure { message, advice }) => {
            (Grade::Unknown, "unknown", format!("could not be tried: {message}"), Some(advice.clone()))
        }
    };
    let check = check(Topic::Silence, grade, finding, "the way in is still open after it", words);
    Check { family: Some(seen.family), advice, ..check }
}

/// Presence is kept every 16 to 20 s, so what is open for longer needs nothing.
const SPEAK_MORE_OFTEN: &str = "hosts and games have to send something more often than that; `rendezvous host` does so every 16 to 20 s. \
     Where that is too seldom, raise the UDP time-out of the router or firewall";

fn outlook(seen: &Observations, ways: &[(Family, Way)]) -> Outlook {
    match &seen.server {
        ServerSeen::Failed(_) => return Outlook::Unreachable,
        ServerSeen::Answers { takes_new: TakesNew::Draining { .. } | TakesNew::Unavailable { .. }, .. } => {
            return Outlook::Refused;
        }
        ServerSeen::Answers { takes_new: TakesNew::Yes, .. } => {}
    }
    match seen.addresses {
        AddressesSeen::Refused(_) | AddressesSeen::NotAsked => return Outlook::Refused,
        AddressesSeen::Failed(_) => return Outlook::Unreachable,
        AddressesSeen::Named(_) | AddressesSeen::Given(_) | AddressesSeen::Unresolved(_) => {}
    }
    // A join needs one family that both sides have, so the best one decides.
    let has = |wanted: Way| ways.iter().any(|(_, way)| *way == wanted);
    if has(Way::Direct) {
        Outlook::Direct
    } else if has(Way::Relay) {
        Outlook::Relay
    } else {
        Outlook::NoUdp
    }
}

fn summary(outlook: Outlook, ways: &[(Family, Way)]) -> String {
    let over = |wanted: Way| {
        let names: Vec<_> = ways.iter().filter(|(_, way)| *way == wanted).map(|(family, _)| name(*family)).collect();
        names.join(" and ")
    };
    match outlook {
        Outlook::Direct => {
            let mut text =
                format!("Direct joins should work over {}, as far as one server can tell.", over(Way::Direct));
            for (way, words) in [(Way::Relay, "they mostly need a relay"), (Way::Blocked, "nothing gets through")] {
                let names = over(way);
                if !names.is_empty() {
                    text.push_str(&format!(" Over {names} {words}."));
                }
            }
            text
        }
        Outlook::Relay => "Joins from here will need a relay, unless the other side lets everybody in.".to_owned(),
        Outlook::NoUdp => {
            "The server does not see this side's UDP: nobody can be joined from here or hosted here.".to_owned()
        }
        Outlook::Refused => "The server takes nobody new from here at the moment.".to_owned(),
        Outlook::Unreachable => "No rendezvous server was reached.".to_owned(),
    }
}
