//! Disk operations in flight: each completes after a random delay, in any order.
//!
//! Checks what the shard promises: memory of a write does not change while the write is in flight,
//! direct I/O is aligned, writes in flight to one file do not share a block, and no two fdatasyncs
//! of one file are in flight.

use std::collections::VecDeque;
use std::io;

use super::clock::SimClock;
use super::disk::{Keep, SimDisk, Unfinished, assert_aligned};
use super::fate::{Event, Fate};
use super::random::Rng;
use crate::io::{BLOCK, DiskOp, Done, Token};
use crate::shard::token;

/// How the disk behaves in one run. Durations in nanoseconds, faults of 100.
#[derive(Debug, Clone)]
pub(crate) struct DiskManners {
    /// Longest usual write or read.
    pub(crate) write_nanos: u64,
    /// Longest usual fdatasync.
    pub(crate) sync_nanos: u64,
    /// Operations that take twenty times as long.
    pub(crate) slow_percent: u64,
    /// Submissions that find the queue full.
    pub(crate) queue_full_percent: u64,
    /// Direct writes that move less than asked for.
    pub(crate) short_percent: u64,
    /// Writes that fail, of 10,000.
    pub(crate) broken_per_myriad: u64,
}

/// What becomes of one operation.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(test), expect(dead_code, reason = "scripts of tests plan them"))]
pub(crate) enum Outcome {
    /// A write moves this many bytes.
    Short(usize),
    /// It fails with this error, and nothing of it is done.
    Fails(i32),
    /// It takes this many nanoseconds more.
    Late(u64),
}

struct Flight {
    token: Token,
    op: DiskOp,
    inode: usize,
    direct: bool,
    /// What a write is to write, taken at submission.
    bytes: Vec<u8>,
    /// What a sync covers.
    covers: u64,
    due: u64,
    planned: Option<Outcome>,
}

/// The operations of one process.
#[derive(Debug)]
pub(crate) struct Operations {
    disk: SimDisk,
    clock: SimClock,
    fate: Fate,
    rng: Rng,
    manners: DiskManners,
    queued: Vec<Flight>,
    flying: Vec<Flight>,
    /// Segments are written no further while they are held.
    held: bool,
    /// There is no room for more of the dictionary.
    dictionary_full: bool,
    /// Outcomes of operations to come.
    plans: VecDeque<(Token, Outcome)>,
    odd_writes: u64,
    reads: u64,
}

impl Operations {
    pub(crate) fn new(
        disk: SimDisk,
        clock: SimClock,
        fate: Fate,
        rng: Rng,
        manners: DiskManners,
    ) -> Self {
        let (queued, flying) = (Vec::new(), Vec::new());
        Self {
            disk,
            clock,
            fate,
            rng,
            manners,
            queued,
            flying,
            held: false,
            dictionary_full: false,
            plans: VecDeque::new(),
            odd_writes: 0,
            reads: 0,
        }
    }

    /// Completed writes of other than whole blocks: only the dictionary's are.
    pub(crate) fn odd_writes(&self) -> u64 {
        self.odd_writes
    }

    /// Completed reads: replays of what is not in memory any more.
    pub(crate) fn reads(&self) -> u64 {
        self.reads
    }

    /// Stops (or lets go on) direct writes: those of segments.
    pub(crate) fn hold(&mut self, held: bool) {
        self.held = held;
    }

    /// What becomes of the next operation of this kind that has no plan yet.
    #[cfg(test)]
    pub(crate) fn plan(&mut self, token: Token, outcome: Outcome) {
        self.plans.push_back((token, outcome));
    }

    /// The disk has (or has no) room for more of the dictionary; all else is reserved.
    pub(crate) fn fill_dictionary(&mut self, full: bool) {
        self.dictionary_full = full;
    }

