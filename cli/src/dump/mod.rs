//! `forebay dump`: the frames of a slot as NDJSON, as rows, or as they are.
//!
//! It shows what is on the disk, acked or not, and does not ask whether the slot is sound; so it
//! works on slots that were set aside. Symbols come from `.symbol-dict` and the frames' own deltas.

mod frame;
mod symbols;

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use forebay::internals::slot::{Frame, Reader, SegmentFile};

use crate::error::Failure;
use crate::fsn_range::FsnRange;
use crate::slot::dir::{self, Dir};
use crate::slot::{Peeked, segments_in_order};
use crate::{Outcome, paper};
use frame::{Printer, Show};

/// Writes the frames of a slot, also of one that was set aside, in the order of their numbers.
#[derive(Debug, Args)]
pub(crate) struct DumpArgs {
    /// The slot: `<sf_dir>/<sender_id>`.
    #[arg(value_name = "SLOT")]
    slot: PathBuf,
    /// Only these frame numbers: A..B (without B), A..=B, A.., ..B or A.
    #[arg(long, value_name = "A..B")]
    fsn: Option<FsnRange>,
    /// An object for each row instead of one for each frame.
    #[arg(long)]
    rows: bool,
    /// The messages as they are, one behind the other.
    #[arg(long, conflicts_with = "rows")]
    raw: bool,
}

impl DumpArgs {
    pub(crate) fn execute(
        self,
        out: &mut impl Write,
        diagnostics: &mut impl Write,
    ) -> Result<Outcome, Failure> {
        let dir = Dir::new(&self.slot);
        let entries = dir.entries()?;
        if !dir::is_slot(&entries) {
            return Err(Failure::NoSlot {
                path: self.slot,
                reason: "no slot: none of its files has a name that senders use",
            });
        }
        let show = match (self.rows, self.raw) {
            (_, true) => Show::Raw,
            (true, _) => Show::Rows,
            _ => Show::Frames,
        };
        let mut dump = Dump {
            range: self.fsn.unwrap_or(FsnRange::ALL),
            printer: Printer::new(show, symbols::load(&dir)?, out),
            dir,
            diagnostics,
            outcome: Outcome::Sound,
            last: None,
        };
        for peeked in segments_in_order(&dump.dir.clone(), &entries)? {
            // A spare, unless it is no segment at all, which is told.
            if peeked.is_begun || peeked.base.is_none() {
                dump.segment(peeked)?;
            }
        }
        Ok(dump.outcome)
    }
}

struct Dump<'a, O, D> {
    dir: Dir,
    range: FsnRange,
    printer: Printer<'a, O>,
    diagnostics: &'a mut D,
    outcome: Outcome,
    /// The file shown last, and the FSN behind its frames.
    last: Option<(String, u64)>,
}

impl<O: Write, D: Write> Dump<'_, O, D> {
    /// Shows one file. What cannot be read of it is told, and the others still count.
    fn segment(&mut self, Peeked { name, base, .. }: Peeked<'_>) -> Result<(), Failure> {
        let file = match self.dir.open(name) {
            Ok(file) => file,
            Err(failure) if failure.is_gone() => {
                self.tell(&format!("{name}: acked and removed meanwhile"));
                // The symbols of its frames are in the dictionary by now.
                self.printer.learn(symbols::load(&self.dir)?);
                return Ok(());
            }
            Err(failure) => {
                self.note(Outcome::Unknown, &failure.to_string());
                return Ok(());
            }
        };
        if let Some(base) = base {
            if self.range.ends_before(base) {
                return Ok(());
            }
            self.catch_up(base)?;
        }
        self.show(name, file, 0)
    }

    /// The file shown last may have got more frames before the one that starts at `base` was begun.
    fn catch_up(&mut self, base: u64) -> Result<(), Failure> {
        let Some((name, next)) = self.last.take().filter(|(_, next)| *next < base) else {
            return Ok(());
        };
        match self.dir.open(&name) {
            Ok(file) => self.show(&name, file, next),
            // Acked and removed since: nobody needs them.
            Err(_) => Ok(()),
        }
    }

    /// Shows the frames of a file from `from` on.
    fn show(&mut self, name: &str, file: File, from: u64) -> Result<(), Failure> {
        match self.scan(name, file, from) {
            Ok((_, SegmentFile::Blank)) => {}
            Ok((bytes, SegmentFile::Segment(segment))) => {
                self.last = Some((name.to_owned(), segment.end_fsn()));
                // Told when it is shown for the first time.
                if from > 0 {
                    return Ok(());
                }
                if segment.residue().is_some() {
                    let (end, rest) = (segment.end(), bytes.saturating_sub(segment.end()));
                    self.tell(&format!(
                        "{name}: the {rest} bytes from offset {end} on are no frames"
                    ));
                }
            }
            Ok((_, SegmentFile::Bad(bad))) => {
                let outcome = match bad.unknown_version() {
                    Some(_) => Outcome::Unknown,
                    None => Outcome::Damaged,
                };
                self.note(outcome, &format!("{name}: {bad}"));
            }
            Err(failure @ Failure::Output(_)) => return Err(failure),
            Err(failure) => self.note(Outcome::Unknown, &failure.to_string()),
        }
        Ok(())
    }

    fn scan(&mut self, name: &str, file: File, from: u64) -> Result<(u64, SegmentFile), Failure> {
        let path = self.dir.join(name);
        let again = file
            .try_clone()
            .map_err(|source| Failure::read("open", &path, source))?;
        let mut failed = None;
        let mut undecodable = Vec::new();
        let mut visit = |frame: Frame<'_>| {
            if failed.is_some() || frame.fsn < from || self.range.ends_before(frame.fsn) {
                return;
            }
            let wanted = self.range.contains(frame.fsn);
            match self.printer.frame(name, &again, &frame, wanted) {
                Ok(Err(reason)) if wanted && undecodable.len() < TOLD_MAX => {
                    let Frame { fsn, offset, .. } = frame;
                    undecodable.push(format!("{name} at offset {offset}: frame {fsn}: {reason}"));
                }
                Ok(_) => {}
                Err(failure) => failed = Some(failure),
            }
        };
        let found = Reader::default().segment(file, &path, &mut visit)?;
        for text in undecodable {
            self.note(Outcome::Damaged, &text);
        }
        match failed {
            Some(failure) => Err(failure),
            None => Ok(found),
        }
    }

    fn note(&mut self, outcome: Outcome, text: &str) {
        if self.outcome != Outcome::Unknown {
            self.outcome = outcome;
        }
        self.tell(text);
    }

    fn tell(&mut self, text: &str) {
        // Where stderr cannot be written, the exit status still says it.
        let _ = writeln!(self.diagnostics, "forebay: {}", paper::tame(text));
    }
}

/// Undecodable frames of a segment that are told one by one.
const TOLD_MAX: usize = 16;
