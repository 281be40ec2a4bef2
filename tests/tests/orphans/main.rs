//! Slots that other senders left: found, reported, drained in the background, given up for good
//! reasons only.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use forebay::{DrainerEvent, Engine, Stats};
use forebay_loadgen::sink::SinkConfig;
use forebay_wire::upgrade::UpgradePolicy;

mod cost;
#[path = "../loadgen/mod.rs"]
mod loadgen;
mod rig;

use loadgen::{PATIENCE, Running, wait_for};
use rig::{CLEAN, Rig, damage};

fn until(engine: &Engine, what: &str, holds: impl Fn(&Stats) -> bool) -> Stats {
    wait_for(what, || Some(engine.stats()).filter(&holds))
}

/// No drainer, and nothing for one. How one ended is counted a moment before.
fn is_quiet(stats: &Stats) -> bool {
    (
        stats.drainers_active,
        stats.orphan_slots,
        stats.orphan_bytes,
    ) == (0, 0, 0)
}

/// Drains with these keys; ready when four drainers have their slots. `drainers_active` counts
/// threads from their start on, and one that has no slot yet has nothing to end.
fn four_at_work(rig: &Rig, more: &str) -> Engine {
    let (tell, told) = channel();
    let engine = rig.listening(more, move |event| {
        // What comes later, nobody waits for.
        let _ = tell.send(event.clone());
    });
    let mut started = 0;
    while started < 4 {
        let event = told.recv_timeout(PATIENCE).expect("four at work");
        started += u32::from(matches!(event, DrainerEvent::Started { .. }));
    }
    assert_eq!(engine.stats().drainers_active, 4);
    engine
}

/// Several looks at the directory have passed.
fn some_scans() {
    std::thread::sleep(Duration::from_millis(200));
}

#[test]
fn orphans_are_drained_and_leave_their_lock_files() {
    let rig = Rig::new();
    rig.leave("a", 5);
    rig.leave("b", 3000);
    let sink = rig.sink();
    let engine = rig.drainer("");
    let stats = until(&engine, "two drained slots", |s| {
        s.drainers_succeeded == 2 && is_quiet(s)
    });
    assert_eq!(stats.drainers_failed, 0);
    assert_eq!(
        stats.frames_acked, 0,
        "counters of the foreground are its own"
    );
    engine.close().unwrap();
    assert_eq!(
        (rig.names("a"), rig.names("b")),
        (
            CLEAN.map(String::from).to_vec(),
            CLEAN.map(String::from).to_vec()
        )
    );
    let arrived = rig.arrived();
    assert_eq!((arrived["a"], arrived["b"]), (5, 3000));
    assert_eq!(sink.stop().connections, 3, "one for each slot");
}

/// Field report `orphan-dirs-after-rename`.
#[test]
fn orphan_dirs_after_rename() {
    let rig = Rig::new();
    rig.leave("A", 5);
    let sink = rig.sink();
    let address = rig.address.to_string();
    let off = Engine::connect(&rig.conf("B", &address, "drain_orphans=off;")).unwrap();
    let stats = off.stats();
    assert_eq!(stats.orphan_slots, 1, "reported");
    assert!(stats.orphan_bytes >= 64 * 1024, "{}", stats.orphan_bytes);
    off.close().unwrap();
    assert_eq!(rig.arrived().len(), 0, "not drained");
    let on = Engine::connect(&rig.conf("B", &address, "drain_orphans=on;")).unwrap();
    until(&on, "a drained slot", |s| s.drainers_succeeded == 1);
    on.close().unwrap();
    assert_eq!(rig.arrived()["A"], 5);
    drop(sink);
}

#[test]
fn a_held_slot_is_left_alone_until_its_sender_is_gone() {
    let rig = Rig::new();
    let holder = rig.hold("busy", 5);
    let _sink = rig.sink();
    let engine = rig.drainer("");
    some_scans();
    let stats = engine.stats();
    assert_eq!((stats.drainers_succeeded, stats.orphan_slots), (0, 0));
    assert_eq!(rig.arrived().len(), 0);
    holder.close().expect_err("its server is another one");
    until(&engine, "a drained slot", |s| s.drainers_succeeded == 1);
    assert_eq!(rig.arrived()["busy"], 5);
    engine.close().unwrap();
}

