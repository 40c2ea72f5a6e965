//! Who calls: operators by key, principals by JWT or guest token. Tokens are compared in constant time, and kept nowhere but
//! beside the connection that a principal proved one on ([`proven`]).

pub(super) mod guest;
pub(super) mod host;
pub(super) mod jwt;
pub(super) mod proven;

use super::problem::Problem;
use super::settings::{HttpSettings, KeyFingerprint, TenantSettings};
use crate::domain::{InstanceId, MonoTime, TenantId, WallTime};
use crate::service::KeyBytes;
use guest::{GuestError, GuestTokens};
use host::{HOST_PREFIX, HostCredential};
use hyper::header::{AUTHORIZATION, HeaderMap};
use jwt::{Scopes, ValidTime, Verified};
use sha2::{Digest, Sha256};
use std::time::Duration;
use subtle::ConstantTimeEq;

/// Longest token that is looked at. Bigger than any JWT that fits beside other headers.
const TOKEN_BYTES_MAX: usize = 8 * 1024;

/// A caller whose token is good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Identity {
    /// By key.
    Operator,
    /// By JWT or guest token.
    Principal {
        /// Where the principal belongs.
        tenant: TenantId,
        /// The full name, `guest:` prefix included.
        name: String,
        /// True for a guest token.
        guest: bool,
        /// What the token may be used for.
        scope: Scopes,
        /// When the token is good.
        good: Good,
    },
    /// By a host credential of the command plane, at this position.
    Host(usize),
}

/// The time in which a token is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Good {
    /// A guest's: until then, by the monotonic clock.
    Guest(MonoTime),
    /// A JWT's, by wall time.
    Jwt(ValidTime),
}

impl Good {
    /// Whether `now` is in it.
    pub(super) fn at(self, now: Now) -> bool {
        match self {
            Self::Guest(end) => !end.is_past(now.mono),
            Self::Jwt(time) => time.contains(now.wall),
        }
    }
}

/// Why there is no identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AuthError {
    /// No `Authorization` header.
    Missing,
    /// Not one `Bearer` token, or a token that nobody here has issued, or one whose time is over.
    Invalid,
    /// A guest token of another life of the process.
    StaleInstance,
}

impl From<AuthError> for Problem {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Missing => Self::unauthenticated("Authorization: Bearer <token> is required on this route"),
            AuthError::Invalid => Self::unauthenticated("the token is not valid, or not any more"),
            AuthError::StaleInstance => {
                Self::unauthenticated("the guest token is of an earlier instance; ask for a new one")
                    .reason("stale_instance")
            }
        }
    }
}

/// The two times of day that tokens are checked against.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    /// Decides about guest tokens.
    pub(super) mono: MonoTime,
    /// Decides about `exp` and `nbf` of JWTs, which are wall time by definition (rule C1).
    pub(super) wall: WallTime,
}

/// Checks tokens.
pub(super) struct Authenticator {
    operators: Vec<KeyFingerprint>,
    tenants: Vec<TenantSettings>,
    guests: GuestTokens,
    hosts: Vec<HostCredential>,
}

impl Authenticator {
    pub(super) fn new(
        operators: Vec<KeyFingerprint>,
        tenants: Vec<TenantSettings>,
        guest_key: KeyBytes,
        guest_token_ttl: Duration,
        instance: InstanceId,
    ) -> Self {
        let guests = GuestTokens::new(guest_key, guest_token_ttl, instance);
        Self { operators, tenants, guests, hosts: Vec::new() }
    }

    pub(super) fn from_settings(settings: &mut HttpSettings, instance: InstanceId) -> Self {
        let hosts = settings.commands.as_mut().map(|commands| std::mem::take(&mut commands.hosts)).unwrap_or_default();
        let authenticator = Self::new(
            std::mem::take(&mut settings.operators),
            std::mem::take(&mut settings.tenants),
            settings.guest_key.clone(),
            settings.guest_token_ttl,
            instance,
        );
        Self { hosts, ..authenticator }
    }

    /// Host credentials.
    pub(super) fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// The host credential at this position.
    pub(super) fn host(&self, position: usize) -> Option<&HostCredential> {
        self.hosts.get(position)
    }

