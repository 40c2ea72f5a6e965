//! `rendezvous doctor`: what this machine's network does, in words.

use super::output::{Output, ServerArgs, block_on, exit, printable, stop_signal};
use crate::client::diagnosis::{Check, Diagnosis, Grade, Outlook, judge};
use crate::client::{Error, Look, LookOptions};
use crate::domain::Family;
use crate::load::table;
use serde_json::json;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

/// Where lines of the table end; the words of a check go on below.
const WIDTH: usize = 100;

/// Say what this network does: whether games can be joined from here, and hosted here
///
/// Looks at one server over HTTP and UDP, in some ten seconds at most: whether it answers, the clock, UDP over IPv4 and over
/// IPv6, and what NATs on the way make of this machine's address. Says of each what was expected, what was seen and what
/// can be done, and of what one server can't tell, that it can't.
///
/// The server tells its UDP addresses to hosts only, so for a moment there is a listing that nobody sees.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Examples:
  rendezvous doctor --server http://127.0.0.1:8080
  rendezvous doctor --keepalive 30
  rendezvous doctor --json

Checks, with what --json calls `finding`:
  server     ready, draining, unavailable, no_answer
  clock      right, off, unknown
  addresses  named, given, none, unresolved, refused, no_answer, unknown
  udp        open, partly_open, blocked, not_offered, no_route, unknown; by family, like all that follow
  nat        none, port_kept, port_changed, unknown
  mapping    no_nat, endpoint_independent, same_for_ports, by_address, by_port, by_destination, one_address, unknown
  filtering  unknown: a server that answered from where it was not asked could be made to flood others
  hairpin    not_needed, works, does_not, unknown
  silence    let_in, moved, shut_out, unknown; with --keepalive

Events with --json: check, diagnosis; failed

Exit codes:
  0    direct joins should work, over one family at least, as far as one server can tell
  1    this machine: no socket
  2    wrong command line
  3    the server can't be reached, or isn't a rendezvous server
  4    the server takes nobody new (it drains), or refused (tenant, quota, token)
  5    the server doesn't see this side's UDP
  7    direct joins won't work, but to who lets everybody in: a symmetric NAT
  130  ended by Ctrl-C")]
pub(crate) struct Args {
    #[command(flatten)]
    server: ServerArgs,
    /// Ask this address over UDP, instead of those that the server names; may be repeated, and nothing is listed then
    #[arg(long, value_name = "stun:HOST:PORT", value_parser = stun_uri)]
    stun: Vec<String>,
    /// Also be silent for so long, and see whether the server still gets through; needs guests, or a server that takes them
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(1..=280), conflicts_with = "stun")]
    keepalive: Option<u16>,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

fn stun_uri(text: &str) -> Result<String, &'static str> {
    let host = text.strip_prefix("stun:").filter(|host| !host.is_empty());
    host.map(|_| text.to_owned()).ok_or("expected stun:HOST or stun:HOST:PORT, such as stun:203.0.113.1:3478")
}

/// Looks once.
pub(crate) fn run(args: Args) -> ExitCode {
    let output = Output::new(args.json);
    block_on(async move {
        match examine(&args).await {
            Ok(Some(diagnosis)) => {
                tell(output, &diagnosis);
                ExitCode::from(code(diagnosis.outlook))
            }
            Ok(None) => ExitCode::from(exit::INTERRUPTED),
            Err(error) => output.error("doctor", &error),
        }
    })
}

/// `None` when a signal came first.
async fn examine(args: &Args) -> Result<Option<Diagnosis>, Error> {
    let silence = args.keepalive.map(|seconds| Duration::from_secs(seconds.into()));
    let options = LookOptions { stun: args.stun.clone(), silence };
    let mut look = Look::new(args.server.directory()?, options)?;
    let progress = Progress { is_shown: !args.json && std::io::stderr().is_terminal() };
    let mut hear = |what: &str| progress.show(what);
    let observations = tokio::select! {
        () = stop_signal() => None,
        observations = look.run(&mut hear) => Some(observations),
    };
    progress.show("tidying up");
    look.close().await;
    progress.clear();
    observations.map(|observations| Ok(judge(&observations?))).transpose()
}

fn code(outlook: Outlook) -> u8 {
    match outlook {
        Outlook::Direct => exit::OK,
        Outlook::Relay => exit::NOT_CONNECTED,
        Outlook::NoUdp => exit::NOT_BOUND,
        Outlook::Refused => exit::REFUSED,
        Outlook::Unreachable => exit::UNREACHABLE,
    }
}

