//! JSON Web Tokens of a tenant (RFC 7519, with the advice of RFC 8725: one algorithm, keys from the configuration only).

use super::guest::GUEST_PREFIX;
use crate::credentials::Secret;
use crate::domain::WallTime;
use jsonwebtoken::dangerous::insecure_decode_claims;
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::jwk::{Jwk, JwkSet, KeyAlgorithm, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde::Deserialize;
use std::fmt;

/// Longest `sub`.
const SUBJECT_BYTES_MAX: usize = 256;
/// Most keys of a set that are tried for a token without `kid`.
const KEYS_MAX: usize = 16;

/// The one algorithm of a tenant's tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JwtAlgorithm {
    /// HMAC with SHA-256.
    Hs256,
    /// Ed25519.
    EdDsa,
    /// RSA PKCS #1 with SHA-256.
    Rs256,
    /// ECDSA P-256 with SHA-256.
    Es256,
}

impl JwtAlgorithm {
    fn library(self) -> (Algorithm, KeyAlgorithm) {
        match self {
            Self::Hs256 => (Algorithm::HS256, KeyAlgorithm::HS256),
            Self::EdDsa => (Algorithm::EdDSA, KeyAlgorithm::EdDSA),
            Self::Rs256 => (Algorithm::RS256, KeyAlgorithm::RS256),
            Self::Es256 => (Algorithm::ES256, KeyAlgorithm::ES256),
        }
    }
}

/// Where a tenant's keys come from.
pub enum JwtKey {
    /// The shared secret of HS256, as its bytes.
    Secret(Secret),
    /// A public key in PEM, for the other algorithms.
    Pem(String),
    /// A JSON Web Key Set (RFC 7517 section 5).
    Jwks(Vec<u8>),
}

/// Why a verifier can't be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JwtKeyError {
    /// An HS256 secret of fewer than 32 bytes (RFC 7518 section 3.2).
    ShortSecret,
    /// The key does not fit the algorithm or can't be read.
    Unreadable(String),
    /// The set has no key for the algorithm, or more than 16.
    NoKey,
}

impl fmt::Display for JwtKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ShortSecret => f.write_str("an HS256 key needs at least 32 bytes"),
            Self::Unreadable(why) => write!(f, "the key can't be read for this algorithm: {why}"),
            Self::NoKey => write!(f, "the key set needs 1 to {KEYS_MAX} keys for this algorithm"),
        }
    }
}

impl std::error::Error for JwtKeyError {}

/// The claims that count.
#[derive(Deserialize)]
struct Claims {
    sub: String,
    tenant: String,
    exp: f64,
    #[serde(default)]
    nbf: Option<f64>,
    #[serde(default)]
    iat: Option<f64>,
    #[serde(default)]
    scope: Scopes,
}

/// The words of the `scope` claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::edge::http) struct Scopes(Vec<String>);

impl Scopes {
    /// Whether the word is among them.
    pub(in crate::edge::http) fn names(&self, word: &str) -> bool {
        self.0.iter().any(|known| known == word)
    }
}

impl<'de> Deserialize<'de> for Scopes {
    /// Words with spaces between (RFC 9068 section 2.2.3) or, as some issuers write it, a list of them. A claim of another
    /// shape names nothing: it is no reason to refuse the token where no scope is asked for.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Claim {
            Text(String),
            List(Vec<String>),
            Other(serde::de::IgnoredAny),
        }
        Ok(Self(match Claim::deserialize(deserializer)? {
            Claim::Text(text) => text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect(),
            Claim::List(words) => words,
            Claim::Other(_) => Vec::new(),
        }))
    }
}

/// What a good token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::edge::http) struct Verified {
    pub(in crate::edge::http) subject: String,
    pub(in crate::edge::http) scope: Scopes,
    pub(in crate::edge::http) tenant: String,
    pub(in crate::edge::http) valid: ValidTime,
}

/// From when to when a token can be used, in milliseconds of wall time, the leeway for its issuer's clock included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::edge::http) struct ValidTime {
    from: WallTime,
    end: WallTime,
}

