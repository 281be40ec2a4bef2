//! Reading frames back from disk, ahead of the sender, in two buffers.
//!
//! Each buffer holds whole frames from one place of the chain. While the sender works through one,
//! the other is filled from where the first one's last whole frame ends.

use std::io;

use super::journal::{Journal, Position, token};
use crate::io::{BLOCK, DiskOp, Done, File, Region, Request, Steward, Storage, Token};
use crate::slot::frame::{FRAME_HEADER_BYTES, FrameHeader, crc as frame_crc};
use crate::slot::segment::HEADER_BYTES as SEGMENT_HEADER_BYTES;

const BUFFER_BYTES: usize = 1 << 20;
const BLOCK_BYTES: u64 = BLOCK as u64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Empty,
    Loading,
    Ready,
}

/// Frames `first..whole_end` of a segment; the region starts at file offset `start`.
#[derive(Debug)]
struct Buffer {
    region: Region,
    state: State,
    key: u64,
    start: u64,
    first: u64,
    whole_end: u64,
    /// Bytes to read next time: more than the default for a frame that is larger.
    want: usize,
    /// How far the last read got if it held no whole frame: the next one must get further.
    reached: Option<u64>,
    /// Ask for it as soon as the queue has room.
    submitted: bool,
}

/// What [`Replay::frame`] found.
#[derive(Debug)]
pub(crate) enum Fetch<'a> {
    /// The payload of the frame.
    Ready(&'a [u8]),
    /// It is being read.
    Pending,
    /// It cannot be read now.
    Failed(String),
    /// It is not what was written.
    Corrupt(String),
}

/// The read-ahead of one sender.
#[derive(Debug)]
pub(crate) struct Replay {
    buffers: [Buffer; 2],
    /// Segments opened for reading: the one in use and the next.
    files: [Option<(u64, File)>; 2],
    /// Read to the end: the steward closes them.
    finished: Vec<File>,
    /// The segment that the steward was asked to open.
    asked: Option<u64>,
    /// What went wrong, and whether it is damage.
    failure: Option<(String, bool)>,
}

impl Replay {
    /// Maps the two buffers (2 MiB of address space; pages arrive with the first replay).
    pub(crate) fn new() -> io::Result<Self> {
        let buffer = || -> io::Result<Buffer> {
            Ok(Buffer {
                region: Region::new(BUFFER_BYTES)?,
                state: State::Empty,
                key: 0,
                start: 0,
                first: 0,
                whole_end: 0,
                want: BUFFER_BYTES,
                reached: None,
                submitted: false,
            })
        };
        Ok(Self {
            buffers: [buffer()?, buffer()?],
            files: [None, None],
            finished: Vec::with_capacity(2),
            asked: None,
            failure: None,
        })
    }

    /// Whether a read is in flight.
    pub(crate) fn in_flight(&self) -> bool {
        self.buffers.iter().any(|buffer| buffer.submitted)
    }

