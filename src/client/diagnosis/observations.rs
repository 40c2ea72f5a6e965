//! What was seen, before anybody says what it means.

use crate::client::core::Reply;
use crate::client::error::Error;
use crate::domain::{Family, InstanceId};
use std::net::SocketAddr;
use std::time::Duration;

/// All that was seen.
#[derive(Clone, Debug)]
pub struct Observations {
    /// Over HTTP.
    pub server: ServerSeen,
    /// How the two clocks differ, where the server told its own.
    pub clock: Option<ClockSeen>,
    /// Where the server answers UDP.
    pub addresses: AddressesSeen,
    /// Over IPv4.
    pub v4: FamilySeen,
    /// Over IPv6.
    pub v6: FamilySeen,
    /// What a silence did, where one was asked for.
    pub silence: Option<SilenceSeen>,
}

/// A call that failed, in the words of the client library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What happened.
    pub message: String,
    /// What can be done.
    pub advice: String,
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        Self { message: error.to_string(), advice: error.advice().to_owned() }
    }
}

/// How the server answered over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerSeen {
    /// It did.
    Answers {
        /// Connection and answer.
        took_us: u64,
        /// Which life of it.
        instance: Option<InstanceId>,
        /// Whether it takes something new.
        takes_new: TakesNew,
    },
    /// It didn't, or something else did.
    Failed(Failure),
}

/// Whether a server takes something new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TakesNew {
    /// It does.
    Yes,
    /// It is going down.
    Draining {
        /// RFC 3339.
        deadline: Option<String>,
    },
    /// It is up and can't work.
    Unavailable {
        /// In its words.
        reason: String,
    },
}

/// This machine's clock beside the server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockSeen {
    /// How far this one is ahead.
    pub ahead_ms: i64,
    /// How far that may be wrong: a date has whole seconds, and the answer was on its way for a while.
    pub error_ms: u64,
}

impl ClockSeen {
    /// From the wall clock's milliseconds before and after a call, and the date in its answer.
    pub fn new(before_ms: u64, after_ms: u64, date_ms: u64) -> Self {
        let signed = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        // The server's clock showed something of that whole second, when this one showed something between the two.
        let least = signed(before_ms).saturating_sub(signed(date_ms).saturating_add(999));
        let most = signed(after_ms.max(before_ms)).saturating_sub(signed(date_ms));
        let width = most.saturating_sub(least);
        Self { ahead_ms: least.saturating_add(width / 2), error_ms: width.unsigned_abs().div_ceil(2) }
    }
}

/// Where the server answers UDP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressesSeen {
    /// The server told, to a host.
    Named(Vec<String>),
    /// Whoever asked for the diagnosis told.
    Given(Vec<String>),
    /// Somebody told names that lead to no address.
    Unresolved(Vec<String>),
    /// The server refused to list a host, and so to tell.
    Refused(Failure),
    /// It was asked, and did not answer.
    Failed(Failure),
    /// Nobody asked: the server takes nothing new, or isn't there.
    NotAsked,
}

/// One family of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FamilySeen {
    /// No address of the server is known.
    NotAsked,
    /// The server has no address of this family.
    NotOffered,
    /// This machine can't send to one.
    NoRoute {
        /// In the system's words.
        cause: String,
    },
    /// Each address was asked, all from one socket.
    Asked(Asked),
}

/// What came back to one socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Each address that was asked.
    pub answers: Vec<AnswerSeen>,
    /// Whether a second socket and this one reached each other by their addresses as the server sees them; `None` where that
    /// was not tried.
    pub hairpin: Option<bool>,
}

/// What one address of the server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerSeen {
    /// The address.
    pub server: SocketAddr,
    /// The socket's own one on the way there: a machine with several has one for each network that it is in.
    pub local: SocketAddr,
    /// What came.
    pub reply: Reply,
    /// What the network said instead of an answer.
    pub report: Option<Report>,
}

/// What the network says of a datagram that it could not deliver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// It got there, and nobody listens.
    Closed,
    /// It did not get there, in the system's words.
    Undeliverable(String),
}

impl From<std::io::Error> for Report {
    fn from(error: std::io::Error) -> Self {
        let is_closed =
            [std::io::ErrorKind::ConnectionRefused, std::io::ErrorKind::ConnectionReset].contains(&error.kind());
        if is_closed { Self::Closed } else { Self::Undeliverable(error.to_string()) }
    }
}

/// What came of a silence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SilenceSeen {
    /// Over which family.
    pub family: Family,
    /// How long it was.
    pub lasted: Duration,
    /// Whether the server got through after it.
    pub end: SilenceEnd,
}

/// How a silence ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SilenceEnd {
    /// What the server sent unasked arrived.
    LetIn,
    /// It did not, and this side was seen at another address afterwards.
    Moved,
    /// It did not, and this side was seen as before.
    ShutOut,
    /// The server forgets a silent host sooner than that.
    Forgotten {
        /// How soon.
        after: Duration,
    },
    /// It could not be tried.
    Failed(Failure),
}