    /// The tenant with this name.
    pub(super) fn tenant(&self, name: &str) -> Option<(TenantId, &TenantSettings)> {
        let position = self.tenants.iter().position(|tenant| tenant.name == name)?;
        Some((TenantId(u16::try_from(position).ok()?), self.tenants.get(position)?))
    }

    pub(super) fn guests(&self) -> &GuestTokens {
        &self.guests
    }

    /// The caller behind `Authorization`. `tenant` is where the request goes, if it goes to one.
    pub(super) fn identify(
        &self,
        headers: &HeaderMap,
        tenant: Option<TenantId>,
        now: Now,
    ) -> Result<Identity, AuthError> {
        self.identify_by(bearer(headers)?, tenant, now)
    }

    /// The caller behind the token of `Authorization`.
    pub(super) fn identify_by(&self, token: &str, tenant: Option<TenantId>, now: Now) -> Result<Identity, AuthError> {
        let fingerprint: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if self.is_operator(&fingerprint) {
            return Ok(Identity::Operator);
        }
        if let Some(position) = host::find(&self.hosts, &fingerprint) {
            return Ok(Identity::Host(position));
        }
        if GuestTokens::is_one(token) {
            return match self.guests.check(token, now.mono) {
                Ok(guest) => {
                    let (scope, good) = (Scopes::default(), Good::Guest(guest.until));
                    Ok(Identity::Principal { tenant: guest.tenant, name: guest.name(), guest: true, scope, good })
                }
                Err(GuestError::StaleInstance) => Err(AuthError::StaleInstance),
                Err(GuestError::Invalid) => Err(AuthError::Invalid),
            };
        }
        // A token of another tenant is told apart from an invalid one, so it is checked with that tenant's key.
        let elsewhere = || {
            let (claimed, _) = self.tenant(&jwt::claimed_tenant(token)?)?;
            if Some(claimed) == tenant { None } else { self.verify(claimed, token, now) }
        };
        let verified = tenant.and_then(|tenant| self.verify(tenant, token, now)).or_else(elsewhere);
        let verified = verified.ok_or(AuthError::Invalid)?;
        let (tenant, _) = self.tenant(&verified.tenant).ok_or(AuthError::Invalid)?;
        // Where there are hosts, nobody else has a name like theirs.
        if !self.hosts.is_empty() && verified.subject.starts_with(HOST_PREFIX) {
            return Err(AuthError::Invalid);
        }
        let Verified { subject: name, scope, valid, .. } = verified;
        Ok(Identity::Principal { tenant, name, guest: false, scope, good: Good::Jwt(valid) })
    }

    fn verify(&self, tenant: TenantId, token: &str, now: Now) -> Option<Verified> {
        self.tenants.get(usize::from(tenant.0))?.jwt.as_ref()?.verify(token, now.wall)
    }

    fn is_operator(&self, fingerprint: &[u8; 32]) -> bool {
        // Every key is compared, whichever matches.
        let found = self.operators.iter().map(|key| key.0.ct_eq(fingerprint));
        found.fold(subtle::Choice::from(0), |any, this| any | this).into()
    }
}

fn bearer(headers: &HeaderMap) -> Result<&str, AuthError> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next().ok_or(AuthError::Missing)?;
    if values.next().is_some() {
        return Err(AuthError::Invalid);
    }
    value.to_str().ok().and_then(bearer_token).ok_or(AuthError::Invalid)
}

/// The token in the text of `Authorization`.
pub(super) fn bearer_token(text: &str) -> Option<&str> {
    let (scheme, token) = text.split_once(' ').filter(|_| text.len() <= TOKEN_BYTES_MAX)?;
    let token = token.trim_matches(' ');
    let legal = scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && !token.contains(' ');
    legal.then_some(token)
}

#[cfg(test)]
mod tests {
    use super::jwt::{JwtAlgorithm, JwtKey, JwtVerifier};
    use super::*;
    use crate::credentials::Secret;
    use crate::edge::http::settings::BrowsePolicy;
    use hyper::header::HeaderValue;
    use jsonwebtoken::{EncodingKey, Header, encode};

    const NOW: Now = Now { mono: MonoTime(5_000_000_000), wall: WallTime(1_700_000_000_000) };