    /// The frame at `position`, which lies on disk and not in the segment's memory.
    pub(crate) fn frame(
        &mut self,
        io: &mut (impl Storage + Steward),
        journal: &Journal,
        position: Position,
    ) -> Fetch<'_> {
        match self.failure.take() {
            Some((reason, true)) => return Fetch::Corrupt(reason),
            Some((reason, false)) => return Fetch::Failed(reason),
            None => {}
        }
        let holds = |buffer: &Buffer| {
            buffer.state == State::Ready
                && buffer.key == position.key
                && (buffer.first..buffer.whole_end).contains(&position.offset)
        };
        let Some(index) = self.buffers.iter().position(holds) else {
            let loading = |buffer: &Buffer| {
                buffer.state == State::Loading
                    && (buffer.key, buffer.first) == (position.key, position.offset)
            };
            let index = self.buffers.iter().position(loading).or_else(|| {
                let idle = |buffer: &Buffer| buffer.state != State::Loading;
                let index = self.buffers.iter().position(idle)?;
                self.buffers[index].aim(position.key, position.offset);
                Some(index)
            });
            if let Some(index) = index {
                self.load(io, journal, index);
            }
            return Fetch::Pending;
        };
        self.read_ahead(io, journal, index);
        let buffer = &self.buffers[index];
        match buffer.frame_at(position.offset) {
            Some(payload) => Fetch::Ready(payload),
            None => Fetch::Corrupt(format!(
                "frame {} at offset {} of segment {} does not match its CRC",
                position.fsn,
                position.offset,
                journal.segment_name(position.key)
            )),
        }
    }

    /// Fills the other buffer from where the one in use ends.
    fn read_ahead(&mut self, io: &mut (impl Storage + Steward), journal: &Journal, used: usize) {
        let (key, next) = (self.buffers[used].key, self.buffers[used].whole_end);
        let other = &mut self.buffers[1 - used];
        let there = other.key == key && other.first == next && other.state != State::Empty;
        if !there && other.state != State::Loading && journal.disk_end(key) > Some(next) {
            other.aim(key, next);
        }
        let at_end = journal.disk_end(key) <= Some(next);
        let begun = other.key == key + 1 && other.state != State::Empty;
        if at_end && !begun && other.state != State::Loading {
            // The next segment, if it must come from the disk too.
            let more = journal.disk_end(key + 1) > Some(SEGMENT_HEADER_BYTES);
            if more && !journal.starts_in_memory(key + 1) {
                other.aim(key + 1, SEGMENT_HEADER_BYTES);
            }
        }
        if other.state == State::Loading {
            self.load(io, journal, 1 - used);
        }
    }

    fn load(&mut self, io: &mut (impl Storage + Steward), journal: &Journal, index: usize) {
        let buffer = &mut self.buffers[index];
        if buffer.submitted {
            return;
        }
        let key = buffer.key;
        let Some(end) = journal.disk_end(key) else {
            buffer.state = State::Empty;
            return;
        };
        let Some(file) = self.file(io, journal, key) else {
            return;
        };
        let buffer = &mut self.buffers[index];
        let left = usize::try_from(end.saturating_sub(buffer.start)).unwrap_or(usize::MAX);
        let bytes = buffer.want.min(left.next_multiple_of(BLOCK));
        if buffer.region.bytes() < bytes {
            match Region::new(bytes) {
                Ok(region) => buffer.region = region,
                Err(error) => {
                    let reason = format!("memory for {bytes} bytes of replay: {error}");
                    self.failure = Some((reason, false));
                    return;
                }
            }
        }
        let into = buffer.region.pin(0..bytes);
        let op = DiskOp::Read {
            file,
            offset: buffer.start,
            into,
        };
        let token = Token(token::REPLAY + index as u64);
        buffer.submitted = io.submit(token, op).is_ok();
    }

    /// The file of a segment, if it is open; otherwise the steward is asked for it.
    fn file(
        &mut self,
        io: &mut (impl Storage + Steward),
        journal: &Journal,
        key: u64,
    ) -> Option<File> {
        while let Some(file) = self.finished.pop() {
            if let Err(Request::Close { file }) = io.request(Request::Close { file }) {
                self.finished.push(file);
                break;
            }
        }
        if let Some(file) = journal.open_file(key) {
            return Some(file);
        }
        let held = self.files.iter().flatten().find(|held| held.0 == key);
        if let Some((_, file)) = held {
            return Some(file.clone());
        }
        if self.asked.is_none()
            && let Some(path) = journal.path_of(key)
            && io.request(Request::Open { path, key }).is_ok()
        {
            self.asked = Some(key);
        }
        None
    }

    /// The steward answered.
    pub(crate) fn opened(&mut self, key: u64, answer: io::Result<File>) {
        self.asked = None;
        match answer {
            Ok(file) => {
                self.files.swap(0, 1);
                let oldest = self.files[1].replace((key, file));
                self.finished.extend(oldest.map(|(_, file)| file));
            }
            Err(error) => {
                // Opened and found whole at the start: what is gone since does not come back.
                let is_gone = error.kind() == io::ErrorKind::NotFound;
                let reason = format!("opening a segment for replay: {error}");
                self.failure = Some((reason, is_gone));
            }
        }
    }

    /// A read ended.
    pub(crate) fn completed(&mut self, done: Done, journal: &Journal) {
        let index = usize::try_from(done.token.0 - token::REPLAY).expect("two tokens");
        let buffer = &mut self.buffers[index];
        buffer.submitted = false;
        if buffer.state != State::Loading {
            return; // the sender went elsewhere meanwhile
        }
        match done.result {
            Ok(got) => {
                let end = journal.disk_end(buffer.key).unwrap_or(0);
                if let Err(reason) = buffer.loaded(got, end) {
                    buffer.state = State::Empty;
                    self.failure = Some((reason, true));
                }
            }
            Err(error) => {
                buffer.state = State::Empty;
                self.failure = Some((format!("read for replay: {error}"), false));
            }
        }
    }

    /// Forgets what is buffered: the sender starts somewhere else.
    pub(crate) fn reset(&mut self) {
        for buffer in &mut self.buffers {
            buffer.state = State::Empty;
            buffer.want = BUFFER_BYTES;
        }
        let held = self.files.iter_mut().filter_map(Option::take);
        self.finished.extend(held.map(|(_, file)| file));
        self.failure = None;
    }
}

