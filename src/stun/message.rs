//! Reading: a borrowed view of one datagram.

use super::{
    AttributeType, Class, HEADER_BYTES, MAGIC_COOKIE, MESSAGE_BYTES_MAX, Method, TransactionId, address,
    class_and_method,
};
use std::net::SocketAddr;

/// Why a datagram is not a STUN message. Nothing of this is ever answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// Shorter than a header, longer than [`MESSAGE_BYTES_MAX`] or not a multiple of four.
    Length,
    /// One of the two top bits is set (RFC 7983: not STUN).
    TopBits,
    /// The magic cookie is missing.
    Cookie,
    /// The header's length field disagrees with the datagram.
    LengthField,
    /// The attribute at this offset reaches beyond the message.
    Attribute(usize),
}

/// A present attribute whose value has the wrong shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub AttributeType);

/// The value of RV-OFFER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferAttribute {
    /// The attempt's id.
    pub attempt: u128,
    /// Milliseconds until it ends.
    pub left_ms: u32,
}

/// A message that lies inside its datagram, with the rules of which attribute counts already decided.
///
/// * The first occurrence of a type counts.
/// * After the first integrity attribute only MESSAGE-INTEGRITY-SHA256 and FINGERPRINT count: what follows is not
///   protected. A SHA-1 attribute before the SHA-256 one is legal and proves nothing.
/// * Nothing after FINGERPRINT counts.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    bytes: &'a [u8],
    class: Class,
    method: Method,
    /// Where the attributes that count end: at the first integrity attribute, at FINGERPRINT, or at the end.
    counted_end: usize,
    has_sha1: bool,
    /// Offset of the attribute header.
    integrity: Option<usize>,
    /// Offset of the attribute header.
    fingerprint: Option<usize>,
}

