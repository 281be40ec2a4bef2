//! Dictionary epochs: when everything is acked and the dictionary has grown large, the slot is
//! emptied and begun again, and symbols get their ids from 0 on anew.
//!
//! ```text
//! due, all acked -> no appends: last commit, fdatasync -> the steward renews the files -> appends
//! ```
//!
//! No frame that builds on the old ids is on disk or under way then. The FSNs go on. What else
//! knows ids of the old epoch forgets them before the next append: the lanes' maps (the intake)
//! and the connection (the link). In memory mode there is nothing to renew but the dictionary.

use super::Journal;
use crate::error::Error;
use crate::io::{Io, Request};
use crate::observe::Category;
use crate::router::gate::Terminal;
use crate::slot::segment::SegmentHeader;
use crate::slot::{Dictionary, ENTRIES_MAX, OpenedSlot, Renewal};

/// Longest wait, with appends held, for the acknowledgements of what is with the server, and the
/// pause before the next, in nanoseconds: rows without new symbols go on being journaled.
const WAIT_MAX: u64 = 1_000_000_000;
const WAIT_PAUSE: u64 = 10_000_000_000;
/// Pause before files that could not be made are made again, in nanoseconds.
const RETRY_PAUSE: u64 = 200_000_000;

/// Where the change of epoch stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Frames are appended.
    None,
    /// Everything is acked; what is still being written or synced comes to its end.
    Settling,
    /// The steward is at work.
    Asked,
    /// It did not get through, or was not reached: asked again from this time on.
    Owed(u64),
}

/// The present epoch, and the change to the next.
#[derive(Debug)]
pub(super) struct Epoch {
    /// With more symbols than this a new epoch is due.
    reset: u32,
    /// Most symbols.
    max: u32,
    step: Step,
    /// A symbol found no room in this epoch.
    short: bool,
    /// Since when appends are held for acknowledgements.
    waits_since: Option<u64>,
    /// No such wait before this time.
    next_wait: u64,
    /// Epochs begun by this process.
    begun: u64,
}

impl Epoch {
    pub(super) fn new(reset: u32, max: u32) -> Self {
        Self {
            reset,
            max,
            step: Step::None,
            short: false,
            waits_since: None,
            next_wait: 0,
            begun: 0,
        }
    }

    /// Whether everything that is under way has to come to its end.
    pub(super) fn settles(&self) -> bool {
        self.step == Step::Settling
    }

    /// Whether the files belong to the steward, or are not whole.
    pub(super) fn has_files(&self) -> bool {
        matches!(self.step, Step::Asked | Step::Owed(_))
    }

    pub(super) fn in_flight(&self) -> bool {
        self.step == Step::Asked
    }

    /// Whether appends are held for acknowledgements that would help.
    fn waits(&mut self, helps: bool, now: u64) -> bool {
        if !helps || now < self.next_wait {
            self.waits_since = None;
            return false;
        }
        let since = *self.waits_since.get_or_insert(now);
        if now < since + WAIT_MAX {
            return true;
        }
        self.waits_since = None;
        self.next_wait = now + WAIT_PAUSE;
        false
    }
}

