//! The chat that `rendezvous host` and `rendezvous join` speak once they are connected: an example of an application
//! protocol beside STUN on one socket. A game replaces it by its own.
//!
//! A frame is `R`, a kind, a 16-byte tag, a 32-bit number and text. Its first byte is no STUN (RFC 7983: 0 to 3), so
//! [`is_stun`](super::core::is_stun) tells them apart. The tag is HMAC-SHA256 under the peers' key over the sender's role
//! and all the rest, cut to 16 bytes: nobody else can speak, and nothing can be reflected. The text is not encrypted.

use crate::credentials::{Secret, hmac_sha256};
use crate::domain::{MonoTime, Role};
use std::collections::VecDeque;
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
            Frame::Text { number, text } => (b't', *number, cut(text)),
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

/// The longest beginning of whole characters that fits.
fn cut(text: &str) -> &str {
    let end = (0..=text.len().min(TEXT_BYTES_MAX)).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// Repetition of a text that isn't acknowledged.
const REPEAT_MS: u64 = 250;
/// Repetitions before it is given up: five seconds.
const TRIES_MAX: u32 = 20;
/// Texts on the way at one time.
const UNACKED_MAX: usize = 16;

/// What a conversation heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A text that is new.
    Text(String),
    /// The other side has a text of ours; with the round trip in microseconds when it was sent once only.
    Ack {
        /// Microseconds.
        round_trip_us: Option<u64>,
    },
}

#[derive(Debug)]
struct Unacked {
    number: u32,
    bytes: Vec<u8>,
    sent_at: MonoTime,
    tries: u32,
}

/// A conversation with one peer: texts arrive once and in any order, or are given up. No socket, no clock.
#[derive(Debug)]
pub struct Talk {
    link: Link,
    unacked: VecDeque<Unacked>,
    next_number: u32,
    /// Numbers heard, highest last; a repetition is acknowledged again and not told again.
    heard: VecDeque<u32>,
    out: VecDeque<Vec<u8>>,
}

impl Talk {
    /// Begins a conversation.
    pub fn new(link: Link) -> Self {
        Self { link, unacked: VecDeque::new(), next_number: 1, heard: VecDeque::new(), out: VecDeque::new() }
    }

    /// Says something; false when too much is on the way already.
    pub fn say(&mut self, text: &str, now: MonoTime) -> bool {
        if self.unacked.len() >= UNACKED_MAX {
            return false;
        }
        let number = self.next_number;
        self.next_number = self.next_number.wrapping_add(1);
        let bytes = self.link.encode(&Frame::Text { number, text: text.to_owned() });
        self.send(bytes.clone());
        self.unacked.push_back(Unacked { number, bytes, sent_at: now, tries: 1 });
        true
    }

    /// Takes a datagram that isn't STUN.
    pub fn handle_input(&mut self, bytes: &[u8], now: MonoTime) -> Option<Heard> {
        match self.link.decode(bytes)? {
            Frame::Ack { number } => {
                let position = self.unacked.iter().position(|unacked| unacked.number == number)?;
                let acked = self.unacked.remove(position)?;
                let round_trip_us = (acked.tries == 1).then(|| now.0.saturating_sub(acked.sent_at.0) / 1_000);
                Some(Heard::Ack { round_trip_us })
            }
            Frame::Text { number, text } => {
                let ack = self.link.encode(&Frame::Ack { number });
                self.send(ack);
                if self.heard.contains(&number) {
                    return None;
                }
                if self.heard.len() == UNACKED_MAX * 2 {
                    self.heard.pop_front();
                }
                self.heard.push_back(number);
                Some(Heard::Text(text))
            }
        }
    }

    /// Repeats what is due; gives up what was said too often.
    pub fn handle_timeout(&mut self, now: MonoTime) {
        self.unacked.retain(|unacked| unacked.tries < TRIES_MAX || !due(unacked).is_past(now));
        let mut repeated = Vec::new();
        for unacked in self.unacked.iter_mut().filter(|unacked| due(unacked).is_past(now)) {
            (unacked.sent_at, unacked.tries) = (now, unacked.tries + 1);
            repeated.push(unacked.bytes.clone());
        }
        repeated.into_iter().for_each(|bytes| self.send(bytes));
    }

    /// When [`Talk::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<MonoTime> {
        self.unacked.iter().map(due).min()
    }

    /// The next datagram to send to the peer.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.out.pop_front()
    }

    fn send(&mut self, bytes: Vec<u8>) {
        if self.out.len() < UNACKED_MAX * 2 {
            self.out.push_back(bytes);
        }
    }
}

fn due(unacked: &Unacked) -> MonoTime {
    unacked.sent_at.plus_ms(REPEAT_MS)
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

    #[test]
    fn a_lost_text_is_repeated_until_it_is_acknowledged_and_heard_once() {
        let (host, joiner) = pair();
        let (mut host, mut joiner) = (Talk::new(host), Talk::new(joiner));
        let at = |ms| MonoTime(0).plus_ms(ms);
        assert!(joiner.say("hello", at(0)));
        assert!(joiner.poll_transmit().is_some(), "lost");
        assert_eq!(joiner.poll_timeout(), Some(at(REPEAT_MS)));
        joiner.handle_timeout(at(REPEAT_MS));
        let repeated = joiner.poll_transmit().unwrap();
        assert_eq!(host.handle_input(&repeated, at(260)), Some(Heard::Text("hello".into())));
        let _lost = host.poll_transmit().unwrap();
        joiner.handle_timeout(at(2 * REPEAT_MS));
        assert_eq!(host.handle_input(&joiner.poll_transmit().unwrap(), at(510)), None, "heard already");
        let ack = host.poll_transmit().unwrap();
        assert_eq!(joiner.handle_input(&ack, at(520)), Some(Heard::Ack { round_trip_us: None }));
        assert_eq!(joiner.poll_timeout(), None);
    }

    #[test]
    fn a_text_that_nobody_acknowledges_is_given_up_and_too_many_are_refused() {
        let mut talk = Talk::new(pair().0);
        let said = (0..UNACKED_MAX + 1).filter(|_| talk.say("x", MonoTime(0))).count();
        assert_eq!(said, UNACKED_MAX);
        let mut now = MonoTime(0);
        while let Some(due) = talk.poll_timeout() {
            assert!(due > now && due <= MonoTime(0).plus_ms(REPEAT_MS * u64::from(TRIES_MAX)));
            now = due;
            talk.handle_timeout(now);
            while talk.poll_transmit().is_some() {}
        }
        assert_eq!(now, MonoTime(0).plus_ms(REPEAT_MS * u64::from(TRIES_MAX)));
    }
}