#[test]
fn a_slot_marked_as_failed_waits_until_the_marker_is_removed() {
    let rig = Rig::new();
    rig.leave("marked", 5);
    std::fs::write(rig.slot("marked").join(".failed"), "an operator's note").unwrap();
    let before = rig.files("marked");
    let _sink = rig.sink();
    let engine = rig.drainer("");
    some_scans();
    assert_eq!(engine.stats().orphan_slots, 0);
    assert_eq!(rig.files("marked"), before, "nothing is touched");
    std::fs::remove_file(rig.slot("marked").join(".failed")).unwrap();
    until(&engine, "a drained slot", |s| s.drainers_succeeded == 1);
    assert_eq!(rig.arrived()["marked"], 5);
    engine.close().unwrap();
}

#[test]
fn a_damaged_orphan_is_marked_with_the_reason_and_keeps_every_byte() {
    let rig = Rig::new();
    rig.leave("damaged", 5);
    damage(&rig.slot("damaged").join("sf-manifest.bin"), 20);
    damage(&rig.slot("damaged").join("sf-manifest.bin"), 4096 + 20);
    let before = rig.files("damaged");
    let _sink = rig.sink();
    let engine = rig.drainer("");
    until(&engine, "a failed drainer", |s| {
        s.drainers_failed == 1 && is_quiet(s)
    });
    let mut after = rig.files("damaged");
    let reason = String::from_utf8(after.remove(".failed").expect("marked")).unwrap();
    assert!(reason.contains("sf-manifest.bin"), "{reason:?}");
    assert!(!reason.ends_with('\n'));
    assert_eq!(after, before, "every byte is kept");
    some_scans();
    assert_eq!(engine.stats().drainers_failed, 1, "told once");
    engine.close().unwrap();
    assert!(
        !rig.sf_dir().join("damaged.unreplayable-0").exists(),
        "its own start may do that"
    );
}

/// Field report `failed-marker-for-outage`.
#[test]
fn failed_marker_for_outage() {
    let rig = Rig::new();
    rig.leave("a", 50);
    // Longer than every budget that there is.
    let engine = rig.drainer("reconnect_max_duration_millis=1;auth_timeout_ms=50;");
    let note = wait_for("a note of the cause", || rig.read("a", ".last_error"));
    assert!(note.contains("refused"), "{note:?}");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(rig.read("a", ".failed"), None);
    let stats = engine.stats();
    assert_eq!((stats.drainers_active, stats.drainers_failed), (1, 0));
    let sink = rig.sink();
    until(&engine, "a drained slot", |s| s.drainers_succeeded == 1);
    engine.close().unwrap();
    assert_eq!(rig.arrived()["a"], 50);
    assert_eq!(rig.names("a"), CLEAN, "the note is gone");
    sink.stop();

    let rig = Rig::new();
    rig.leave("b", 50);
    let upgrade = UpgradePolicy {
        authorization: Some("Bearer of another".to_owned()),
        ..UpgradePolicy::default()
    };
    let _sink = rig.sink_with(SinkConfig {
        upgrade,
        ..SinkConfig::default()
    });
    let engine = rig.drainer("");
    until(&engine, "a failed drainer", |s| s.drainers_failed == 1);
    let reason = rig.read("b", ".failed").expect("marked");
    assert!(reason.contains("401"), "{reason:?}");
    assert_eq!(rig.arrived().len(), 0);
    rig.assert_free("b");
    drop(engine);
}

#[test]
fn a_listener_is_told_the_steps_in_their_order() {
    let rig = Rig::new();
    rig.leave("a", 5);
    rig.leave("b", 5);
    std::fs::remove_file(rig.slot("b").join("sf-manifest.bin")).unwrap();
    let _sink = rig.sink();
    let (tell, told) = channel();
    let engine = rig.listening("", move |event| tell.send(event.clone()).unwrap());
    until(&engine, "both ends", |s| {
        s.drainers_succeeded + s.drainers_failed == 2
    });
    engine.close().unwrap();
    let (of_a, of_b): (Vec<_>, Vec<_>) = told.iter().partition(|event| event.slot() == "a");
    assert!(
        matches!(
            of_a.as_slice(),
            [
                DrainerEvent::Started { frames: 5, .. },
                DrainerEvent::Drained { acked: 5, .. }
            ]
        ),
        "{of_a:?}"
    );
    assert!(
        matches!(of_b.as_slice(), [DrainerEvent::Failed { reason, unmarked: None, .. }]
            if Some(reason) == rig.read("b", ".failed").as_ref()),
        "{of_b:?}"
    );
}

