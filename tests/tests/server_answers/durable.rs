//! Durable acknowledgements: asked for, granted or not, late, partial, left in the socket.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use forebay::{Engine, Error, Stage};
use forebay_wire::upgrade::{DurableTier, UpgradePolicy};

use crate::case::{PATIENCE, ROWS, conf, the_rest_is_delivered_by_the_next_start};
use crate::loadgen;
use crate::peer::{Peer, Sent, fill};

fn granting() -> UpgradePolicy {
    UpgradePolicy {
        durable: Some(DurableTier::On),
        ..UpgradePolicy::default()
    }
}

const DURABLE: &str = "request_durable_ack=on;durable_ack_keepalive_interval_millis=20;";

/// Publishes the rows and waits until `acked` of them are acked.
fn publish_acked(engine: &Engine) -> forebay::Receipt {
    let mut producer = engine.producer().expect("open");
    for n in 0..ROWS {
        fill(&mut producer, n, 0);
        producer.publish().expect("room");
    }
    let receipt = producer.publish().expect("all of them");
    receipt.wait(Stage::Acked, PATIENCE).expect("acked");
    receipt
}

#[test]
fn a_plain_ok_trims_nothing_where_durable_was_asked_for() {
    let dir = loadgen::scratch();
    // The first PING is due with the first OK.
    let okayed = Arc::new(OnceLock::new());
    let first = Arc::clone(&okayed);
    let peer = Peer::start(move |_, conn| {
        conn.upgrade(&granting());
        while let Some(n) = conn.next_row() {
            let seq = conn.messages - 1;
            first.get_or_init(Instant::now);
            conn.ok_with(seq, &[("t", i64::try_from(n).unwrap() + 1)]);
        }
    });
    let engine = Engine::connect(&conf(&peer, &dir, DURABLE)).expect("async");
    let receipt = publish_acked(&engine);
    assert!(!receipt.reached(Stage::Durable).expect("asked for"));
    let pings = || {
        let heard = peer.heard();
        let is_ping = |sent: &&Sent| **sent == Sent::Ping;
        heard[0].sent.iter().filter(is_ping).count()
    };
    let start = Instant::now();
    while pings() < 4 {
        assert!(start.elapsed() < PATIENCE, "the server is asked by PINGs");
        std::thread::yield_now();
    }
    let elapsed = okayed.get().unwrap().elapsed();
    assert!(elapsed >= Duration::from_millis(40), "at intervals");
    assert_eq!(engine.stats().unacked_frames, ROWS);
    let error = engine.close().expect_err("not durable");
    assert!(
        matches!(error, Error::NotDrained { frames: ROWS, .. }),
        "{error}"
    );
    assert_eq!(peer.connections(), 1);
}

#[test]
fn durable_acknowledgements_trim_up_to_where_they_reach() {
    let dir = loadgen::scratch();
    let peer = Peer::start(|_, conn| {
        conn.upgrade(&granting());
        while let Some(n) = conn.next_row() {
            let seq = conn.messages - 1;
            conn.ok_with(seq, &[("t", i64::try_from(n).unwrap() + 10)]);
            if n == 1 {
                conn.durable(&[("t", 10), ("another", 3)]);
            } else if n == 3 {
                conn.durable(&[("t", 12)]);
            }
        }
    });
    let engine = Engine::connect(&conf(&peer, &dir, DURABLE)).expect("async");
    let receipt = publish_acked(&engine);
    let start = Instant::now();
    while engine.stats().unacked_frames > 2 {
        assert!(start.elapsed() < PATIENCE, "{:?}", engine.stats());
        std::thread::yield_now();
    }
    assert_eq!(engine.stats().frames_acked, 3);
    assert!(!receipt.reached(Stage::Durable).expect("asked for"));
    engine.close().expect_err("two rows are not durable");
    drop(peer);
    the_rest_is_delivered_by_the_next_start(&dir, 2, "durable up to 2");
}

#[test]
fn a_receipt_waits_for_durable() {
    let dir = loadgen::scratch();
    let peer = Peer::start(|_, conn| {
        conn.upgrade(&granting());
        while let Some(n) = conn.next_row() {
            let (seq, txn) = (conn.messages - 1, i64::try_from(n).unwrap() + 1);
            conn.ok_with(seq, &[("t", txn)]);
            conn.durable(&[("t", txn)]);
        }
    });
    let engine = Engine::connect(&conf(&peer, &dir, DURABLE)).expect("async");
    let receipt = publish_acked(&engine);
    receipt.wait(Stage::Durable, PATIENCE).expect("durable");
    engine.wait_acked(PATIENCE).expect("all of it");
    engine.close().expect("drained");
}

#[test]
fn durable_ack_left_in_socket() {
    let dir = loadgen::scratch();
    let peer = Peer::start(|number, conn| {
        conn.upgrade(&granting());
        while let Some(n) = conn.next_row() {
            let (seq, txn) = (conn.messages - 1, i64::try_from(n).unwrap() + 1);
            if number > 0 {
                conn.ok_with(seq, &[("t", txn)]);
                conn.durable(&[("t", txn)]);
            } else if n + 1 < ROWS {
                conn.ok_with(seq, &[("t", txn)]);
            } else {
                // A role change: what was committed becomes durable a little later.
                conn.refuse(0x0c, seq);
                std::thread::sleep(Duration::from_millis(5));
                conn.durable(&[("t", txn - 1)]);
                conn.close(Some(1000));
                return;
            }
        }
    });
    let engine = Engine::connect(&conf(&peer, &dir, DURABLE)).expect("async");
    publish_acked(&engine);
    engine.wait_acked(PATIENCE).expect("durable");
    engine.close().expect("drained");
    assert_eq!(peer.heard()[1].rows(), [4], "nothing else is sent again");
}

#[test]
fn durable_acknowledgements_that_nobody_grants_are_a_typed_mismatch() {
    let dir = loadgen::scratch();
    let peer = Peer::start(|_, conn| {
        conn.upgrade(&UpgradePolicy::default());
        conn.listen_to_the_end();
    });
    let conf = conf(&peer, &dir, DURABLE).replace("=async", "=off");
    let error = Engine::connect(&conf).expect_err("not granted");
    assert!(
        matches!(
            &error,
            Error::Peer {
                retryable: false,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("durable"), "{error}");
    assert_eq!(peer.connections(), 1);
}

#[test]
fn durable_ack_not_offered() {
    let dir = loadgen::scratch();
    let without = Peer::start(|_, conn| {
        conn.upgrade(&UpgradePolicy::default());
        conn.listen_to_the_end();
    });
    let with = Peer::start(|_, conn| {
        conn.upgrade(&granting());
        while conn.next_row().is_some() {
            let seq = conn.messages - 1;
            conn.ok_with(seq, &[("t", seq)]);
            conn.durable(&[("t", seq)]);
        }
    });
    let both = format!("{},{}", without.addr(), with.addr());
    let conf = conf(&with, &dir, DURABLE).replace(&with.addr().to_string(), &both);
    let engine = Engine::connect(&conf).expect("the second grants");
    publish_acked(&engine);
    engine.wait_acked(PATIENCE).expect("durable");
    engine.close().expect("drained");
    assert_eq!((without.connections(), with.connections()), (1, 1));
}