    /// Whether anything is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.queued.is_empty() && self.flying.is_empty()
    }

    /// Whether a write of more than a block is in flight.
    pub(crate) fn is_writing(&self) -> bool {
        self.flying.iter().any(|flight| flight.bytes.len() > BLOCK)
    }

    /// When the next operation completes.
    pub(crate) fn next_at(&self) -> u64 {
        let moving = self.flying.iter().filter(|flight| self.moves(flight));
        moving.map(|flight| flight.due).min().unwrap_or(u64::MAX)
    }

    fn moves(&self, flight: &Flight) -> bool {
        !(self.held && flight.direct && matches!(flight.op, DiskOp::Write { .. }))
    }

    pub(super) fn submit(&mut self, token: Token, op: DiskOp) -> Result<(), DiskOp> {
        if self.rng.percent(self.manners.queue_full_percent) {
            return Err(op);
        }
        let flight = self.prepare(token, op);
        self.queued.push(flight);
        Ok(())
    }

    fn prepare(&mut self, token: Token, op: DiskOp) -> Flight {
        let in_use = |flight: &Flight| flight.token == token;
        let doubled = self.queued.iter().chain(&self.flying).any(in_use);
        assert!(!doubled, "{token:?} is in flight already");
        let (file, usual) = match &op {
            DiskOp::Write { file, .. } | DiskOp::Read { file, .. } => {
                (file, self.manners.write_nanos)
            }
            DiskOp::Sync { file } => (file, self.manners.sync_nanos),
        };
        let (inode, direct) = self.disk.inode(file);
        let slow = if self.rng.percent(self.manners.slow_percent) {
            20
        } else {
            1
        };
        let planned = self.plans.iter().position(|(kind, _)| *kind == token);
        let planned = planned.and_then(|index| self.plans.remove(index));
        let planned = planned.map(|(_, outcome)| outcome);
        let late = match planned {
            Some(Outcome::Late(nanos)) => nanos,
            _ => 0,
        };
        let due = self.rng.between(1_000, usual * slow) + late;
        let bytes = pinned_bytes(&op);
        if direct {
            check_alignment(&op);
        }
        let flight = Flight {
            token,
            op,
            inode,
            direct,
            bytes,
            covers: 0,
            due,
            planned,
        };
        let others = self.queued.iter().chain(&self.flying);
        for other in others.filter(|other| other.inode == inode) {
            assert!(
                !shares_block(&flight, other),
                "{flight:?} meets {other:?} in one block"
            );
            let syncs = |f: &Flight| matches!(f.op, DiskOp::Sync { .. });
            assert!(
                !(syncs(&flight) && syncs(other)),
                "{flight:?} beside {other:?}: a failure would be told to one of them"
            );
        }
        flight
    }

    pub(super) fn kick(&mut self) {
        let now = self.clock.now();
        for mut flight in self.queued.drain(..) {
            if !self.fate.step(|| Event::Submit(flight.token)) {
                break; // what is left never reaches the kernel
            }
            flight.due += now;
            // A sync covers what had completed when the kernel got it.
            flight.covers = self.disk.last_change(flight.inode);
            self.flying.push(flight);
        }
    }

    pub(super) fn complete(&mut self) -> Option<Done> {
        let now = self.clock.now();
        let due = |(_, flight): &(usize, &Flight)| flight.due <= now && self.moves(flight);
        let first = self.flying.iter().enumerate().filter(due);
        let (index, _) = first.min_by_key(|(_, flight)| flight.due)?;
        if !self.fate.step(|| Event::Complete(self.flying[index].token)) {
            return None;
        }
        let flight = self.flying.swap_remove(index);
        let result = self.finish(&flight);
        Some(Done {
            token: flight.token,
            result,
        })
    }

    fn finish(&mut self, flight: &Flight) -> io::Result<u32> {
        if let Some(Outcome::Fails(code)) = flight.planned {
            return Err(io::Error::from_raw_os_error(code));
        }
        match &flight.op {
            DiskOp::Write { offset, .. } => self.finish_write(flight, *offset),
            DiskOp::Sync { .. } => {
                self.disk.sync(flight.inode, flight.covers);
                Ok(0)
            }
            DiskOp::Read { offset, into, .. } => {
                let bytes = self.disk.read(flight.inode, *offset, into.bytes());
                into.copy_from(&bytes);
                self.reads += 1;
                Ok(count(bytes.len()))
            }
        }
    }

    fn finish_write(&mut self, flight: &Flight, offset: u64) -> io::Result<u32> {
        let unchanged = pinned_bytes(&flight.op) == flight.bytes;
        assert!(
            unchanged,
            "memory changed while {:?} was in flight",
            flight.op
        );
        if self.rng.below(10_000) < self.manners.broken_per_myriad {
            self.disk
                .write_part(&flight.unfinished(offset), Keep::Random, &mut self.rng);
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        if self.dictionary_full && flight.token == token::DICTIONARY {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        self.odd_writes += u64::from(!flight.bytes.len().is_multiple_of(BLOCK));
        let blocks = flight.bytes.len() / BLOCK;
        let short = flight.direct && blocks > 1 && self.rng.percent(self.manners.short_percent);
        let len = if let Some(Outcome::Short(bytes)) = flight.planned {
            bytes.min(flight.bytes.len())
        } else if short {
            BLOCK * (1 + self.rng.index(blocks - 1))
        } else {
            flight.bytes.len()
        };
        self.disk.write(flight.inode, offset, &flight.bytes[..len]);
        Ok(count(len))
    }

    /// Waits for whatever was submitted; the answers reach nobody.
    pub(super) fn finish_all(&mut self) {
        self.kick();
        while !self.flying.is_empty() {
            self.clock.advance_to(self.next_at());
            drop(self.complete());
        }
    }

    /// The writes in flight of a process that dies.
    pub(crate) fn abandon(&mut self) -> Vec<Unfinished> {
        // What was queued and not kicked never reached the kernel.
        self.queued.clear();
        let writes = self.flying.drain(..).filter_map(|flight| match flight.op {
            DiskOp::Write { offset, .. } => Some(flight.unfinished(offset)),
            _ => None,
        });
        writes.collect()
    }
}

impl std::fmt::Debug for Flight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {:?}", self.token, self.op)
    }
}