impl Buffer {
    fn aim(&mut self, key: u64, first: u64) {
        if self.submitted {
            return; // the kernel still fills it; tried again next turn
        }
        self.key = key;
        self.first = first;
        self.start = first - first % BLOCK_BYTES;
        self.whole_end = first;
        self.reached = None;
        self.state = State::Loading;
    }

    /// Finds the whole frames in what was read. `end` is where the segment's data on disk ends.
    fn loaded(&mut self, got: u32, end: u64) -> Result<(), String> {
        let limit = (self.start + u64::from(got)).min(end);
        let mut at = self.first;
        let mut need = 0;
        while at + FRAME_HEADER_BYTES <= limit {
            let Some(header) = FrameHeader::parse(self.bytes(at, FRAME_HEADER_BYTES)) else {
                return Err(format!(
                    "no frame at offset {at} of a segment read for replay"
                ));
            };
            need = FRAME_HEADER_BYTES + u64::from(header.payload_len);
            if at + need > limit {
                break;
            }
            at += need;
        }
        if at > self.first {
            self.whole_end = at;
            self.want = BUFFER_BYTES;
            self.state = State::Ready;
            return Ok(());
        }
        if limit >= end {
            return Err(format!(
                "the frame at offset {at} ends behind the data of its segment"
            ));
        }
        if self.reached.replace(limit) >= Some(limit) {
            return Err(format!(
                "the file of a segment ends at offset {limit}, where its data go on to {end}"
            ));
        }
        if need == 0 {
            // A short read that ends before the frame's length: again, in a later turn.
            return Ok(());
        }
        // One frame larger than the buffer: read again, all of it.
        let want = usize::try_from(self.first - self.start + need).expect("frames fit segments");
        self.want = want.next_multiple_of(BLOCK);
        Ok(())
    }

    fn bytes(&self, at: u64, bytes: u64) -> &[u8] {
        let from = usize::try_from(at - self.start).expect("inside the buffer");
        let bytes = usize::try_from(bytes).expect("inside the buffer");
        self.region.slice(from..from + bytes)
    }

    /// The payload of the whole frame at `at`, if its CRC holds.
    fn frame_at(&self, at: u64) -> Option<&[u8]> {
        let header = FrameHeader::parse(self.bytes(at, FRAME_HEADER_BYTES))?;
        let payload = self.bytes(at + FRAME_HEADER_BYTES, u64::from(header.payload_len));
        (frame_crc(header.payload_len, payload) == header.crc).then_some(payload)
    }
}
