//! One family: a socket that asks every address of the server, and a second one that says whether the two reach each other.

use super::hairpin;
use crate::client::core::{Entropy, Reply, SURVEY_TARGETS_MAX, Survey};
use crate::client::diagnosis::{AnswerSeen, Asked, FamilySeen, Report};
use crate::client::driver::sleep_until;
use crate::clock::{Clock, SystemClock};
use crate::credentials::Secret;
use crate::domain::Family;
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::net::UdpSocket;

/// How long the server's addresses are asked.
const SURVEY_MS: u64 = 3_000;
/// How long the network is given to report that it can't deliver.
const REPORT_PATIENCE: Duration = Duration::from_millis(700);
/// Longer than any STUN message.
pub(super) const BUFFER_BYTES: usize = 2_048;

/// # Errors
/// When there is no socket to be had in this family.
pub(super) async fn family(
    family: Family,
    servers: &[SocketAddr],
    presence: Option<(&str, &Secret)>,
    mut entropy: Entropy,
    clock: &SystemClock,
) -> io::Result<FamilySeen> {
    let socket = open(family).await?;
    let servers = &servers[..servers.len().min(SURVEY_TARGETS_MAX)];
    if servers.is_empty() {
        return Ok(FamilySeen::NotOffered);
    }
    let (mut locals, mut no_way) = (BTreeMap::new(), None);
    for server in servers {
        match towards(family, *server, &socket).await {
            Ok(local) => drop(locals.insert(*server, local)),
            Err(error) => no_way = Some(error.to_string()),
        }
    }
    if let (true, Some(cause)) = (locals.is_empty(), no_way) {
        return Ok(FamilySeen::NoRoute { cause });
    }
    let nowhere = socket.local_addr()?;
    let local = |server: &SocketAddr| locals.get(server).copied().unwrap_or(nowhere);
    let second = open(family).await?;
    let (now, presence) = (clock.mono(), presence.map(|(username, password)| (username.to_owned(), password)));
    let mut survey = Survey::new(servers, presence, entropy.fork(), now, now.plus_ms(SURVEY_MS));
    let mut beside = Survey::new(&servers[..1], None, entropy.fork(), now, now.plus_ms(SURVEY_MS));
    let (unsent, _) = tokio::join!(drive(&mut survey, &socket, clock), drive(&mut beside, &second, clock));
    let replies: Vec<(SocketAddr, Reply)> = survey.replies().collect();
    let silent = replies.iter().filter(|(_, reply)| *reply == Reply::Silent).map(|(server, _)| *server);
    let hairpin = async {
        let ((server, ours), (_, theirs)) = (mapped(replies.iter().copied())?, mapped(beside.replies())?);
        // Where nothing is mapped there is nothing to turn around.
        if ours == local(&server) {
            None
        } else {
            Some(hairpin::works((&socket, ours), (&second, theirs), &mut entropy).await)
        }
    };
    let (mut reports, hairpin) = tokio::join!(reports(silent.collect()), hairpin);
    reports.extend(unsent);
    let answers = replies
        .into_iter()
        .map(|(server, reply)| AnswerSeen { server, local: local(&server), reply, report: reports.remove(&server) })
        .collect();
    Ok(FamilySeen::Asked(Asked { answers, hairpin }))
}

/// A socket on a port of the system's choice.
pub(super) async fn open(family: Family) -> io::Result<UdpSocket> {
    UdpSocket::bind(unspecified(family)).await
}

fn unspecified(family: Family) -> SocketAddr {
    match family {
        Family::V4 => (Ipv4Addr::UNSPECIFIED, 0).into(),
        Family::V6 => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

/// The address of `socket` when it sends to `server`. Connecting another one asks the routing table and sends nothing.
async fn towards(family: Family, server: SocketAddr, socket: &UdpSocket) -> io::Result<SocketAddr> {
    let probe = open(family).await?;
    probe.connect(server).await?;
    Ok(SocketAddr::new(probe.local_addr()?.ip(), socket.local_addr()?.port()))
}

/// The first that saw this side, and where.
fn mapped(mut replies: impl Iterator<Item = (SocketAddr, Reply)>) -> Option<(SocketAddr, SocketAddr)> {
    replies.find_map(
        |(server, reply)| if let Reply::Mapped { mapped, .. } = reply { Some((server, mapped)) } else { None },
    )
}

/// Runs a survey to its end. Gives what the system said where it did not even send.
async fn drive(survey: &mut Survey, socket: &UdpSocket, clock: &SystemClock) -> BTreeMap<SocketAddr, Report> {
    let (mut unsent, mut buffer) = (BTreeMap::new(), [0; BUFFER_BYTES]);
    loop {
        while let Some(transmit) = survey.poll_transmit() {
            if let Err(error) = socket.send_to(&transmit.bytes, transmit.to).await {
                unsent.insert(transmit.to, Report::from(error));
            }
        }
        if survey.is_over(clock.mono()) {
            return unsent;
        }
        tokio::select! {
            () = sleep_until(clock, Some(survey.poll_timeout())) => survey.handle_timeout(clock.mono()),
            received = socket.recv_from(&mut buffer) => {
                // An error is what the network said of an earlier datagram; the survey repeats it anyway.
                if let Ok((length, from)) = received {
                    survey.handle_input(&buffer[..length], from, clock.mono());
                }
            }
        }
    }
}

/// What the network says of addresses that stay silent: only a connected socket hears of a closed port.
async fn reports(silent: Vec<SocketAddr>) -> BTreeMap<SocketAddr, Report> {
    let mut asked = tokio::task::JoinSet::new();
    for server in silent {
        asked.spawn(async move {
            let report = tokio::time::timeout(REPORT_PATIENCE, report(server)).await;
            report.ok().flatten().map(|report| (server, report))
        });
    }
    asked.join_all().await.into_iter().flatten().collect()
}

async fn report(server: SocketAddr) -> Option<Report> {
    let socket = open(if server.is_ipv4() { Family::V4 } else { Family::V6 }).await.ok()?;
    socket.connect(server).await.ok()?;
    // Not STUN, so whoever is there says nothing; it is the network that is asked.
    let sent = socket.send(b"anybody there?").await;
    let heard = match sent {
        Ok(_) => socket.recv(&mut [0; BUFFER_BYTES]).await,
        Err(error) => Err(error),
    };
    heard.err().map(Report::from)
}
