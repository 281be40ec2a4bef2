//! Taking entries from the producers' rings into the journal.

use std::sync::Arc;

use super::assemble::{Refusal, SymbolMap, assemble};
use super::journal::{Journal, Position, Stall};
use super::progress::Progress;
use crate::io::Io;
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
    /// The next entry waits for room in the dictionary.
    blocked: bool,
    /// An entry cannot be journaled: it and those behind it stay in the ring, counted as lost.
    refused: bool,
}

/// All lanes of a shard.
#[derive(Debug)]
pub(crate) struct Intake {
    gate: Arc<Gate>,
    sources: Vec<Source>,
    /// Where the next turn starts, so that no lane starves.
    next: usize,
    pub(crate) stall: Option<Stall>,
}

impl Intake {
    pub(crate) fn new(gate: Arc<Gate>) -> Self {
        Self {
            gate,
            sources: Vec::new(),
            next: 0,
            stall: None,
        }
    }

    /// Takes up lanes that joined.
    pub(crate) fn join(&mut self, ends: Vec<LaneEnd>, progress: &mut Progress) {
        for end in ends {
            let lane = progress.join(Arc::clone(&end.lane));
            self.sources.push(Source {
                end,
                map: SymbolMap::default(),
                lane,
                taken: 0,
                blocked: false,
                refused: false,
            });
        }
    }

    /// Whether every ring is empty, refused ones aside.
    pub(crate) fn is_empty(&self) -> bool {
        self.sources
            .iter()
            .all(|source| source.refused || source.end.reader.is_empty())
    }

    /// Whether there is something that the last turn did not leave lying.
    pub(crate) fn has_input(&self) -> bool {
        let waits = |source: &Source| !source.blocked && !source.refused;
        match self.stall {
            None | Some(Stall::Symbols) => {
                let mut sources = self.sources.iter().filter(|source| waits(source));
                sources.any(|source| !source.end.reader.is_empty())
            }
            Some(_) => false,
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
        sent: Position,
    ) -> bool {
        self.stall = None;
        let count = self.sources.len();
        let mut budget = TURN_BYTES_MAX;
        for step in 0..count {
            let index = (self.next + step) % count;
            let source = &mut self.sources[index];
            let gate = &self.gate;
            let before = source.taken;
            source.blocked = false;
            let outcome = source.drain(&mut budget, io, journal, progress, sent, gate);
            if source.taken > before {
                // Room in the ring: whoever waits for it looks again. What is taken counts among
                // the symbols.
                gate.counters.symbols.set(journal.dictionary.len().into());
                source.end.lane.take(source.taken);
                source.end.lane.notify(Stage::Accepted);
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
                    break;
                }
            }
            if budget == 0 {
                self.next = (index + 1) % count;
                break;
            }
        }
        budget < TURN_BYTES_MAX
    }

    /// Frees the rings of producers that are gone and whose last entry was taken.
    pub(crate) fn sweep(&mut self, progress: &mut Progress) {
        self.sources.retain(|source| {
            let finished = source.end.lane.is_left() && source.end.reader.is_empty();
            if finished {
                progress.leave(source.lane);
            }
            !finished
        });
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
    fn drain(
        &mut self,
        budget: &mut usize,
        io: &mut impl Io,
        journal: &mut Journal,
        progress: &mut Progress,
        sent: Position,
        gate: &Gate,
    ) -> Result<(), Stall> {
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
            journal.make_room(io, room, sent)?;
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
            journal.append(message_bytes);
            journal.note_symbols(known, journal.dictionary.len());
            let header = entry.header;
            progress.appended(
                self.lane,
                self.taken,
                header.accepted_ns,
                header.rows,
                message_bytes,
            );
            gate.counters.rows_published.add(u64::from(header.rows));
            self.taken += 1;
            self.end.reader.release();
            *budget = budget.saturating_sub(entry_bytes);
        }
        Ok(())
    }
}

fn local_fault(refusal: Refusal) -> Terminal {
    Terminal::local(format!("{refusal}; this is a bug of forebay"))
}
