//! What makes two requests the same one (rule P4; rule F1 of the directory).

use super::requests::RequestPayload;
use crate::admission::model::{AgentId, CommandKind, SessionId, Sha256};
use sha2::Digest;
use std::time::Duration;

/// What a request says, whatever its wire looked like: defaults are spelled out, and a content counts by its digest, so
/// that it is the same request inline and by reference. A payload's own bytes are compared as they are.
pub(super) struct Says<'a> {
    pub(super) kind: CommandKind,
    /// Absent for a create, whose session is what it asks for.
    pub(super) session: Option<SessionId>,
    /// Present for a create.
    pub(super) agent: Option<&'a AgentId>,
    pub(super) payload: &'a RequestPayload,
    pub(super) apply_within: Duration,
}

impl Says<'_> {
    pub(super) fn fingerprint(&self) -> Sha256 {
        let mut hash = sha2::Sha256::new();
        // Each part with its length, so that no two requests run together into one text.
        let mut part = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        };
        part(b"command/1");
        part(self.kind.as_str().as_bytes());
        part(&self.session.map(|session| session.0.to_be_bytes()).unwrap_or_default());
        part(self.agent.map_or(b"", |agent| agent.as_str().as_bytes()));
        part(&digest(self.payload).0);
        part(&self.apply_within.as_millis().to_be_bytes());
        Sha256(hash.finalize().into())
    }
}

fn digest(payload: &RequestPayload) -> Sha256 {
    match payload {
        RequestPayload::Bytes(bytes) => Sha256::of(bytes),
        RequestPayload::Stored(sha256) => *sha256,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::model::Bytes;

    fn says<'a>(payload: &'a RequestPayload, agent: Option<&'a AgentId>) -> Says<'a> {
        let apply_within = Duration::from_secs(1);
        Says { kind: CommandKind::Input, session: Some(SessionId(1)), agent, payload, apply_within }
    }

    #[test]
    fn case_i7_everything_a_request_says_counts() {
        let payload = RequestPayload::Bytes(Bytes::from_static(b"x"));
        let other = RequestPayload::Bytes(Bytes::from_static(b"y"));
        let agent = AgentId::new("a").expect("valid");
        let base = says(&payload, None).fingerprint();
        assert_eq!(base, says(&payload, None).fingerprint());
        assert_eq!(base, says(&RequestPayload::Stored(Sha256::of(b"x")), None).fingerprint());
        let others = [
            says(&other, None),
            says(&payload, Some(&agent)),
            Says { kind: CommandKind::Restore, ..says(&payload, None) },
            Says { session: Some(SessionId(2)), ..says(&payload, None) },
            Says { session: None, ..says(&payload, None) },
            Says { apply_within: Duration::from_millis(999), ..says(&payload, None) },
        ];
        assert!(others.iter().all(|other| other.fingerprint() != base));
    }
}
