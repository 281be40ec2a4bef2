//! A directory of slots, some left by senders that are gone, and an engine that finds them.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay::{DrainerEvent, Engine, TimestampNanos};
use forebay_loadgen::sink::{Depth, Sink, SinkConfig};
use forebay_tests::address::free_address;

use crate::loadgen;

/// Nobody listens there.
const NOWHERE: &str = "127.0.0.1:1";

pub(crate) struct Rig {
    dir: tempfile::TempDir,
    /// Where the sinks of this rig listen, one after the other.
    pub(crate) address: SocketAddr,
}

impl Rig {
    pub(crate) fn new() -> Self {
        let dir = loadgen::scratch();
        std::fs::create_dir(dir.path().join("sf")).unwrap();
        Self {
            dir,
            address: free_address(),
        }
    }

    pub(crate) fn sf_dir(&self) -> PathBuf {
        self.dir.path().join("sf")
    }

    pub(crate) fn slot(&self, id: &str) -> PathBuf {
        self.sf_dir().join(id)
    }

    /// A connect string for the sender `id`; later keys replace earlier ones nowhere, so `more`
    /// holds others.
    pub(crate) fn conf(&self, id: &str, address: &str, more: &str) -> String {
        format!(
            "ws::addr={address};sf_dir={};sender_id={id};sf_max_segment_bytes=64k;pin=off;\
             initial_connect_retry=async;reconnect_initial_backoff_millis=5;\
             reconnect_max_backoff_millis=50;{more}",
            self.sf_dir().display()
        )
    }

    /// The engine `own` that drains what the others left.
    pub(crate) fn drainer(&self, more: &str) -> Engine {
        self.listening(more, |_| {})
    }

    /// The same, with a listener.
    pub(crate) fn listening(
        &self,
        more: &str,
        listen: impl FnMut(&DrainerEvent) + Send + 'static,
    ) -> Engine {
        let more = format!("drain_orphans=on;orphan_scan_interval_millis=20;{more}");
        let conf = self.conf("own", &self.address.to_string(), &more);
        Engine::builder(&conf).on_drainer(listen).connect().unwrap()
    }

    /// A sender `id` that publishes `frames` rows, a frame each, and goes without a server.
    pub(crate) fn leave(&self, id: &str, frames: u64) {
        self.hold(id, frames).close().expect_err("nobody listens");
    }

    /// The same, still holding its slot.
    pub(crate) fn hold(&self, id: &str, frames: u64) -> Engine {
        let conf = self.conf(id, NOWHERE, "close_flush_timeout_millis=0;");
        let engine = Engine::connect(&conf).unwrap();
        let mut producer = engine.producer().unwrap();
        for n in 0..frames {
            let symbol = format!("S{}", n % 7);
            producer.table("t").unwrap().symbol("sym", &symbol).unwrap();
            producer.symbol("slot", id).unwrap();
            producer.column_i64("n", i64::try_from(n).unwrap()).unwrap();
            producer
                .at(TimestampNanos(i64::try_from(n).unwrap() + 1))
                .unwrap();
            producer.publish().unwrap();
        }
        producer.flush().unwrap();
        engine
    }

    fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    pub(crate) fn sink(&self) -> Sink {
        self.sink_with(SinkConfig::default())
    }

    /// A sink at the rig's address that only counts.
    pub(crate) fn counting_sink(&self) -> Sink {
        let listen = self.address;
        Sink::start(SinkConfig {
            listen,
            ..SinkConfig::default()
        })
        .unwrap()
    }

    /// A sink at the rig's address that decodes strictly and stores.
    pub(crate) fn sink_with(&self, config: SinkConfig) -> Sink {
        let config = SinkConfig {
            listen: self.address,
            depth: Depth::Decode,
            strict: true,
            store: Some(self.store()),
            ..config
        };
        Sink::start(config).unwrap()
    }

    /// Of each slot, how many rows arrived, repeated ones once. They are in order and without a
    /// gap, and carry the symbols they were published with.
    pub(crate) fn arrived(&self) -> BTreeMap<String, u64> {
        let text = std::fs::read_to_string(self.store().join("t.ndjson")).unwrap_or_default();
        let mut next = BTreeMap::new();
        let mut seen = HashSet::new();
        for line in text.lines() {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            let slot = row["slot"].as_str().unwrap().to_owned();
            let n = row["n"].as_u64().unwrap();
            assert_eq!(row["sym"], format!("S{}", n % 7), "{slot} row {n}");
            if seen.insert((slot.clone(), n)) {
                let expected = next.entry(slot.clone()).or_insert(0);
                assert_eq!(n, *expected, "{slot}: in order, without a gap");
                *expected += 1;
            }
        }
        next
    }

    /// What is in a slot.
    pub(crate) fn names(&self, id: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.slot(id)).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    pub(crate) fn read(&self, id: &str, name: &str) -> Option<String> {
        std::fs::read_to_string(self.slot(id).join(name)).ok()
    }

    /// Names and contents of a slot's files, locks left out.
    pub(crate) fn files(&self, id: &str) -> BTreeMap<String, Vec<u8>> {
        let names = self.names(id).into_iter();
        names
            .filter(|name| !name.starts_with(".lock"))
            .map(|name| {
                (
                    name.clone(),
                    std::fs::read(self.slot(id).join(&name)).unwrap(),
                )
            })
            .collect()
    }

    /// Opens the slot as its own sender would, at once: nobody may hold it.
    pub(crate) fn assert_free(&self, id: &str) {
        self.assert_free_within(id, Duration::ZERO);
    }

    /// The same, after a while at the latest.
    pub(crate) fn assert_free_within(&self, id: &str, wait: Duration) {
        let more = format!(
            "close_flush_timeout_millis=0;lock_retry_millis={};",
            wait.as_millis()
        );
        let engine = Engine::connect(&self.conf(id, NOWHERE, &more)).unwrap();
        // With frames or without: only the lock matters.
        let _ = engine.close();
    }
}

/// A slot that was drained holds its lock files and nothing else.
pub(crate) const CLEAN: [&str; 2] = [".lock", ".lock.pid"];

/// Flips a byte of a file.
pub(crate) fn damage(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 0x40;
    std::fs::write(path, bytes).unwrap();
}
