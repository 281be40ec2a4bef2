//! The files that replay reads: opened by the steward, ahead of the first read of each.
//!
//! Opening waits for whatever the steward does just then, removing segments for one. So a few
//! segments ahead are open already; a file is given back as soon as the sender has left it.

use std::io;

use crate::io::{File, Request, Steward};
use crate::shard::journal::Journal;

/// Segments beyond the one that the sender reads that are opened ahead: as far as the window of
/// pieces reaches where segments are smaller than a piece.
const AHEAD: u64 = 3;
/// Files that wait to be closed before another one is asked for.
const FINISHED_MAX: usize = 8;

/// Open segments, by key.
#[derive(Debug, Default)]
pub(super) struct Files {
    held: Vec<(u64, File)>,
    /// The steward was asked for these.
    asked: Vec<u64>,
    /// Read to the end: the steward closes them, because the last close of a file that was removed
    /// meanwhile is slow.
    finished: Vec<File>,
    /// A segment that cannot be opened: why, and whether it is gone for good.
    failed: Option<(u64, String, bool)>,
}

impl Files {
    /// The file of a segment, if it is open; otherwise it is asked for.
    pub(super) fn get(
        &mut self,
        io: &mut impl Steward,
        journal: &Journal,
        key: u64,
    ) -> Option<File> {
        let open = self.find(journal, key);
        if open.is_none() {
            self.ask(io, journal, key);
        }
        open
    }

    fn find(&self, journal: &Journal, key: u64) -> Option<File> {
        let held = || self.held.iter().find(|held| held.0 == key);
        let own = journal.open_file(key);
        own.or_else(|| held().map(|(_, file)| file.clone()))
    }

    /// Asks for the segments behind `key` that will be read next; `false` if one could not be
    /// asked for now.
    pub(super) fn look_ahead(
        &mut self,
        io: &mut impl Steward,
        journal: &Journal,
        key: u64,
    ) -> bool {
        for next in key + 1..=key + AHEAD {
            if !journal.starts_on_disk(next) {
                break;
            }
            if self.find(journal, next).is_none() {
                self.ask(io, journal, next);
                if !self.is_asked(next) {
                    return false;
                }
            }
        }
        true
    }

    /// Whether the answer for `key` is on its way, or known to be none.
    pub(super) fn is_asked(&self, key: u64) -> bool {
        self.asked.contains(&key) || self.has_failed(key)
    }

    fn has_failed(&self, key: u64) -> bool {
        self.failed.as_ref().is_some_and(|failed| failed.0 == key)
    }

    /// Whether nothing is open, asked for or to be closed.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty() && self.asked.is_empty() && self.finished.is_empty()
    }

    fn ask(&mut self, io: &mut impl Steward, journal: &Journal, key: u64) {
        if !self.is_asked(key)
            && self.finished.len() < FINISHED_MAX
            && let Some(path) = journal.path_of(key)
            && io.request(Request::Open { path, key }).is_ok()
        {
            self.asked.push(key);
        }
    }

    /// The steward answered. An answer to a question from before [`reset`](Self::reset) is not
    /// wanted any more.
    pub(super) fn opened(&mut self, key: u64, answer: io::Result<File>) {
        let asked = self.asked.iter().position(|asked| *asked == key);
        let wanted = asked.map(|index| self.asked.swap_remove(index)).is_some();
        match answer {
            Ok(file) if wanted => self.held.push((key, file)),
            Ok(file) => self.finished.push(file),
            Err(error) if wanted => {
                // Opened and found whole at the start: what is gone since does not come back.
                let is_gone = error.kind() == io::ErrorKind::NotFound;
                let reason = format!("opening a segment for replay: {error}");
                self.failed = Some((key, reason, is_gone));
            }
            Err(_) => {}
        }
    }

    /// Takes what went wrong with the file of `key`, and whether it is gone for good.
    pub(super) fn failure(&mut self, key: u64) -> Option<(String, bool)> {
        let failed = self.failed.take_if(|failed| failed.0 == key);
        failed.map(|(_, reason, is_gone)| (reason, is_gone))
    }

    /// Gives back the files of segments before `key`.
    pub(super) fn release(&mut self, io: &mut impl Steward, key: u64) {
        let left = self.held.extract_if(.., |held| held.0 < key);
        self.finished.extend(left.map(|(_, file)| file));
        while let Some(file) = self.finished.pop() {
            if let Err(Request::Close { file }) = io.request(Request::Close { file }) {
                self.finished.push(file);
                break;
            }
        }
    }

    /// Nothing of what is open or asked for is wanted any more.
    pub(super) fn reset(&mut self) {
        let held = self.held.drain(..);
        self.finished.extend(held.map(|(_, file)| file));
        self.asked.clear();
        self.failed = None;
    }
}
