//! Taking entries from the producers' rings into the journal.

mod roster;

use std::sync::Arc;

use self::roster::Roster;
use super::assemble::{Refusal, SymbolMap, assemble};
use super::fault::{self, Place};
use super::journal::{Journal, Position, Stall};
use super::progress::Progress;
use crate::fsn::Fsn;
use crate::intake::RingFile;
use crate::io::{Io, Request};
use crate::observe::Category;
use crate::router::entry::Entry;
use crate::router::gate::{Gate, Terminal};
use crate::router::lane::{LaneEnd, Stage};

/// Most bytes taken in one turn, so that acknowledgements never wait long behind the intake.
const TURN_BYTES_MAX: usize = 256 << 10;

/// A producer's lane as the shard holds it.
#[derive(Debug)]
struct Source {
    end: LaneEnd,
    map: SymbolMap,
    /// Its number in the progress.
    lane: usize,
    taken: u64,
    /// Entries whose room was given back.
    released: u64,
    /// Entries ever taken: those taken again after a panic were counted.
    counted: u64,
    /// The next entry waits for room in the dictionary.
    blocked: bool,
    /// What was taken when all lanes were looked at last.
    noted: u64,
    /// An entry cannot be journaled: it and those behind it stay in the ring, counted as lost.
    refused: bool,
}

/// What entries are taken with.
struct World<'a, I> {
    io: &'a mut I,
    journal: &'a mut Journal,
    progress: &'a mut Progress,
    /// Where the sender stands.
    sent: Position,
    now: u64,
}

/// All lanes of a shard.
#[derive(Debug)]
pub(crate) struct Intake {
    gate: Arc<Gate>,
    sources: Vec<Source>,
    /// Where the next turn starts, so that no lane starves.
    next: usize,
    roster: Roster,
    /// There may be rings that go before all others.
    has_left: bool,
    pub(crate) stall: Option<Stall>,
    /// Nothing is taken before everything below is acked.
    after: Fsn,
    /// Files of rings that are done with.
    finished: Vec<RingFile>,
    /// There is a journal on disk: entries stay in their rings until they are seen written.
    keeps: bool,
}

/// What a shard that panicked has taken up.
#[derive(Debug)]
pub(crate) struct Leavings {
    sources: Vec<Source>,
    finished: Vec<RingFile>,
}

impl Intake {
    /// An intake that takes nothing before everything below `after` is acked. `keeps`: there is a
    /// journal on disk.
    pub(crate) fn new(gate: Arc<Gate>, after: Fsn, keeps: bool) -> Self {
        Self {
            gate,
            sources: Vec::new(),
            next: 0,
            roster: Roster::default(),
            has_left: false,
            stall: None,
            after,
            finished: Vec::new(),
            keeps,
        }
    }

    /// Goes on with what a shard that panicked had taken up: entries whose frames are not on disk
    /// are taken again. `progress` knows which, already cut to what the disk holds.
    pub(crate) fn resume(
        gate: Arc<Gate>,
        leavings: Leavings,
        progress: &Progress,
    ) -> Result<Self, String> {
        let mut intake = Self::new(gate, Fsn(0), true);
        intake.finished = leavings.finished;
        for mut source in leavings.sources {
            let on_disk = progress.on_disk(source.lane).max(source.released);
            if !source.end.reader.rewind(on_disk - source.released) {
                return Err(format!("a ring lacks entries below {on_disk}"));
            }
            source.taken = on_disk;
            source.blocked = false;
            source.map = SymbolMap::default();
            source.end.lane.take(on_disk);
            intake.has_left |= source.end.left;
            intake.sources.push(source);
        }
        Ok(intake)
    }

    /// For [`resume`](Self::resume).
    pub(crate) fn into_leavings(self) -> Leavings {
        Leavings {
            sources: self.sources,
            finished: self.finished,
        }
    }

    /// Takes up lanes that joined. What a producer published that was dropped before goes first:
    /// whoever drops one and makes another finds the rows of a table in order.
    pub(crate) fn join(&mut self, ends: Vec<LaneEnd>, progress: &mut Progress) {
        for end in ends {
            for source in self.sources.iter_mut().filter(|s| s.end.lane.is_left()) {
                source.end.left = true;
                self.has_left = true;
            }
            self.has_left |= end.left;
            let lane = progress.join(Arc::clone(&end.lane));
            self.sources.push(Source {
                end,
                map: SymbolMap::default(),
                lane,
                taken: 0,
                released: 0,
                counted: 0,
                blocked: false,
                noted: 0,
                refused: false,
            });
        }
        self.roster.forget();
    }

    /// Whether every ring is empty, refused ones aside.
    pub(crate) fn is_empty(&self) -> bool {
        self.sources
            .iter()
            .all(|source| source.refused || source.end.reader.is_empty())
    }

