//! Integrity as an independent codec sees it.

use rendezvous::stun::HEADER_BYTES;
use stun_types::message::{IntegrityAlgorithm, Message, MessageIntegrityCredentials};

const MESSAGE_INTEGRITY_SHA256: u16 = 0x001C;
const FINGERPRINT: u16 = 0x8028;
/// Bytes of a whole value; `stun-types` accepts shorter ones.
const VALUE_BYTES: usize = 32;

/// Whether the first MESSAGE-INTEGRITY-SHA256 that counts holds. Of several `stun-types` takes the last, where RFC 8489 (section 14) has
/// the first occurrence count, and behind a FINGERPRINT none: so it is shown the message up to that one.
pub(crate) fn integrity_holds(raw: &[u8], credentials: &MessageIntegrityCredentials) -> bool {
    let Some(sealed) = sealed(raw) else { return false };
    Message::from_bytes(&sealed)
        .is_ok_and(|message| matches!(message.validate_integrity(credentials), Ok(IntegrityAlgorithm::Sha256)))
}

fn sealed(raw: &[u8]) -> Option<Vec<u8>> {
    let mut offset = HEADER_BYTES;
    loop {
        let head: [u8; 4] = raw.get(offset..offset + 4)?.try_into().ok()?;
        let (kind, length) = (u16::from_be_bytes([head[0], head[1]]), u16::from_be_bytes([head[2], head[3]]));
        let end = offset + 4 + usize::from(length).next_multiple_of(4);
        match kind {
            FINGERPRINT => return None,
            MESSAGE_INTEGRITY_SHA256 if usize::from(length) != VALUE_BYTES => return None,
            MESSAGE_INTEGRITY_SHA256 => {
                let mut sealed = raw.get(..end)?.to_vec();
                let length = u16::try_from(end - HEADER_BYTES).ok()?;
                sealed[2..4].copy_from_slice(&length.to_be_bytes());
                return Some(sealed);
            }
            _ => offset = end,
        }
    }
}
