//! Reading frames back from disk, ahead of the sender.
//!
//! Four pieces of 1 MiB follow each other through the chain, whatever frames lie in them: while the
//! sender works through the first, the others are being read or wait. Only a frame that goes
//! across the border of two pieces is copied, into [`Replay::carry`]; it may be longer than all of
//! them.

mod files;
mod piece;

use std::collections::VecDeque;
use std::io;

use self::files::Files;
use self::piece::{Piece, State};
use super::journal::{Journal, Position, token};
use crate::io::{BLOCK, DiskOp, Done, File, Region, Steward, Storage, Token};
use crate::slot::frame::{FRAME_HEADER_LEN, FrameHeader, checked};

const PIECE_BYTES: usize = 1 << 20;
const PIECES: usize = 4;
const BLOCK_BYTES: u64 = BLOCK as u64;

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

/// Where the bytes of a frame are.
enum Found {
    /// So many, from there in the region.
    Piece(usize, usize),
    /// In the carry.
    Carry,
}

/// Why a frame is not there.
enum Missing {
    /// It is being read.
    Pending,
    /// Why, and whether that is damage.
    Failed(String, bool),
}

/// The read-ahead of one sender.
#[derive(Debug)]
pub(crate) struct Replay {
    /// Memory of all pieces, in huge pages where there are any: one read is one transfer then.
    region: Region,
    pieces: [Piece; PIECES],
    /// Those in use, in the order of the chain: the sender reads the first.
    window: VecDeque<usize>,
    /// Segment and offset (whole blocks) where the next piece begins.
    next: (u64, u64),
    /// The first bytes of the frame at `carried`.
    carry: Vec<u8>,
    carried: (u64, u64),
    files: Files,
    /// Every read that is due was submitted, and every file that is due asked for.
    is_settled: bool,
}

