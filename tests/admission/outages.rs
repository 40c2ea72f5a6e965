//! PostgreSQL that goes silent, or whose sessions are not what they were. Only what a caller is told, and that the next one
//! is served: how long a store waits is a setting, and here a short one.

use crate::support::proxy::{Proxy, SHORT};
use crate::support::*;
use rendezvous::admission::*;
use std::path::Path;
use std::sync::Arc;

/// A store whose database is reached through a proxy.
fn through_proxy(test: impl AsyncFnOnce(&World, &Proxy)) {
    let Some(server) = postgres::shared() else { return };
    let (url, schema) = server.fresh_url();
    postgres::execute(&url, &schema);
    let (socket, options) = url.split_once(' ').expect("a host and more");
    let proxy = Proxy::start(Path::new(socket.trim_start_matches("host=")));
    let url = format!("host=127.0.0.1 port={} {options}", proxy.port());
    let clock = ManualClock::new();
    let settings = Settings { database_wait: SHORT, writers: 1, ..small() };
    let store = Store::open_postgres(&url, settings, Some(Arc::new(clock.clone()))).expect("a new store");
    let world = World::around(store, clock, Backing::Postgres(url));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(test(&world, &proxy));
}

#[test]
fn a_silent_database_is_given_up_and_comes_back() {
    through_proxy(async |world, proxy| {
        let session = world.session("k").await;
        proxy.freeze();
        let refused = world.service().admit_input(&alice(), input(session, "i")).await.expect_err("nobody answers");
        assert_eq!((refused.code, refused.outcome_unknown()), (ErrorCode::Unavailable, false));
        assert!(world.store.now().await.expect_err("nor here").to_string().contains("did not answer"));
        proxy.thaw();
        // The same key: whatever had become of the first attempt, there is one command.
        let (entry, created) = world.service().admit_input(&alice(), input(session, "i")).await.expect("it is back");
        assert_eq!((entry.seq, created), (CommandSeq(2), true));
    });
}

#[test]
fn a_session_whose_statements_are_gone_is_replaced() {
    through_proxy(async |world, proxy| {
        let session = world.session("k").await;
        for (n, sql) in ["DEALLOCATE ALL", "DISCARD ALL"].into_iter().enumerate() {
            proxy.say(sql);
            let admitted = world.service().admit_input(&alice(), input(session, &format!("i{n}"))).await;
            assert!(admitted.is_ok(), "{sql}: nobody has to hear of it, {admitted:?}");
            assert!(world.store.now().await.is_ok(), "{sql}");
        }
    });
}

/// As a primary that was demoted does.
#[test]
fn a_database_that_takes_no_writes_is_left() {
    through_proxy(async |world, proxy| {
        let session = world.session("k").await;
        proxy.say("SET default_transaction_read_only = on");
        let refused = world.service().admit_input(&alice(), input(session, "i")).await.expect_err("read only");
        assert_eq!((refused.code, refused.outcome_unknown()), (ErrorCode::Unavailable, false));
        world.service().admit_input(&alice(), input(session, "i")).await.expect("on another connection");
    });
}
