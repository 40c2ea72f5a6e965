//! Writing: attributes in the order of the calls, then integrity, then fingerprint.

use super::{
    AttributeType, Class, HEADER_BYTES, MAGIC_COOKIE, MESSAGE_BYTES_MAX, Method, TransactionId, address, message_type,
};
use std::net::SocketAddr;

/// Why a message could not be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// It would be longer than [`MESSAGE_BYTES_MAX`].
    TooLong,
}

impl std::fmt::Display for BuildError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLong => write!(f, "the message would be longer than {MESSAGE_BYTES_MAX} bytes"),
        }
    }
}

impl std::error::Error for BuildError {}

/// Builds one message. Each call appends; [`MessageBuilder::finish`] says whether everything fitted.
///
/// The order of calls is the order on the wire: [`MessageBuilder::integrity`] protects what stands before it, and
/// [`MessageBuilder::fingerprint`] comes last.
#[derive(Clone, Debug)]
pub struct MessageBuilder {
    bytes: Vec<u8>,
    transaction: TransactionId,
    overflowed: bool,
}

impl MessageBuilder {
    /// Begins a message.
    pub fn new(class: Class, method: Method, transaction: TransactionId) -> Self {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend_from_slice(&message_type(class, method).to_be_bytes());
        bytes.extend_from_slice(&[0, 0]);
        bytes.extend_from_slice(&MAGIC_COOKIE.to_be_bytes());
        bytes.extend_from_slice(&transaction.0);
        Self { bytes, transaction, overflowed: false }
    }

    /// Begins a Binding request.
    pub fn binding_request(transaction: TransactionId) -> Self {
        Self::new(Class::Request, Method::BINDING, transaction)
    }

    /// Appends an attribute with zero padding.
    pub fn attribute(mut self, attribute: AttributeType, value: &[u8]) -> Self {
        let needed = 4 + value.len().next_multiple_of(4);
        if self.overflowed || needed > MESSAGE_BYTES_MAX - self.bytes.len() {
            self.overflowed = true;
            return self;
        }
        self.bytes.extend_from_slice(&attribute.0.to_be_bytes());
        // The sum above is at most MESSAGE_BYTES_MAX, so the length fits 16 bits.
        self.bytes.extend_from_slice(&(value.len() as u16).to_be_bytes());
        self.bytes.extend_from_slice(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        let length = (self.bytes.len() - HEADER_BYTES) as u16;
        self.set_length_field(length);
        self
    }

    /// Appends USERNAME, REALM and the like.
    pub fn text(self, attribute: AttributeType, value: &str) -> Self {
        self.attribute(attribute, value.as_bytes())
    }

    /// Appends a 16-bit number.
    pub fn u16(self, attribute: AttributeType, value: u16) -> Self {
        self.attribute(attribute, &value.to_be_bytes())
    }

    /// Appends a 32-bit number.
    pub fn u32(self, attribute: AttributeType, value: u32) -> Self {
        self.attribute(attribute, &value.to_be_bytes())
    }

    /// Appends a 64-bit number.
    pub fn u64(self, attribute: AttributeType, value: u64) -> Self {
        self.attribute(attribute, &value.to_be_bytes())
    }

    /// Appends a 128-bit id.
    pub fn id(self, attribute: AttributeType, value: u128) -> Self {
        self.attribute(attribute, &value.to_be_bytes())
    }

    /// Appends XOR-MAPPED-ADDRESS or another attribute of its shape.
    pub fn xor_address(self, attribute: AttributeType, address: SocketAddr) -> Self {
        let (value, length) = address::encode(address, self.transaction);
        self.attribute(attribute, &value[..length])
    }

    /// Appends ERROR-CODE with an empty reason phrase; `code` is 300 to 699.
    pub fn error_code(self, code: u16) -> Self {
        debug_assert!((300..700).contains(&code), "{code} is not a STUN error code");
        self.attribute(AttributeType::ERROR_CODE, &[0, 0, (code / 100) as u8, (code % 100) as u8])
    }

    /// Appends UNKNOWN-ATTRIBUTES.
    pub fn unknown_attributes(self, unknown: &[AttributeType]) -> Self {
        let value: Vec<u8> = unknown.iter().flat_map(|attribute| attribute.0.to_be_bytes()).collect();
        self.attribute(AttributeType::UNKNOWN_ATTRIBUTES, &value)
    }

    /// Appends RV-OFFER.
    pub fn offer(self, attempt: u128, left_ms: u32) -> Self {
        let mut value = [0; 20];
        value[..16].copy_from_slice(&attempt.to_be_bytes());
        value[16..].copy_from_slice(&left_ms.to_be_bytes());
        self.attribute(AttributeType::RV_OFFER, &value)
    }

    /// Appends RV-PADDING so that the message has `total` bytes once `trailing` more have been appended (integrity 36,
    /// fingerprint 8). Does nothing when it is that long already.
    pub fn pad_to(self, total: usize, trailing: usize) -> Self {
        let missing = total.saturating_sub(self.bytes.len() + trailing) / 4 * 4;
        if missing < 4 {
            return self;
        }
        self.attribute(AttributeType::RV_PADDING, &vec![0; missing.min(MESSAGE_BYTES_MAX) - 4])
    }

    /// The length so far, header included.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Never true: a message has a header.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The message, if everything fitted.
    pub fn finish(self) -> Result<Vec<u8>, BuildError> {
        if self.overflowed { Err(BuildError::TooLong) } else { Ok(self.bytes) }
    }

    /// What has been written so far, for a checksum over it.
    #[cfg(any(feature = "server", feature = "client"))]
    pub(super) fn written(&self) -> &[u8] {
        &self.bytes
    }

    fn set_length_field(&mut self, length: u16) {
        self.bytes[2..4].copy_from_slice(&length.to_be_bytes());
    }
}
