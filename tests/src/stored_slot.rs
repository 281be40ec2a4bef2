//! A slot directory as it lies on disk, read without the engine: what is stored, what is acked.
//!
//! A second reader of the format, so that a mistake of the engine's own reader cannot hide itself.
//! It knows slots with a manifest only, and refuses whatever is out of order.

use std::fs::{self, File, TryLockError};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// What stays in a slot that was drained.
pub const LOCK_FILES: [&str; 2] = [".lock", ".lock.pid"];
/// Which machine opened the slot last: this engine's own file.
const IDENTITY: &str = ".slot-id";
/// What this engine was just making when it was killed ends in this; it removes such files itself.
const TEMPORARY: &str = ".forebay-tmp";
/// Names of copies of torn tails hold this: they are kept for people.
const TORN: &str = ".torn-";
/// Names of files set aside end in this.
const SET_ASIDE: &str = ".corrupt";
/// Bytes before the first frame of a segment, and before the payload of a frame.
const SEGMENT_HEADER_BYTES: usize = 24;
const FRAME_HEADER_BYTES: usize = 8;
/// The two records of a manifest or watermark: where they are and how long.
const RECORDS: [usize; 2] = [0, 4096];
const RECORD_BYTES: usize = 64;
/// How long the lock of a killed process may stay.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);

/// A frame and its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFrame {
    /// Its frame sequence number.
    pub fsn: u64,
    /// The message.
    pub payload: Vec<u8>,
}

/// What a slot holds.
#[derive(Debug, Default)]
pub struct StoredSlot {
    /// All names in the directory, sorted.
    pub names: Vec<String>,
    /// Frames of the chain in order, acked ones that were not trimmed included.
    pub frames: Vec<StoredFrame>,
    /// Sizes of the chain's files in bytes.
    pub segment_bytes: Vec<u64>,
    /// Last acked FSN by the watermark.
    pub acked: Option<u64>,
    /// Blank `*.sfa` files, made by a process that died before it wrote the header.
    pub blank: usize,
    /// Blank spares and manifests, made by a process that died before it wrote to them, that the
    /// official client set aside as damaged.
    pub blank_set_aside: usize,
}

impl StoredSlot {
    /// Reads the slot under its lock, waiting for a killed holder's last writes.
    pub fn read(dir: &Path) -> io::Result<Self> {
        if !dir.join(LOCK_FILES[0]).exists() {
            return Ok(Self::default());
        }
        let lock = lock(dir)?;
        let slot = Self::read_locked(dir);
        lock.unlock()?;
        slot
    }

    fn read_locked(dir: &Path) -> io::Result<Self> {
        let mut slot = Self::default();
        for entry in fs::read_dir(dir)? {
            slot.names
                .push(entry?.file_name().to_string_lossy().into_owned());
        }
        slot.names.sort();
        for name in slot.names.iter().filter(|name| name.ends_with(SET_ASIDE)) {
            if is_blank(&fs::read(dir.join(name))?) {
                slot.blank_set_aside += 1;
            }
        }
        let Some((head, active)) = manifest(dir)? else {
            // At most the first segment, by one who died in its first open.
            for name in slot.names.iter().filter(|name| is_segment(name)) {
                let segment = Segment::read(&dir.join(name))?;
                if segment.is_some_and(|segment| !segment.frames.is_empty()) {
                    return Err(io::Error::other(format!("{name}: frames and no manifest")));
                }
            }
            return Ok(slot);
        };
        let mut segments = Vec::new();
        for name in slot.names.iter().filter(|name| is_segment(name)) {
            let Some(segment) = Segment::read(&dir.join(name))? else {
                slot.blank += 1;
                continue;
            };
            let in_chain = (head..=active).contains(&segment.base);
            if in_chain && (!segment.frames.is_empty() || segment.base == active) {
                segments.push(segment);
            }
        }
        segments.sort_by_key(|segment| (segment.base, segment.frames.len()));
        let mut next = head;
        for segment in &segments {
            if segment.base != next {
                let reason = format!("frames from {} where {next} is due", segment.base);
                return Err(io::Error::other(reason));
            }
            for range in &segment.frames {
                let payload = segment.bytes[range.clone()].to_vec();
                slot.frames.push(StoredFrame { fsn: next, payload });
                next += 1;
            }
            slot.segment_bytes.push(segment.bytes.len() as u64);
        }
        slot.acked = watermark(dir)?.filter(|acked| *acked < next);
        Ok(slot)
    }

