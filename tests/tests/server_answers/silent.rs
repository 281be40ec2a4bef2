//! Servers that vanish without a word, and servers that answer and confirm nothing.

use std::time::{Duration, Instant};

use forebay::Engine;
use forebay_wire::upgrade::UpgradePolicy;

use crate::case::{PATIENCE, ROWS, conf, publish};
use crate::loadgen;
use crate::peer::{Peer, Sent};

#[test]
fn half_open_link() {
    for busy in [true, false] {
        let dir = loadgen::scratch();
        let peer = Peer::start(move |number, conn| {
            conn.upgrade(&UpgradePolicy::default());
            if number > 0 {
                return conn.serve();
            }
            if !busy {
                conn.next_row();
                conn.ok_all();
            }
            // Neither reads on nor says anything: the process hangs.
            conn.listen_to_the_end();
        });
        let more = "ping_interval_millis=100;";
        // The engine's clocks run as soon as its shard has the connection.
        let start = Instant::now();
        let engine = Engine::connect(&conf(&peer, &dir, more)).expect("async");
        if busy {
            publish(&engine, 0..ROWS).expect("delivered by the next connection");
        } else {
            publish(&engine, 0..1).expect("delivered");
            while peer.connections() < 2 {
                assert!(start.elapsed() < PATIENCE, "an idle link is probed too");
                std::thread::yield_now();
            }
        }
        let elapsed = start.elapsed();
        assert!(elapsed >= Duration::from_millis(200), "{elapsed:?}");
        assert!(elapsed < Duration::from_secs(5), "{elapsed:?}");
        assert_eq!(engine.stats().half_open_drops, 1);
        assert!(peer.heard()[0].sent.contains(&Sent::Ping));
        engine.close().expect("drained");
    }
}

#[test]
fn a_server_that_answers_and_confirms_nothing_is_left() {
    let dir = loadgen::scratch();
    let peer = Peer::start(|number, conn| {
        conn.upgrade(&UpgradePolicy::default());
        // PINGs are answered, rows are not.
        while conn.next_row().is_some() {
            if number > 0 {
                conn.ok_all();
            }
        }
    });
    let more = "ping_interval_millis=400;ack_progress_timeout_millis=1200;";
    let engine = Engine::connect(&conf(&peer, &dir, more)).expect("async");
    publish(&engine, 0..ROWS).expect("delivered by the next connection");
    assert_eq!(engine.stats().half_open_drops, 1);
    assert_eq!(peer.heard()[1].rows(), [0, 1, 2, 3, 4]);
    engine.close().expect("drained");
}
