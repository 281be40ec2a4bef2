//! Processes are killed by SIGKILL while their producers flush at full speed onto a slowed disk.
//! Every batch whose `flush()` had returned is delivered after the restart.
//!
//! 40 kills in the main test; `FOREBAY_SCALE=n` repeats everything with n seeds, `FOREBAY_SEED=n`
//! sets the first.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

#[path = "../loadgen/mod.rs"]
mod loadgen;
mod rig;
mod shards;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use forebay::{Category, Engine};
use forebay_tests::seeds;
use loadgen::{PATIENCE, Running, wait_for};
use rig::{CLEAN, PRODUCERS, Rig};

const SEED: u64 = 0x1A7E_0C11;

fn seeds() -> impl Iterator<Item = u64> {
    let first = seeds::number("FOREBAY_SEED").unwrap_or(SEED);
    (0..seeds::scale()).map(move |index| first.wrapping_add(index.wrapping_mul(0x9E37_79B9)))
}

/// The kills of one test, in lives that may or may not have a server, and the drain at the end.
fn kill_and_account(seed: u64, kills: u32, server: bool, more: &str) -> rig::Arrived {
    let mut rig = Rig::new(seed, more);
    let sink = server.then(|| rig.sink());
    let mut recovered = 0;
    for kill in 0..kills {
        rig.kill_writer();
        if server && kill % 7 == 6 {
            recovered += rig.drain().intake_entries_recovered;
        }
    }
    let _sink = sink.unwrap_or_else(|| rig.sink());
    recovered += rig.drain().intake_entries_recovered;
    assert_eq!(rig.names(), CLEAN, "a drained slot has no intake");
    let arrived = rig.account();
    println!(
        "FOREBAY_SEED={seed}, {kills} kills, server {}: {} batches flushed, {} arrived, {} \
         doubled, {recovered} of them out of the intake at a drain",
        if server { "up" } else { "down" },
        rig.flushed(),
        arrived.rows,
        arrived.doubled
    );
    assert!(recovered > 0, "the last kill left nothing in the intake");
    arrived
}

#[test]
fn flushed_batches_survive_kills_while_the_server_is_down() {
    for seed in seeds() {
        let arrived = kill_and_account(seed, 20, false, "");
        // Nothing was sent before the last life, and what is in the journal is skipped on proof.
        assert_eq!(arrived.doubled, 0);
    }
}

#[test]
fn flushed_batches_survive_kills_while_the_server_is_up() {
    for seed in seeds() {
        kill_and_account(seed.rotate_left(32), 20, true, "");
    }
}

#[test]
fn flushed_batches_survive_kills_at_the_cap() {
    for seed in seeds() {
        let more = "sf_max_total_bytes=128k;sf_append_deadline_millis=50;";
        let arrived = kill_and_account(seed, 4, false, more);
        assert_eq!(arrived.doubled, 0);
    }
}

#[test]
fn kills_during_recovery_lose_nothing() {
    for seed in seeds() {
        let mut rig = Rig::new(seed, "");
        for _ in 0..3 {
            rig.kill_writer();
            for _ in 0..4 {
                rig.kill_opening();
            }
        }
        let _sink = rig.sink();
        rig.drain();
        assert_eq!(rig.names(), CLEAN);
        let arrived = rig.account();
        println!(
            "FOREBAY_SEED={seed}: 3 kills and 12 during recovery, {} batches flushed, {} doubled",
            rig.flushed(),
            arrived.doubled
        );
        assert_eq!(arrived.doubled, 0);
    }
}