    /// Whether something waits that may be taken now, or that close must write.
    pub(crate) fn has_work(&self, acked: Fsn) -> bool {
        acked >= self.after && !self.is_empty()
    }

    /// Whether there is something that the last turn did not leave lying.
    pub(crate) fn has_input(&self, acked: Fsn) -> bool {
        if acked < self.after || !matches!(self.stall, None | Some(Stall::Symbols)) {
            return false;
        }
        // Behind a ring that somebody left everybody waits.
        match self.sources.iter().find(|source| source.goes_first()) {
            Some(left) => !left.blocked,
            None => self
                .sources
                .iter()
                .any(|source| !source.blocked && source.is_waiting()),
        }
    }

    /// The dictionary is empty again: no id means anything any more.
    pub(crate) fn begin_epoch(&mut self) {
        for source in &mut self.sources {
            source.map.forget(0);
        }
    }

    /// Takes up to [`TURN_BYTES_MAX`] bytes of entries; `true` if there was any.
    pub(crate) fn turn(
        &mut self,
        io: &mut impl Io,
        journal: &mut Journal,
        progress: &mut Progress,
        (sent, now): (Position, u64),
    ) -> bool {
        self.stall = None;
        if journal.acked() < self.after {
            return false;
        }
        // Once is enough: a new epoch may begin with lower numbers.
        self.after = Fsn(0);
        let mut budget = TURN_BYTES_MAX;
        let mut world = World {
            io,
            journal,
            progress,
            sent,
            now,
        };
        self.take_from_rings(&mut budget, &mut world);
        budget < TURN_BYTES_MAX
    }

    fn take_from_rings(&mut self, budget: &mut usize, world: &mut World<'_, impl Io>) {
        // What an earlier process or producer left goes first, ring after ring.
        if self.has_left
            && let Some(index) = self.sources.iter().position(Source::goes_first)
        {
            self.roster.forget();
            self.take(index, budget, world);
            return;
        }
        let (all, first, now) = (self.sources.len(), self.next, world.now);
        let lately = self.roster.lately(all, now).map_or(0, <[_]>::len);
        for step in 0..lately {
            if !self.take(self.roster.nth(first, step), budget, world) {
                return;
            }
        }
        if *budget < TURN_BYTES_MAX || self.stall.is_some() {
            return;
        }
        for step in 0..all {
            if !self.take((first + step) % all, budget, world) {
                break;
            }
        }
        let busy = self.sources.iter_mut().map(Source::note_busy);
        let busy = busy
            .enumerate()
            .filter_map(|(index, is)| is.then_some(index));
        self.roster.note(all, now, busy);
    }

    /// Takes entries of one ring; `false` ends the turn's taking.
    fn take(&mut self, index: usize, budget: &mut usize, world: &mut World<'_, impl Io>) -> bool {
        let source = &mut self.sources[index];
        let gate = &self.gate;
        let before = source.taken;
        source.blocked = false;
        let outcome = source.drain(budget, world, self.keeps, gate);
        if source.taken > before {
            // What is taken counts among the symbols.
            let symbols = world.journal.dictionary.len();
            gate.counters.symbols.set(symbols.into());
            source.end.lane.take(source.taken);
            source.tell_of_room(gate);
        }
        match outcome {
            Ok(()) => {}
            Err(Stall::Symbols) => {
                // Other lanes may need no new symbol.
                source.blocked = true;
                self.stall = Some(Stall::Symbols);
            }
            Err(stall) => {
                self.stall = Some(stall);
                self.next = index;
                return false;
            }
        }
        if *budget == 0 {
            self.next = (index + 1) % self.sources.len();
        }
        *budget > 0
    }

    /// Gives back the room of entries whose frames are written: until then a shard that panics, and
    /// a successor of this process where the ring survives it, takes them again.
    pub(crate) fn release(&mut self) {
        let (gate, sources) = (&self.gate, &mut self.sources);
        match self.roster.busy() {
            Some(busy) => busy.iter().for_each(|index| sources[*index].release(gate)),
            None => sources.iter_mut().for_each(|source| source.release(gate)),
        }
    }

    /// Frees the rings of producers that are gone and whose last entry was taken, and written
    /// where the ring is to survive a kill.
    pub(crate) fn sweep(&mut self, io: &mut impl Io, progress: &mut Progress) {
        let finished = &mut self.finished;
        self.sources.retain(|source| {
            let done = source.end.lane.is_left() && source.is_done();
            if done {
                progress.leave(source.lane);
                finished.extend(source.end.file.clone());
            }
            !done
        });
        self.roster.forget();
        self.has_left = self.sources.iter().any(|source| source.end.left);
        // What the steward does not take now is removed by the engine's close.
        while let Some(file) = self.finished.pop() {
            if let Err(Request::RemoveRing(file)) = io.request(Request::RemoveRing(file)) {
                self.finished.push(file);
                break;
            }
        }
    }

