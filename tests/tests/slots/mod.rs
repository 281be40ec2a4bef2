//! Slots on a real disk, written byte by byte from the format's description and not by the code
//! under test, and the engine opened on them.

#![allow(
    dead_code,
    reason = "each test file compiles this module and uses its part of it"
)]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use forebay::{Engine, Error, Producer, TimestampNanos};
use forebay_loadgen::sink::{Depth, Sink, SinkConfig};

/// Limit of every wait for the engine.
const PATIENCE: Duration = Duration::from_mins(3);
/// Files that change with every opener and say nothing about data.
const LOCKS: [&str; 2] = [".lock", ".lock.pid"];

/// Bytes of a segment header.
pub(crate) const HEADER: usize = 24;
/// Bytes of a frame that introduces a symbol, and of one that does not.
pub(crate) const FRAME_NEW: usize = 60;
pub(crate) const FRAME: usize = 56;

/// CRC-32C, bit by bit.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0x82F6_3B78 * (crc & 1))
        })
    })
}

/// A message: table `t`, one row with `v` = `number` and a symbol, whose text it brings along when
/// `brings` is given as (id, three letters).
pub(crate) fn message(number: u64, known: u8, brings: Option<&str>) -> Vec<u8> {
    let mut body = vec![known, u8::from(brings.is_some())];
    if let Some(symbol) = brings {
        body.push(u8::try_from(symbol.len()).unwrap());
        body.extend_from_slice(symbol.as_bytes());
    }
    body.extend_from_slice(b"\x01t\x01\x03\x03sym\x09\x01v\x05\0\x10");
    let id = if brings.is_some() { known } else { 0 };
    body.extend_from_slice(&[0, id, 0]);
    body.extend_from_slice(&number.to_le_bytes());
    body.push(0);
    body.extend_from_slice(&(1_000_000_000 + number).to_le_bytes());
    let mut out = b"QWP1\x01\x08\x01\0".to_vec();
    out.extend_from_slice(&u32::try_from(body.len()).unwrap().to_le_bytes());
    out.extend_from_slice(&body);
    out
}

/// The frame around a message.
pub(crate) fn frame(message: &[u8]) -> Vec<u8> {
    let mut counted = u32::try_from(message.len()).unwrap().to_le_bytes().to_vec();
    counted.extend_from_slice(message);
    let mut out = crc32c(&counted).to_le_bytes().to_vec();
    out.extend_from_slice(&counted);
    out
}

/// A segment file.
pub(crate) fn segment(base: u64, size: usize, frames: &[Vec<u8>]) -> Vec<u8> {
    let mut out = b"SF01\x01\x01\0\0".to_vec();
    out.extend_from_slice(&base.to_le_bytes());
    out.extend_from_slice(&1_234_567_890_123_u64.to_le_bytes());
    for frame in frames {
        out.extend_from_slice(frame);
    }
    assert!(out.len() <= size, "{} bytes into {size}", out.len());
    out.resize(size, 0);
    out
}

/// The 64 bytes of a manifest (`SFM1`) or watermark (`AKW1`) record.
pub(crate) fn record(magic: [u8; 4], generation: i64, first: i64, second: i64) -> [u8; 64] {
    let mut out = [0; 64];
    out[..4].copy_from_slice(&magic);
    out[4] = 1;
    out[8..16].copy_from_slice(&generation.to_le_bytes());
    out[16..24].copy_from_slice(&first.to_le_bytes());
    out[24..32].copy_from_slice(&second.to_le_bytes());
    let crc = crc32c(&out[..60]);
    out[60..].copy_from_slice(&crc.to_le_bytes());
    out
}

/// A file of two records, each at its place.
pub(crate) fn dual(records: &[[u8; 64]]) -> Vec<u8> {
    let mut out = vec![0; 8192];
    for record in records {
        let at = if record[8] & 1 == 0 { 0 } else { 4096 };
        out[at..at + 64].copy_from_slice(record);
    }
    out
}

/// A dictionary file with one chunk for each list of symbols.
pub(crate) fn dictionary(chunks: &[&[&str]]) -> Vec<u8> {
    let mut out = b"SYD1\x01\0\0\0".to_vec();
    for symbols in chunks {
        let mut entries = Vec::new();
        for symbol in *symbols {
            entries.push(u8::try_from(symbol.len()).unwrap());
            entries.extend_from_slice(symbol.as_bytes());
        }
        let mut chunk = vec![
            u8::try_from(symbols.len()).unwrap(),
            u8::try_from(entries.len()).unwrap(),
        ];
        chunk.extend_from_slice(&entries);
        let crc = crc32c(&chunk);
        out.extend_from_slice(&chunk);
        out.extend_from_slice(&crc.to_le_bytes());
    }
    out
}

