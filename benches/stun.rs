//! The UDP edge without a network, piece by piece, and then presence through sockets, responder and lane on one core,
//! against a loop that only receives and sends the same bytes.
#![allow(missing_docs)]

mod edges;

use criterion::{BatchSize, Criterion, Throughput, criterion_group};
use edges::udp::{Answer, Host, LoopbackPair, Served, answer_of};
use edges::{Row, Table, median};
use rendezvous::clock::{Clock, SharedClock};
use rendezvous::stun::{IntegrityKey, Message};
use std::hint::black_box;
#[cfg(target_os = "linux")]
use std::io::IoSlice;
#[cfg(target_os = "linux")]
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Datagrams of one batch, as many as the edge reads by one system call.
const BATCH: usize = 16;
/// Pairs of measurements; each gives one ratio, and the median counts.
const PAIRS: usize = 15;
/// Batches of one measurement.
const ROUNDS: usize = 400;
/// Hosts that take turns: more than fit the first cache.
const HOSTS: usize = 5_000;

fn messages(criterion: &mut Criterion) {
    let mut served = Served::new();
    let host = served.host(0);
    let mut group = criterion.benchmark_group("datagram");
    for (name, bytes) in served.kinds(&host) {
        group.throughput(Throughput::Elements(1));
        group.bench_function(format!("decode {name}"), |b| {
            b.iter(|| black_box(Message::parse(black_box(&bytes)).is_ok()));
        });
        let message = Message::parse(&bytes).expect("our own bytes");
        if message.has_integrity() {
            let key = IntegrityKey::new(&host.key);
            group.bench_function(format!("verify {name}"), |b| b.iter(|| message.verify_integrity_by(black_box(&key))));
        }
        group.bench_function(format!("answer {name}"), |b| {
            b.iter_batched(|| bytes.clone(), |bytes| answer_of(&mut served, &bytes, &host), BatchSize::SmallInput);
        });
    }
    group.finish();
}

