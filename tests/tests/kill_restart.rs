//! Processes that replay real data are killed by SIGKILL at random moments, with the server up and
//! with the server down. Whatever the confirm log said was written is at the server in the end, in
//! order; duplicates come from kills only.
//!
//! `FOREBAY_SEED=n` sets the moments, `FOREBAY_SCALE=n` repeats the test with n seeds.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

mod loadgen;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use forebay_tests::address::free_address;
use forebay_tests::seeds;
use loadgen::{NASDAQ, Running, SinkProcess, binary, scratch, stored, wait_for};

const SEED: u64 = 0xF04E_BA11;
const BATCH_ROWS: usize = 50;
/// Kills with the server up, and as many with the server down.
const KILLS: usize = 10;
/// A kill comes up to this long after the process started or confirmed its first batch.
const KILL_AFTER_MILLIS_MAX: u64 = 50;
/// An hour of data in 3 seconds: a batch every 10 ms, so that kills meet batches on their way and
/// the file, of 297 batches, is long enough for all of them where a sync takes long too.
const SPEED: &str = "1200x";

struct Rig {
    dir: tempfile::TempDir,
    seed: u64,
    kills: usize,
    expected: HashMap<Vec<String>, usize>,
}

impl Rig {
    fn new(seed: u64) -> Self {
        let rows = NASDAQ.expected();
        let distinct: HashSet<&Vec<String>> = rows.iter().collect();
        assert_eq!(
            distinct.len(),
            rows.len(),
            "a row occurs twice, so duplicates cannot be told"
        );
        let expected = rows.into_iter().zip(1..).collect();
        Self {
            dir: scratch(),
            seed: seed | 1,
            kills: 0,
            expected,
        }
    }

    fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("confirmed")
    }

    fn conf(&self, addr: &str) -> String {
        let sf_dir = self.dir.path().join("sf");
        format!(
            "ws::addr={addr};sf_dir={};sender_id=kill;sf_max_segment_bytes=64k;\
             initial_connect_retry=async;close_flush_timeout_millis=20000;lock_retry_millis=5000;",
            sf_dir.display()
        )
    }

    /// A replay that goes on after the confirm log and writes to it.
    fn replay(&self, addr: &str, speed: &str) -> Command {
        let mut command = NASDAQ.replay(&self.conf(addr));
        command.args(["--batch", &BATCH_ROWS.to_string(), "--speed", speed]);
        command
            .arg("--resume")
            .arg(self.log())
            .arg("--confirm-log")
            .arg(self.log());
        command.args(["--confirm", "written"]).stdout(Stdio::null());
        command
    }

    /// Kills a replay at a random moment: every third while it opens the slot, the others a while
    /// after they confirmed something.
    fn kill_one(&mut self, addr: &str) {
        let before = confirmed(&self.log());
        let mut process = Running::start(&mut self.replay(addr, SPEED));
        if self.kills % 3 != 2 {
            wait_for("confirmed batch", || {
                assert!(
                    !process.has_ended(),
                    "the replay ended before its first batch was confirmed"
                );
                (confirmed(&self.log()) > before).then_some(())
            });
        }
        let millis = self.random() % KILL_AFTER_MILLIS_MAX;
        std::thread::sleep(Duration::from_millis(millis));
        assert!(process.kill(), "the replay ended before it was killed");
        self.kills += 1;
    }

    /// Lets a process deliver what is in the slot, without new rows; then everything that the
    /// confirm log holds is at the server.
    fn drain(&self, addr: &str) {
        let mut command = Command::new(binary());
        command.args(["replay", "--drain-only", "--conf", &self.conf(addr)]);
        succeed(&mut command, "drain");
        let confirmed = confirmed(&self.log());
        let arrived = self.arrival().in_order / BATCH_ROWS;
        assert!(
            confirmed <= arrived,
            "{confirmed} batches confirmed, {arrived} at the server"
        );
    }

    /// Sends the rest of the file and waits until all is acked.
    fn finish(&self, addr: &str) {
        succeed(&mut self.replay(addr, "max"), "resume");
    }

    fn arrival(&self) -> Arrival {
        let numbers = stored(&self.store()).into_iter().map(|row| {
            *self
                .expected
                .get(&row)
                .unwrap_or_else(|| panic!("unknown row {row:?}"))
        });
        Arrival::of(numbers)
    }

    fn random(&mut self) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed
    }
}

