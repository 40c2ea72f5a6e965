//! What can go wrong for a client, sorted by what a caller can do about it.

use super::http::SessionId;
use std::fmt;
use std::time::Duration;

/// A failed call.
#[derive(Debug)]
pub enum Error {
    /// The server's URL can't be used. Nothing was sent.
    ServerUrl {
        /// The URL as given.
        given: String,
        /// What is expected instead.
        expected: &'static str,
    },
    /// No connection, or the connection broke. Whether a mutation happened is *unknown*: repeat it with its key.
    Unreachable {
        /// `host:port`.
        server: String,
        /// The system's words.
        cause: String,
    },
    /// No complete answer in time. Whether a mutation happened is *unknown*: repeat it with its key.
    Timeout {
        /// `host:port`.
        server: String,
        /// How long was waited.
        after: Duration,
    },
    /// The server said no.
    Refused(Box<Problem>),
    /// The answer isn't what the contract says, so this is perhaps not a rendezvous server.
    Malformed {
        /// The request, for example `POST /v1/tenants/demo/guests`.
        request: String,
        /// What was expected and what came.
        detail: String,
    },
    /// No UDP address of the server can be used from here.
    NoUdp {
        /// The STUN URIs that the server named.
        offered: Vec<String>,
    },
    /// A socket could not be opened.
    Socket(std::io::Error),
}

impl Error {
    /// The refusal, when it is one.
    pub fn problem(&self) -> Option<&Problem> {
        if let Self::Refused(problem) = self { Some(problem) } else { None }
    }

    /// The code of the refusal, when it is one.
    pub fn code(&self) -> Option<&Code> {
        self.problem().map(|problem| &problem.code)
    }

    /// What the caller can do, in one sentence for a person.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::ServerUrl { .. } => "give the server as http://HOST:PORT",
            Self::Unreachable { .. } => "check that the server runs and that its address and port are right",
            Self::Timeout { .. } => "check the network between here and the server, then try again",
            Self::Refused(problem) => problem.code.advice(),
            Self::Malformed { .. } => {
                "check that the URL is a rendezvous server's, and that a proxy doesn't answer for it"
            }
            Self::NoUdp { .. } => "start the server with --udp, or use a network that has the address family it offers",
            Self::Socket(_) => "check that the local address exists and that its port is free",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ServerUrl { given, expected } => write!(f, "expected {expected}, was given {given:?}"),
            Self::Unreachable { server, cause } => write!(f, "no connection to {server}: {cause}"),
            Self::Timeout { server, after } => write!(f, "no answer from {server} within {} ms", after.as_millis()),
            Self::Refused(problem) => problem.fmt(f),
            Self::Malformed { request, detail } => write!(f, "unexpected answer to {request}: {detail}"),
            Self::NoUdp { offered } if offered.is_empty() => f.write_str("the server has no UDP address"),
            Self::NoUdp { offered } => {
                write!(f, "none of the server's UDP addresses can be used from here: {}", offered.join(", "))
            }
            Self::Socket(cause) => write!(f, "no UDP socket: {cause}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Self::Socket(cause) = self { Some(cause) } else { None }
    }
}

/// A refusal as the server stated it (RFC 9457).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// The stable code.
    pub code: Code,
    /// A sentence for a person.
    pub detail: String,
    /// A finer reason, for example `stale_instance` or `idempotency_mismatch`.
    pub reason: Option<String>,
    /// The current version, with [`Code::Conflict`].
    pub current_version: Option<u64>,
    /// The ceiling or quota, with [`Code::CapacityExceeded`].
    pub resource: Option<String>,
    /// The session whose create waits for its content, with [`Code::NotReady`].
    pub session: Option<SessionId>,
    /// When the server asks to wait.
    pub retry_after: Option<Duration>,
    /// Refused fields: JSON pointer and sentence.
    pub fields: Vec<(String, String)>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server answered {} {}", self.status, self.code)?;
        if let Some(reason) = self.reason.as_deref().filter(|reason| *reason != self.code.as_str()) {
            write!(f, " ({reason})")?;
        }
        if let Some(resource) = &self.resource {
            write!(f, " ({resource})")?;
        }
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        // The detail tells the first field already, and names headers and parameters, which have no pointer.
        for (pointer, detail) in self.fields.iter().filter(|(_, detail)| !self.detail.contains(detail.as_str())) {
            write!(f, "; {pointer}: {detail}")?;
        }
        Ok(())
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident $text:literal $advice:literal;)*) => {
        /// The stable codes of refusals. A code that this library doesn't know is kept as it came.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Code {
            $($(#[$doc])* $variant,)*
            /// Newer than this library.
            Unrecognised(String),
        }

        impl Code {
            /// Reads a code; total.
            pub fn parse(text: &str) -> Self {
                match text {
                    $($text => Self::$variant,)*
                    other => Self::Unrecognised(other.to_owned()),
                }
            }

            /// The code as on the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)*
                    Self::Unrecognised(text) => text,
                }
            }

            /// What the caller can do.
            pub fn advice(&self) -> &'static str {
                match self {
                    $(Self::$variant => $advice,)*
                    Self::Unrecognised(_) => "update this program, the server is newer",
                }
            }
        }
    };
}

