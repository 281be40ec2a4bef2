//! Recovering a slot with a manifest: decide first, then change (slot-format.md section 8).
//!
//! [`Recovery::read`] only reads; whatever it refuses keeps every byte. [`Recovery::commit`] runs
//! when the slot is known to be whole, and each of its steps may be repeated by the next open if
//! this one dies: the watermark is corrected before anything may append, a torn tail is zeroed
//! before anything may end on its border.

use std::path::Path;

use super::chain::{Candidate, Chain, Damaged, Judge, Refused, first_unacked};
use super::dictionary_file::{self, DictionaryFile};
use super::dual::DualFile;
use super::fold::Fold;
use super::fresh::{new_watermark, stamp_flag};
use super::names::{self, WATERMARK};
use super::opened::{OpenedSegment, OpenedSlot, SlotOptions};
use super::record::{DUAL_BYTES, Kind};
use super::report::RecoveryReport;
use super::scan::{Found, Scanner};
use super::segment::{HEADER_BYTES, HeaderError};
use super::spare::segment_error;
use super::takeover::{Peeked, Survey};
use super::tidy::Leftovers;
use crate::error::Error;
use crate::fsn::{Fsn, Generation};
use crate::io::{File, Fs, OpenMode};

/// Progress of a long scan is logged this often, in nanoseconds.
const PROGRESS_EVERY: u64 = 2_000_000_000;

/// A slot that was read and found whole.
#[derive(Debug)]
pub(crate) struct Recovery {
    chain: Chain,
    leftovers: Leftovers,
    fold: Fold,
    dictionary_file: DictionaryFile,
    watermark: Option<DualFile>,
    acked: Result<Fsn, Refused>,
    next: Fsn,
}

/// All `*.sfa` files by what they are.
#[derive(Debug, Default)]
pub(crate) struct Sorted {
    /// Segments.
    pub found: Vec<Candidate>,
    /// Files with a segment's usual name that are none.
    pub damaged: Vec<Damaged>,
    /// Files of zeros.
    pub blank: Vec<String>,
}

/// Scans every file; frames of segments with a base in `fold_range` are folded in FSN order.
pub(crate) fn scan_all(
    fs: &dyn Fs,
    dir: &Path,
    segments: &[Peeked],
    scanner: &mut Scanner,
    mut fold: Option<(&mut Fold, std::ops::RangeInclusive<u64>)>,
) -> Result<Sorted, Error> {
    let mut sorted = Sorted::default();
    let mut told = fs.now();
    for (index, peeked) in segments.iter().enumerate() {
        let path = dir.join(&peeked.name);
        let opened = fs.open(&path, OpenMode::Read);
        let file = opened.map_err(|source| Error::disk("open", &path, 0, source))?;
        let found = scanner.scan(fs, &file, &path, peeked.bytes, &mut |header, frame| {
            if let Some((fold, range)) = &mut fold
                && range.contains(&header.base.0)
            {
                let fsn = Fsn(header.base.0.saturating_add(frame.index));
                fold.frame(fsn, &peeked.name, frame.offset, frame.payload);
            }
        })?;
        match found {
            Found::Segment(scan) => sorted.found.push(Candidate {
                name: peeked.name.clone(),
                bytes: peeked.bytes,
                scan,
            }),
            Found::Blank => sorted.blank.push(peeked.name.clone()),
            Found::Damaged(HeaderError::Version(version)) => {
                return Err(unknown_version(&path, version));
            }
            Found::Damaged(error) if names::is_canonical_segment(&peeked.name) => {
                sorted.damaged.push(Damaged {
                    name: peeked.name.clone(),
                    error,
                });
            }
            Found::Damaged(error) => {
                tracing::warn!(file = %path.display(), %error, "FB-R009 not a segment, left alone");
            }
        }
        if fs.now().saturating_sub(told) > PROGRESS_EVERY {
            told = fs.now();
            let (done, of) = (index + 1, segments.len());
            tracing::info!(slot = %dir.display(), done, of, "FB-R010 recovery: segments scanned");
        }
    }
    Ok(sorted)
}

fn unknown_version(path: &Path, version: u8) -> Error {
    Error::Unsupported {
        what: format!("reading {}", path.display()),
        reason: HeaderError::Version(version).to_string(),
        remedy: "Open the slot with the client that wrote it; nothing was touched",
    }
}

impl Recovery {
    /// Reads everything and decides. `Err(leftovers)` inside: nothing is stored, the slot was
    /// drained.
    pub(crate) fn read(
        fs: &dyn Fs,
        dir: &Path,
        survey: &Survey,
        manifest: &DualFile,
    ) -> Result<Result<Self, Leftovers>, Error> {
        let watermark = open_watermark(fs, dir, survey.watermark)?;
        let (dictionary, dictionary_file) =
            dictionary_file::load(fs, dir, survey.dictionary, &mut Vec::new())?;
        let last_acked = watermark.as_ref().map_or(-1, |watermark| watermark.first);
        let claimed = u64::try_from(last_acked).map_or(0, |last| last.saturating_add(1));
        let mut fold = Fold::new(dictionary, Fsn(claimed));
        let base = |value: i64| u64::try_from(value).unwrap_or(0);
        let (head, active) = (base(manifest.first), base(manifest.second));
        let mut scanner = Scanner::default();
        let fold_in = Some((&mut fold, head..=active));
        let sorted = scan_all(fs, dir, &survey.segments, &mut scanner, fold_in)?;
        let judge = Judge {
            dir,
            head,
            active,
            damaged: &sorted.damaged,
        };
        let mut chain = judge.decide(sorted.found)?;
        let extras = std::mem::take(&mut chain.extras);
        let leftovers = Leftovers::new(extras, sorted.damaged, sorted.blank);
        let (Some(first), Some(last)) = (chain.links.first(), chain.links.last()) else {
            return Ok(Err(leftovers));
        };
        let next = Fsn(last.end_fsn());
        let acked = first_unacked(first.base(), next.0, last_acked);
        if let Some(misfit) = fold.misfit(acked.is_ok()) {
            return Err(Error::Corrupt {
                path: dir.join(misfit.file),
                offset: misfit.offset,
                reason: format!("frame {}: {}", misfit.fsn, misfit.reason),
            });
        }
        Ok(Ok(Self {
            chain,
            leftovers,
            fold,
            dictionary_file,
            watermark,
            acked,
            next,
        }))
    }

