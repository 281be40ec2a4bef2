//! A slot with an intake in files, writers that are killed, and an account of every row.

#![allow(
    dead_code,
    reason = "each test file compiles this module and uses its part of it"
)]

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use forebay::{Engine, Stats};
use forebay_loadgen::sink::{Depth, Sink, SinkConfig};
use forebay_tests::address::free_address;

use crate::loadgen::{self, Running, wait_for};

/// Producers of a writer.
const LANES: usize = 3;
pub(crate) const PRODUCERS: u64 = LANES as u64;
/// One operation of the disk in so many microseconds: from rings that are mostly written to rings
/// that are full.
const PAUSES_MICROS: [&str; 3] = ["100", "700", "5000"];
/// In front of a ring's entries.
const FRONT_BYTES: usize = 4096;
/// A drained slot.
pub(crate) const CLEAN: [&str; 2] = [".lock", ".lock.pid"];

/// What arrived at the server.
#[derive(Debug, Default)]
pub(crate) struct Arrived {
    pub(crate) rows: u64,
    pub(crate) doubled: u64,
}

pub(crate) struct Rig {
    dir: tempfile::TempDir,
    pub(crate) address: SocketAddr,
    /// Keys beside the usual ones.
    pub(crate) more: String,
    /// How many tables the batches go to, one after the other.
    tables: u64,
    /// Of each life and producer, how many batches were flushed.
    flushed: Vec<[u64; LANES]>,
    seed: u64,
}

impl Rig {
    pub(crate) fn new(seed: u64, more: &str) -> Self {
        Self::of_tables(seed, more, 1)
    }

    pub(crate) fn of_tables(seed: u64, more: &str, tables: u64) -> Self {
        Self {
            tables,
            dir: loadgen::scratch(),
            address: free_address(),
            more: more.to_owned(),
            flushed: Vec::new(),
            seed: seed | 1,
        }
    }

