//! `[[tenant]]` and `[tenant.jwt]`.

use super::{Access, Key};
use crate::config::sections::{Browse, Tenant};
use crate::edge::http::JwtAlgorithm;

pub(super) static KEYS: &[Key<Tenant>] = &[
    key!(
        "name",
        "1 to 64 of a-z 0-9 . _ -",
        "The name in paths.",
        "\"demo\"",
        Access::Text {
            get: |t| Some(&t.name).filter(|name| !name.is_empty()).map(String::as_str),
            set: |t, value| t.name = value,
        }
    ),
    key!(
        "browse",
        "public or principal",
        "Who may browse: anyone, or who has a token.",
        "\"public\"",
        Access::Word {
            words: &["public", "principal"],
            get: |t| Some(match t.browse {
                Browse::Public => "public",
                Browse::Principal => "principal",
            }),
            set: |t, word| t.browse = if word == "public" { Browse::Public } else { Browse::Principal },
        }
    ),
    key!(
        "guests",
        "true or false",
        "Whether anybody may become a guest: for games without accounts.",
        "false",
        Access::Flag { get: |t| t.guests, set: |t, value| t.guests = value }
    ),
    key!(
        "jwt.algorithm",
        "HS256, EdDSA, RS256 or ES256",
        "The only signature algorithm that is accepted.",
        "\"HS256\"",
        Access::Word {
            words: &["HS256", "EdDSA", "RS256", "ES256"],
            get: |t| t.jwt.algorithm.map(algorithm_name),
            set: |t, word| t.jwt.algorithm = algorithm(word),
        }
    ),
    key!(
        "jwt.key",
        "secret or PEM",
        "HS256: the shared secret, 32 bytes and more. Else the public key as PEM.",
        "\"a-shared-secret-of-at-least-32-bytes\"",
        Access::Secret { set: |t, value| t.jwt.key = Some(value) }
    ),
    key!(
        "jwt.key_file",
        "path",
        "The same from a file.",
        "\"/etc/rendezvous/demo.pem\"",
        Access::File { set: |t, value| t.jwt.key_file = Some(value) }
    ),
    key!(
        "jwt.jwks_file",
        "path",
        "A JSON Web Key Set instead, read at start.",
        "\"/etc/rendezvous/demo.jwks.json\"",
        Access::File { set: |t, value| t.jwt.jwks_file = Some(value) }
    ),
    key!(
        "jwt.audience",
        "text",
        "When set, a token's aud has to name it.",
        "\"rendezvous\"",
        Access::Text { get: |t| t.jwt.audience.as_deref(), set: |t, value| t.jwt.audience = Some(value) }
    ),
];

fn algorithm_name(algorithm: JwtAlgorithm) -> &'static str {
    match algorithm {
        JwtAlgorithm::Hs256 => "HS256",
        JwtAlgorithm::EdDsa => "EdDSA",
        JwtAlgorithm::Rs256 => "RS256",
        JwtAlgorithm::Es256 => "ES256",
    }
}

fn algorithm(name: &str) -> Option<JwtAlgorithm> {
    let all = [JwtAlgorithm::Hs256, JwtAlgorithm::EdDsa, JwtAlgorithm::Rs256, JwtAlgorithm::Es256];
    all.into_iter().find(|algorithm| algorithm_name(*algorithm) == name)
}
