//! What a network does, judged from what one server saw of it.
//!
//! [`Look`](super::Look) gathers [`Observations`], [`judge`] says what they mean: a plain function, so that each kind of
//! network is a row of a test. Nothing is claimed that one server can't see; such a check is [`Grade::Unknown`] and says why.

mod families;
mod judge;
mod observations;
#[cfg(test)]
mod tests;

pub use judge::judge;
pub use observations::{
    AddressesSeen, AnswerSeen, Asked, ClockSeen, Failure, FamilySeen, Observations, Report, ServerSeen, SilenceEnd,
    SilenceSeen, TakesNew,
};

use crate::domain::Family;

/// One question with its answer, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What was looked at.
    pub topic: Topic,
    /// Over which family, where it is a matter of one.
    pub family: Option<Family>,
    /// How good it is.
    pub grade: Grade,
    /// What it came to, in one stable word for scripts.
    pub finding: &'static str,
    /// What a network that joins directly shows.
    pub expected: String,
    /// What this one showed.
    pub seen: String,
    /// What can be done, where something can.
    pub advice: Option<String>,
}

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// The server over HTTP.
    Server,
    /// This machine's clock.
    Clock,
    /// Where the server answers UDP.
    Addresses,
    /// Whether it does so from here.
    Udp,
    /// Whether addresses are changed on the way.
    Nat,
    /// Whether every destination sees the same address.
    Mapping,
    /// Who is let in.
    Filtering,
    /// Whether two behind one NAT reach each other by its outside address.
    Hairpin,
    /// Whether the way in stays open without a word.
    Silence,
}

impl Topic {
    /// In one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Clock => "clock",
            Self::Addresses => "addresses",
            Self::Udp => "udp",
            Self::Nat => "nat",
            Self::Mapping => "mapping",
            Self::Filtering => "filtering",
            Self::Hairpin => "hairpin",
            Self::Silence => "silence",
        }
    }
}

/// How good an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grade {
    /// As expected.
    Good,
    /// Not as expected, and in nobody's way.
    Note,
    /// Can't be known from here.
    Unknown,
    /// In the way of something.
    Bad,
}

impl Grade {
    /// In one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Note => "note",
            Self::Unknown => "unknown",
            Self::Bad => "bad",
        }
    }
}

/// What all of it means for a join from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// Nothing speaks against a direct way, over one family at least.
    Direct,
    /// Direct only to who lets everybody in; by a relay to the rest.
    Relay,
    /// The server does not see this side's UDP.
    NoUdp,
    /// The server takes nobody new, or not this one.
    Refused,
    /// No rendezvous server was reached.
    Unreachable,
}

impl Outlook {
    /// In one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Relay => "relay",
            Self::NoUdp => "no_udp",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
        }
    }
}

/// All checks in their order, and what they come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// In the order in which they were made.
    pub checks: Vec<Check>,
    /// What they mean for a join.
    pub outlook: Outlook,
    /// The same in a sentence or two.
    pub summary: String,
}

/// `IPv4`, as people write it.
fn name(family: Family) -> &'static str {
    match family {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    }
}

/// Microseconds as people read them.
fn milliseconds(us: u64) -> String {
    if us < 10_000 { format!("{}.{} ms", us / 1_000, us % 1_000 / 100) } else { format!("{} ms", us / 1_000) }
}
