//! A loop that only receives and sends: the same calls and batches as the UDP edge, and nothing in between.

use crate::stun::HEADER_BYTES;
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use std::io::{self, IoSliceMut};
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// Datagrams, or coalesced batches, of one system call, as in the edge.
const BATCH: usize = 16;
/// No coalesced batch is longer, as in the edge.
const BUFFER_BYTES: usize = 65_536;
/// Asked of the kernel, as in the edge; less is no error.
const RECEIVE_QUEUE_BYTES: usize = 4 * 1_024 * 1_024;
/// Type of a Binding success response (RFC 8489 section 5).
const SUCCESS: [u8; 2] = [0x01, 0x01];

pub(super) async fn serve(answer_bytes: usize) -> io::Result<()> {
    let socket = UdpSocket::bind(("127.0.0.1", 0)).await?;
    let state = UdpSocketState::new((&socket).into())?;
    // What the kernel grants is up to its configuration.
    let _granted = state.set_recv_buffer_size((&socket).into(), RECEIVE_QUEUE_BYTES);
    super::say_ready(socket.local_addr()?)?;
    let mut buffers = vec![vec![0; BUFFER_BYTES]; BATCH];
    let mut metas = vec![RecvMeta::default(); BATCH];
    loop {
        socket.readable().await?;
        let received = {
            let mut slices: Vec<IoSliceMut<'_>> = buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
            socket.try_io(Interest::READABLE, || state.recv((&socket).into(), &mut slices, &mut metas))
        };
        let count = match received {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        for (buffer, meta) in buffers.iter_mut().zip(&metas).take(count) {
            for datagram in buffer[..meta.len].chunks_mut(meta.stride.max(1)) {
                let length = answer_bytes.clamp(HEADER_BYTES, datagram.len().max(HEADER_BYTES));
                let Some(contents) = datagram.get_mut(..length) else { continue };
                contents[..2].copy_from_slice(&SUCCESS);
                let transmit =
                    Transmit { destination: meta.addr, ecn: None, contents, segment_size: None, src_ip: None };
                // A full queue is like a loss on the way, as in the edge.
                let _lost = state.try_send((&socket).into(), &transmit);
            }
        }
    }
}
