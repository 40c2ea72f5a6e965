//! The UDP edge without a network, piece by piece, and then presence through sockets, responder and lane on one core,
//! against a loop that only receives and sends the same bytes.
#![allow(missing_docs)]

mod edges;

use criterion::{BatchSize, Criterion, Throughput, criterion_group};
use edges::udp::{Answer, Host, LoopbackPair, Sending, Served, answer_of};
use edges::{Row, Table, median};
use rendezvous::clock::{Clock, SharedClock};
use rendezvous::stun::{IntegrityKey, Message};
use std::hint::black_box;
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
    let source = edges::udp::SOURCE.parse().expect("an address");
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
                    batch.into_iter().map(|n| hosts[n].refresh(sequence)).collect::<Vec<_>>()
                },
                |batch| {
                    let (now, mut answers) = (served.now(), Vec::with_capacity(size));
                    served.answer_batch(&mut batch.iter().map(Vec::as_slice), source, now, &mut answers);
                    answers
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
    sending: Sending,
    answer: Answer<'_>,
) -> Duration {
    let mut total = Duration::ZERO;
    for _ in 0..ROUNDS {
        pair.client_sends(&requests());
        let began = Instant::now();
        pair.serve(BATCH, &|| clock.mono(), sending, answer);
        total += began.elapsed();
        pair.client_drains(BATCH);
    }
    total
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
    let ways: &[Sending] = &[
        Sending::Each,
        #[cfg(target_os = "linux")]
        Sending::Together,
    ];
    let mut table = Table::new("stun", "presence, one core, sockets included: time of the server's side per datagram");
    let mut samples: Vec<Vec<[f64; 2]>> = vec![Vec::new(); ways.len()];
    for _ in 0..PAIRS {
        for (way, samples) in ways.iter().zip(&mut samples) {
            let echo = served_time(&mut pair, &mut requests, &clock, *way, &mut |batch, _, answers| {
                answers.extend(batch.map(|_| sample.clone()));
            });
            let edge = served_time(&mut pair, &mut requests, &clock, *way, &mut |batch, now, answers| {
                served.answer_batch(batch, source, now, answers);
            });
            samples.push([echo, edge].map(|time| time.as_nanos() as f64 / (ROUNDS * BATCH) as f64));
        }
    }
    let typical = |samples: &[[f64; 2]], which: usize| median(samples.iter().map(|pair| pair[which]).collect());
    let ratio = |samples: &[[f64; 2]]| median(samples.iter().map(|[echo, edge]| echo / edge).collect());
    let each = &samples[0];
    let edge = typical(each, 1);
    table.add(Row::new("receive and send the same bytes", typical(each, 0), "ns", None, None));
    table.add(Row::new("responder, lane, signed answer", edge, "ns", Some(ratio(each)), Some(0.6)));
    let rate = 1e6 / edge;
    table.add(Row::new("presences a second on one core, in thousands", rate, "k/s", Some(rate / 125.0), Some(1.0)));
    if let Some(together) = samples.get(1) {
        let gain = each.iter().zip(together).map(|(each, together)| each[1] / together[1]);
        let gain = median(gain.collect());
        table.add(Row::new("the loop, answers sent by one call a batch", typical(together, 0), "ns", None, None));
        table.add(Row::new(
            "responder, lane, answers sent so",
            typical(together, 1),
            "ns",
            Some(ratio(together)),
            None,
        ));
        table.add(Row::new("what that saves of the whole exchange", (gain - 1.0) * 100.0, "%", Some(gain), None));
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