/// Name of the segment with this generation.
pub(crate) fn name(generation: u64) -> String {
    format!("sf-{generation:016x}.sfa")
}

/// Names and contents of the files in a directory, locks left out.
pub(crate) fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let Ok(entries) = fs::read_dir(dir) else {
        return BTreeMap::new();
    };
    entries
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_file())
        .map(|entry| (entry.file_name().into_string().unwrap(), entry.path()))
        .filter(|(name, _)| !LOCKS.contains(&name.as_str()))
        .map(|(name, path)| (name, fs::read(path).unwrap()))
        .collect()
}

/// A directory of slots with the one that the engine opens.
pub(crate) struct Rig {
    dir: tempfile::TempDir,
}

impl Rig {
    /// An empty slot directory.
    pub(crate) fn empty() -> Self {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs::create_dir_all(dir.path().join("sf/default")).unwrap();
        Self { dir }
    }

    /// The slot of slot-format.md section 8.2: four segments of 256 bytes with the bases 0, 4, 8
    /// and 12, four frames each; frames 0 and 1 bring the symbols; manifest (0, 12).
    pub(crate) fn four_segments() -> Self {
        Self::four_segments_of(256)
    }

    /// The same with files of another size.
    pub(crate) fn four_segments_of(size: usize) -> Self {
        let rig = Self::empty();
        for generation in 0..4 {
            let frames: Vec<_> = (4 * generation..4 * generation + 4)
                .map(|fsn| frame(&Self::message(fsn)))
                .collect();
            rig.put(&name(generation), &segment(4 * generation, size, &frames));
        }
        let records = [record(*b"SFM1", 3, 0, 8), record(*b"SFM1", 4, 0, 12)];
        rig.put("sf-manifest.bin", &dual(&records));
        rig.put(".ack-watermark", &dual(&[]));
        rig.put(".symbol-dict", &dictionary(&[&["one"], &["two"]]));
        rig
    }

    /// The message of a frame in that slot.
    pub(crate) fn message(fsn: u64) -> Vec<u8> {
        match fsn {
            0 => message(0, 0, Some("one")),
            1 => message(1, 1, Some("two")),
            _ => message(fsn, 2, None),
        }
    }

    pub(crate) fn sf_dir(&self) -> PathBuf {
        self.dir.path().join("sf")
    }

    pub(crate) fn slot(&self) -> PathBuf {
        self.sf_dir().join("default")
    }

    /// Where the slot is when it was set aside.
    pub(crate) fn aside(&self) -> PathBuf {
        self.sf_dir().join("default.unreplayable-0")
    }

    pub(crate) fn put(&self, name: &str, bytes: &[u8]) {
        fs::write(self.slot().join(name), bytes).unwrap();
    }

