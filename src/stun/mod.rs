//! STUN messages (RFC 8489): bytes to message and back, bounds first.
//!
//! [`Message::parse`] borrows; it checks every length before it looks at what the length covers, and decides once
//! which attributes count. [`MessageBuilder`] writes. Both ends of the protocol use both. Integrity and fingerprint
//! need a hash and are there with either of the features `server` and `client`.

mod address;
mod attribute;
mod builder;
mod message;
#[cfg(any(feature = "server", feature = "client"))]
mod protection;
#[cfg(all(test, any(feature = "server", feature = "client")))]
mod tests;

pub use address::XOR_ADDRESS_BYTES_MAX;
pub use attribute::{AttributeType, PRIVATE_CODE_POINTS, PrivateCodePoint};
pub use builder::{BuildError, MessageBuilder};
pub use message::{Attributes, Malformed, Message, OfferAttribute, ParseError};
#[cfg(any(feature = "server", feature = "client"))]
pub use protection::{FingerprintCheck, IntegrityKey};

/// Bytes of a message's header.
pub const HEADER_BYTES: usize = 20;

/// The longest message that is read or written: it fits the IPv6 minimum MTU with room for a tunnel's headers.
pub const MESSAGE_BYTES_MAX: usize = 1_200;

/// The cookie that tells STUN from a game's own datagrams (RFC 8489 section 5, RFC 7983).
pub const MAGIC_COOKIE: u32 = 0x2112_A442;

/// Bytes of MESSAGE-INTEGRITY-SHA256 with its header; only the full 32-byte value exists here.
pub const INTEGRITY_ATTRIBUTE_BYTES: usize = 36;

/// Bytes of FINGERPRINT with its header.
pub const FINGERPRINT_ATTRIBUTE_BYTES: usize = 8;

/// PASSWORD-ALGORITHMS with SHA-256 as the only entry; as PASSWORD-ALGORITHM the same four bytes (RFC 8489 18.5.1.2).
pub const PASSWORD_ALGORITHM_SHA256: [u8; 4] = [0x00, 0x02, 0x00, 0x00];

/// The 96-bit id that joins an answer to its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(pub [u8; 12]);

/// What a message is for (RFC 8489 section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Wants an answer.
    Request,
    /// Wants none.
    Indication,
    /// The answer yes.
    Success,
    /// The answer no.
    Error,
}

/// A 12-bit method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Method(u16);

impl Method {
    /// Binding (RFC 8489 section 3), the only method of a request.
    pub const BINDING: Self = Self(0x001);
    /// Introduce, sent as an indication only; not registered.
    pub const INTRODUCE: Self = Self(0x0D7);

    /// The 12 bits.
    pub fn bits(self) -> u16 {
        self.0
    }
}

/// Interleaves class and method as in RFC 8489, figure 3: the class sits in bits 4 and 8.
fn message_type(class: Class, method: Method) -> u16 {
    let class_bits = match class {
        Class::Request => 0x0000,
        Class::Indication => 0x0010,
        Class::Success => 0x0100,
        Class::Error => 0x0110,
    };
    let m = method.0;
    class_bits | (m & 0x000F) | ((m & 0x0070) << 1) | ((m & 0x0F80) << 2)
}

/// The inverse of [`message_type`]; the two top bits are not looked at.
fn class_and_method(message_type: u16) -> (Class, Method) {
    let class = match (message_type & 0x0100 != 0, message_type & 0x0010 != 0) {
        (false, false) => Class::Request,
        (false, true) => Class::Indication,
        (true, false) => Class::Success,
        (true, true) => Class::Error,
    };
    let method = (message_type & 0x000F) | ((message_type & 0x00E0) >> 1) | ((message_type & 0x3E00) >> 2);
    (class, Method(method))
}