fn batches(criterion: &mut Criterion) {
    let mut served = Served::new();
    let hosts: Vec<Host> = (0..HOSTS).map(|n| served.host(n)).collect();
    let mut group = criterion.benchmark_group("presence through the lane, without sockets");
    for size in [1, BATCH, 4 * BATCH] {
        group.throughput(Throughput::Elements(size as u64));
        let (mut next, mut sequence) = (0, 1_u64);
        group.bench_function(format!("batch of {size}"), |b| {
            b.iter_batched(
                || {
                    let batch: Vec<_> = (0..size).map(|n| (next + n) % HOSTS).collect();
                    next = (next + size) % HOSTS;
                    sequence += 1;
                    batch.into_iter().map(|n| (n, hosts[n].refresh(sequence))).collect::<Vec<_>>()
                },
                |batch| {
                    for (n, bytes) in &batch {
                        black_box(answer_of(&mut served, bytes, &hosts[*n]));
                    }
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

/// Time that the server's side takes for `ROUNDS` batches; what the client does in between is not counted.
fn served_time(
    pair: &mut LoopbackPair,
    requests: &mut impl FnMut() -> Vec<Vec<u8>>,
    clock: &SharedClock,
    answer: Answer<'_>,
) -> Duration {
    let mut total = Duration::ZERO;
    for _ in 0..ROUNDS {
        pair.client_sends(&requests());
        let began = Instant::now();
        pair.serve(BATCH, &|| clock.mono(), answer);
        total += began.elapsed();
        pair.client_drains(BATCH);
    }
    total
}

/// Nanoseconds per datagram of `sample`'s size to as many clients as a batch has: a system call each, and one for all.
/// Both include that the clients take them.
#[cfg(target_os = "linux")]
fn sending(sample: &[u8]) -> [Vec<f64>; 2] {
    use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny, sendmmsg};
    let open = || UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback");
    let server = open();
    let clients: Vec<UdpSocket> = (0..BATCH).map(|_| open()).collect();
    let addresses: Vec<SocketAddr> = clients.iter().map(|client| client.local_addr().expect("bound")).collect();
    let to_all: Vec<SocketAddrAny> = addresses.iter().map(|to| SocketAddrAny::from(*to)).collect();
    let take_all = || {
        let mut bytes = [0; 256];
        clients.iter().for_each(|client| assert_eq!(client.recv(&mut bytes).ok(), Some(sample.len())));
    };
    let per_datagram = |began: Instant| began.elapsed().as_nanos() as f64 / (ROUNDS * BATCH) as f64;
    let slices = [IoSlice::new(sample)];
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..PAIRS {
        let began = Instant::now();
        for _ in 0..ROUNDS {
            addresses.iter().for_each(|to| assert_eq!(server.send_to(sample, to).ok(), Some(sample.len())));
            take_all();
        }
        times[0].push(per_datagram(began));
        let began = Instant::now();
        for _ in 0..ROUNDS {
            let mut controls: [SendAncillaryBuffer<'_, '_, '_>; BATCH] = Default::default();
            let messages = to_all.iter().zip(&mut controls);
            let mut messages: Vec<_> =
                messages.map(|(to, control)| MMsgHdr::new_with_addr(to, &slices, control)).collect();
            assert_eq!(sendmmsg(&server, &mut messages, SendFlags::empty()), Ok(BATCH));
            take_all();
        }
        times[1].push(per_datagram(began));
    }
    times
}

fn table() {
    let mut served = Served::new();
    let mut pair = LoopbackPair::new();
    let source = pair.client_address();
    let hosts: Vec<Host> = (0..HOSTS).map(|n| served.host_at(n, source)).collect();
    let (mut at, mut sequence) = (0, 1_000_u64);
    let mut requests = || -> Vec<Vec<u8>> {
        let batch = (0..BATCH).map(|n| hosts[(at + n) % HOSTS].refresh(sequence)).collect();
        at += BATCH;
        sequence += u64::from(at % HOSTS < BATCH);
        batch
    };
    let first = requests().remove(0);
    let sample = served.answer(&first, source).expect("an answer");
    let clock = served.clock();
    let mut samples: Vec<[Duration; 2]> = Vec::new();
    for _ in 0..PAIRS {
        let echo = served_time(&mut pair, &mut requests, &clock, &mut |_, _| Some(sample.clone()));
        let edge =
            served_time(&mut pair, &mut requests, &clock, &mut |bytes, now| served.answer_at(bytes, source, now));
        samples.push([echo, edge]);
    }
    let per_datagram = |which: usize| {
        let all = samples.iter().map(|pair| pair[which].as_nanos() as f64 / (ROUNDS * BATCH) as f64);
        median(all.collect())
    };
    let ratio = median(samples.iter().map(|[echo, edge]| echo.as_secs_f64() / edge.as_secs_f64()).collect());
    let mut table = Table::new("stun", "presence, one core, sockets included: time of the server's side per datagram");
    table.add(Row::new("receive and send the same bytes", per_datagram(0), "ns", None, None));
    table.add(Row::new("responder, lane, signed answer", per_datagram(1), "ns", Some(ratio), Some(0.6)));
    table.add(Row::new(
        "presences a second on one core, in thousands",
        1e6 / per_datagram(1),
        "k/s",
        Some(1e6 / per_datagram(1) / 125.0),
        Some(1.0),
    ));
    #[cfg(target_os = "linux")]
    {
        let [each, together] = sending(&sample);
        let ratio = median(each.iter().zip(&together).map(|(each, together)| each / together).collect());
        table.add(Row::new("send and take an answer, a system call each", median(each), "ns", None, None));
        table.add(Row::new("the same, sent by one call a batch", median(together), "ns", Some(ratio), None));
    }
    table.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = messages, batches
}

fn main() {
    if !std::env::args().any(|argument| argument == "--table") {
        benches();
    }
    table();
}