    /// The frames that the next start must send.
    pub fn unacked(&self) -> &[StoredFrame] {
        let acked = |frame: &StoredFrame| self.acked.is_some_and(|acked| frame.fsn <= acked);
        let from = self.frames.iter().take_while(|frame| acked(frame)).count();
        &self.frames[from..]
    }

    /// Whether nothing but lock files is there, our identity file (or what was to become it) where
    /// the official client drained (it does not know the names), copies of torn tails, and blank
    /// files that were set aside.
    pub fn is_drained(&self) -> bool {
        let others = self.names.iter();
        let identity = |name: &str| name.strip_suffix(TEMPORARY).unwrap_or(name) == IDENTITY;
        let kept = |name: &str| identity(name) || name.contains(TORN);
        let stays = |name: &str| LOCK_FILES.contains(&name) || kept(name);
        let others = others.filter(|name| !stays(name));
        others.clone().all(|name| name.ends_with(SET_ASIDE))
            && others.count() == self.blank_set_aside
    }
}

/// One segment file and where its payloads are.
struct Segment {
    base: u64,
    frames: Vec<Range<usize>>,
    bytes: Vec<u8>,
}

impl Segment {
    /// `None` for a spare whose maker died before it wrote the header.
    fn read(path: &Path) -> io::Result<Option<Self>> {
        let bytes = fs::read(path)?;
        if is_blank(&bytes) {
            return Ok(None);
        }
        let head = bytes.get(..SEGMENT_HEADER_BYTES);
        if !head.is_some_and(|head| head.starts_with(b"SF01\x01") && head[5] <= 1) {
            let reason = format!("{}: not a segment", path.display());
            return Err(io::Error::other(reason));
        }
        let mut frames = Vec::new();
        let mut at = SEGMENT_HEADER_BYTES;
        while let Some(head) = bytes.get(at..at + FRAME_HEADER_BYTES) {
            let crc = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
            let len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
            let checked = bytes.get(at + 4..at + FRAME_HEADER_BYTES + len);
            if checked.is_none_or(|checked| crc32c::crc32c(checked) != crc) {
                break;
            }
            frames.push(at + FRAME_HEADER_BYTES..at + FRAME_HEADER_BYTES + len);
            at += FRAME_HEADER_BYTES + len;
        }
        Ok(Some(Self {
            base: number(&bytes, 8),
            frames,
            bytes,
        }))
    }
}

/// By the suffix, in lower case only: names mean nothing else.
fn is_segment(name: &str) -> bool {
    name.rsplit_once('.')
        .is_some_and(|(_, suffix)| suffix == "sfa")
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

fn lock(dir: &Path) -> io::Result<File> {
    let file = File::options().read(true).open(dir.join(".lock"))?;
    let until = Instant::now() + LOCK_PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < until => {
                thread::sleep(Duration::from_millis(1));
            }
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// First and last base of the chain.
fn manifest(dir: &Path) -> io::Result<Option<(u64, u64)>> {
    let path = dir.join("sf-manifest.bin");
    if !path.exists() {
        return Ok(None);
    }
    let bytes = fs::read(&path)?;
    match newest(&bytes, *b"SFM1") {
        Some(record) => Ok(Some((number(&record, 16), number(&record, 24)))),
        // Its maker died before it wrote the first record: nothing is stored yet.
        None if is_blank(&bytes) => Ok(None),
        None => Err(io::Error::other("no valid record in the manifest")),
    }
}

/// The watermark's FSN; `None` also for -1.
fn watermark(dir: &Path) -> io::Result<Option<u64>> {
    let path = dir.join(".ack-watermark");
    if !path.exists() {
        return Ok(None);
    }
    let record = newest(&fs::read(path)?, *b"AKW1");
    let acked = record.map(|record| number(&record, 16));
    Ok(acked.filter(|acked| i64::try_from(*acked).is_ok()))
}

/// The valid record with the highest generation.
fn newest(bytes: &[u8], magic: [u8; 4]) -> Option<Vec<u8>> {
    let records = RECORDS
        .iter()
        .filter_map(|at| bytes.get(*at..at + RECORD_BYTES));
    let valid = records.filter(|record| {
        let crc = u32::from_le_bytes([record[60], record[61], record[62], record[63]]);
        record.starts_with(&magic) && crc32c::crc32c(&record[..60]) == crc
    });
    valid
        .max_by_key(|record| number(record, 8))
        .map(<[u8]>::to_vec)
}

/// The 8-byte number at `at`; the caller has checked the length.
fn number(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}