impl Replay {
    /// Maps the memory (4 MiB of address space; pages arrive with the first replay).
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            region: Region::new(PIECES * PIECE_BYTES)?,
            pieces: std::array::from_fn(|_| Piece::free()),
            window: VecDeque::with_capacity(PIECES),
            next: (0, 0),
            carry: Vec::new(),
            carried: (0, 0),
            files: Files::default(),
            is_settled: true,
        })
    }

    /// Whether a read is in flight.
    pub(crate) fn in_flight(&self) -> bool {
        self.pieces.iter().any(|piece| piece.is_pinned)
    }

    /// The frame at `position`, which lies on disk and not in the segment's memory.
    pub(crate) fn frame(
        &mut self,
        io: &mut (impl Storage + Steward),
        journal: &Journal,
        position: Position,
    ) -> Fetch<'_> {
        let (key, offset) = (position.key, position.offset);
        if self.carried != (key, offset) {
            self.carried = (key, offset);
            self.carry.clear();
        }
        let at_hand = self.at_hand(key, offset);
        let found = at_hand.map_or_else(|| self.find(io, journal, key, offset), Ok);
        let bytes = match found {
            Err(Missing::Pending) => return Fetch::Pending,
            Err(Missing::Failed(reason, is_damage)) => {
                // The next attempt reads anew.
                self.forget();
                return if is_damage {
                    Fetch::Corrupt(reason)
                } else {
                    Fetch::Failed(reason)
                };
            }
            Ok(Found::Carry) => self.carry.as_slice(),
            Ok(Found::Piece(at, len)) => self.region.slice(at..at + len),
        };
        match checked(bytes) {
            Some(payload) => Fetch::Ready(payload),
            None => Fetch::Corrupt(format!(
                "frame {} at offset {offset} of segment {} does not match its CRC",
                position.fsn,
                journal.segment_name(key)
            )),
        }
    }

    /// The short way, where nothing is due but to read on in the first piece.
    fn at_hand(&self, key: u64, offset: u64) -> Option<Found> {
        let index = *self.window.front()?;
        let piece = &self.pieces[index];
        let usual = self.is_settled && piece.state == State::Ready && self.carry.is_empty();
        if !usual || !piece.covers(key, offset) {
            return None;
        }
        let from = usize::try_from(offset - piece.start).ok()?;
        let (begin, there) = (index * PIECE_BYTES + from, piece.data - from);
        let header = FrameHeader::parse(self.region.slice(begin..begin + there))?;
        let whole = FRAME_HEADER_LEN + header.payload_len as usize;
        (whole <= there).then_some(Found::Piece(begin, whole))
    }

    /// Looks for the whole frame at `offset`, and keeps the reads going.
    fn find(
        &mut self,
        io: &mut (impl Storage + Steward),
        journal: &Journal,
        key: u64,
        offset: u64,
    ) -> Result<Found, Missing> {
        loop {
            let at = offset + self.carry.len() as u64;
            let need = self.need(journal, key, offset)?;
            if !self.carry.is_empty() && self.carry.len() == need {
                // The bytes behind the frame go on being read meanwhile.
                self.read_ahead(io, journal);
                return Ok(Found::Carry);
            }
            self.go_to(key, at);
            self.read_ahead(io, journal);
            let first = self.window.front().copied();
            let Some(index) = first.filter(|index| self.pieces[*index].covers(key, at)) else {
                return Err(Missing::Pending);
            };
            let piece = &self.pieces[index];
            match &piece.state {
                State::Ready => {}
                State::Failed(reason, is_damage) => {
                    return Err(Missing::Failed(reason.clone(), *is_damage));
                }
                State::Wanted => {
                    let failure = self.files.failure(key);
                    return Err(failure.map_or(Missing::Pending, |(reason, is_gone)| {
                        Missing::Failed(reason, is_gone)
                    }));
                }
                State::Reading => return Err(Missing::Pending),
            }
            let from = usize::try_from(at - piece.start).expect("inside the piece");
            let (begin, there) = (index * PIECE_BYTES + from, piece.data - from);
            if self.carry.is_empty() {
                let bytes = self.region.slice(begin..begin + there);
                let whole = whole_length(bytes, offset)?;
                if let Some(whole) = whole.filter(|whole| *whole <= there) {
                    return Ok(Found::Piece(begin, whole));
                }
            }
            // It goes on in the next piece.
            let more = there.min(need - self.carry.len());
            let bytes = self.region.slice(begin..begin + more);
            self.carry.extend_from_slice(bytes);
        }
    }

    /// How many bytes of the frame at `offset` the carry is to have at least: its header, then all
    /// of it.
    fn need(&self, journal: &Journal, key: u64, offset: u64) -> Result<usize, Missing> {
        let need = whole_length(&self.carry, offset)?.unwrap_or(FRAME_HEADER_LEN);
        let end = journal.disk_end(key);
        if end.is_some_and(|end| offset + need as u64 > end) {
            let reason =
                format!("the frame at offset {offset} ends behind the data of its segment");
            return Err(Missing::Failed(reason, true));
        }
        Ok(need)
    }

    /// Drops the pieces before the place `at` of segment `key`; begins anew if it is in none.
    fn go_to(&mut self, key: u64, at: u64) {
        while let Some(index) = self.window.front().copied() {
            let piece = &self.pieces[index];
            if piece.covers(key, at) {
                return;
            }
            let is_passed = (piece.key, piece.end()) <= (key, at);
            if !is_passed || piece.is_pinned {
                break;
            }
            self.window.pop_front();
            self.is_settled = false;
        }
        let there = (key, at - at % BLOCK_BYTES);
        if !self.window.is_empty() || self.next != there {
            self.window.clear();
            self.next = there;
        }
        self.is_settled = false;
    }

    /// Fills the window, and submits what the files and the queue have room for.
    fn read_ahead(&mut self, io: &mut (impl Storage + Steward), journal: &Journal) {
        if self.is_settled {
            return;
        }
        while self.window.len() < PIECES {
            let (key, start) = self.next;
            let is_there = start > 0 || journal.starts_on_disk(key);
            let end = journal.disk_end(key).filter(|end| is_there && *end > start);
            let Some(end) = end else {
                if start == 0 || !journal.starts_on_disk(key + 1) {
                    break;
                }
                self.next = (key + 1, 0);
                continue;
            };
            let is_free =
                |index: &usize| !self.window.contains(index) && !self.pieces[*index].is_pinned;
            let Some(index) = (0..PIECES).find(is_free) else {
                break;
            };
            let piece = &mut self.pieces[index];
            piece.aim(key, start, end);
            self.next = if piece.is_full() {
                (key, piece.end())
            } else {
                (key + 1, 0)
            };
            self.window.push_back(index);
        }
        if let Some(first) = self.window.front() {
            let key = self.pieces[*first].key;
            self.files.release(io, key);
            let submitted = self.submit(io, journal);
            let asked = self.files.look_ahead(io, journal, key);
            self.is_settled = submitted && asked;
        }
    }

    /// `false` when the queue, of operations or of requests, was full.
    fn submit(&mut self, io: &mut (impl Storage + Steward), journal: &Journal) -> bool {
        for index in &self.window {
            let piece = &mut self.pieces[*index];
            if piece.state != State::Wanted {
                continue;
            }
            let Some(file) = self.files.get(io, journal, piece.key) else {
                return self.files.is_asked(piece.key);
            };
            let (offset, range) = piece.rest();
            let begin = index * PIECE_BYTES;
            let into = self.region.pin(begin + range.start..begin + range.end);
            let op = DiskOp::Read { file, offset, into };
            let token = Token(token::REPLAY + *index as u64);
            if io.submit(token, op).is_err() {
                return false;
            }
            piece.state = State::Reading;
            piece.is_pinned = true;
        }
        true
    }

    /// The steward answered.
    pub(crate) fn opened(&mut self, key: u64, answer: io::Result<File>) {
        self.is_settled = false;
        self.files.opened(key, answer);
    }

    /// A read ended.
    pub(crate) fn completed(&mut self, done: Done) {
        let index = usize::try_from(done.token.0 - token::REPLAY).expect("four tokens");
        let piece = &mut self.pieces[index];
        piece.is_pinned = false;
        self.is_settled = false;
        match done.result {
            Ok(got) => piece.read(got),
            Err(error) => {
                piece.state = State::Failed(format!("read for replay: {error}"), false);
            }
        }
    }

    /// The sender has found a frame in memory: nothing is read for now.
    #[inline]
    pub(crate) fn leave(&mut self, io: &mut impl Steward) {
        if !self.files.is_empty() {
            self.reset();
            self.files.release(io, 0);
        }
    }

    /// Forgets what is buffered: the sender starts somewhere else.
    pub(crate) fn reset(&mut self) {
        self.forget();
        self.files.reset();
    }

    fn forget(&mut self) {
        self.window.clear();
        self.carry.clear();
        self.next = (0, 0);
    }
}

/// Bytes of the whole frame whose first are `bytes`, once there is a header; an error where none
/// can be.
fn whole_length(bytes: &[u8], offset: u64) -> Result<Option<usize>, Missing> {
    if bytes.len() < FRAME_HEADER_LEN {
        return Ok(None);
    }
    match FrameHeader::parse(bytes) {
        Some(header) => Ok(Some(FRAME_HEADER_LEN + header.payload_len as usize)),
        None => Err(Missing::Failed(
            format!("no frame at offset {offset} of a segment read for replay"),
            true,
        )),
    }
}