/// The official client has the slot: it appends rows of its own, and drains all if it is to.
fn official_turn(rig: &Rig, drains: bool) {
    let conf = rig.conf_of("kill", "close_flush_timeout_millis=0;");
    let mut client = Running::start(
        Command::new(env!("CARGO_BIN_EXE_slot_client"))
            .args(["official", &conf])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped()),
    );
    let mut stdin = client.0.stdin.take().unwrap();
    let mut said = BufReader::new(client.0.stdout.take().unwrap()).lines();
    let mut expect = |wanted: &str| {
        let line = said
            .next()
            .unwrap_or_else(|| panic!("it ended before {wanted:?}"));
        assert_eq!(line.unwrap(), wanted);
    };
    expect("open");
    writeln!(stdin, "rows 1 5 40 3").unwrap();
    for row in 1..=5 {
        expect(&format!("accepted {row}"));
    }
    if drains {
        writeln!(stdin, "acked").unwrap();
        expect("acked");
    }
    drop(stdin);
    expect("left");
    assert!(client.finish("the official client").success());
}

#[test]
fn flushed_batches_survive_an_official_client_that_appends_in_between() {
    for seed in seeds() {
        let mut rig = Rig::new(seed, "");
        for _ in 0..4 {
            rig.kill_writer();
            official_turn(&rig, false);
        }
        let _sink = rig.sink();
        rig.drain();
        assert_eq!(rig.names(), CLEAN);
        let arrived = rig.account();
        println!(
            "FOREBAY_SEED={seed}: 4 kills, the official client appended after each, {} flushed",
            rig.flushed()
        );
        // Its frames follow those of the journal: what was proven before is proven still.
        assert_eq!(arrived.doubled, 0);
    }
}

#[test]
fn flushed_batches_survive_an_official_client_that_drains_and_closes_in_between() {
    for seed in seeds() {
        let mut rig = Rig::new(seed, "");
        let _sink = rig.sink();
        for _ in 0..4 {
            rig.kill_writer();
            official_turn(&rig, true);
            let names = rig.names();
            assert!(
                names.iter().any(|name| name.starts_with(".intake-")),
                "the intake stays: {names:?}"
            );
        }
        rig.drain();
        assert_eq!(rig.names(), CLEAN);
        let arrived = rig.account();
        println!(
            "FOREBAY_SEED={seed}: 4 kills, the official client drained after each, {} flushed, {} \
             doubled (written or sent before)",
            rig.flushed(),
            arrived.doubled
        );
    }
}

/// A directory on tmpfs, removed on drop.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn new() -> Self {
        Self(tempfile::tempdir_in("/dev/shm").unwrap())
    }

    fn key(&self) -> String {
        format!("intake_dir={}/intake;", self.0.path().display())
    }

    fn wipe(&self) {
        std::fs::remove_dir_all(self.0.path().join("intake")).unwrap();
    }
}

#[test]
fn flushed_batches_survive_kills_with_the_intake_on_tmpfs() {
    for seed in seeds() {
        let tmpfs = Tmpfs::new();
        let arrived = kill_and_account(seed, 6, false, &tmpfs.key());
        assert_eq!(arrived.doubled, 0);
        assert!(rig::names(&tmpfs.0.path().join("intake")).is_empty());
    }
}

#[test]
fn a_wiped_tmpfs_is_one_data_loss_with_its_size() {
    let tmpfs = Tmpfs::new();
    let mut rig = Rig::new(SEED, &tmpfs.key());
    rig.kill_writer();
    tmpfs.wipe();
    let _sink = rig.sink();
    let engine = Engine::connect(&rig.conf()).unwrap();
    let stats = engine.stats();
    assert_eq!(stats.intake_rings_lost, PRODUCERS);
    assert_eq!(stats.intake_bytes_lost, PRODUCERS * 32 * 1024);
    assert_eq!(stats.intake_entries_recovered, 0);
    let errors = engine.recent_errors();
    let losses: Vec<_> = errors
        .iter()
        .filter(|error| error.category == Category::DataLoss)
        .collect();
    assert_eq!(losses.len(), 1, "{errors:?}");
    assert!(
        losses[0].message.contains("98304 bytes"),
        "{}",
        losses[0].message
    );
    engine.wait_acked(PATIENCE).unwrap();
    engine.close().unwrap();
    assert_eq!(rig.names(), CLEAN);
    // Told once: the next start knows of nothing missing.
    assert_eq!(rig.drain().intake_rings_lost, 0);
}

