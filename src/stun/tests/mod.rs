//! Tests of the codec: the RFCs' vectors, hostile bytes, and another implementation.

mod differential;
mod hostile;
mod rules;
mod vectors;

use super::*;

pub(super) const TRANSACTION: TransactionId = TransactionId(*b"transaction!");

pub(super) const KEY: [u8; 32] = [7; 32];

/// An authenticated presence request as a client of ours sends it.
pub(super) fn presence_request() -> Vec<u8> {
    MessageBuilder::binding_request(TRANSACTION)
        .text(AttributeType::USERNAME, "p1.0123456789abcdef0123456789abcdef")
        .text(AttributeType::REALM, "rendezvous")
        .text(AttributeType::NONCE, "obMatJos2gAAAnonce")
        .attribute(AttributeType::PASSWORD_ALGORITHMS, &PASSWORD_ALGORITHM_SHA256)
        .attribute(AttributeType::PASSWORD_ALGORITHM, &PASSWORD_ALGORITHM_SHA256)
        .u64(AttributeType::RV_SEQUENCE, 42)
        .integrity(&KEY)
        .fingerprint()
        .finish()
        .unwrap()
}