/// One line on a terminal that tells what is going on, and goes when that is over.
struct Progress {
    is_shown: bool,
}

impl Progress {
    fn show(&self, what: &str) {
        self.write(&format!("\r\x1b[K{} ...", printable(what)));
    }

    fn clear(&self) {
        self.write("\r\x1b[K");
    }

    fn write(&self, text: &str) {
        if self.is_shown {
            let mut stderr = std::io::stderr().lock();
            let _gone = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
        }
    }
}

fn tell(output: Output, diagnosis: &Diagnosis) {
    if output.is_json() {
        for check in &diagnosis.checks {
            let fields = json!({
                "check": check.topic.as_str(),
                "family": check.family.map(|family| family_name(family).to_lowercase()),
                "result": check.grade.as_str(),
                "finding": check.finding,
                "expected": check.expected,
                "seen": check.seen,
                "advice": check.advice,
            });
            output.event("check", fields, "");
        }
        let fields = json!({ "outlook": diagnosis.outlook.as_str(), "summary": diagnosis.summary });
        output.event("diagnosis", fields, "");
        return;
    }
    for line in lines(diagnosis) {
        output.line(&line);
    }
    output.line(&output.bold(&diagnosis.summary));
}

/// The table, and below it what stands to be said of whatever isn't good.
fn lines(diagnosis: &Diagnosis) -> Vec<String> {
    let mut rows = vec![["CHECK", "RESULT", "SEEN"].map(str::to_owned).to_vec()];
    let titles: Vec<String> = diagnosis.checks.iter().map(title).collect();
    let before_seen = titles.iter().map(String::len).max().unwrap_or(0).max("CHECK".len()) + "  unknown  ".len();
    for (title, check) in titles.iter().zip(&diagnosis.checks) {
        let mut first = vec![title.clone(), check.grade.as_str().to_owned()];
        for line in wrapped(&printable(&check.seen), WIDTH.saturating_sub(before_seen)) {
            first.push(line);
            rows.push(std::mem::replace(&mut first, vec![String::new(), String::new()]));
        }
    }
    let mut lines = table::lines(&rows);
    lines.push(String::new());
    for (title, check) in titles.iter().zip(&diagnosis.checks).filter(|(_, check)| check.grade != Grade::Good) {
        lines.push(title.clone());
        let advice = check.advice.as_deref().unwrap_or("nothing");
        for (name, text) in [("expected", check.expected.as_str()), ("try", advice)] {
            let mut name = name;
            for line in wrapped(&printable(text), WIDTH - "  expected  ".len()) {
                lines.push(format!("  {name:<8}  {line}"));
                name = "";
            }
        }
    }
    if lines.last().is_some_and(|line| !line.is_empty()) {
        lines.push(String::new());
    }
    lines
}

fn title(check: &Check) -> String {
    let family = check.family.map(|family| format!(" {}", family_name(family)));
    format!("{}{}", check.topic.as_str(), family.unwrap_or_default())
}

fn family_name(family: Family) -> &'static str {
    match family {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    }
}

/// `text` in lines of at most `width` characters, but for words that are longer; at least one line.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        let line = &mut lines[last];
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::diagnosis::Topic;

    #[test]
    fn words_go_on_below_each_other() {
        assert_eq!(wrapped("a bc def g", 4), ["a bc", "def", "g"]);
        assert_eq!(wrapped("longer than that", 3), ["longer", "than", "that"]);
        assert_eq!(wrapped("", 3), [""]);
    }

    #[test]
    fn what_is_not_good_is_said_with_what_was_expected_and_what_to_do() {
        let check = |topic, family, grade, advice: Option<&str>| Check {
            topic,
            family,
            grade,
            finding: "",
            expected: "this".to_owned(),
            seen: "that\x1b[2J".to_owned(),
            advice: advice.map(str::to_owned),
        };
        let checks = vec![
            check(Topic::Server, None, Grade::Good, None),
            check(Topic::Mapping, Some(Family::V4), Grade::Bad, Some("another network")),
        ];
        let said = lines(&Diagnosis { checks, outlook: Outlook::Relay, summary: String::new() });
        let expected = [
            "CHECK         RESULT  SEEN",
            "server        good    that?[2J",
            "mapping IPv4  bad     that?[2J",
            "",
            "mapping IPv4",
            "  expected  this",
            "  try       another network",
            "",
        ];
        assert_eq!(said, expected);
    }
}