/// Another server may grant what these do not: the slot is tried again as long as
/// `reconnect_max_duration_millis`, then it waits for an operator.
#[test]
fn a_durable_mismatch_is_told_and_tried_again_within_the_budget() {
    let rig = Rig::new();
    rig.leave("a", 5);
    let _sink = rig.sink();
    let (tell, told) = channel();
    let start = Instant::now();
    let more = "request_durable_ack=on;reconnect_max_duration_millis=500;";
    let engine = rig.listening(more, move |event| tell.send(event.clone()).unwrap());
    until(&engine, "a failed drainer", |s| s.drainers_failed == 1);
    assert!(start.elapsed() >= Duration::from_millis(500));
    // The foreground ends by the same cause.
    let _ = engine.close();
    let events: Vec<_> = told.iter().collect();
    let mismatches = events
        .iter()
        .filter(|event| matches!(event, DrainerEvent::DurableMismatch { .. }));
    assert!(mismatches.count() > 1, "{events:?}");
    assert!(matches!(events.last(), Some(DrainerEvent::Failed { .. })));
    assert_eq!(rig.arrived().len(), 0);
    rig.assert_free("a");
}

#[test]
fn twenty_orphans_are_drained_by_four_drainers() {
    let rig = Rig::new();
    for n in 0..20 {
        rig.leave(&format!("s{n}"), 40 + n);
    }
    // Answers come late, so that drainers are seen at work.
    let sink = rig.sink_with(SinkConfig {
        ack_delay: Duration::from_millis(30),
        ..SinkConfig::default()
    });
    let engine = rig.drainer("max_background_drainers=4;");
    let mut most = 0;
    wait_for("twenty drained slots", || {
        let stats = engine.stats();
        most = most.max(stats.drainers_active);
        (stats.drainers_succeeded == 20).then_some(())
    });
    assert_eq!(most, 4);
    engine.close().unwrap();
    let arrived = rig.arrived();
    for n in 0..20 {
        assert_eq!(arrived[&format!("s{n}")], 40 + n);
    }
    assert_eq!(sink.stop().connections, 21, "one for each slot");
}

/// Field report `quarantine-marker-unwritable`.
#[test]
fn quarantine_marker_unwritable() {
    let rig = Rig::new();
    rig.leave("damaged", 5);
    std::fs::remove_file(rig.slot("damaged").join("sf-manifest.bin")).unwrap();
    // The marker is written under this name first.
    let obstacle = rig.slot("damaged").join(".failed.forebay-tmp");
    std::fs::create_dir(&obstacle).unwrap();
    let _sink = rig.sink();
    let engine = rig.drainer("");
    until(&engine, "a failed drainer", |s| s.drainers_failed == 1);
    std::thread::sleep(Duration::from_millis(20 * 10));
    let stats = engine.stats();
    assert_eq!(
        (stats.drainers_failed, stats.drainers_active),
        (1, 0),
        "once"
    );
    assert_eq!(stats.orphan_slots, 1, "still there");
    assert_eq!(rig.read("damaged", ".failed"), None);
    engine.close().unwrap();
    // Another engine of this process says nothing either.
    let engine = rig.drainer("");
    some_scans();
    assert_eq!(engine.stats().drainers_failed, 0);
    engine.close().unwrap();
    rig.assert_free("own");
}

