//! Attribute types: those of RFC 8489 that are understood, and the private ones.

use std::fmt;

/// The 16-bit type of an attribute.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttributeType(pub u16);

/// One row of the table of private code points (`docs/udp-protocol.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrivateCodePoint {
    /// The type, in the comprehension-optional range and not registered with IANA.
    pub attribute: AttributeType,
    /// The name in the documentation.
    pub name: &'static str,
    /// The shape of the value.
    pub value: &'static str,
}

macro_rules! standard {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        impl AttributeType {
            $($(#[$doc])* pub const $name: Self = Self($code);)*
        }
    };
}

macro_rules! private {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal, $value:literal;)*) => {
        impl AttributeType {
            $($(#[$doc])* pub const $name: Self = Self($code);)*
        }

        /// Every private attribute, in the order of its code.
        pub const PRIVATE_CODE_POINTS: &[PrivateCodePoint] = &[
            $(PrivateCodePoint { attribute: AttributeType::$name, name: $text, value: $value },)*
        ];
    };
}

standard! {
    /// MAPPED-ADDRESS, only read by clients of old servers.
    MAPPED_ADDRESS = 0x0001;
    /// USERNAME.
    USERNAME = 0x0006;
    /// MESSAGE-INTEGRITY (SHA-1): legal before MESSAGE-INTEGRITY-SHA256, never sufficient.
    MESSAGE_INTEGRITY = 0x0008;
    /// ERROR-CODE.
    ERROR_CODE = 0x0009;
    /// UNKNOWN-ATTRIBUTES.
    UNKNOWN_ATTRIBUTES = 0x000A;
    /// REALM.
    REALM = 0x0014;
    /// NONCE.
    NONCE = 0x0015;
    /// MESSAGE-INTEGRITY-SHA256.
    MESSAGE_INTEGRITY_SHA256 = 0x001C;
    /// PASSWORD-ALGORITHM.
    PASSWORD_ALGORITHM = 0x001D;
    /// USERHASH.
    USERHASH = 0x001E;
    /// XOR-MAPPED-ADDRESS.
    XOR_MAPPED_ADDRESS = 0x0020;
    /// PASSWORD-ALGORITHMS.
    PASSWORD_ALGORITHMS = 0x8002;
    /// FINGERPRINT.
    FINGERPRINT = 0x8028;
}

private! {
    /// Orders the presence datagrams of one listing and family.
    RV_SEQUENCE = 0xFE50, "RV-SEQUENCE", "u64";
    /// How long the state that the answer speaks of lasts, as of now.
    RV_LIFETIME = 0xFE51, "RV-LIFETIME", "u32, milliseconds";
    /// A pending attempt.
    RV_OFFER = 0xFE52, "RV-OFFER", "attempt id (16 bytes), then u32 milliseconds left";
    /// The attempt whose introduction this is.
    RV_INTRODUCTION = 0xFE53, "RV-INTRODUCTION", "attempt id (16 bytes)";
    /// An endpoint of the other side, as the server observed it.
    RV_PEER_ADDRESS = 0xFE54, "RV-PEER-ADDRESS", "as XOR-MAPPED-ADDRESS";
    /// An address that the other side declared.
    RV_CANDIDATE = 0xFE55, "RV-CANDIDATE", "as XOR-MAPPED-ADDRESS";
    /// When to begin punching, as of now.
    RV_START_AFTER = 0xFE56, "RV-START-AFTER", "u32, milliseconds";
    /// Why a request was refused.
    RV_REASON = 0xFE57, "RV-REASON", "u16";
    /// When to come back.
    RV_RETRY_AFTER = 0xFE58, "RV-RETRY-AFTER", "u32, milliseconds";
    /// The life of the server that answers.
    RV_INSTANCE = 0xFE59, "RV-INSTANCE", "instance id (16 bytes)";
    /// Makes a request at least as long as its answer.
    RV_PADDING = 0xFE5A, "RV-PADDING", "any bytes";
    /// The commit that the answer saw or made.
    RV_COMMIT = 0xFE5B, "RV-COMMIT", "u64";
}

impl AttributeType {
    /// Whether a receiver that does not know the type must refuse the message (RFC 8489 section 14).
    pub fn is_comprehension_required(self) -> bool {
        self.0 < 0x8000
    }

    /// Whether the type is one that this crate gives a meaning to.
    pub fn is_known(self) -> bool {
        self.name() != "unknown"
    }

    /// The name, or `unknown`: for logs and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::MAPPED_ADDRESS => "MAPPED-ADDRESS",
            Self::USERNAME => "USERNAME",
            Self::MESSAGE_INTEGRITY => "MESSAGE-INTEGRITY",
            Self::ERROR_CODE => "ERROR-CODE",
            Self::UNKNOWN_ATTRIBUTES => "UNKNOWN-ATTRIBUTES",
            Self::REALM => "REALM",
            Self::NONCE => "NONCE",
            Self::MESSAGE_INTEGRITY_SHA256 => "MESSAGE-INTEGRITY-SHA256",
            Self::PASSWORD_ALGORITHM => "PASSWORD-ALGORITHM",
            Self::USERHASH => "USERHASH",
            Self::XOR_MAPPED_ADDRESS => "XOR-MAPPED-ADDRESS",
            Self::PASSWORD_ALGORITHMS => "PASSWORD-ALGORITHMS",
            Self::FINGERPRINT => "FINGERPRINT",
            other => PRIVATE_CODE_POINTS.iter().find(|row| row.attribute == other).map_or("unknown", |row| row.name),
        }
    }
}

impl fmt::Debug for AttributeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(0x{:04X})", self.name(), self.0)
    }
}
