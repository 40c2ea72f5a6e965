//! How much a host is told at once.

use crate::support::*;
use rendezvous::admission::*;
use std::time::Duration;

contract!(an_answer_about_work_is_bounded_and_what_does_not_fit_comes_next);

/// Most inline payloads of the longest that fit into an answer.
const FIT: usize = (1 << 20) / INLINE_MAX;

/// Sessions with more to do than one answer may carry: all of it is told, a bounded part at a time, and no session is
/// taken for one without work.
async fn an_answer_about_work_is_bounded_and_what_does_not_fit_comes_next(world: World) {
    let (hosts, host) = (world.hosts(), world.host("eu-1").await);
    let mut leases = Vec::new();
    for n in 0..6 {
        let session = world.session(&format!("k{n}")).await;
        leases.push(world.lease(&host, session).await);
        for command in 0..7 {
            let payload = RequestPayload::Bytes(Bytes::from(vec![b'x'; INLINE_MAX]));
            let request = InputRequest { payload, ..input(session, &format!("i{command}")) };
            world.service().admit_input(&alice(), request).await.expect("an input");
        }
    }
    let (mut told, mut answers) = (0, 0);
    loop {
        let work = hosts.work(&credential(), &host, Duration::ZERO).await.expect("work");
        if work.is_empty() {
            break;
        }
        let (mut payloads, mut bytes) = (0, 0);
        for item in &work {
            for task in &item.tasks {
                let Task::Deliver(entry) = task else { panic!("{task:?}") };
                let Payload::Inline(payload) = &entry.payload else { panic!("stored") };
                (payloads, bytes) = (payloads + 1, bytes + payload.len());
                let lease = leases.iter().find(|lease| lease.session == entry.session).expect("a lease");
                world.claim(lease, entry.seq).await.expect("claimed");
            }
        }
        assert!(bytes <= FIT * INLINE_MAX, "{bytes} bytes at once");
        (told, answers) = (told + payloads, answers + 1);
    }
    assert_eq!((told, answers), (6 * 8, 2), "everything, and no more often than needed");
}
