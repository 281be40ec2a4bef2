//! Field report close-spins: with bytes pending for a server that is gone, close waits its time and
//! no longer, and does not burn a core meanwhile, which would be all of its 500 ms. Alone in its
//! process: CPU time is counted, of the steward and of this test too.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::time::{Duration, Instant};

use forebay::{Engine, Error};
use forebay_wire::upgrade::UpgradePolicy;
use peer::{Peer, fill};

mod loadgen;
mod peer;

/// CPU time of this process so far.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    Duration::from_millis(10 * ticks)
}

#[test]
fn close_spins() {
    let dir = loadgen::scratch();
    let peer = Peer::start(|_, conn| {
        conn.upgrade(&UpgradePolicy::default());
        // One row is read, then nothing.
        conn.next_row();
        conn.wait_for_the_end();
    });
    let engine = Engine::connect(&format!(
        "ws::addr={};sf_dir={};initial_connect_retry=async;pin=off;\
         close_flush_timeout_millis=500;sf_max_segment_bytes=4m;sf_max_total_bytes=64m;\
         intake_ring_bytes=16m;",
        peer.addr(),
        dir.path().join("sf").display()
    ))
    .expect("async");
    let mut producer = engine.producer().expect("open");
    fill(&mut producer, 0, 0);
    producer.publish().expect("room");
    // More than both sockets' buffers take.
    for n in 1..13 {
        fill(&mut producer, n, 1 << 20);
        producer.publish().expect("room");
    }
    producer.flush().expect("written");
    drop(peer);
    let (start, used) = (Instant::now(), cpu());
    let error = engine.close().expect_err("rows are left");
    let (elapsed, used) = (start.elapsed(), cpu().saturating_sub(used));
    assert!(
        matches!(error, Error::NotDrained { frames: 13, .. }),
        "{error}"
    );
    assert!(elapsed >= Duration::from_millis(490), "{elapsed:?}");
    assert!(elapsed < Duration::from_millis(2500), "{elapsed:?}");
    println!("closed after {elapsed:?} with {used:?} of CPU time");
    // The steward may still make spares; a spin burns all of the time.
    assert!(used <= Duration::from_millis(250), "{used:?} of CPU time");
}
