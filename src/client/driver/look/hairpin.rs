//! Whether a NAT turns packets around: two sockets of this machine send to each other's outside address.

use super::probe::BUFFER_BYTES;
use crate::client::core::Entropy;
use crate::stun::{Class, MessageBuilder, Method, TransactionId};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::UdpSocket;

/// Datagrams of each side: both send, for most NATs let in only who was sent to.
const ROUNDS: u32 = 6;
/// Between two of them.
const PACE: Duration = Duration::from_millis(120);

/// Whether one of them hears the other. Each comes with its outside address.
pub(super) async fn works(a: (&UdpSocket, SocketAddr), b: (&UdpSocket, SocketAddr), entropy: &mut Entropy) -> bool {
    // Indications: whoever else gets one has nothing to answer.
    let (from_a, from_b) = (entropy.transaction(), entropy.transaction());
    let (Some(to_b), Some(to_a)) = (indication(from_a), indication(from_b)) else { return false };
    for _ in 0..ROUNDS {
        // One that is not sent is one that does not arrive.
        let _sent = (a.0.send_to(&to_b, b.1).await, b.0.send_to(&to_a, a.1).await);
        let heard = async {
            tokio::select! {
                () = arrival(a.0, &to_a) => {}
                () = arrival(b.0, &to_b) => {}
            }
        };
        if tokio::time::timeout(PACE, heard).await.is_ok() {
            return true;
        }
    }
    false
}

fn indication(transaction: TransactionId) -> Option<Vec<u8>> {
    MessageBuilder::new(Class::Indication, Method::BINDING, transaction).fingerprint().finish().ok()
}

/// Waits for these very bytes.
async fn arrival(socket: &UdpSocket, wanted: &[u8]) {
    let mut buffer = [0; BUFFER_BYTES];
    loop {
        match socket.recv_from(&mut buffer).await {
            Ok((length, _)) if buffer[..length] == *wanted => return,
            Ok(_) => {}
            // About an earlier datagram. One that stays must not spin.
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}