impl Flight {
    fn unfinished(&self, offset: u64) -> Unfinished {
        Unfinished {
            inode: self.inode,
            offset,
            bytes: self.bytes.clone(),
        }
    }

    /// The blocks that a write touches.
    fn blocks(&self) -> Option<(u64, u64)> {
        let DiskOp::Write { offset, .. } = self.op else {
            return None;
        };
        let end = offset + self.bytes.len() as u64;
        Some((offset / BLOCK as u64, end.div_ceil(BLOCK as u64)))
    }
}

fn shares_block(a: &Flight, b: &Flight) -> bool {
    match (a.blocks(), b.blocks()) {
        (Some(a), Some(b)) => a.0 < b.1 && b.0 < a.1,
        _ => false,
    }
}

fn pinned_bytes(op: &DiskOp) -> Vec<u8> {
    let mut all = Vec::new();
    if let DiskOp::Write { bytes, tail, .. } = op {
        bytes.copy_to(&mut all);
        if let Some(tail) = tail {
            tail.copy_to(&mut all);
        }
    }
    all
}

fn check_alignment(op: &DiskOp) {
    match op {
        DiskOp::Write {
            offset,
            bytes,
            tail,
            ..
        } => {
            let tail = tail.as_ref().map_or(0, crate::io::Pinned::bytes);
            assert_aligned(*offset, &[bytes.bytes(), tail]);
        }
        DiskOp::Read { offset, into, .. } => assert_aligned(*offset, &[into.bytes()]),
        DiskOp::Sync { .. } => {}
    }
}

fn count(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("operations are below 4 GiB")
}
