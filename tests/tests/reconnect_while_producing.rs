//! Connections that break all the time while a producer publishes at full speed: every frame
//! arrives, first deliveries in order, and nothing counts as acked that the server has not seen.
//!
//! `FOREBAY_SCALE=n` drops n times 1,000 connections (CI: 10).

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use forebay::Engine;
use forebay_tests::seeds::scale;
use forebay_wire::upgrade::UpgradePolicy;
use peer::{Conn, Peer, Seen, fill};

mod loadgen;
mod peer;

const PATIENCE: Duration = Duration::from_mins(3);

/// One connection that breaks after `frames` frames, an OK for some of them.
fn drop_after(conn: &mut Conn, seen: &Seen, frames: u64, unconfirmed: u64) {
    if !conn.upgrade(&UpgradePolicy::default()) {
        return;
    }
    let mut first = None;
    for count in 0..frames {
        let Some(n) = conn.next_row() else { return };
        seen.row(n, &mut first);
        if count + unconfirmed < frames {
            conn.ok_all();
        }
    }
    match frames % 3 {
        0 => conn.reset(),
        1 => {
            // What the client had on its way is lost with the socket.
        }
        _ => conn.fin(),
    }
}

#[test]
fn reconnect_while_producing() {
    let drops = 1000 * scale();
    let dir = loadgen::scratch();
    let seen = Arc::new(Seen::default());
    let server = Arc::clone(&seen);
    let peer = Peer::start(move |number, conn| {
        let number = number as u64;
        if number < drops {
            let frames = 1 + number * 7 % 5;
            drop_after(conn, &server, frames, u64::from(number.is_multiple_of(3)));
        } else {
            drop_after(conn, &server, u64::MAX, 0);
        }
    });
    let engine = Engine::connect(&format!(
        "ws::addr={};sf_dir={};sf_max_segment_bytes=64k;sf_max_total_bytes=1m;pin=off;\
         initial_connect_retry=async;reconnect_initial_backoff_millis=1;\
         reconnect_max_backoff_millis=1;close_flush_timeout_millis=60000;",
        peer.addr(),
        dir.path().join("sf").display()
    ))
    .expect("async");
    let mut producer = engine.producer().expect("open");
    let mut n = 0;
    // At full speed: the cap is what holds it back.
    while (peer.connections() as u64) < drops {
        fill(&mut producer, n, 0);
        producer.publish().expect("room within the deadline");
        n += 1;
        let acked = engine.stats().frames_acked;
        let frames = seen.frames.load(Ordering::Acquire);
        assert!(acked <= frames, "{acked} acked, {frames} seen");
    }
    engine.wait_acked(PATIENCE).expect("delivered");
    let stats = engine.stats();
    engine.close().expect("drained");
    assert_eq!(seen.frames.load(Ordering::Acquire), n);
    println!(
        "{n} frames over {} connections, {} sent again",
        peer.connections(),
        stats.frames_replayed
    );
    assert!(stats.reconnects_succeeded >= drops);
}