/// What the sequence of rows at the server says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Arrival {
    /// Rows 1..=n have arrived, each first after the one before it.
    in_order: usize,
    /// Rows that arrived again.
    duplicates: usize,
    /// Places where the sequence steps back to a row that had arrived.
    steps_back: usize,
}

impl Arrival {
    fn of(numbers: impl Iterator<Item = usize>) -> Self {
        let mut arrival = Self::default();
        let mut previous = 0;
        for number in numbers {
            assert!(
                number <= arrival.in_order + 1,
                "row {number} came when only 1..={} had come",
                arrival.in_order
            );
            if number == arrival.in_order + 1 {
                arrival.in_order = number;
            } else {
                arrival.duplicates += 1;
            }
            assert!(
                number == previous + 1 || (number <= previous && (number - 1) % BATCH_ROWS == 0),
                "row {number} came after row {previous}: neither the next nor the start of a batch"
            );
            if number <= previous {
                arrival.steps_back += 1;
            }
            previous = number;
        }
        arrival
    }
}

fn succeed(command: &mut Command, what: &str) {
    let mut process = Running::start(command.stdout(Stdio::null()));
    let status = process.finish(what);
    assert!(status.success(), "{what}: {status}");
}

/// The last whole line of the confirm log; 0 without one.
fn confirmed(log: &Path) -> usize {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().last().map_or(0, |line| line.parse().unwrap())
}

fn seeds() -> impl Iterator<Item = u64> {
    let first = seeds::number("FOREBAY_SEED").unwrap_or(SEED);
    (0..seeds::scale()).map(move |index| first.wrapping_add(index))
}

/// Prints what arrived and checks that it is all and in order.
fn report(rig: &Rig, seed: u64, what: &str) {
    let arrival = rig.arrival();
    println!(
        "{what}: FOREBAY_SEED={seed}, {} kills, {} of {} rows arrived in order, {} duplicates in \
         {} repeated runs of batches",
        rig.kills, arrival.in_order, NASDAQ.rows, arrival.duplicates, arrival.steps_back
    );
    assert_eq!(arrival.in_order, NASDAQ.rows);
    assert_eq!(rig.kills, KILLS);
    // A kill can repeat what the slot replays, and again what lies behind the confirm log.
    assert!(arrival.steps_back <= 2 * rig.kills, "{arrival:?}");
}

#[test]
fn confirmed_batches_survive_kills_while_the_server_is_up() {
    for seed in seeds() {
        let mut rig = Rig::new(seed);
        let sink = SinkProcess::start("127.0.0.1:0", &rig.store());
        let addr = sink.addr.to_string();
        for kill in 0..KILLS {
            rig.kill_one(&addr);
            // Every other time a process without new rows empties the slot first; the other times
            // old frames and new ones share it.
            if kill % 2 == 0 {
                rig.drain(&addr);
            }
        }
        rig.finish(&addr);
        report(&rig, seed, "server up");
    }
}

#[test]
fn confirmed_batches_survive_kills_while_the_server_is_down() {
    for seed in seeds() {
        let mut rig = Rig::new(seed.rotate_left(32));
        // Nobody listens there until the sink takes it at the end.
        let addr = free_address().to_string();
        for _ in 0..KILLS {
            rig.kill_one(&addr);
        }
        let _sink = SinkProcess::start(&addr, &rig.store());
        rig.drain(&addr);
        rig.finish(&addr);
        report(&rig, seed, "server down");
    }
}