#[test]
fn flushed_batches_of_an_orphan_are_delivered_by_its_drainer() {
    for seed in seeds() {
        let mut rig = Rig::new(seed, "");
        for _ in 0..3 {
            rig.kill_writer();
        }
        let _sink = rig.sink();
        let own = rig.conf_of(
            "own",
            "drain_orphans=on;orphan_scan_interval_millis=20;pin=off;",
        );
        let engine = Engine::connect(&own).unwrap();
        wait_for("drained orphan", || {
            let stats = engine.stats();
            assert_eq!(stats.drainers_failed, 0);
            (stats.drainers_succeeded > 0).then_some(())
        });
        engine.close().unwrap();
        assert_eq!(rig.names(), CLEAN);
        let arrived = rig.account();
        println!(
            "FOREBAY_SEED={seed}: 3 kills, drained as an orphan, {} flushed",
            rig.flushed()
        );
        assert_eq!(arrived.doubled, 0);
    }
}

#[test]
fn an_orphan_with_nothing_but_an_intake_is_drained() {
    let mut rig = Rig::new(SEED, "");
    rig.kill_until(rig::hold_entries);
    // As an official client leaves it that drained the journal: but without it having sent.
    let segments = std::fs::read_dir(rig.slot()).unwrap();
    for entry in segments {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.starts_with("sf-") || [".ack-watermark", ".symbol-dict"].contains(&name) {
            std::fs::remove_file(&path).unwrap();
        }
    }
    assert_eq!(rig.rings().len() as u64, PRODUCERS);
    let _sink = rig.sink();
    let own = rig.conf_of(
        "own",
        "drain_orphans=on;orphan_scan_interval_millis=20;pin=off;",
    );
    let engine = Engine::connect(&own).unwrap();
    wait_for("drained orphan", || {
        (engine.stats().drainers_succeeded > 0).then_some(())
    });
    engine.close().unwrap();
    assert_eq!(rig.names(), CLEAN);
}

/// Runs `forebay`, as its tests do, and gives its status and what it wrote.
fn forebay(words: &[&str]) -> (u8, String) {
    let mut out = Vec::new();
    let words = std::iter::once(&"forebay").chain(words);
    let status = forebay_cli::run(words.map(Into::into), &mut out, std::io::stderr());
    (status, String::from_utf8(out).unwrap())
}

#[test]
fn settled_batches_are_delivered_by_the_official_client() {
    let mut rig = Rig::new(SEED, "");
    rig.kill_until(rig::hold_entries);
    let slot = rig.slot().display().to_string();
    let batches = || {
        let (status, text) = forebay(&["inspect", "--json", &slot]);
        assert_eq!(status, 0, "{text}");
        let found: serde_json::Value = serde_json::from_str(&text).unwrap();
        let rings = found["intake"].as_array().unwrap().clone();
        assert!(rings.iter().all(|ring| ring["same_boot"] == true));
        let count = |ring: &serde_json::Value| ring["batches"].as_u64().unwrap();
        rings.iter().map(count).sum::<u64>()
    };
    let waiting = batches();
    assert!(waiting > 0);
    let (status, text) = forebay(&["verify", &slot]);
    assert!(
        status == 0 && text.contains("note: intake .intake-0: "),
        "{text}"
    );
    let (status, text) = wait_for("free slot", || {
        let settled = forebay(&["settle", "--segment-bytes", "65536", &slot]);
        (settled.0 == 0).then_some(settled)
    });
    assert_eq!(status, 0, "{text}");
    println!("{waiting} batches waited; {}", text.trim_end());
    assert_eq!(batches(), 0);
    let names = rig.names();
    assert!(
        !names.iter().any(|name| name.starts_with(".intake")),
        "{names:?}"
    );
    let _sink = rig.sink();
    official_turn(&rig, true);
    let arrived = rig.account();
    assert_eq!(arrived.doubled, 0);
}
