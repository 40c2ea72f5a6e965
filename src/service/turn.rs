//! TURN credentials after the convention of coturn's `use-auth-secret`: `<unix expiry>:<user>` and an HMAC-SHA1 over it.

use super::{TurnGrant, TurnPolicy};
use crate::credentials::Secret;
use crate::domain::{AttemptId, WallTime};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;

/// The credential of one attempt. It follows from the attempt's own times, so asking again gives it again.
///
/// `created` is when the attempt was created and `now` the present, both wall time: a TURN server reads the expiry by
/// its own wall clock (rule C1 names this exception).
pub(super) fn mint(policy: &TurnPolicy, attempt: AttemptId, created: WallTime, now: WallTime) -> TurnGrant {
    let expiry_s = created.plus_ms(policy.ttl_ms).0.div_ceil(1_000);
    let username = format!("{expiry_s}:{attempt}");
    let mut mac = Hmac::<Sha1>::new_from_slice(policy.secret.expose().as_bytes())
        .unwrap_or_else(|_| unreachable!("HMAC takes keys of any length"));
    mac.update(username.as_bytes());
    TurnGrant {
        uris: policy.uris.clone(),
        credential: Secret::new(STANDARD.encode(mac.finalize().into_bytes())),
        username,
        ttl_ms: expiry_s.saturating_mul(1_000).saturating_sub(now.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> TurnPolicy {
        TurnPolicy {
            uris: vec!["turn:192.0.2.1:3478".to_owned()].into(),
            secret: Secret::new("north"),
            ttl_ms: 600_000,
        }
    }

    /// The expected value was made with `printf '1700000600:…' | openssl dgst -sha1 -hmac north -binary | base64`.
    #[test]
    fn a_credential_verifies_as_coturn_does_it() {
        let grant = mint(&policy(), AttemptId(0xAB), WallTime(1_700_000_000_000), WallTime(1_700_000_000_000));
        assert_eq!(grant.username, "1700000600:000000000000000000000000000000ab");
        assert_eq!(grant.credential.expose(), "qwn+6crsDfjmR8fGJUWPdOoAEX0=");
        assert_eq!(grant.ttl_ms, 600_000);
    }

    #[test]
    fn asking_later_gives_the_same_credential_with_less_time_left() {
        let (created, later) = (WallTime(1_700_000_000_001), WallTime(1_700_000_010_001));
        let (first, second) =
            (mint(&policy(), AttemptId(1), created, created), mint(&policy(), AttemptId(1), created, later));
        assert_eq!((first.username.as_str(), &first.credential), (second.username.as_str(), &second.credential));
        assert_eq!(first.ttl_ms - second.ttl_ms, 10_000);
        assert_eq!(mint(&policy(), AttemptId(1), created, WallTime(u64::MAX)).ttl_ms, 0);
    }
}
