//! The rows of the behaviour table: statuses, close codes, ends, malformed answers, upgrades, OKs,
//! first connections; and caps.

use std::time::{Duration, Instant};

use forebay::{Engine, Error, Stage};
use forebay_wire::upgrade::{FixedReply, UpgradePolicy};
use forebay_wire::ws::Opcode;

use crate::case::{Answer, BAD, Fate, PATIENCE, ROWS, check, conf, publish};
use crate::loadgen;
use crate::peer::{self, Conn, Peer, Sent, fill};

#[test]
fn statuses_that_are_terminal_by_default() {
    for status in [0x03, 0x05, 0x08] {
        check(&Answer::Status(status), false, Fate::Terminal, "");
    }
}

#[test]
fn statuses_that_pass_are_retried_until_the_row_is_taken() {
    for status in [0x06, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x7f] {
        check(&Answer::Status(status), false, Fate::Delivered, "");
    }
}

#[test]
fn statuses_that_do_not_pass_are_terminal_after_strikes_and_time() {
    for status in [0x06, 0x09, 0x0d, 0x7f] {
        check(&Answer::Status(status), true, Fate::Terminal, "");
    }
}

#[test]
fn a_server_that_is_not_writable_is_retried_for_ever() {
    check(&Answer::Status(0x0c), true, Fate::Retried, "");
}

#[test]
fn policies_are_changed_by_their_keys() {
    let terminal = "on_write_error=terminal;";
    check(&Answer::Status(0x09), false, Fate::Terminal, terminal);
    let retried = "on_schema_error=retriable;";
    check(&Answer::Status(0x03), false, Fate::Delivered, retried);
    check(&Answer::Status(0x03), true, Fate::Terminal, retried);
    let elsewhere = "on_server_error=retriable_other;";
    check(&Answer::Status(0x05), true, Fate::Retried, elsewhere);
    let unknown = "on_server_error=terminal;";
    check(&Answer::Status(0x7f), false, Fate::Delivered, unknown);
}

#[test]
fn close_codes_once() {
    let codes = [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1011, 1012, 1013];
    for code in codes.map(Some).into_iter().chain([None]) {
        check(&Answer::Close(code), false, Fate::Delivered, "");
    }
}

#[test]
fn orderly_ends_always_are_retried_for_ever_with_pauses() {
    for answer in [
        Answer::Close(Some(1000)),
        Answer::Close(Some(1001)),
        Answer::Fin,
        Answer::Reset,
    ] {
        check(&answer, true, Fate::Retried, "");
    }
}

#[test]
fn other_close_codes_always_are_terminal_after_strikes_and_time() {
    for code in [Some(1002), Some(1009), Some(1013), Some(3000), None] {
        check(&Answer::Close(code), true, Fate::Terminal, "");
    }
}

#[test]
fn ends_of_the_stream_once() {
    check(&Answer::Fin, false, Fate::Delivered, "");
    check(&Answer::Reset, false, Fate::Delivered, "");
}

