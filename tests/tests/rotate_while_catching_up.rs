//! Segments of three frames, and a sender that is always at the end of one when the next begins,
//! over connections that break there too: no frame is skipped.
//!
//! `FOREBAY_SCALE=n` sends n times 3,000 frames (CI: 10).

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use forebay::Engine;
use forebay_tests::seeds::scale;
use forebay_wire::upgrade::UpgradePolicy;
use peer::{Peer, Seen, fill};

mod loadgen;
mod peer;

const PATIENCE: Duration = Duration::from_mins(3);

/// The server takes frames a little behind the producer, so that the sender is at the end of one
/// segment when the next begins, again and again; connections break there too.
#[test]
fn rotate_while_catching_up() {
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
