//! The chat that `rendezvous host` and `rendezvous join` speak once they are connected: an example of an application
//! protocol beside STUN on one socket. A game replaces it by its own.
//!
//! A frame is `R`, a kind, a 16-byte tag, a 32-bit number and text. Its first byte is no STUN (RFC 7983: 0 to 3), so
//! [`is_stun`](super::core::is_stun) tells them apart. The tag is HMAC-SHA256 under the peers' key over the sender's role
//! and all the rest, cut to 16 bytes: nobody else can speak, and nothing can be reflected. The text is not encrypted.

use crate::credentials::{Secret, hmac_sha256};
use crate::domain::Role;
use subtle::ConstantTimeEq;

/// First byte of a frame.
const FRAME: u8 = b'R';
/// `R`, kind, tag, number.
const HEADER_BYTES: usize = 1 + 1 + TAG_BYTES + 4;
/// 128 bits.
const TAG_BYTES: usize = 16;
/// Longest text, so that a frame fits every path without fragments.
pub const TEXT_BYTES_MAX: usize = 1_000;

/// A frame's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Something said. Repeated until it is acknowledged, so a receiver looks at the number.
    Text {
        /// Counts up per sender.
        number: u32,
        /// At most [`TEXT_BYTES_MAX`] bytes.
        text: String,
    },
    /// A text has arrived.
    Ack {
        /// Whose number.
        number: u32,
    },
}

/// One side of a connected pair.
#[derive(Clone, Debug)]
pub struct Link {
    role: Role,
    key: Secret,
}

impl Link {
    /// Frames of `role` under the attempt's `peer_key`.
    pub fn new(role: Role, key: Secret) -> Self {
        Self { role, key }
    }

    /// Writes a frame; text beyond [`TEXT_BYTES_MAX`] is cut at a character.
    pub fn encode(&self, frame: &Frame) -> Vec<u8> {
        let (kind, number, text) = match frame {
            Frame::Text { number, text } => (b't', *number, &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]),
            Frame::Ack { number } => (b'a', *number, ""),
        };
        let mut bytes = vec![FRAME, kind];
        bytes.extend_from_slice(&self.tag(self.role, kind, &number.to_be_bytes(), text.as_bytes()));
        bytes.extend_from_slice(&number.to_be_bytes());
        bytes.extend_from_slice(text.as_bytes());
        bytes
    }

    /// Reads a frame of the other side; anything else is `None`.
    pub fn decode(&self, bytes: &[u8]) -> Option<Frame> {
        let (header, text) = bytes.split_at_checked(HEADER_BYTES)?;
        let (&[frame, kind], rest) = header.split_first_chunk::<2>()?;
        let (tag, number) = rest.split_first_chunk::<TAG_BYTES>()?;
        let number: &[u8; 4] = number.try_into().ok()?;
        let expected = self.tag(self.role.other(), kind, number, text);
        if frame != FRAME || text.len() > TEXT_BYTES_MAX || !bool::from(expected.ct_eq(tag)) {
            return None;
        }
        let number = u32::from_be_bytes(*number);
        match kind {
            b't' => Some(Frame::Text { number, text: String::from_utf8(text.to_vec()).ok()? }),
            b'a' => Some(Frame::Ack { number }),
            _ => None,
        }
    }

    fn tag(&self, sender: Role, kind: u8, number: &[u8; 4], text: &[u8]) -> [u8; TAG_BYTES] {
        let role = match sender {
            Role::Host => b'h',
            Role::Joiner => b'j',
        };
        let mac = hmac_sha256(self.key.expose().as_bytes(), &[&[FRAME, role, kind], number, text]);
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&mac[..TAG_BYTES]);
        tag
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::core::is_stun;

    fn pair() -> (Link, Link) {
        let key = Secret::new("a key of both");
        (Link::new(Role::Host, key.clone()), Link::new(Role::Joiner, key))
    }

    #[test]
    fn the_other_side_reads_what_was_written() {
        let (host, joiner) = pair();
        for frame in [Frame::Text { number: 7, text: "h\u{e9}llo".into() }, Frame::Ack { number: u32::MAX }] {
            let bytes = joiner.encode(&frame);
            assert_eq!(host.decode(&bytes), Some(frame));
            assert!(!is_stun(&bytes));
        }
        let long = joiner.encode(&Frame::Text { number: 1, text: "\u{e9}".repeat(600) });
        let Some(Frame::Text { text, .. }) = host.decode(&long) else { panic!("cut texts are still texts") };
        assert_eq!(text.len(), TEXT_BYTES_MAX);
    }

    #[test]
    fn nothing_reflected_forged_or_cut_is_read() {
        let (host, joiner) = pair();
        let bytes = joiner.encode(&Frame::Text { number: 7, text: "hello".into() });
        assert_eq!(joiner.decode(&bytes), None, "reflected");
        let stranger = Link::new(Role::Host, Secret::new("another key"));
        assert_eq!(stranger.decode(&bytes), None);
        for length in 0..bytes.len() {
            assert_eq!(host.decode(&bytes[..length]), None, "prefix of {length}");
        }
        for position in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[position] ^= 1;
            assert_eq!(host.decode(&changed), None, "byte {position}");
        }
    }
}
