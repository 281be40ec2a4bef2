//! Three servers, roles and outages: the walk over them, and that nothing is lost, doubled without
//! need or reordered on the way.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use forebay::{ConnectionChange, Engine, Stage};
use forebay_wire::upgrade::UpgradePolicy;
use peer::{Conn, Peer, Seen, fill};

mod loadgen;
mod peer;

const PATIENCE: Duration = Duration::from_mins(3);

fn conf(peers: &[&Peer], dir: &tempfile::TempDir, more: &str) -> String {
    let list: Vec<_> = peers.iter().map(|peer| peer.addr().to_string()).collect();
    format!(
        "ws::addr={};sf_dir={};initial_connect_retry=async;pin=off;\
         close_flush_timeout_millis=20000;{more}",
        list.join(","),
        dir.path().join("sf").display()
    )
}

const QUICK: &str = "reconnect_initial_backoff_millis=5;reconnect_max_backoff_millis=20;";

fn role(role: &str) -> UpgradePolicy {
    UpgradePolicy {
        role: Some(role.to_owned()),
        ..UpgradePolicy::default()
    }
}

fn publish(engine: &Engine, rows: std::ops::Range<u64>) {
    let mut producer = engine.producer().expect("open");
    for n in rows {
        fill(&mut producer, n, 0);
        producer.publish().expect("room");
    }
    let receipt = producer.publish().expect("all of them");
    receipt.wait(Stage::Acked, PATIENCE).expect("acked");
}

/// The numbers that arrived at a server, over all its connections.
fn rows(peer: &Peer) -> Vec<u64> {
    peer.heard().iter().flat_map(peer::Heard::rows).collect()
}

#[test]
fn a_demoted_primary_is_left_for_the_one_that_takes_over() {
    let dir = loadgen::scratch();
    let first = Peer::start(|number, conn| {
        if number > 0 {
            conn.upgrade(&role("REPLICA"));
            return;
        }
        conn.upgrade(&role("PRIMARY"));
        while let Some(n) = conn.next_row() {
            conn.ok_all();
            if n == 2 {
                return conn.close(Some(1000));
            }
        }
    });
    let second = Peer::start(|number, conn| {
        // It catches up for a while.
        if conn.upgrade(&role(["PRIMARY_CATCHUP", "PRIMARY"][number.min(3) / 3])) {
            conn.serve();
        }
    });
    let third = Peer::start(|_, conn| {
        conn.upgrade(&role("REPLICA"));
    });
    let events = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&events);
    let engine = Engine::builder(&conf(&[&first, &second, &third], &dir, QUICK))
        .on_connection(move |event| told.lock().unwrap().push(event.change.clone()))
        .connect()
        .expect("async");
    publish(&engine, 0..3);
    publish(&engine, 3..6);
    engine.close().expect("drained");
    assert_eq!(
        (rows(&first), rows(&second)),
        (vec![0, 1, 2], vec![3, 4, 5])
    );
    assert!(rows(&third).is_empty());
    let events = events.lock().unwrap();
    let endpoint = first.addr().to_string();
    assert_eq!(events[0], ConnectionChange::Connected { endpoint });
    let (from, to) = (first.addr().to_string(), second.addr().to_string());
    assert!(
        events.contains(&ConnectionChange::FailedOver { from, to }),
        "{events:?}"
    );
    // The one that was left is asked again last: it was the worst of what is known.
    let attempts: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            ConnectionChange::AttemptFailed { endpoint, .. } => Some(endpoint.clone()),
            _ => None,
        })
        .collect();
    let expected = [&second, &third, &first].map(|peer| peer.addr().to_string());
    assert_eq!(
        attempts[..3],
        expected,
        "the first round after the demotion"
    );
}

#[test]
fn a_refusal_for_the_role_moves_on_without_a_strike() {
    let dir = loadgen::scratch();
    let first = Peer::start(|_, conn| {
        conn.upgrade(&UpgradePolicy::default());
        if conn.next_row().is_some() {
            let seq = conn.messages - 1;
            conn.refuse(0x0c, seq);
            conn.listen_to_the_end();
        }
    });
    let second = Peer::start(|_, conn| {
        conn.upgrade(&UpgradePolicy::default());
        conn.serve();
    });
    let more = format!("{QUICK}max_frame_rejections=1;poison_min_escalation_window_millis=0;");
    let engine = Engine::connect(&conf(&[&first, &second], &dir, &more)).expect("async");
    publish(&engine, 0..5);
    engine.close().expect("drained");
    assert_eq!((first.connections(), second.connections()), (1, 1));
    assert_eq!(rows(&second), [0, 1, 2, 3, 4]);
}

#[test]
fn servers_that_refuse_by_role_are_asked_again_at_the_initial_pace() {
    let dir = loadgen::scratch();
    let replica = || {
        Peer::start(|_, conn| {
            conn.upgrade(&role("REPLICA"));
        })
    };
    let (first, second) = (replica(), replica());
    let more = "reconnect_initial_backoff_millis=20;reconnect_max_backoff_millis=5000;";
    let text = conf(&[&first, &second], &dir, more);
    let engine = Engine::connect(&text).expect("async");
    // Doubling pauses would need more than 20 s for these.
    let start = Instant::now();
    while first.connections() < 11 {
        assert!(start.elapsed() < Duration::from_secs(15), "it goes on");
        std::thread::yield_now();
    }
    let heard = first.heard();
    for pair in heard.windows(2) {
        let gap = pair[1].at - pair[0].at;
        assert!(gap >= Duration::from_millis(19), "{gap:?}");
    }
    engine.close().expect("nothing to deliver");
}

#[test]
fn outages_of_three_servers_lose_and_reorder_nothing() {
    let dir = loadgen::scratch();
    let seen = Arc::new(Seen::default());
    let server = |salt: usize| {
        let seen = Arc::clone(&seen);
        Peer::start(move |number, conn| outage(conn, &seen, number * 7 + salt * 3))
    };
    let (first, second, third) = (server(0), server(1), server(2));
    let more = "reconnect_initial_backoff_millis=1;reconnect_max_backoff_millis=2;";
    let text = conf(&[&first, &second, &third], &dir, more);
    let engine = Engine::connect(&text).expect("async");
    let mut producer = engine.producer().expect("open");
    for n in 0..2000 {
        fill(&mut producer, n, 0);
        producer.publish().expect("room");
    }
    engine.wait_acked(PATIENCE).expect("delivered");
    engine.close().expect("drained");
    let frames = seen.frames.load(std::sync::atomic::Ordering::Acquire);
    assert_eq!(frames, 2000);
    let used = [&first, &second, &third].map(Peer::connections);
    assert!(used[0] > 10 && used[1] > 10 && used[2] > 0, "{used:?}");
}

/// One connection that refuses, breaks or leaves after some frames.
fn outage(conn: &mut Conn, seen: &Seen, chance: usize) {
    if chance % 5 == 4 {
        conn.upgrade(&role("PRIMARY_CATCHUP"));
        return;
    }
    if !conn.upgrade(&UpgradePolicy::default()) {
        return;
    }
    let mut first = None;
    for _ in 0..5 + chance % 40 {
        let Some(n) = conn.next_row() else { return };
        seen.row(n, &mut first);
        conn.ok_all();
    }
    match chance % 3 {
        0 => conn.close(Some(1001)),
        1 => conn.reset(),
        _ => conn.fin(),
    }
}