impl<'a> Message<'a> {
    /// Checks lengths, cookie and the chain of attributes, in the order of their cost.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        if !(HEADER_BYTES..=MESSAGE_BYTES_MAX).contains(&bytes.len()) || !bytes.len().is_multiple_of(4) {
            return Err(ParseError::Length);
        }
        if bytes[0] & 0xC0 != 0 {
            return Err(ParseError::TopBits);
        }
        if bytes[4..8] != MAGIC_COOKIE.to_be_bytes() {
            return Err(ParseError::Cookie);
        }
        if usize::from(u16::from_be_bytes([bytes[2], bytes[3]])) != bytes.len() - HEADER_BYTES {
            return Err(ParseError::LengthField);
        }
        let (class, method) = class_and_method(u16::from_be_bytes([bytes[0], bytes[1]]));
        let mut message = Self {
            bytes,
            class,
            method,
            counted_end: bytes.len(),
            has_sha1: false,
            integrity: None,
            fingerprint: None,
        };
        message.scan()?;
        Ok(message)
    }

    /// Walks the whole chain once, so that every later walk is inside the bounds.
    fn scan(&mut self) -> Result<(), ParseError> {
        let mut offset = HEADER_BYTES;
        while offset < self.bytes.len() {
            let Some((attribute, _, next)) = attribute_at(self.bytes, offset) else {
                return Err(ParseError::Attribute(offset));
            };
            if self.fingerprint.is_none() && self.integrity.is_none() {
                match attribute {
                    AttributeType::MESSAGE_INTEGRITY => self.has_sha1 = true,
                    AttributeType::MESSAGE_INTEGRITY_SHA256 => self.integrity = Some(offset),
                    _ => {}
                }
            }
            if self.fingerprint.is_none() && attribute == AttributeType::FINGERPRINT {
                self.fingerprint = Some(offset);
            }
            if self.has_sha1 || self.integrity.is_some() || self.fingerprint.is_some() {
                self.counted_end = self.counted_end.min(offset);
            }
            offset = next;
        }
        Ok(())
    }

    /// The whole datagram.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The class.
    pub fn class(&self) -> Class {
        self.class
    }

    /// The method.
    pub fn method(&self) -> Method {
        self.method
    }

    /// The transaction id.
    pub fn transaction(&self) -> TransactionId {
        let mut id = [0; 12];
        id.copy_from_slice(&self.bytes[8..HEADER_BYTES]);
        TransactionId(id)
    }

    /// The attributes that count, without integrity and fingerprint, in their order and with repetitions.
    pub fn attributes(&self) -> Attributes<'a> {
        Attributes { bytes: &self.bytes[..self.counted_end], offset: HEADER_BYTES }
    }

    /// The value of the first occurrence that counts.
    pub fn attribute(&self, wanted: AttributeType) -> Option<&'a [u8]> {
        self.attributes().find(|(attribute, _)| *attribute == wanted).map(|(_, value)| value)
    }

    /// Whether any integrity attribute counts, SHA-1 included.
    pub fn has_integrity(&self) -> bool {
        self.has_sha1 || self.integrity.is_some()
    }

    /// The value of MESSAGE-INTEGRITY-SHA256, whatever its length.
    pub fn integrity_sha256(&self) -> Option<&'a [u8]> {
        self.integrity.and_then(|offset| attribute_at(self.bytes, offset)).map(|(_, value, _)| value)
    }

    /// The value of MESSAGE-INTEGRITY-SHA256 and everything behind it. Where the integrity holds, it stands for what is
    /// before it: two messages of one key that agree here agree everywhere, or SHA-256 has a collision.
    pub fn integrity_and_rest(&self) -> Option<&'a [u8]> {
        self.bytes.get(self.integrity? + 4..)
    }

    /// Where the MESSAGE-INTEGRITY-SHA256 attribute begins.
    #[cfg(any(feature = "server", feature = "client"))]
    pub(super) fn integrity_offset(&self) -> Option<usize> {
        self.integrity
    }

    /// Where the FINGERPRINT attribute begins, and its value.
    #[cfg(any(feature = "server", feature = "client"))]
    pub(super) fn fingerprint_at(&self) -> Option<(usize, &'a [u8])> {
        let offset = self.fingerprint?;
        attribute_at(self.bytes, offset).map(|(_, value, _)| (offset, value))
    }

    /// USERNAME, REALM and the like as text.
    pub fn text(&self, wanted: AttributeType) -> Result<Option<&'a str>, Malformed> {
        self.attribute(wanted).map(|value| std::str::from_utf8(value).map_err(|_| Malformed(wanted))).transpose()
    }

    /// An attribute of exactly `N` bytes.
    pub fn array<const N: usize>(&self, wanted: AttributeType) -> Result<Option<[u8; N]>, Malformed> {
        self.attribute(wanted).map(|value| value.try_into().map_err(|_| Malformed(wanted))).transpose()
    }

    /// A 16-bit number, such as RV-REASON.
    pub fn u16(&self, wanted: AttributeType) -> Result<Option<u16>, Malformed> {
        Ok(self.array(wanted)?.map(u16::from_be_bytes))
    }

    /// A 32-bit number, such as RV-LIFETIME.
    pub fn u32(&self, wanted: AttributeType) -> Result<Option<u32>, Malformed> {
        Ok(self.array(wanted)?.map(u32::from_be_bytes))
    }

    /// A 64-bit number, such as RV-SEQUENCE.
    pub fn u64(&self, wanted: AttributeType) -> Result<Option<u64>, Malformed> {
        Ok(self.array(wanted)?.map(u64::from_be_bytes))
    }

    /// A 128-bit id, such as RV-INSTANCE.
    pub fn id(&self, wanted: AttributeType) -> Result<Option<u128>, Malformed> {
        Ok(self.array(wanted)?.map(u128::from_be_bytes))
    }

    /// XOR-MAPPED-ADDRESS or another attribute of its shape.
    pub fn xor_address(&self, wanted: AttributeType) -> Result<Option<SocketAddr>, Malformed> {
        self.xor_addresses(wanted).next().transpose()
    }

    /// Every occurrence of an attribute of the shape of XOR-MAPPED-ADDRESS: RV-PEER-ADDRESS, RV-CANDIDATE.
    pub fn xor_addresses(
        &self,
        wanted: AttributeType,
    ) -> impl Iterator<Item = Result<SocketAddr, Malformed>> + use<'a> {
        let transaction = self.transaction();
        let matching = self.attributes().filter(move |(attribute, _)| *attribute == wanted);
        matching.map(move |(_, value)| address::decode(value, transaction).ok_or(Malformed(wanted)))
    }

    /// Every RV-OFFER.
    pub fn offers(&self) -> impl Iterator<Item = Result<OfferAttribute, Malformed>> + use<'a> {
        let matching = self.attributes().filter(|(attribute, _)| *attribute == AttributeType::RV_OFFER);
        matching.map(|(attribute, value)| {
            let value: &[u8; 20] = value.try_into().map_err(|_| Malformed(attribute))?;
            let (mut attempt, mut left) = ([0; 16], [0; 4]);
            attempt.copy_from_slice(&value[..16]);
            left.copy_from_slice(&value[16..]);
            Ok(OfferAttribute { attempt: u128::from_be_bytes(attempt), left_ms: u32::from_be_bytes(left) })
        })
    }

    /// The number of ERROR-CODE, 300 to 699 (RFC 8489 section 14.8).
    pub fn error_code(&self) -> Result<Option<u16>, Malformed> {
        let malformed = Malformed(AttributeType::ERROR_CODE);
        let Some(value) = self.attribute(AttributeType::ERROR_CODE) else { return Ok(None) };
        let &[_, _, hundreds, rest, ..] = value else { return Err(malformed) };
        let hundreds = hundreds & 0x07;
        if !(3..=6).contains(&hundreds) || rest > 99 {
            return Err(malformed);
        }
        Ok(Some(u16::from(hundreds) * 100 + u16::from(rest)))
    }

    /// Comprehension-required attributes that nobody here understands, each once, in their order.
    pub fn unknown_required(&self) -> Vec<AttributeType> {
        let mut unknown = Vec::new();
        for (attribute, _) in self.attributes() {
            if attribute.is_comprehension_required() && !attribute.is_known() && !unknown.contains(&attribute) {
                unknown.push(attribute);
            }
        }
        unknown
    }
}

/// Iterates over type and value.
#[derive(Clone, Debug)]
pub struct Attributes<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (AttributeType, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (attribute, value, next) = attribute_at(self.bytes, self.offset)?;
        self.offset = next;
        Some((attribute, value))
    }
}

/// Type and value of the attribute at `offset` and the offset of the next; `None` when it leaves `bytes`.
/// The padding belongs to the attribute (RFC 8489 section 14) and must be there; what it holds is nobody's business.
fn attribute_at(bytes: &[u8], offset: usize) -> Option<(AttributeType, &[u8], usize)> {
    let rest = bytes.get(offset..)?;
    let (head, rest) = rest.split_at_checked(4)?;
    let length = usize::from(u16::from_be_bytes([head[2], head[3]]));
    let padded = length.next_multiple_of(4);
    if padded > rest.len() {
        return None;
    }
    Some((AttributeType(u16::from_be_bytes([head[0], head[1]])), &rest[..length], offset + 4 + padded))
}
