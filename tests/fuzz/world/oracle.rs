//! Integrity as an independent codec sees it.

use rendezvous::stun::HEADER_BYTES;
use stun_types::message::{IntegrityAlgorithm, Message, MessageIntegrityCredentials};

const MESSAGE_INTEGRITY: u16 = 0x0008;
const MESSAGE_INTEGRITY_SHA256: u16 = 0x001C;
const FINGERPRINT: u16 = 0x8028;
/// Bytes of a whole value; `stun-types` accepts shorter ones.
const VALUE_BYTES: usize = 32;

/// Whether the first MESSAGE-INTEGRITY-SHA256 that counts holds. Of several `stun-types` takes the last, where RFC 8489 (section 14) has
/// the first occurrence count, and behind a FINGERPRINT none: so it is shown the message up to that one. `None` where a SHA-1
/// attribute stands before it: that closes the list of attributes (section 14.5), and `stun-types` reads no further.
pub(crate) fn integrity_holds(raw: &[u8], credentials: &MessageIntegrityCredentials) -> Option<bool> {
    let mut offset = HEADER_BYTES;
    loop {
        let Some((kind, length)) = head(raw, offset) else { return Some(false) };
        let end = offset + 4 + length.next_multiple_of(4);
        match kind {
            MESSAGE_INTEGRITY => return None,
            FINGERPRINT => return Some(false),
            MESSAGE_INTEGRITY_SHA256 if length != VALUE_BYTES => return Some(false),
            MESSAGE_INTEGRITY_SHA256 => return Some(holds(raw.get(..end)?, credentials)),
            _ => offset = end,
        }
    }
}

fn head(raw: &[u8], offset: usize) -> Option<(u16, usize)> {
    let head: [u8; 4] = raw.get(offset..offset + 4)?.try_into().ok()?;
    Some((u16::from_be_bytes([head[0], head[1]]), u16::from_be_bytes([head[2], head[3]]).into()))
}

/// The verdict on a message that ends with its integrity attribute.
fn holds(sealed: &[u8], credentials: &MessageIntegrityCredentials) -> bool {
    let mut sealed = sealed.to_vec();
    let length = (sealed.len() - HEADER_BYTES) as u16;
    sealed[2..4].copy_from_slice(&length.to_be_bytes());
    Message::from_bytes(&sealed)
        .is_ok_and(|message| matches!(message.validate_integrity(credentials), Ok(IntegrityAlgorithm::Sha256)))
}