impl ValidTime {
    /// Good until then, and since ever.
    #[cfg(test)]
    pub(in crate::edge::http) fn until(end: WallTime) -> Self {
        Self { from: WallTime(0), end }
    }

    fn of(claims: &Claims) -> Self {
        // Both say from when on there can be such a token.
        let begun = [claims.nbf, claims.iat].into_iter().flatten().fold(f64::NEG_INFINITY, f64::max);
        // Whole milliseconds compare with the next one as with the fraction; what is out of range, with the least or greatest.
        let ms = |seconds: f64| WallTime((seconds * 1_000.0).ceil() as u64);
        Self { from: ms(begun - ISSUER_AHEAD_S), end: ms(claims.exp) }
    }

    pub(in crate::edge::http) fn contains(self, now: WallTime) -> bool {
        self.from <= now && now < self.end
    }
}

/// Verifies one tenant's tokens.
pub struct JwtVerifier {
    keys: Vec<(Option<String>, DecodingKey)>,
    validation: Validation,
}

impl fmt::Debug for JwtVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JwtVerifier").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

impl JwtVerifier {
    /// Reads the keys. With `audience`, a token's `aud` must name it; without, tokens with an `aud` are refused.
    pub fn new(algorithm: JwtAlgorithm, key: &JwtKey, audience: Option<&str>) -> Result<Self, JwtKeyError> {
        // Exactly one provider is compiled in; a second installation in one process changes nothing.
        let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
        let (library, _) = algorithm.library();
        let mut validation = Validation::new(library);
        // Time is checked here, against the clock that the caller hands in.
        validation.validate_exp = false;
        validation.required_spec_claims = ["exp", "sub"].into_iter().map(str::to_owned).collect();
        if let Some(audience) = audience {
            validation.set_audience(&[audience]);
            validation.required_spec_claims.insert("aud".to_owned());
        }
        Ok(Self { keys: keys(algorithm, key)?, validation })
    }

    /// The claims of a token that is genuine, in time, and whose subject is no guest's name.
    pub(in crate::edge::http) fn verify(&self, token: &str, now: WallTime) -> Option<Verified> {
        // A key without an id fits every token, so there is nothing to choose by.
        let choose = self.keys.iter().any(|(id, _)| id.is_some());
        let kid = if choose { decode_header(token).ok()?.kid } else { None };
        let fits = |id: &Option<String>| match (&kid, id) {
            (Some(kid), Some(id)) => kid == id,
            (None, _) | (_, None) => true,
        };
        let genuine = self.keys.iter().filter(|(id, _)| fits(id));
        let claims = genuine.filter_map(|(_, key)| decode::<Claims>(token, key, &self.validation).ok()).next()?.claims;
        let valid = ValidTime::of(&claims);
        let named = (1..=SUBJECT_BYTES_MAX).contains(&claims.sub.len()) && !claims.sub.starts_with(GUEST_PREFIX);
        let Claims { sub: subject, scope, tenant, .. } = claims;
        (valid.contains(now) && named).then_some(Verified { subject, scope, tenant, valid })
    }
}

/// How far the issuer's clock may run ahead. `exp` has no such leeway: a token that is over is over.
const ISSUER_AHEAD_S: f64 = 60.0;

/// The tenant that a token claims, unverified: only to choose whose key to try.
pub(in crate::edge::http) fn claimed_tenant(token: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Claimed {
        tenant: String,
    }
    insecure_decode_claims::<Claimed>(token).ok().map(|claimed| claimed.tenant)
}