    /// Makes the slot what it was decided to be and opens it.
    pub(crate) fn commit(
        self,
        fs: &dyn Fs,
        options: &SlotOptions,
        dir: &Path,
        (lock, manifest): (File, DualFile),
        next_generation: Generation,
        mut report: RecoveryReport,
    ) -> Result<OpenedSlot, Error> {
        for link in self
            .chain
            .links
            .iter()
            .filter(|l| !l.scan.header.manifest_required)
        {
            stamp_flag(fs, &dir.join(&link.name))?;
        }
        if let Some(active) = self.chain.links.last() {
            zero_tail(fs, &dir.join(&active.name), active, &mut report)?;
        }
        let watermark = settle_watermark(fs, dir, self.watermark, self.acked, &mut report)?;
        let dictionary = self.fold.dictionary;
        let file = self.dictionary_file.commit(fs, &dictionary)?;
        report.dictionary_cut_bytes = file.cut_bytes;
        report.dictionary_rebuilt = file.rebuilt;
        self.leftovers.clear(fs, dir, &mut report);
        fs.sync_dir(dir)
            .map_err(|source| Error::disk("sync", dir, 0, source))?;
        let mut segments = Vec::with_capacity(self.chain.links.len());
        for link in self.chain.links {
            report.frames += link.scan.frames;
            report.bytes += link.scan.end - HEADER_BYTES;
            segments.push(closed(link));
        }
        if let Some(active) = segments.last_mut() {
            let path = dir.join(&active.name);
            let file = fs.open(&path, OpenMode::Direct);
            let error = |source| segment_error("open for direct I/O", &path, source);
            active.file = Some(file.map_err(error)?);
        }
        let (Ok(acked) | Err(Refused(acked))) = self.acked;
        let mut opened = OpenedSlot {
            dir: dir.to_path_buf(),
            lock,
            manifest,
            watermark,
            dictionary,
            dictionary_file: file.file,
            dictionary_bytes: file.bytes,
            segments,
            spares: Vec::new(),
            next_generation,
            acked,
            next: self.next,
            report,
        };
        opened.add_spare(fs, options)?;
        Ok(opened)
    }
}

fn open_watermark(fs: &dyn Fs, dir: &Path, present: bool) -> Result<Option<DualFile>, Error> {
    if !present {
        return Ok(None);
    }
    let path = dir.join(WATERMARK);
    match DualFile::open(fs, &path, Kind::Watermark) {
        Ok((watermark, _)) => Ok(Some(watermark)),
        Err(source) => Err(Error::disk("read", &path, 0, source)),
    }
}

/// Writes the watermark file anew where it is absent, of another size, or claims too much.
fn settle_watermark(
    fs: &dyn Fs,
    dir: &Path,
    found: Option<DualFile>,
    acked: Result<Fsn, Refused>,
    report: &mut RecoveryReport,
) -> Result<DualFile, Error> {
    let Some(mut watermark) = found else {
        return new_watermark(fs, dir);
    };
    let path = dir.join(WATERMARK);
    let mut settle = || {
        if fs.bytes(&watermark.file)? != DUAL_BYTES {
            report.watermark_reset = true;
            watermark.reset(fs)?;
        }
        if let Err(Refused(lowest)) = acked {
            report.watermark_refused = Some(watermark.first);
            // A base is below 2^63; below base 0 nothing is acked, which -1 says.
            let corrected = i64::try_from(lowest.0).unwrap_or(i64::MAX) - 1;
            watermark.write(fs, corrected, 0)?;
        }
        Ok(())
    };
    settle().map_err(|source| Error::disk("write", &path, 0, source))?;
    Ok(watermark)
}

/// Zeroes what lies behind the last frame: appends will go there.
fn zero_tail(
    fs: &dyn Fs,
    path: &Path,
    active: &Candidate,
    report: &mut RecoveryReport,
) -> Result<(), Error> {
    let Some(residue) = active.scan.residue else {
        return Ok(());
    };
    report.torn_tail_bytes = active.bytes - active.scan.end;
    let zeros = vec![0; 64 * 1024];
    let zero = || {
        let file = fs.open(path, OpenMode::ReadWrite)?;
        let mut at = residue.first;
        while at <= residue.last {
            let left = usize::try_from(residue.last - at + 1).unwrap_or(usize::MAX);
            let piece = &zeros[..left.min(zeros.len())];
            fs.write_at(&file, piece, at)?;
            at += piece.len() as u64;
        }
        fs.sync(&file)
    };
    zero().map_err(|source| Error::disk("zero", path, residue.first, source))
}

fn closed(link: Candidate) -> OpenedSegment {
    OpenedSegment {
        generation: names::segment_generation(&link.name).unwrap_or_default(),
        file: None,
        base: link.scan.header.base,
        frames: link.scan.frames,
        bytes: link.bytes,
        end: link.scan.end,
        created_micros: link.scan.header.created_micros,
        name: link.name,
    }
}