codes! {
    /// Absent, ended, or not yours.
    NotFound "not_found" "check the id and the tenant; a game may have ended: browse again";
    /// It was there and has ended.
    Expired "expired" "it is over: ask for another, with a new idempotency key";
    /// Another version, or another body under a used key.
    Conflict "conflict" "read the current version and try again";
    /// A quota or a ceiling.
    CapacityExceeded "capacity_exceeded" "wait and try again; an operator can raise the limit";
    /// The server is going down.
    Draining "draining" "wait for its successor and try again";
    /// The store can't answer.
    ServiceUnavailable "service_unavailable" "wait and try again with the same idempotency key";
    /// A single-use key was used.
    ReplayRejected "replay_rejected" "use a new key";
    /// Something has to happen first.
    NotReady "not_ready" "wait and try again";
    /// The session is of a kind that no host runs any more.
    LegacySessionUnsupported "legacy_session_unsupported" "ask for a new session";
    /// Another host runs the session.
    LeaseHeld "lease_held" "leave the session to the host that runs it";
    /// This host doesn't run the session any more.
    LeaseLost "lease_lost" "stop the session here, and look for work again";
    /// This host doesn't have the command in hand any more.
    ClaimLost "claim_lost" "look for work again";
    /// The command has ended otherwise.
    AlreadySettled "already_settled" "read how the command ended";
    /// The host's name belongs to another credential, or to another target key with sessions.
    HostTaken "host_taken" "give this host a name of its own";
    /// An operator removed the listing or the principal.
    Revoked "revoked" "ask the server's operator";
    /// Cancelled before it started.
    Cancelled "cancelled" "try again";
    /// The request is wrong.
    Invalid "invalid" "correct the named fields";
    /// No token, or one that isn't valid.
    Unauthenticated "unauthenticated" "get a new token";
    /// The token may not do this.
    Forbidden "forbidden" "use a token of the right kind; the tenant may not allow guests";
    /// No such route.
    RouteNotFound "route_not_found" "check the URL, a path prefix is missing or too much";
    /// No such method there.
    MethodNotAllowed "method_not_allowed" "update this program";
    /// The request took too long.
    RequestTimeout "request_timeout" "try again";
    /// The body is too large.
    PayloadTooLarge "payload_too_large" "send less";
    /// Not JSON.
    UnsupportedMediaType "unsupported_media_type" "update this program";
    /// A precondition is missing.
    PreconditionRequired "precondition_required" "update this program";
    /// Too many requests from here.
    RateLimited "rate_limited" "wait as long as the answer says";
    /// Headers are too large.
    HeadersTooLarge "headers_too_large" "check the token";
    /// The server's fault.
    Internal "internal" "try again; if it stays so tell the server's operator";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Unrecognised(text) = self {
            return write!(f, "unrecognised code {text:?}");
        }
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_each_thing_once() {
        let field = |pointer: &str, detail: &str| (pointer.to_owned(), detail.to_owned());
        let mut problem = Problem {
            status: 400,
            code: Code::Invalid,
            detail: "query parameter \"protocol\" must be short".into(),
            reason: None,
            current_version: None,
            resource: None,
            session: None,
            retry_after: None,
            fields: vec![field("", "must be short")],
        };
        let text = "the server answered 400 invalid: query parameter \"protocol\" must be short";
        assert_eq!(problem.to_string(), text);
        problem.fields.push(field("/details/name", "is required"));
        assert_eq!(problem.to_string(), format!("{text}; /details/name: is required"));
    }
}