fn keys(algorithm: JwtAlgorithm, key: &JwtKey) -> Result<Vec<(Option<String>, DecodingKey)>, JwtKeyError> {
    let unreadable = |error: Error| JwtKeyError::Unreadable(reason(error.kind()).to_owned());
    let one = |key: Result<DecodingKey, Error>| key.map(|key| vec![(None, key)]).map_err(unreadable);
    match (key, algorithm) {
        (JwtKey::Secret(secret), JwtAlgorithm::Hs256) if secret.expose().len() < 32 => Err(JwtKeyError::ShortSecret),
        (JwtKey::Secret(secret), JwtAlgorithm::Hs256) => one(DecodingKey::from_secret(secret.expose().as_bytes())),
        (JwtKey::Secret(_), _) => Err(JwtKeyError::Unreadable("a shared secret is for HS256 only".to_owned())),
        (JwtKey::Pem(_), JwtAlgorithm::Hs256) => {
            Err(JwtKeyError::Unreadable("HS256 needs a shared secret, not a public key".to_owned()))
        }
        (JwtKey::Pem(pem), JwtAlgorithm::EdDsa) => one(DecodingKey::from_ed_pem(pem.as_bytes())),
        (JwtKey::Pem(pem), JwtAlgorithm::Rs256) => one(DecodingKey::from_rsa_pem(pem.as_bytes())),
        (JwtKey::Pem(pem), JwtAlgorithm::Es256) => one(DecodingKey::from_ec_pem(pem.as_bytes())),
        (JwtKey::Jwks(json), algorithm) => key_set(algorithm, json),
    }
}

fn key_set(algorithm: JwtAlgorithm, json: &[u8]) -> Result<Vec<(Option<String>, DecodingKey)>, JwtKeyError> {
    let set: JwkSet = serde_json::from_slice(json)
        .map_err(|error| JwtKeyError::Unreadable(format!("not a key set, line {}", error.line())))?;
    let (library, named) = algorithm.library();
    let usable =
        |jwk: &&Jwk| jwk.common.key_algorithm.is_none_or(|algorithm| algorithm == named) && is_for_signatures(jwk);
    let keys: Vec<_> = set
        .keys
        .iter()
        .filter(usable)
        .filter_map(|jwk| DecodingKey::from_jwk(jwk).ok().map(|key| (jwk.common.key_id.clone(), key)))
        .filter(|(_, key)| key.family().algorithms().contains(&library))
        .collect();
    if (1..=KEYS_MAX).contains(&keys.len()) { Ok(keys) } else { Err(JwtKeyError::NoKey) }
}

/// Whether the set's owner means the key to check signatures (RFC 7517 sections 4.2 and 4.3): a key for encryption is shared
/// with others, who could then sign.
fn is_for_signatures(jwk: &Jwk) -> bool {
    let usage = jwk.common.public_key_use.as_ref().is_none_or(|usage| *usage == PublicKeyUse::Signature);
    usage && jwk.common.key_operations.as_ref().is_none_or(|operations| operations.contains(&KeyOperations::Verify))
}