/// Field report `foreign-files-in-dir`, the part of the orphan scan.
#[test]
fn the_scan_adopts_nothing_that_is_not_a_senders_slot() {
    let rig = Rig::new();
    rig.leave("real", 5);
    let real = rig.slot("real");
    let segments: Vec<_> = rig
        .names("real")
        .into_iter()
        .filter(|name| name.starts_with("sf-") && name != "sf-manifest.bin")
        .collect();
    for name in [
        "x.unreplayable-0",
        ".hidden",
        "lost+found",
        "copy.bak",
        "owned",
    ] {
        std::fs::create_dir(rig.slot(name)).unwrap();
        for segment in &segments {
            std::fs::copy(real.join(segment), rig.slot(name).join(segment)).unwrap();
        }
    }
    std::fs::create_dir(rig.slot("owned").join(".lock.owner")).unwrap();
    std::fs::create_dir_all(rig.slot("rejected/sf-0000000000000001.sfa")).unwrap();
    std::os::unix::fs::symlink(&real, rig.slot("link")).unwrap();
    std::os::unix::fs::symlink("nowhere", rig.slot("dangling")).unwrap();
    std::fs::write(rig.slot("file"), "x").unwrap();
    let sink = rig.sink();
    let engine = rig.drainer("");
    until(&engine, "a drained slot", |s| s.drainers_succeeded == 1);
    some_scans();
    engine.close().unwrap();
    assert_eq!(rig.arrived()["real"], 5);
    assert_eq!(sink.stop().connections, 2);
    for name in ["x.unreplayable-0", ".hidden", "lost+found", "copy.bak"] {
        assert_eq!(rig.names(name), segments, "{name}: untouched");
    }
}

#[test]
fn close_ends_drainers_within_its_bound_and_keeps_their_frames() {
    let rig = Rig::new();
    for n in 0..6 {
        rig.leave(&format!("s{n}"), 20);
    }
    // Connections are taken and never answered.
    let listener = TcpListener::bind(rig.address).unwrap();
    let engine = four_at_work(&rig, "close_flush_timeout_millis=0;");
    let start = Instant::now();
    engine.close().unwrap();
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "{:?}",
        start.elapsed()
    );
    let engine = four_at_work(&rig, "close_flush_timeout_millis=60000;");
    let start = Instant::now();
    engine.close().unwrap();
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(2400), "{took:?}");
    assert!(took < Duration::from_secs(6), "{took:?}");
    drop(listener);
    // A drainer may need longer for its last syncs than close waits.
    for n in 0..6 {
        rig.assert_free_within(&format!("s{n}"), Duration::from_secs(2));
    }
    let _sink = rig.sink();
    let engine = rig.drainer("");
    until(&engine, "six drained slots", |s| s.drainers_succeeded == 6);
    engine.close().unwrap();
    let arrived = rig.arrived();
    assert!(
        arrived.len() == 6 && arrived.values().all(|rows| *rows == 20),
        "{arrived:?}"
    );
}

/// Real processes, killed while they drain.
#[test]
fn what_killed_drainers_left_is_delivered_by_the_next() {
    let rig = Rig::new();
    for n in 0..5 {
        rig.leave(&format!("s{n}"), 2000);
    }
    let sink = rig.sink();
    let drain = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay_under_test"));
        command.arg("drain").arg(rig.sf_dir()).arg("--conf");
        command.arg(format!(
            "ws::addr={};max_background_drainers=3;",
            rig.address
        ));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let mut killed = 0;
    let mut random = 0x9E37_79B9_u64;
    for _ in 0..8 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let mut process = Running::start(&mut drain());
        std::thread::sleep(Duration::from_millis(1 + random % 30));
        killed += u32::from(process.kill());
    }
    assert!(killed > 0, "none was killed at work");
    let mut last = Running::start(&mut drain());
    assert!(last.finish("the last drain").success());
    let arrived = rig.arrived();
    assert!(
        arrived.len() == 5 && arrived.values().all(|rows| *rows == 2000),
        "{arrived:?}"
    );
    for n in 0..5 {
        // A kill between the last segment and the files beside it leaves those: the slot holds
        // nothing any more, so nobody adopts it again.
        let names = rig.names(&format!("s{n}"));
        assert!(!names.iter().any(|name| name.contains(".sfa")), "{names:?}");
    }
    println!(
        "{killed} of 8 killed at work; {} rows came",
        sink.stop().rows
    );
}