    pub(crate) fn random(&mut self) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed
    }

    pub(crate) fn sf_dir(&self) -> PathBuf {
        self.dir.path().join("sf")
    }

    pub(crate) fn slot(&self) -> PathBuf {
        self.sf_dir().join("kill")
    }

    pub(crate) fn conf_of(&self, sender_id: &str, more: &str) -> String {
        format!(
            "ws::addr={};sf_dir={};sender_id={sender_id};sf_max_segment_bytes=64k;\
             initial_connect_retry=async;reconnect_initial_backoff_millis=5;\
             reconnect_max_backoff_millis=50;{more}",
            self.address,
            self.sf_dir().display(),
        )
    }

    /// The connect string of this engine.
    pub(crate) fn conf(&self) -> String {
        let own = "pin=off;intake=file;intake_ring_bytes=32k;lock_retry_millis=5000;\
                   close_flush_timeout_millis=20000;";
        self.conf_of("kill", &format!("{own}{}", self.more))
    }

    /// Starts a writer; the answer is its life's number.
    fn start(&mut self) -> (Running, usize) {
        let life = self.flushed.len();
        self.flushed.push([0; LANES]);
        let progress = self.progress(life);
        File::create(&progress)
            .unwrap()
            .set_len(8 * PRODUCERS)
            .unwrap();
        let choice = usize::try_from(self.random() % 3).unwrap();
        let pause = PAUSES_MICROS[choice];
        let mut command = Command::new(env!("CARGO_BIN_EXE_intake_writer"));
        command
            .arg(self.conf())
            .args([life.to_string(), PRODUCERS.to_string()])
            .arg(progress)
            .arg(self.tables.to_string())
            .env("FOREBAY_FAULT_DISK_PAUSE_MICROS", pause)
            .stdout(Stdio::piped());
        (Running::start(&mut command), life)
    }

    fn progress(&self, life: usize) -> PathBuf {
        self.dir.path().join(format!("progress-{life}"))
    }

    fn read_progress(&self, life: usize) -> [u64; LANES] {
        let file = File::open(self.progress(life)).unwrap();
        let mut flushed = [0; LANES];
        for (at, count) in (0..).step_by(8).zip(&mut flushed) {
            let mut word = [0; 8];
            file.read_exact_at(&mut word, at).unwrap();
            *count = u64::from_le_bytes(word);
        }
        flushed
    }

    /// A writer lives until it has flushed something, and a random while longer.
    pub(crate) fn kill_writer(&mut self) {
        let (mut writer, life) = self.start();
        let mut first = String::new();
        let mut said = BufReader::new(writer.0.stdout.take().unwrap());
        said.read_line(&mut first).unwrap();
        assert_eq!(first, "open\n");
        wait_for("flushed batch", || {
            assert!(!writer.has_ended(), "the writer ended");
            let flushed = self.read_progress(life);
            flushed.iter().all(|count| *count > 0).then_some(())
        });
        let micros = self.random() % 40_000;
        std::thread::sleep(Duration::from_micros(micros));
        assert!(writer.kill(), "the writer ended before it was killed");
        self.flushed[life] = self.read_progress(life);
    }

    /// Writers are killed until one leaves rings as `wanted`: a shard that has just caught up leaves
    /// nothing in them, one that is behind no room.
    pub(crate) fn kill_until(&mut self, wanted: fn(&[PathBuf]) -> bool) {
        for _ in 0..100 {
            self.kill_writer();
            if wanted(&self.rings()) {
                return;
            }
        }
        panic!("no writer left such rings: {:?}", self.names());
    }

    /// The rings in the slot.
    pub(crate) fn rings(&self) -> Vec<PathBuf> {
        let names = self.names().into_iter();
        names
            .filter(|name| name.starts_with(".intake-") && name != ".intake-id")
            .map(|name| self.slot().join(name))
            .collect()
    }

    /// A writer is killed soon after it was started, most likely while it opens the slot.
    pub(crate) fn kill_opening(&mut self) {
        let (mut writer, life) = self.start();
        let micros = self.random() % 30_000;
        std::thread::sleep(Duration::from_micros(micros));
        assert!(writer.kill(), "the writer ended before it was killed");
        self.flushed[life] = self.read_progress(life);
    }

    fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    pub(crate) fn sink(&self) -> Sink {
        Sink::start(SinkConfig {
            listen: self.address,
            depth: Depth::Decode,
            strict: true,
            store: Some(self.store()),
            ..SinkConfig::default()
        })
        .unwrap()
    }

    /// An engine delivers what is there, and closes. Its counters, as its start found them.
    pub(crate) fn drain(&self) -> Stats {
        let engine = Engine::connect(&self.conf()).unwrap();
        let stats = engine.stats();
        engine.wait_acked(loadgen::PATIENCE).unwrap();
        engine.close().unwrap();
        stats
    }

    /// Every batch whose flush had returned is at the server, in every table each producer's came in
    /// order, and no life's before one of an earlier life.
    pub(crate) fn account(&self) -> Arrived {
        let mut arrived = Arrived::default();
        let mut came: HashMap<(usize, usize), u64> = HashMap::new();
        for table in 0..self.tables {
            self.account_table(table, &mut came, &mut arrived);
        }
        for (life, producers) in self.flushed.iter().enumerate() {
            for (p, flushed) in producers.iter().enumerate() {
                let came = came.get(&(life, p)).copied().unwrap_or(0);
                assert!(
                    came >= *flushed,
                    "life {life}, producer {p}: {flushed} batches flushed, {came} arrived"
                );
                // At most the one whose flush had not returned yet.
                assert!(came <= flushed + 1, "life {life}, producer {p}: {came}");
            }
        }
        arrived
    }

    /// Adds the batches of one table to those that came.
    fn account_table(
        &self,
        table: u64,
        came: &mut HashMap<(usize, usize), u64>,
        arrived: &mut Arrived,
    ) {
        let mut next: HashMap<(usize, usize), u64> = HashMap::new();
        let mut last_life = 0;
        for row in self.rows_of(table) {
            let number = |name: &str| row[name].as_u64().unwrap();
            let index = |name: &str| usize::try_from(number(name)).unwrap();
            let (life, n) = (index("life"), number("n"));
            let symbol = format!("S{life}-{}", n % 11);
            assert_eq!(row["sym"].as_str(), Some(symbol.as_str()));
            let expected = next.entry((life, index("p"))).or_insert(table);
            assert!(
                n <= *expected && n % self.tables == table,
                "life {life}, table {table}: batch {n} came when {expected} was due"
            );
            if n < *expected {
                arrived.doubled += 1;
                continue;
            }
            *expected += self.tables;
            *came.entry((life, index("p"))).or_insert(0) += 1;
            arrived.rows += 1;
            assert!(
                life >= last_life,
                "table {table}: a batch of life {life} behind one of life {last_life}"
            );
            last_life = life;
        }
    }

    fn rows_of(&self, table: u64) -> Vec<serde_json::Value> {
        let path = self.store().join(format!("rows{table}.ndjson"));
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let rows = text.lines().map(|line| serde_json::from_str(line).unwrap());
        rows.collect()
    }

    /// Rows at the server, whatever they are.
    pub(crate) fn arrived_rows(&self) -> u64 {
        let tables = 0..self.tables;
        tables.map(|table| self.rows_of(table).len() as u64).sum()
    }

    pub(crate) fn flushed(&self) -> u64 {
        self.flushed.iter().flatten().sum()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        names(&self.slot())
    }
}

/// Where a ring's entries begin and end, and how many bytes it has for them.
pub(crate) fn cursors(ring: &[u8]) -> (u64, u64, u64) {
    let cursor = |at: usize| u64::from_le_bytes(ring[at..at + 8].try_into().unwrap());
    (cursor(128), cursor(256), (ring.len() - FRONT_BYTES) as u64)
}

/// Whether a ring's cursors say that something is in it.
pub(crate) fn holds_entries(ring: &Path) -> bool {
    let (head, tail, _) = cursors(&std::fs::read(ring).unwrap());
    head < tail
}

/// A ring for each producer, and something in one of them.
pub(crate) fn hold_entries(rings: &[PathBuf]) -> bool {
    rings.len() == LANES && rings.iter().any(|ring| holds_entries(ring))
}

/// Whether one of the rings has room: there lie entries of an earlier lap.
pub(crate) fn have_room(rings: &[PathBuf]) -> bool {
    rings.iter().any(|ring| {
        let (head, tail, capacity) = cursors(&std::fs::read(ring).unwrap());
        tail - head < capacity
    })
}

pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
