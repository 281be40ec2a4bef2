//! Connections that break all the time while a producer publishes at full speed: every frame
//! arrives, first deliveries in order, and nothing counts as acked that the server has not seen.
//!
//! `FOREBAY_SCALE=n` drops n times 1,000 connections (CI: 10).

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use forebay::Engine;
use forebay_wire::upgrade::UpgradePolicy;
use peer::{Conn, Peer, fill};

mod loadgen;
mod peer;

const PATIENCE: Duration = Duration::from_mins(1);

/// What the server saw, checked as it comes: each connection begins at a frame that was seen or at
/// the next (an OK may be lost with its socket) and goes on without a gap.
#[derive(Default)]
struct Seen {
    /// Frames seen so far, all of `0..frames`.
    frames: AtomicU64,
}

impl Seen {
    fn row(&self, n: u64, first: &mut Option<u64>) {
        let frames = self.frames.load(Ordering::Acquire);
        match *first {
            None => assert!(n <= frames, "the first frame is {n}, {frames} were seen"),
            Some(before) => assert_eq!(n, before + 1, "a gap"),
        }
        *first = Some(n);
        self.frames.fetch_max(n + 1, Ordering::AcqRel);
    }
}

fn scale() -> u64 {
    std::env::var("FOREBAY_SCALE").map_or(1, |n| n.parse().expect("a number"))
}

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
fn every_frame_arrives_in_order_over_thousands_of_broken_connections() {
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

/// The server takes frames a little behind the producer, so that the sender is at the end of one
/// segment when the next begins, again and again; connections break there too.
#[test]
fn rotate_while_catching_up_skips_no_frame() {
    const WEIGHT: usize = 20_000; // three frames a segment of 64 KiB
    let frames = 3000 * scale();
    let dir = loadgen::scratch();
    let seen = Arc::new(Seen::default());
    let published = Arc::new(AtomicU64::new(0));
    let (server, producer_at) = (Arc::clone(&seen), Arc::clone(&published));
    let peer = Peer::start(move |number, conn| {
        if !conn.upgrade(&UpgradePolicy::default()) {
            return;
        }
        let mut first = None;
        let last = number as u64 % 9 * 50 + 3;
        for count in 0.. {
            let Some(n) = conn.next_row() else { return };
            server.row(n, &mut first);
            // Wait until the producer is one to four frames ahead.
            let ahead = (n + 1 + n % 4).min(frames);
            while producer_at.load(Ordering::Acquire) < ahead {
                std::thread::yield_now();
            }
            conn.ok_all();
            if count == last {
                return conn.reset();
            }
        }
    });
    let engine = Engine::connect(&format!(
        "ws::addr={};sf_dir={};sf_max_segment_bytes=64k;sf_max_total_bytes=512k;pin=off;\
         initial_connect_retry=async;reconnect_initial_backoff_millis=1;\
         memory_budget_bytes=1m;intake_ring_bytes=64k;\
         reconnect_max_backoff_millis=1;close_flush_timeout_millis=60000;",
        peer.addr(),
        dir.path().join("sf").display()
    ))
    .expect("async");
    let mut producer = engine.producer().expect("open");
    for n in 0..frames {
        fill(&mut producer, n, WEIGHT);
        producer.publish().expect("room within the deadline");
        published.store(n + 1, Ordering::Release);
    }
    engine.wait_acked(PATIENCE).expect("delivered");
    let stats = engine.stats();
    engine.close().expect("drained");
    assert_eq!(seen.frames.load(Ordering::Acquire), frames);
    assert!(stats.segments_written >= frames / 3 - 2, "{stats:?}");
    println!(
        "{frames} frames in {} segments over {} connections",
        stats.segments_written,
        peer.connections()
    );
}
