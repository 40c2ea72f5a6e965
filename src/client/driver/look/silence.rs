//! Whether the way in stays open without a word: this side shows itself and falls silent, then somebody wants to join it, and
//! the server says so unasked. Only that shows an open way; an answer to a question of ours would open it.

use super::{HTTP_PATIENCE, Look, idempotency_key, in_time, probe};
use crate::client::core::{HostCore, HostEvent, HostSetup, PresenceEvent, Reply};
use crate::client::diagnosis::{Failure, FamilySeen, SilenceEnd};
use crate::client::driver::sleep_until;
use crate::client::error::Error;
use crate::client::http::{JoinRequest, Registered};
use crate::clock::{Clock, SystemClock};
use crate::domain::Family;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::UdpSocket;

/// For showing itself.
const SHOW_PATIENCE: Duration = Duration::from_secs(5);
/// The server says it three times within a second.
const NOTICE_PATIENCE: Duration = Duration::from_millis(2_500);
/// For showing itself again: three tries, perhaps with a new nonce.
const AGAIN_PATIENCE: Duration = Duration::from_secs(3);
/// What the listing lives beyond the silence.
const MARGIN: Duration = Duration::from_secs(20);

/// The address of the server that saw this side.
pub(super) fn server(seen: &FamilySeen) -> Option<SocketAddr> {
    let FamilySeen::Asked(asked) = seen else { return None };
    let told = asked.answers.iter().find(|answer| matches!(answer.reply, Reply::Mapped { .. }))?;
    Some(told.server)
}

pub(super) async fn look(
    look: &mut Look,
    server: SocketAddr,
    lasts: Duration,
    progress: &mut dyn FnMut(&str),
) -> SilenceEnd {
    match try_it(look, server, lasts, progress).await {
        Ok(end) => end,
        Err(error) => SilenceEnd::Failed(Failure::from(&error)),
    }
}

async fn try_it(
    look: &mut Look,
    server: SocketAddr,
    lasts: Duration,
    progress: &mut dyn FnMut(&str),
) -> Result<SilenceEnd, Error> {
    let registered = look.list(Some(lasts + MARGIN)).await?;
    let after = Duration::from_millis(registered.presence.ttl_ms.into());
    if lasts + HTTP_PATIENCE > after {
        return Ok(SilenceEnd::Forgotten { after });
    }
    let family = if server.is_ipv4() { Family::V4 } else { Family::V6 };
    let socket = probe::open(family).await.map_err(Error::Socket)?;
    let mut host = look.present(server, &registered, lasts);
    let seen = wait_for(&mut host, &socket, &look.clock, SHOW_PATIENCE, true, shown).await;
    seen.ok_or_else(|| Error::NoUdp { offered: vec![server.to_string()] })?;
    progress(&format!("silent for {} s", lasts.as_secs_f64()));
    tokio::time::sleep(lasts).await;
    progress("somebody wants to join; the server says so, if it gets through");
    let key = idempotency_key()?;
    let guest = look.directory.clone().without_token();
    in_time(&look.directory, HTTP_PATIENCE, async {
        guest.or_guest().await?.attempt(registered.listing_id, &JoinRequest::default(), &key).await
    })
    .await?;
    let offered = |event: &HostEvent| matches!(event, HostEvent::Offered { .. }).then_some(());
    if wait_for(&mut host, &socket, &look.clock, NOTICE_PATIENCE, false, offered).await.is_some() {
        return Ok(SilenceEnd::LetIn);
    }
    // The host is due again, and tells of an address only when it is another one.
    let now = wait_for(&mut host, &socket, &look.clock, AGAIN_PATIENCE, true, shown).await;
    Ok(if now.is_some() { SilenceEnd::Moved } else { SilenceEnd::ShutOut })
}

impl Look {
    /// A host that shows itself, and again when the silence and the time to listen are over.
    fn present(&mut self, server: SocketAddr, registered: &Registered, lasts: Duration) -> HostCore {
        let setup = HostSetup {
            listing: registered.listing_id,
            username: registered.presence.username.clone(),
            password: registered.presence.password.clone(),
            interval_ms: u32::try_from((lasts + NOTICE_PATIENCE).as_millis()).unwrap_or(u32::MAX),
            servers: vec![server],
        };
        HostCore::new(setup, self.entropy.fork(), self.clock.mono())
    }
}

fn shown(event: &HostEvent) -> Option<SocketAddr> {
    match event {
        HostEvent::Presence { event: PresenceEvent::Verified { mapped }, .. } => Some(*mapped),
        HostEvent::Presence { .. } | HostEvent::Offered { .. } | HostEvent::Attempt { .. } => None,
    }
}

/// Drives `host` until it says what is wanted, or `patience` ends. One that may not speak only listens.
async fn wait_for<T>(
    host: &mut HostCore,
    socket: &UdpSocket,
    clock: &SystemClock,
    patience: Duration,
    may_speak: bool,
    wanted: impl Fn(&HostEvent) -> Option<T>,
) -> Option<T> {
    let found = async {
        let mut buffer = [0; probe::BUFFER_BYTES];
        loop {
            while let Some(transmit) = host.poll_transmit() {
                if may_speak {
                    // As lost on the way: it is repeated.
                    let _sent = socket.send_to(&transmit.bytes, transmit.to).await;
                }
            }
            while let Some(event) = host.poll_event() {
                if let Some(found) = wanted(&event) {
                    return found;
                }
            }
            tokio::select! {
                () = sleep_until(clock, host.poll_timeout()) => host.handle_timeout(clock.mono()),
                received = socket.recv_from(&mut buffer) => {
                    if let Ok((length, from)) = received {
                        host.handle_input(&buffer[..length], from, clock.mono());
                    }
                }
            }
        }
    };
    tokio::time::timeout(patience, found).await.ok()
}