impl Journal {
    /// Dictionary epochs begun by this process.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.begun
    }

    /// Whether the slot is being renewed: its files may be gone.
    #[cfg(any(test, feature = "internals"))]
    pub(crate) fn is_renewing(&self) -> bool {
        self.epoch.has_files()
    }

    /// Most symbols after the next frame. A frame at the begin of an epoch may have any number:
    /// waiting would not make room for it. Nor does it at the end: as with `sf_max_total_bytes`,
    /// `close` goes beyond for what was accepted.
    pub(crate) fn symbols_max(&self) -> u32 {
        if self.dictionary.len() == 0 || self.closing {
            ENTRIES_MAX
        } else {
            self.epoch.max
        }
    }

    /// Whether nothing may be appended for a new epoch's sake. Usually one begins at a moment at
    /// which everything happens to be acked; where room for symbols runs out (`short`: one found
    /// none), that moment is brought about once everything is with the server (`sent`), if it
    /// answers in time. With nothing further to append (`over`) none is begun.
    pub(crate) fn holds(&mut self, (short, sent, over): (bool, bool, bool), now: u64) -> bool {
        if self.epoch.has_files() {
            return true;
        }
        let (symbols, max) = (self.dictionary.len(), self.epoch.max);
        // An empty dictionary has as much room as there can be.
        self.epoch.short = (self.epoch.short || short) && symbols > 0;
        let pressing = self.epoch.short || symbols >= max - max / 10;
        let wanted = self.poisoned.is_none() && symbols > 0 && !over;
        let due = wanted && (pressing || symbols > self.epoch.reset);
        let acked = self.acked == self.published;
        self.epoch.step = if due && acked {
            Step::Settling
        } else {
            Step::None
        };
        let waits = due && !acked && pressing && sent;
        due && acked || self.epoch.waits(waits, now)
    }

    pub(super) fn pump_epoch(&mut self, io: &mut impl Io, now: u64) {
        match self.epoch.step {
            Step::Settling if self.files.is_none() => self.renewed_dictionary(),
            Step::Settling if self.is_at_rest() => self.ask_for_renewal(io, now),
            Step::Owed(from) if now >= from => self.ask_for_renewal(io, now),
            _ => {}
        }
    }

    /// Whether every frame is stable and nothing else is under way.
    fn is_at_rest(&self) -> bool {
        let steps = self.commit.is_some() || self.rotation.is_some() || self.trim.is_some();
        // What is removed meanwhile would be found in a slot without a manifest.
        let removals = self.unreclaimed > 0;
        let others = self.watermark.is_busy() || self.spares_asked > 0 || removals;
        self.written == self.published && self.stable == self.published && !steps && !others
    }

    fn ask_for_renewal(&mut self, io: &mut impl Io, now: u64) {
        assert_eq!(self.acked, self.published, "held since it was acked");
        assert!(self.dictionary_pending.is_empty(), "every frame is written");
        let segments = self.file_names();
        let files = self.files.as_ref().expect("renewals need files");
        let renewal = Renewal {
            dir: files.dir.clone(),
            lock: files.incarnation.lock_file().clone(),
            manifest: files.manifest.clone(),
            watermark: files.watermark.clone(),
            dictionary: files.dictionary.clone(),
            segments,
            handles: (self.chain.iter_mut().filter_map(|s| s.file.take()))
                .chain(self.spares.drain(..).map(|spare| spare.file))
                .collect(),
            active_base: self.chain.back().expect("the chain is never empty").base,
            next: self.published,
            generation: self.next_generation,
            segment_bytes: self.options.segment_bytes,
            fill: self.options.prefill,
        };
        // A full queue: next turn. Nothing is appended meanwhile.
        let request = Request::Renew {
            renewal: Box::new(renewal),
            incarnation: files.incarnation.clone(),
        };
        self.epoch.step = match io.request(request) {
            Ok(()) => Step::Asked,
            Err(_) => Step::Owed(now),
        };
    }

    /// The steward's answer. A failure, want of room or another, is back-pressure: the renewal
    /// starts over, which is safe wherever it stopped, and nothing is lost with it: all is acked.
    pub(super) fn renewed(
        &mut self,
        io: &mut impl Io,
        answer: Result<Box<OpenedSlot>, Error>,
        now: u64,
    ) {
        match answer {
            Ok(opened) => {
                if let Err(error) = self.take_renewed(io, *opened) {
                    // The active segment has no memory: nothing can go on.
                    let cause = format!("a new dictionary epoch: {error}");
                    self.poison(&cause);
                    self.give_up_repair();
                    let cause = format!("{cause}; restart the process");
                    self.gate.fail_as(Category::Fault, Terminal::local(cause));
                }
            }
            Err(error) => {
                self.gate.counters.disk_errors.add(1);
                let cause = format!("a new dictionary epoch (tried again): {error}");
                self.gate.failed(&cause, false);
                self.epoch.step = Step::Owed(now + RETRY_PAUSE);
            }
        }
    }

    fn take_renewed(&mut self, io: &mut impl Io, opened: OpenedSlot) -> Result<(), Error> {
        let old = self.files.take().expect("renewals need files");
        // The last handle of a removed file, which may be large; with a full queue it goes here.
        let _ = io.request(Request::Close {
            file: old.dictionary,
        });
        self.first_key += self.chain.len() as u64;
        for segment in self.chain.drain(..) {
            if let Some(region) = segment.memory {
                self.memory.put(region);
            }
        }
        self.allocated = 0;
        self.watermark.restart(self.acked);
        let active = opened.segments.last();
        let header = SegmentHeader {
            manifest_required: true,
            base: self.published,
            created_micros: active
                .expect("a renewed slot has one segment")
                .created_micros,
        };
        let taken = self.take_over(opened, old.incarnation, &header.to_bytes());
        // Also without memory for the segment: the new dictionary is there.
        self.renewed_dictionary();
        taken?;
        self.gate.counters.segments_written.add(1);
        Ok(())
    }

    fn renewed_dictionary(&mut self) {
        self.dictionary = Dictionary::new();
        self.epoch.step = Step::None;
        self.epoch.short = false;
        self.epoch.waits_since = None;
        self.epoch.begun += 1;
        self.gate.set_symbol_epoch(self.epoch.begun);
        self.publish_gauges();
    }
}