/// Answers that are none: too short, too long, no text length, and frames that break RFC 6455.
fn malformed() -> Vec<Answer> {
    let ok = [0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let surplus = [&ok[..], &[1]].concat();
    vec![
        Answer::Garbage(vec![]),
        Answer::Garbage(ok[..6].to_vec()),
        Answer::Garbage(surplus),
        Answer::Garbage(vec![9, 2, 0, 0, 0, 0, 0, 0, 0]),
        Answer::Raw(vec![0x82, 0x81, 1, 2, 3, 4, 5]), // masked
        Answer::Raw(vec![0x81, 0x01, b'x']),          // text
        Answer::Raw(vec![0xc2, 0x00]),                // a reserved bit
        Answer::Raw(vec![0x88, 0x01, 0x03]),          // half a close code
        Answer::Raw(vec![0x88, 0x02, 0x03, 0xed]),    // CLOSE 1005
    ]
}

#[test]
fn malformed_answers_once_are_retried() {
    for answer in malformed() {
        check(&answer, false, Fate::Delivered, "");
    }
}

#[test]
fn malformed_answers_always_are_paced_and_terminal() {
    for answer in [malformed().swap_remove(1), malformed().swap_remove(4)] {
        check(&answer, true, Fate::Terminal, "");
    }
}

#[test]
fn refused_upgrades_at_a_reconnect_are_retried_unless_they_refuse_the_credentials() {
    for (status, role) in [
        (400, None),
        (404, None),
        (421, None),
        (421, Some("REPLICA")),
        (421, Some("PRIMARY_CATCHUP")),
        (426, None),
        (500, None),
        (503, None),
    ] {
        check(&Answer::Upgrade(status, role), false, Fate::Delivered, "");
    }
    check(&Answer::Upgrade(503, None), true, Fate::Retried, "");
    for status in [401, 403] {
        check(&Answer::Upgrade(status, None), true, Fate::Terminal, "");
    }
}

/// Serves rows with whatever OKs `confirm` sends; everything must be delivered on one connection.
fn one_connection(confirm: fn(&mut Conn, u64)) {
    let dir = loadgen::scratch();
    let peer = Peer::start(move |_, conn| {
        conn.upgrade(&UpgradePolicy::default());
        while let Some(n) = conn.next_row() {
            confirm(conn, n);
        }
    });
    let engine = Engine::connect(&conf(&peer, &dir, "")).expect("async");
    publish(&engine, 0..ROWS).expect("delivered");
    engine.close().expect("drained");
    assert_eq!(peer.connections(), 1);
    let heard = peer.heard();
    assert_eq!(heard[0].rows(), [0, 1, 2, 3, 4]);
    assert_eq!(
        heard[0].sent.last(),
        Some(&Sent::Close(Some(1000))),
        "close says goodbye"
    );
}

#[test]
fn oks_are_cumulative_and_clamped() {
    one_connection(|conn, _| {
        conn.ok(900);
    });
    one_connection(|conn, n| {
        if n % 2 == 0 {
            conn.ok_all();
        }
    });
    one_connection(|conn, n| {
        conn.ok_all();
        conn.ok(-1);
        conn.ok(i64::try_from(n).unwrap() - 1);
    });
    one_connection(|conn, n| {
        let seq = conn.messages - 1;
        conn.ok_with(seq, &[("t", i64::try_from(n).unwrap())]);
        conn.durable(&[("t", 1), ("never asked for", 7)]);
    });
}

#[test]
fn an_ok_behind_a_refusal_means_nothing() {
    let dir = loadgen::scratch();
    let peer = Peer::start(|number, conn| {
        conn.upgrade(&UpgradePolicy::default());
        while let Some(n) = conn.next_row() {
            let seq = conn.messages - 1;
            if number == 0 && n == BAD {
                // One write, so that the sender finds both at once.
                let mut payload = Vec::new();
                let mut bytes = Vec::new();
                let status = forebay_wire::response::Status::WriteError;
                forebay_wire::response::write_error(&mut payload, status, seq, "no");
                forebay_wire::ws::append_server_frame(&mut bytes, Opcode::Binary, &payload);
                payload.clear();
                forebay_wire::response::write_ok(&mut payload, seq, []);
                forebay_wire::ws::append_server_frame(&mut bytes, Opcode::Binary, &payload);
                conn.raw(&bytes);
                conn.listen_to_the_end();
                return;
            }
            conn.ok(seq);
        }
    });
    let engine = Engine::connect(&conf(&peer, &dir, "")).expect("async");
    publish(&engine, 0..ROWS).expect("delivered");
    engine.close().expect("drained");
    assert_eq!(peer.heard()[1].rows(), [2, 3, 4]);
}

#[test]
fn the_first_connection_reports_what_the_server_answers() {
    for (status, retryable) in [(401, false), (503, true), (421, true)] {
        let dir = loadgen::scratch();
        let peer = Peer::start(move |_, conn| {
            let fixed = FixedReply {
                status,
                headers: Vec::new(),
            };
            conn.upgrade(&UpgradePolicy {
                fixed: Some(fixed),
                ..UpgradePolicy::default()
            });
        });
        let conf = conf(&peer, &dir, "").replace("=async", "=off");
        let error = Engine::connect(&conf).expect_err("refused");
        assert!(
            matches!(&error, Error::Peer { retryable: r, .. } if *r == retryable),
            "{error}"
        );
        assert!(error.to_string().contains(&status.to_string()), "{error}");
        assert_eq!(peer.connections(), 1, "one round");
    }
}

#[test]
fn a_synchronous_first_connection_tries_for_its_time_and_waits_for_a_server() {
    let peer = Peer::start(|number, conn| {
        if number < 3 {
            return;
        }
        conn.upgrade(&UpgradePolicy::default());
        conn.serve();
    });
    let dir = loadgen::scratch();
    let text = conf(&peer, &dir, "reconnect_max_duration_millis=20000;");
    let engine = Engine::connect(&text.replace("=async", "=sync")).expect("the fourth attempt");
    engine.close().expect("nothing to deliver");
    let nobody = conf(&peer, &dir, "reconnect_max_duration_millis=300;");
    drop(peer);
    let start = Instant::now();
    let error = Engine::connect(&nobody.replace("=async", "=on")).expect_err("nobody listens");
    assert!(start.elapsed() >= Duration::from_millis(300));
    assert!(
        matches!(
            error,
            Error::Peer {
                retryable: true,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_frame_over_a_new_cap_waits_for_a_larger_one_without_a_storm() {
    let dir = loadgen::scratch();
    let peer = Peer::start(|number, conn| {
        let mut policy = UpgradePolicy::default();
        if (1..5).contains(&number) {
            policy.max_batch_size = Some(1000);
        }
        conn.upgrade(&policy);
        if number == 0 {
            conn.next_row();
            return conn.fin();
        }
        conn.serve();
    });
    let engine = Engine::connect(&conf(&peer, &dir, "")).expect("async");
    let mut producer = engine.producer().expect("open");
    let start = Instant::now();
    fill(&mut producer, 0, 5000);
    let receipt = producer.publish().expect("room");
    receipt.wait(Stage::Acked, PATIENCE).expect("delivered");
    let stats = engine.stats();
    assert_eq!(stats.blocked_by_cap, 4);
    // Pauses of at least 10, 20, 40 and 80 ms.
    assert!(start.elapsed() >= Duration::from_millis(150));
    assert_eq!(peer.connections(), 6);
    let rows: Vec<_> = peer.heard().iter().map(peer::Heard::rows).collect();
    assert_eq!(
        rows[1..5],
        [const { Vec::<u64>::new() }; 4],
        "nothing too large is sent"
    );
    engine.close().expect("drained");
}
