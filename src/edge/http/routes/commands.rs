//! The command plane's rows of the table.

use super::{CallerKind, Endpoint, Header, Outcome, Route, Verb, change, outcome, read};
use crate::edge::http::limiter::{HostBudget, PrincipalBudget};

const SESSIONS: &str = "/v1/tenants/{tenant}/sessions";
const SESSION: &str = "/v1/tenants/{tenant}/sessions/{id}";
const GATE: &str = "/v1/tenants/{tenant}/sessions/{id}/gate";
const COMMANDS: &str = "/v1/tenants/{tenant}/sessions/{id}/commands";
const COMMAND: &str = "/v1/tenants/{tenant}/sessions/{id}/commands/{command}";
const PAYLOAD: &str = "/v1/tenants/{tenant}/sessions/{id}/payloads/{sha256}";
const LEASE: &str = "/v1/tenants/{tenant}/sessions/{id}/lease";
const CLAIM: &str = "/v1/tenants/{tenant}/sessions/{id}/commands/{command}/claim";
const BEGIN: &str = "/v1/tenants/{tenant}/sessions/{id}/commands/{command}/begin";
const COMPLETE: &str = "/v1/tenants/{tenant}/sessions/{id}/commands/{command}/complete";
const SETTLE: &str = "/v1/tenants/{tenant}/sessions/{id}/commands/{command}/settle";
const HOST: &str = "/v1/hosts/{id}";
const WORK: &str = "/v1/hosts/{id}/work";

/// An inline payload in base64, and 4 KiB for the rest.
const COMMAND_BODY_BYTES: usize = crate::admission::INLINE_MAX.div_ceil(3) * 4 + 4_096;

const STEPPED: &[Outcome] =
    &[outcome(200, "CommandAnswer", "The command after it, with what it carries; its revision is in ETag.")];

/// What a host does with a command.
const fn step(
    endpoint: Endpoint,
    budget: HostBudget,
    path: &'static str,
    id: &'static str,
    summary: &'static str,
) -> Route {
    Route {
        caller: CallerKind::Host,
        host_budget: Some(budget),
        outcomes: STEPPED,
        ..change(endpoint, path, id, summary)
    }
}

pub(super) static ROUTES: &[Route] = &[
    Route {
        caller: CallerKind::Commander,
        principal_budget: Some(PrincipalBudget::Commands),
        headers: &[Header::IdempotencyKey],
        body: Some(("CreateSessionBody", true)),
        body_bytes: Some(COMMAND_BODY_BYTES),
        outcomes: &[outcome(
            202,
            "CreatedAnswer",
            "Durable, now or by an exact duplicate before. Location is the command's.",
        )],
        ..change(Endpoint::CreateSession, SESSIONS, "create_session", "Ask for a session on a host")
    },
    Route {
        caller: CallerKind::Commander,
        principal_budget: Some(PrincipalBudget::CommandReads),
        outcomes: &[outcome(200, "SessionAnswer", "The session, and who runs it.")],
        ..read(Endpoint::ReadSession, SESSION, "read_session", "Look at a session")
    },
    Route {
        caller: CallerKind::Commander,
        principal_budget: Some(PrincipalBudget::Commands),
        headers: &[Header::IdempotencyKey],
        body: Some(("SendCommandBody", true)),
        body_bytes: Some(COMMAND_BODY_BYTES),
        outcomes: &[outcome(
            202,
            "CommandAnswer",
            "Durable, now or by an exact duplicate before. Location is the command's.",
        )],
        ..change(Endpoint::SendCommand, COMMANDS, "send_command", "Send a session a command")
    },
    Route {
        caller: CallerKind::Commander,
        principal_budget: Some(PrincipalBudget::CommandReads),
        query: &["wait_ms"],
        headers: &[Header::Prefer],
        outcomes: &[outcome(200, "CommandAnswer", "How far it has come; its revision is in ETag.")],
        ..read(Endpoint::ReadCommand, COMMAND, "read_command", "Follow a command, or wait for its end")
    },
    Route {
        verb: Verb::Put,
        caller: CallerKind::Commander,
        principal_budget: Some(PrincipalBudget::Commands),
        headers: &[Header::CreateKey],
        body: Some(("Bytes", true)),
        outcomes: &[outcome(200, "StoredPayloadAnswer", "Stored, now or before.")],
        ..change(
            Endpoint::PutPayload,
            PAYLOAD,
            "put_payload",
            "Store a payload by its SHA-256, for commands to refer to",
        )
    },
    Route {
        caller: CallerKind::Host,
        host_budget: Some(HostBudget::Calls),
        query: &["host", "epoch"],
        outcomes: &[outcome(200, "Bytes", "Its content.")],
        ..read(
            Endpoint::GetPayload,
            PAYLOAD,
            "get_payload",
            "Fetch what a command refers to, as the holder of the lease",
        )
    },
    Route {
        caller: CallerKind::Commander,
        principal_budget: Some(PrincipalBudget::CommandReads),
        query: &["after", "wait_ms"],
        headers: &[Header::Prefer],
        outcomes: &[outcome(200, "GateAnswer", "Unanswered join attempts newer than `after`, maybe none.")],
        ..read(Endpoint::SessionGate, GATE, "session_gate", "Wait for join attempts at a session's gate")
    },
    Route {
        verb: Verb::Put,
        caller: CallerKind::Host,
        host_budget: Some(HostBudget::KeepAlives),
        body: Some(("HostBody", true)),
        outcomes: &[outcome(200, "HostAnswer", "Registered, or still there.")],
        ..change(Endpoint::PutHost, HOST, "put_host", "Register a host, or send its heartbeat")
    },
    Route {
        caller: CallerKind::Host,
        host_budget: Some(HostBudget::Calls),
        query: &["wait_ms"],
        headers: &[Header::Prefer],
        outcomes: &[outcome(200, "WorkAnswer", "What there is to do, maybe nothing.")],
        ..read(Endpoint::HostWork, WORK, "host_work", "Wait for work")
    },
    Route {
        caller: CallerKind::Host,
        host_budget: Some(HostBudget::KeepAlives),
        body: Some(("LeaseBody", true)),
        outcomes: &[
            outcome(200, "LeaseGrantAnswer", "Acquired or renewed."),
            Outcome { status: 204, schema: None, meaning: "Released, now or before." },
        ],
        ..change(Endpoint::SessionLease, LEASE, "session_lease", "Acquire, renew or release a session's lease")
    },
    Route {
        headers: &[Header::IfMatchRevision],
        body: Some(("ClaimBody", true)),
        ..step(
            Endpoint::ClaimCommand,
            HostBudget::Calls,
            CLAIM,
            "claim_command",
            "Claim a command, or extend the claim",
        )
    },
    Route {
        body: Some(("BeginBody", true)),
        ..step(Endpoint::BeginCommand, HostBudget::Calls, BEGIN, "begin_command", "Begin to apply a command")
    },
    Route {
        body: Some(("CompleteBody", true)),
        ..step(Endpoint::CompleteCommand, HostBudget::KeepAlives, COMPLETE, "complete_command", "Report how it went")
    },
    Route {
        body: Some(("BeginBody", true)),
        ..step(
            Endpoint::SettleCommand,
            HostBudget::KeepAlives,
            SETTLE,
            "settle_command",
            "Settle what an older lease left",
        )
    },
    Route {
        caller: CallerKind::Operator,
        outcomes: &[outcome(200, "AdmissionAnswer", "What is due, the last sweeps, the counts.")],
        ..read(Endpoint::Admission, "/v1/operator/admission", "admission", "Look at the command plane")
    },
];
