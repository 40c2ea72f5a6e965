//! XOR-MAPPED-ADDRESS and the attributes of the same shape (RFC 8489 section 14.2).

use super::{MAGIC_COOKIE, TransactionId};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The longest value: family, port and an IPv6 address.
pub const XOR_ADDRESS_BYTES_MAX: usize = 20;

const FAMILY_V4: u8 = 0x01;
const FAMILY_V6: u8 = 0x02;
const PORT_MASK: u16 = (MAGIC_COOKIE >> 16) as u16;

/// The mask of an IPv6 address: the cookie, then the transaction id.
fn mask_v6(transaction: TransactionId) -> u128 {
    let mut mask = [0; 16];
    mask[..4].copy_from_slice(&MAGIC_COOKIE.to_be_bytes());
    mask[4..].copy_from_slice(&transaction.0);
    u128::from_be_bytes(mask)
}

/// Writes the value for `address`; the bytes in use are the first 8 or all 20.
pub(super) fn encode(address: SocketAddr, transaction: TransactionId) -> ([u8; XOR_ADDRESS_BYTES_MAX], usize) {
    let mut value = [0; XOR_ADDRESS_BYTES_MAX];
    value[2..4].copy_from_slice(&(address.port() ^ PORT_MASK).to_be_bytes());
    match address.ip() {
        IpAddr::V4(ip) => {
            value[1] = FAMILY_V4;
            value[4..8].copy_from_slice(&(ip.to_bits() ^ MAGIC_COOKIE).to_be_bytes());
            (value, 8)
        }
        IpAddr::V6(ip) => {
            value[1] = FAMILY_V6;
            value[4..].copy_from_slice(&(ip.to_bits() ^ mask_v6(transaction)).to_be_bytes());
            (value, XOR_ADDRESS_BYTES_MAX)
        }
    }
}

/// Reads a value; `None` when family and length don't belong together.
pub(super) fn decode(value: &[u8], transaction: TransactionId) -> Option<SocketAddr> {
    let (head, ip) = value.split_at_checked(4)?;
    let port = u16::from_be_bytes([head[2], head[3]]) ^ PORT_MASK;
    let ip = match head[1] {
        FAMILY_V4 => {
            let bits = u32::from_be_bytes(ip.try_into().ok()?);
            IpAddr::V4(Ipv4Addr::from_bits(bits ^ MAGIC_COOKIE))
        }
        FAMILY_V6 => {
            let bits = u128::from_be_bytes(ip.try_into().ok()?);
            IpAddr::V6(Ipv6Addr::from_bits(bits ^ mask_v6(transaction)))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}
