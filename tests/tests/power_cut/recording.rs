//! An engine runs on the recorded disk: what the disk was asked, and what was promised when.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_loadgen::sink::{Depth, Sink, SinkConfig, Watch};
use forebay_tests::block::{Device, Entry, Recorder};
use forebay_tests::numbered;

const DISK_BYTES: usize = 24 << 20;

/// What an engine is to do.
pub(crate) struct Script {
    pub(crate) name: &'static str,
    /// Keys of the connect string beside those that all have.
    pub(crate) keys: &'static str,
    pub(crate) rows: u64,
    /// Stable is waited for every so many rows; 0 never.
    pub(crate) force_every: u64,
    /// A server confirms what it gets.
    pub(crate) server: bool,
}

/// What it did.
pub(crate) struct Recording {
    pub(crate) script: &'static Script,
    /// The disk before.
    pub(crate) base: Vec<u8>,
    pub(crate) log: Vec<Entry>,
    /// From this position of the log on all rows below the number are stable.
    stable: Vec<(usize, u64)>,
}

impl Recording {
    /// Runs the script. The mark of the entries is the number of rows that the server has.
    pub(crate) fn of(script: &'static Script) -> Self {
        let mut device = Device::mount(Recorder::new(DISK_BYTES), tmp());
        let recorder = device.file.clone();
        let received = recorder.mark();
        let sink = script.server.then(|| serve(&received));
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
        let address = sink.as_ref().map_or(nowhere, Sink::addr);
        let conf = conf(address, &device.root(), script.keys);
        let base = recorder.start();
        let stable = run(&conf, script, &recorder);
        // What close left in the page cache belongs to it.
        assert!(device.unmount_disk(), "the disk stays mounted");
        let log = recorder.stop();
        if let Some(sink) = sink {
            sink.stop();
        }
        Self {
            script,
            base,
            log,
            stable,
        }
    }

    /// Positions just behind a flush.
    pub(crate) fn flush_points(&self) -> Vec<usize> {
        let entries = self.log.iter().enumerate();
        let flushes = entries.filter(|(_, entry)| matches!(entry, Entry::Flush { .. }));
        flushes.map(|(index, _)| index + 1).collect()
    }

    /// Rows below this must be there after a power cut at `position`, unless the server has them.
    pub(crate) fn stable_at(&self, position: usize) -> u64 {
        let known = self.stable.partition_point(|(at, _)| *at <= position);
        known.checked_sub(1).map_or(0, |last| self.stable[last].1)
    }

    /// Rows below this may have reached the server before `position`.
    pub(crate) fn received_at(&self, position: usize) -> u64 {
        let last = position.checked_sub(1).map(|last| &self.log[last]);
        last.map_or(0, Entry::mark)
    }
}

pub(crate) fn tmp() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

pub(crate) fn conf(address: SocketAddr, root: &Path, keys: &str) -> String {
    format!(
        "ws::addr={address};sf_dir={}/sf;sender_id=cut;sf_max_segment_bytes=64k;pin=off;\
         initial_connect_retry=async;reconnect_initial_backoff_millis=5;\
         reconnect_max_backoff_millis=20;close_flush_timeout_millis=0;{keys}",
        root.display()
    )
}

/// A server that counts the rows that it has.
fn serve(received: &Arc<AtomicU64>) -> Sink {
    let received = Arc::clone(received);
    let sink = Sink::start(SinkConfig {
        depth: Depth::Decode,
        strict: true,
        watch: Some(Watch::new(move |block| {
            received.fetch_max(numbered::number_of(block) + 1, Ordering::AcqRel);
        })),
        ..SinkConfig::default()
    });
    sink.expect("listens")
}

/// Runs the engine to its end; when what became stable, in positions of the log.
fn run(conf: &str, script: &Script, recorder: &Recorder) -> Vec<(usize, u64)> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_stage_writer"))
        .arg(conf)
        .args([script.rows, script.force_every].map(|number| number.to_string()))
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary is built");
    let mut stable = Vec::new();
    let mut last = String::new();
    for line in BufReader::new(child.stdout.take().expect("piped")).lines() {
        last = line.expect("text");
        if let Some(number) = last.strip_prefix("stable ") {
            // It was stable before it was said: this position is no earlier than the true one.
            let position = recorder.position();
            stable.push((position, number.parse().expect("a number")));
        }
    }
    let status = child.wait().expect("waited for");
    assert!(status.success() && last == "left", "{status}, {last}");
    stable
}