    /// Puts the files of a slot of the corpus there; the larger ones are stored as `*.xz`.
    pub(crate) fn copy_in(&self, slot: &Path) {
        for entry in fs::read_dir(slot).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let bytes = fs::read(&path).unwrap();
            match name.strip_suffix(".xz") {
                None => self.put(name, &bytes),
                Some(name) => {
                    let mut plain = Vec::new();
                    let mut reader = liblzma::read::XzDecoder::new(bytes.as_slice());
                    reader.read_to_end(&mut plain).unwrap();
                    self.put(name, &plain);
                }
            }
        }
    }

    pub(crate) fn remove(&self, name: &str) {
        fs::remove_file(self.slot().join(name)).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.slot().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn patch(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.read(name);
        change(&mut bytes);
        self.put(name, &bytes);
    }

    pub(crate) fn set(&self, name: &str, at: usize, byte: u8) {
        self.patch(name, |bytes| {
            assert_ne!(bytes[at], byte, "a change that changes something");
            bytes[at] = byte;
        });
    }

    pub(crate) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        files(&self.slot())
    }

    /// The connect string of a process whose server is there, and which waits so long in `close`.
    pub(crate) fn connect_string(&self, address: SocketAddr, wait_millis: u64) -> String {
        format!(
            "ws::addr={address};sf_dir={};sf_max_segment_bytes=64k;initial_connect_retry=async;\
             close_flush_timeout_millis={wait_millis};lock_retry_millis=50;pin=off;\
             reconnect_initial_backoff_millis=5;reconnect_max_backoff_millis=50;",
            self.sf_dir().display()
        )
    }

    /// The connect string of a process with no server to deliver to.
    pub(crate) fn offline(&self) -> String {
        self.connect_string(SocketAddr::from(([127, 0, 0, 1], 1)), 0)
    }

    /// Opens the slot with no server to deliver to.
    pub(crate) fn connect(&self) -> Result<Engine, Error> {
        Engine::connect(&self.offline())
    }

    /// Opens the slot and delivers everything; answers the numbers of the rows in order of
    /// arrival. The slot is empty afterwards.
    pub(crate) fn drain(&self) -> Vec<u64> {
        self.drain_after(|_| {})
    }

    /// As [`drain`](Self::drain), after something was done with the open engine.
    pub(crate) fn drain_after(&self, act: impl FnOnce(&Engine)) -> Vec<u64> {
        let store = tempfile::tempdir_in(self.dir.path()).unwrap();
        let sink = Sink::start(SinkConfig {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            depth: Depth::Decode,
            strict: true,
            store: Some(store.path().to_path_buf()),
            ..SinkConfig::default()
        })
        .unwrap();
        let millis = u64::try_from(PATIENCE.as_millis()).unwrap();
        let engine = Engine::connect(&self.connect_string(sink.addr(), millis)).unwrap();
        act(&engine);
        engine.wait_acked(PATIENCE).unwrap();
        engine.close().unwrap();
        sink.stop();
        let text = fs::read_to_string(store.path().join("t.ndjson")).unwrap_or_default();
        text.lines()
            .map(|line| {
                let row: serde_json::Value = serde_json::from_str(line).unwrap();
                let number = row["v"].as_u64().unwrap();
                let symbol = if number == 1 { "two" } else { "one" };
                assert_eq!(row["sym"], symbol, "row {number}");
                number
            })
            .collect()
    }

    /// What `forebay verify` says of the slot: its exit status, 0 for a sound one.
    pub(crate) fn verify(&self) -> i32 {
        let tool = Command::new(env!("CARGO_BIN_EXE_forebay_under_test"))
            .arg("verify")
            .arg(self.slot())
            .output()
            .unwrap();
        tool.status.code().unwrap()
    }

    /// The slot has to be set aside, and the tool does not call it sound: every byte is kept in the other directory with the reason,
    /// this is counted and told once, and the engine goes on with an empty slot. Answers the
    /// reason.
    pub(crate) fn assert_set_aside(&self) -> String {
        let before = self.files();
        assert!(self.verify() > 0, "the tool calls it sound");
        let engine = self.connect().unwrap();
        let told = engine.set_aside().expect("set aside").clone();
        assert_eq!(told.path, self.aside());
        let stats = engine.stats();
        assert_eq!((stats.slots_set_aside, stats.frames_recovered), (1, 0));
        let mut kept = files(&told.path);
        let reason = kept.remove(".failed").expect("a reason");
        assert_eq!(reason, told.reason.as_bytes());
        assert_eq!(kept, before, "every byte is kept");
        publish(&engine, 0);
        engine.close().expect_err("no server: one frame stays");
        let again = self.connect().unwrap();
        assert_eq!(again.set_aside(), None, "told once");
        assert_eq!(again.stats().frames_recovered, 1);
        drop(again);
        assert_eq!(self.drain(), [0], "the new slot works");
        assert_eq!(files(&told.path).len(), before.len() + 1);
        told.reason
    }

    /// The start has to be refused, with nothing touched.
    pub(crate) fn assert_refused(&self) -> Error {
        let before = self.files();
        let error = self.connect().expect_err("refused");
        assert_eq!(self.files(), before, "nothing is touched");
        assert!(!self.aside().exists());
        error
    }
}

/// Publishes a row as the slots above hold them and waits until it is in the journal.
pub(crate) fn publish(engine: &Engine, number: u64) {
    let mut producer = engine.producer().unwrap();
    publish_on(&mut producer, number).unwrap();
}

/// The same on a producer that is there already.
pub(crate) fn publish_on(producer: &mut Producer, number: u64) -> Result<(), Error> {
    producer.table("t")?.symbol("sym", "one")?;
    producer.column_i64("v", i64::try_from(number).unwrap())?;
    let at = i64::try_from(number).unwrap() + 1_000_000_000;
    producer.at(TimestampNanos(at))?;
    producer.flush()
}