    fn key(root: u8) -> KeyBytes {
        crate::service::InstanceKeys::derive(&[root; 32], InstanceId(1)).guest_tokens
    }

    fn tenant(name: &str, secret: &str) -> TenantSettings {
        let key = JwtKey::Secret(Secret::new(secret));
        let jwt = JwtVerifier::new(JwtAlgorithm::Hs256, &key, None).unwrap();
        TenantSettings { name: name.into(), browse: BrowsePolicy::Public, guests: true, jwt: Some(jwt) }
    }

    fn authenticator() -> Authenticator {
        Authenticator::new(
            vec![KeyFingerprint::of(&Secret::new("first")), KeyFingerprint::of(&Secret::new("second"))],
            vec![tenant("a", &"a".repeat(32)), tenant("b", &"b".repeat(32))],
            key(7),
            Duration::from_secs(60),
            InstanceId(1),
        )
    }

    fn identify(value: &str, tenant: u16) -> Result<Identity, AuthError> {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        authenticator().identify(&headers, Some(TenantId(tenant)), NOW)
    }

    fn jwt(secret: &str, tenant: &str) -> String {
        let claims = serde_json::json!({"sub": "alice", "tenant": tenant, "exp": 1_700_000_060});
        encode(&Header::default(), &claims, &EncodingKey::from_secret(secret.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn operators_come_by_any_of_their_keys() {
        assert_eq!(identify("Bearer first", 0), Ok(Identity::Operator));
        assert_eq!(identify("bearer second", 0), Ok(Identity::Operator));
        for bad in ["Bearer third", "Bearer firs", "Basic first", "first", "Bearer ", "Bearer first second"] {
            assert_eq!(identify(bad, 0), Err(AuthError::Invalid), "{bad}");
        }
        assert_eq!(authenticator().identify(&HeaderMap::new(), None, NOW), Err(AuthError::Missing));
        let mut twice = HeaderMap::new();
        twice.append(AUTHORIZATION, HeaderValue::from_static("Bearer first"));
        twice.append(AUTHORIZATION, HeaderValue::from_static("Bearer first"));
        assert_eq!(authenticator().identify(&twice, None, NOW), Err(AuthError::Invalid));
    }

    #[test]
    fn a_jwt_belongs_to_its_tenant_wherever_it_is_sent() {
        let alice = |tenant| {
            Ok(Identity::Principal {
                tenant: TenantId(tenant),
                name: "alice".into(),
                guest: false,
                scope: Scopes::default(),
                good: Good::Jwt(ValidTime::until(WallTime(1_700_000_060_000))),
            })
        };
        assert_eq!(identify(&format!("Bearer {}", jwt(&"a".repeat(32), "a")), 0), alice(0));
        assert_eq!(identify(&format!("Bearer {}", jwt(&"b".repeat(32), "b")), 0), alice(1), "to be refused with 404");
        assert_eq!(identify(&format!("Bearer {}", jwt(&"b".repeat(32), "a")), 0), Err(AuthError::Invalid));
        assert_eq!(identify(&format!("Bearer {}", jwt(&"a".repeat(32), "b")), 1), Err(AuthError::Invalid));
        assert_eq!(identify(&format!("Bearer {}", jwt(&"a".repeat(32), "c")), 0), Err(AuthError::Invalid));
    }

    #[test]
    fn guest_tokens_of_an_earlier_instance_are_told_apart() {
        let other = GuestTokens::new(key(9), Duration::from_secs(60), InstanceId(2));
        let stale = other.issue(TenantId(0), 5, NOW.mono);
        assert_eq!(identify(&format!("Bearer {}", stale.expose()), 0), Err(AuthError::StaleInstance));
        let guests = authenticator();
        let token = guests.guests().issue(TenantId(1), 5, NOW.mono);
        let name = "guest:00000000000000000000000000000005".to_owned();
        let good = Good::Guest(NOW.mono.plus_ms(60_000));
        assert_eq!(
            identify(&format!("Bearer {}", token.expose()), 0),
            Ok(Identity::Principal { tenant: TenantId(1), name, guest: true, scope: Scopes::default(), good })
        );
    }
}