/// Only the kind of an error: its text may quote key material.
fn reason(kind: &ErrorKind) -> &'static str {
    #[allow(clippy::wildcard_enum_match_arm, reason = "the library's enum is non-exhaustive")]
    match kind {
        ErrorKind::InvalidEcdsaKey => "not an ECDSA key",
        ErrorKind::InvalidEddsaKey => "not an EdDSA key",
        ErrorKind::InvalidRsaKey(_) => "not an RSA key",
        ErrorKind::InvalidKeyFormat => "not a public key in PEM",
        _ => "malformed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jsonwebtoken::{EncodingKey, Header, encode};
    use serde_json::json;

    const SECRET: &str = "0123456789abcdef0123456789abcdef";
    const NOW: WallTime = WallTime(1_700_000_000_000);

    fn verifier(audience: Option<&str>) -> JwtVerifier {
        JwtVerifier::new(JwtAlgorithm::Hs256, &JwtKey::Secret(Secret::new(SECRET)), audience).unwrap()
    }

    fn token(claims: &serde_json::Value) -> String {
        encode(&Header::default(), claims, &EncodingKey::from_secret(SECRET.as_bytes()).unwrap()).unwrap()
    }

    fn good() -> serde_json::Value {
        json!({"sub": "alice", "tenant": "demo", "exp": 1_700_000_001})
    }

    fn changed(name: &str, value: serde_json::Value) -> String {
        let mut claims = good();
        claims[name] = value;
        token(&claims)
    }

    #[test]
    fn a_genuine_token_in_time_is_good_and_a_fractional_time_is_a_time() {
        let verified = verifier(None).verify(&token(&good()), NOW).unwrap();
        assert_eq!((verified.subject.as_str(), verified.tenant.as_str()), ("alice", "demo"));
        assert!(verifier(None).verify(&changed("exp", json!(1_700_000_000.5)), NOW).is_some());
        for (name, from) in [("nbf", 1_700_000_030), ("iat", 1_700_000_030), ("iat", 1_600_000_000)] {
            assert!(verifier(None).verify(&changed(name, json!(from)), NOW).is_some(), "{name} {from}");
        }
    }

    #[test]
    fn case_c4_claims_that_are_missing_late_early_or_a_guests_are_refused() {
        for (name, value) in [
            ("exp", json!(1_700_000_000)),
            ("exp", json!("1700000001")),
            ("exp", json!(null)),
            ("nbf", json!(1_700_000_061)),
            ("iat", json!(1_700_000_061)),
            ("iat", json!(1_700_007_200)),
            ("iat", json!("1700000000")),
            ("sub", json!("guest:1")),
            ("sub", json!("")),
            ("sub", json!("x".repeat(257))),
            ("sub", json!(1)),
            ("tenant", json!(null)),
            ("aud", json!("somebody")),
        ] {
            assert!(verifier(None).verify(&changed(name, value.clone()), NOW).is_none(), "{name} {value}");
        }
        for missing in ["sub", "tenant", "exp"] {
            let mut claims = good();
            claims.as_object_mut().unwrap().remove(missing);
            assert!(verifier(None).verify(&token(&claims), NOW).is_none(), "{missing}");
        }
    }

    #[test]
    fn the_audience_must_be_named_when_configured() {
        let with = verifier(Some("rendezvous"));
        assert!(with.verify(&changed("aud", json!("rendezvous")), NOW).is_some());
        assert!(with.verify(&changed("aud", json!(["x", "rendezvous"])), NOW).is_some());
        assert!(with.verify(&changed("aud", json!("other")), NOW).is_none());
        assert!(with.verify(&token(&good()), NOW).is_none());
    }

    #[test]
    fn only_the_configured_algorithm_and_key_are_taken() {
        let key = EncodingKey::from_secret(SECRET.as_bytes()).unwrap();
        let other = encode(&Header::new(Algorithm::HS512), &good(), &key).unwrap();
        assert!(verifier(None).verify(&other, NOW).is_none());
        let unsigned = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSIsInRlbmFudCI6ImRlbW8iLCJleHAiOjE3MDAwMDAwMDF9.";
        assert!(verifier(None).verify(unsigned, NOW).is_none());
        let good = token(&good());
        for position in [0, good.find('.').unwrap() + 5, good.len() - 20] {
            let mut bytes = good.clone().into_bytes();
            bytes[position] = if bytes[position] == b'A' { b'B' } else { b'A' };
            assert!(verifier(None).verify(&String::from_utf8(bytes).unwrap(), NOW).is_none(), "{position}");
        }
        for bad in ["", ".", "..", "a.b.c", "a.b"] {
            assert!(verifier(None).verify(bad, NOW).is_none(), "{bad}");
            assert_eq!(claimed_tenant(bad), None);
        }
    }

    #[test]
    fn keys_that_do_not_fit_are_refused_at_start() {
        let refused = |algorithm, key: JwtKey| JwtVerifier::new(algorithm, &key, None).unwrap_err();
        assert_eq!(refused(JwtAlgorithm::Hs256, JwtKey::Secret(Secret::new("short"))), JwtKeyError::ShortSecret);
        assert_eq!(refused(JwtAlgorithm::Rs256, JwtKey::Jwks(br#"{"keys":[]}"#.to_vec())), JwtKeyError::NoKey);
        for (algorithm, key) in [
            (JwtAlgorithm::Rs256, JwtKey::Secret(Secret::new(SECRET))),
            (JwtAlgorithm::Hs256, JwtKey::Pem("x".into())),
            (JwtAlgorithm::EdDsa, JwtKey::Pem("not pem".into())),
            (JwtAlgorithm::Es256, JwtKey::Jwks(b"{".to_vec())),
        ] {
            assert!(matches!(refused(algorithm, key), JwtKeyError::Unreadable(_)));
        }
    }

    #[test]
    fn a_key_set_is_searched_by_key_id() {
        use base64::Engine;
        let k = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(SECRET);
        let other = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode("z".repeat(32));
        let set = json!({"keys": [
            {"kty": "oct", "kid": "old", "alg": "HS256", "k": other},
            {"kty": "oct", "kid": "new", "alg": "HS256", "k": k},
            {"kty": "oct", "kid": "new", "alg": "HS512", "k": k},
        ]});
        let key = JwtKey::Jwks(set.to_string().into_bytes());
        let verifier = JwtVerifier::new(JwtAlgorithm::Hs256, &key, None).unwrap();
        assert_eq!(verifier.keys.len(), 2);
        let with_kid = |kid: Option<&str>| {
            let header = Header { kid: kid.map(str::to_owned), ..Header::default() };
            encode(&header, &good(), &EncodingKey::from_secret(SECRET.as_bytes()).unwrap()).unwrap()
        };
        assert!(verifier.verify(&with_kid(Some("new")), NOW).is_some());
        assert!(verifier.verify(&with_kid(Some("old")), NOW).is_none());
        assert!(verifier.verify(&with_kid(None), NOW).is_some(), "without a key id every key is tried");
    }

    #[test]
    fn a_key_for_encryption_checks_no_signature() {
        use base64::Engine;
        let k = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(SECRET);
        let with = |name: &str, value: serde_json::Value| {
            let mut jwk = json!({"kty": "oct", "k": k});
            jwk[name] = value;
            let key = JwtKey::Jwks(json!({"keys": [jwk]}).to_string().into_bytes());
            JwtVerifier::new(JwtAlgorithm::Hs256, &key, None).map(|verifier| verifier.verify(&token(&good()), NOW))
        };
        for (name, value) in
            [("use", json!("enc")), ("use", json!("tls")), ("key_ops", json!(["encrypt"])), ("key_ops", json!([]))]
        {
            assert_eq!(with(name, value.clone()).unwrap_err(), JwtKeyError::NoKey, "{name} {value}");
        }
        for (name, value) in
            [("use", json!("sig")), ("key_ops", json!(["sign", "verify"])), ("key_ops", json!(["verify"]))]
        {
            assert!(with(name, value.clone()).unwrap().is_some(), "{name} {value}");
        }
    }

    /// Throw-away keys made with `openssl genpkey`, one block each: algorithm, public key, and a token of `good()`.
    const VECTORS: &str = include_str!("vectors.txt");

    fn vector(algorithm: &str) -> (String, String) {
        let (_, block) = VECTORS.split_once(&format!("{algorithm}\n")).unwrap();
        let (pem, rest) = block.split_once("-----END PUBLIC KEY-----\n").unwrap();
        (format!("{pem}-----END PUBLIC KEY-----\n"), rest.lines().next().unwrap().to_owned())
    }

    #[test]
    fn tokens_of_another_implementation_verify_under_their_pem_and_under_no_other() {
        let algorithms =
            [("EdDSA", JwtAlgorithm::EdDsa), ("ES256", JwtAlgorithm::Es256), ("RS256", JwtAlgorithm::Rs256)];
        for (name, algorithm) in algorithms {
            let (pem, _) = vector(name);
            let verifier = JwtVerifier::new(algorithm, &JwtKey::Pem(pem.clone()), None).unwrap();
            for (other, _) in algorithms {
                let (_, token) = vector(other);
                assert_eq!(verifier.verify(&token, NOW).is_some(), name == other, "{other} under {name}");
            }
            let (_, mut token) = vector(name);
            let at = token.len() - 10;
            let changed = if token.as_bytes()[at] == b'A' { "B" } else { "A" };
            token.replace_range(at..=at, changed);
            assert!(verifier.verify(&token, NOW).is_none(), "{name}");
            // RFC 8725 section 2.1: a public key must never serve as a shared secret.
            assert!(JwtVerifier::new(JwtAlgorithm::Hs256, &JwtKey::Pem(pem), None).is_err());
        }
    }
}