    /// The files of rings that hold nothing more.
    pub(crate) fn into_finished(self) -> Vec<RingFile> {
        let done = self.sources.iter().filter(|source| source.is_done());
        let files = done.filter_map(|source| source.end.file.clone());
        files.chain(self.finished).collect()
    }

    /// Entries that were accepted and not taken.
    pub(crate) fn untaken(&self) -> u64 {
        let accepted = |source: &Source| source.end.lane.reached(Stage::Accepted);
        self.sources
            .iter()
            .map(|source| accepted(source).saturating_sub(source.taken))
            .sum()
    }
}

impl Source {
    /// Whether an entry can be taken.
    fn is_waiting(&self) -> bool {
        !self.refused && !self.end.reader.is_empty()
    }

    /// Whether it waits and goes before all others.
    fn goes_first(&self) -> bool {
        self.end.left && self.is_waiting()
    }

    /// Whether nobody needs what is in the ring any more.
    fn is_done(&self) -> bool {
        self.end.reader.is_empty() && self.end.reader.is_released()
    }

    /// Whether there is something to take or to give back, or was something to take since this was
    /// asked last.
    fn note_busy(&mut self) -> bool {
        let had = self.taken > self.noted;
        self.noted = self.taken;
        had || self.released < self.taken || self.is_waiting()
    }

    fn release(&mut self, gate: &Gate) {
        if self.released == self.taken {
            return;
        }
        let written = self.end.lane.reached(Stage::Written).min(self.taken);
        if written > self.released {
            self.end.reader.release_first(written - self.released);
            self.released = written;
            self.tell_of_room(gate);
        }
    }

    /// Wakes the producer if it sleeps until so much is free.
    fn tell_of_room(&self, gate: &Gate) {
        if self.end.lane.freed(self.end.reader.released()) {
            gate.counters.room_wakes.add(1);
        }
    }

    fn drain(
        &mut self,
        budget: &mut usize,
        world: &mut World<'_, impl Io>,
        keeps: bool,
        gate: &Gate,
    ) -> Result<(), Stall> {
        let World {
            io,
            journal,
            progress,
            sent,
            ..
        } = world;
        while *budget > 0 && !self.refused {
            let Some(bytes) = self.end.reader.peek() else {
                return Ok(());
            };
            let entry_bytes = bytes.len();
            let Some(entry) = Entry::parse(bytes) else {
                gate.fail_as(Category::Fault, local_fault(Refusal::Malformed));
                self.refused = true;
                return Ok(());
            };
            let room = entry.header.message_bytes_max();
            journal.make_room(*io, room, *sent)?;
            let known = journal.dictionary.len();
            let symbols_max = journal.symbols_max();
            let outcome = self
                .map
                .learn(&entry, &mut journal.dictionary, symbols_max)
                .and_then(|()| {
                    let (payload, dictionary) = journal.payload_mut(room);
                    assemble(&entry, &self.map, dictionary, known, payload)
                });
            let message_bytes = match outcome {
                Ok(bytes) => bytes,
                Err(refusal) => {
                    // Ids that no frame introduced must not stay.
                    self.map.forget(known);
                    journal.dictionary.truncate(known);
                    if matches!(refusal, Refusal::Full(_)) {
                        return Err(Stall::Symbols);
                    }
                    gate.fail_as(Category::Fault, local_fault(refusal));
                    self.refused = true;
                    return Ok(());
                }
            };
            let header = entry.header;
            let (fsn, frame) = journal.append(message_bytes);
            fault::pass(Place::Append);
            journal.note_symbols(known, journal.dictionary.len());
            progress.appended(
                self.lane,
                self.taken,
                header.accepted_ns,
                header.rows,
                message_bytes,
            );
            if self.taken >= self.counted {
                self.counted = self.taken + 1;
                gate.counters.rows_published.add(u64::from(header.rows));
            }
            self.taken += 1;
            // Before the frame is written or sent: whoever finds either, finds the stamp too.
            self.end.reader.stamp(frame.crc, frame.payload_len, fsn.0);
            if keeps || self.end.reader.is_sealed() {
                self.end.reader.take();
            } else {
                self.end.reader.release();
                self.released = self.taken;
            }
            *budget = budget.saturating_sub(entry_bytes);
        }
        Ok(())
    }
}

fn local_fault(refusal: Refusal) -> Terminal {
    Terminal::local(format!("{refusal}; this is a bug of forebay"))
}
