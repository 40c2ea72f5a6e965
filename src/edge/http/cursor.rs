//! Cursors: where a page begins, and for which query. Opaque to clients, stateless, good across restarts.
//!
//! base64url of: version (1 byte), listing id (16 bytes), tag (8 bytes). The tag is a digest over the rest and the
//! query, so a changed cursor and one of another query look alike: malformed. It is no secret, and need not be one:
//! a forged cursor is a listing id, and reads what anyone may read.
//!
//! A filter counts by its characters, as they are after percent-decoding: a client sends the same one for each page of a
//! walk anyway, and two spellings that mean the same are then never taken for one by mistake.

use crate::domain::ListingId;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

const VERSION: u8 = 1;
const LEN: usize = 1 + 16 + 8;
/// Characters of an encoded cursor.
const TEXT_LEN: usize = (LEN * 8).div_ceil(6);

/// What a cursor belongs to. The tenant is named, not numbered: its number may change with the configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct CursorQuery<'a> {
    pub(super) tenant: &'a str,
    pub(super) protocol: &'a str,
    /// Never empty.
    pub(super) filter: Option<&'a str>,
}

impl CursorQuery<'_> {
    fn tag(self, position: ListingId) -> [u8; 8] {
        let mut hash = Sha256::new();
        hash.update([VERSION]);
        // Names hold no zero byte, so the fields can't run into each other.
        for part in [self.tenant.as_bytes(), self.protocol.as_bytes()] {
            hash.update(part);
            hash.update([0]);
        }
        hash.update(position.0.to_be_bytes());
        // Last and not empty: a cursor without a filter has nothing here.
        hash.update(self.filter.unwrap_or_default());
        let digest: [u8; 32] = hash.finalize().into();
        let mut tag = [0; 8];
        tag.copy_from_slice(&digest[..8]);
        tag
    }

    /// The cursor of the page after `position`.
    pub(super) fn encode(self, position: ListingId) -> String {
        let mut bytes = [0; LEN];
        bytes[0] = VERSION;
        bytes[1..17].copy_from_slice(&position.0.to_be_bytes());
        bytes[17..].copy_from_slice(&self.tag(position));
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The position in a cursor of this query; `None` for any other text.
    pub(super) fn decode(self, text: &str) -> Option<ListingId> {
        if text.len() != TEXT_LEN {
            return None;
        }
        let bytes: [u8; LEN] = URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?;
        let position = ListingId(u128::from_be_bytes(bytes[1..17].try_into().ok()?));
        (bytes[0] == VERSION && bytes[17..] == self.tag(position)).then_some(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: CursorQuery<'_> = CursorQuery { tenant: "demo", protocol: "arena/3", filter: None };
    const POSITION: ListingId = ListingId(0x0123_4567_89AB_CDEF_0011_2233_4455_6677);

    #[test]
    fn a_cursor_comes_back_for_its_query_only() {
        let text = QUERY.encode(POSITION);
        assert_eq!(QUERY.decode(&text), Some(POSITION));
        assert_eq!(CursorQuery { protocol: "arena/4", ..QUERY }.decode(&text), None);
        assert_eq!(CursorQuery { tenant: "other", ..QUERY }.decode(&text), None);
        assert_eq!(CursorQuery { tenant: "demoa", protocol: "rena/3", filter: None }.decode(&text), None);
        let filtered = CursorQuery { filter: Some("players > 3"), ..QUERY };
        assert_eq!(filtered.decode(&filtered.encode(POSITION)), Some(POSITION));
        assert_eq!((filtered.decode(&text), QUERY.decode(&filtered.encode(POSITION))), (None, None));
        assert_eq!(CursorQuery { filter: Some("players >3"), ..QUERY }.decode(&filtered.encode(POSITION)), None);
    }

    #[test]
    fn a_cursor_without_a_filter_is_spelled_as_it_always_was() {
        assert_eq!(QUERY.encode(POSITION), "AQEjRWeJq83vABEiM0RVZnfLCkGQAUbr9A");
    }

    #[test]
    fn case_b2_a_changed_cursor_is_no_cursor() {
        let text = QUERY.encode(POSITION);
        for position in 0..text.len() {
            for bit in 0..7 {
                let mut bytes = text.clone().into_bytes();
                bytes[position] ^= 1 << bit;
                let changed = String::from_utf8(bytes).unwrap();
                assert_eq!(QUERY.decode(&changed), None, "{changed}");
            }
            assert_eq!(QUERY.decode(&text[..position]), None);
        }
        for changed in [format!("{text}="), format!("{text}A"), "x".repeat(65_536), String::new()] {
            assert_eq!(QUERY.decode(&changed), None);
        }
    }
}
