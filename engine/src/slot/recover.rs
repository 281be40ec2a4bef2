//! Recovering a slot: decide first, then change (slot-format.md section 8).
//!
//! [`Recovery::read`] only reads; whatever it refuses keeps every byte. [`Recovery::commit`] runs
//! when the slot is known to be whole, and each of its steps may be repeated by the next open if
//! this one dies: a slot of an older form becomes one of the present form, what lies behind the end
//! of data is copied and zeroed before anything may end on its border, the watermark is corrected
//! before anything may append.

use std::path::Path;

use super::chain::{Candidate, Chain, Damaged, Judge, Refused};
use super::chain::{decide_without_manifest, first_unacked};
use super::deferred;
use super::dictionary_file::{self, DictionaryFile};
use super::dual::{Content, DualFile};
use super::fold::Fold;
use super::fresh::stamp_flag;
use super::gather::{Inventory, scan_all};
use super::identity::{self, Identity};
use super::names::{self, WATERMARK};
use super::open::sync_dir;
use super::opened::{OpenedSegment, OpenedSlot, SlotOptions};
use super::progress::RecoveryProgress;
use super::record::Kind;
use super::report::RecoveryReport;
use super::segment::HEADER_BYTES;
use super::settle;
use super::spare::segment_error;
use super::takeover::{Manifest, Survey};
use super::tidy::Leftovers;
use crate::error::Error;
use crate::fsn::{Fsn, Generation};
use crate::io::{File, Fs, OpenMode};

/// A slot that was read and found whole.
#[derive(Debug)]
pub(crate) struct Recovery {
    manifest: Manifest,
    chain: Chain,
    leftovers: Leftovers,
    fold: Fold,
    dictionary_file: DictionaryFile,
    watermark: Option<(DualFile, Content)>,
    identity: Option<Identity>,
    acked: Result<Fsn, Refused>,
    next: Fsn,
    next_generation: Generation,
}

impl Recovery {
    /// Reads everything and decides. `Err(leftovers)` inside: nothing is stored, the slot was
    /// drained or never used. `inventory` tells what was found, also when it is refused.
    pub(crate) fn read(
        fs: &dyn Fs,
        dir: &Path,
        survey: Survey,
        progress: &RecoveryProgress,
        inventory: &mut Inventory,
    ) -> Result<Result<Self, Leftovers>, Error> {
        let identity = identity::read(fs, dir);
        let watermark = open_watermark(fs, dir, survey.watermark)?;
        let (dictionary, dictionary_file) =
            dictionary_file::load(fs, dir, survey.dictionary, &mut Vec::new())?;
        let last_acked = watermark
            .as_ref()
            .map_or(-1, |(watermark, _)| watermark.first);
        let claimed = u64::try_from(last_acked).map_or(0, |last| last.saturating_add(1));
        let mut fold = Fold::new(dictionary, Fsn(claimed));
        let (head, active) = bounds(&survey.manifest).unwrap_or((0, u64::MAX));
        let range = head..=active;
        let sorted = scan_all(fs, dir, &survey.segments, &mut fold, &range, progress)?;
        drop(survey.segments);
        *inventory = sorted.inventory(Fsn(claimed));
        let blank = sorted.blank.first().map(String::as_str);
        let damaged = (sorted.damaged.as_slice(), blank);
        let mut chain = decide(dir, &survey.manifest, damaged, sorted.found)?;
        let extras = std::mem::take(&mut chain.extras);
        let mut unfinished = sorted.blank;
        unfinished.extend(survey.temporaries);
        let leftovers = Leftovers::new(extras, sorted.damaged, unfinished);
        let (Some(first), Some(last)) = (chain.links.first(), chain.links.last()) else {
            return Ok(Err(leftovers));
        };
        // An official client may have acked an unfinished group locally: its numbers count.
        let end = last.end_fsn();
        let next = Fsn(deferred::first_open(&chain.links));
        let acked = first_unacked(first.base(), end, last_acked).map(|acked| acked.min(next));
        if let Some(misfit) = fold.misfit(acked.is_ok(), next) {
            return Err(Error::Corrupt {
                path: dir.join(misfit.file),
                offset: misfit.offset,
                reason: format!("frame {}: {}", misfit.fsn, misfit.reason),
            });
        }
        Ok(Ok(Self {
            manifest: survey.manifest,
            chain,
            leftovers,
            fold,
            dictionary_file,
            watermark,
            identity,
            acked,
            next,
            next_generation: survey.next_generation,
        }))
    }

    /// Makes the slot what it was decided to be and opens it.
    pub(crate) fn commit(
        self,
        fs: &dyn Fs,
        options: &SlotOptions,
        dir: &Path,
        lock: File,
        mut report: RecoveryReport,
    ) -> Result<OpenedSlot, Error> {
        let mut links = self.chain.links;
        report.moved = identity::moved(fs, self.identity.as_ref());
        // First, because the copies that follow may need the space of what nobody needs.
        self.leftovers.clear(fs, dir, &mut report);
        settle::clean_tails(fs, dir, &links, &mut report)?;
        let mut manifest = settle::manifest(fs, dir, self.manifest, &links, &mut report)?;
        for link in links.iter().filter(|l| !l.scan.header.manifest_required) {
            stamp_flag(fs, &dir.join(&link.name))?;
        }
        let (Ok(acked) | Err(Refused(acked))) = self.acked;
        let marks = (acked, self.next, self.acked.is_err());
        let watermark = settle::watermark(fs, dir, self.watermark, marks, &mut report)?;
        deferred::retire(fs, dir, &mut links, &mut manifest, &mut report)?;
        let dictionary = self.fold.into_dictionary();
        let file = self.dictionary_file.commit(fs, dir, &dictionary)?;
        report.dictionary_cut_bytes = file.cut_bytes;
        report.dictionary_rebuilt = file.rebuilt;
        identity::renew(fs, dir, self.identity);
        sync_dir(fs, dir)?;
        let mut segments = Vec::with_capacity(links.len());
        for link in links {
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
            next_generation: self.next_generation,
            acked,
            next: self.next,
            report,
        };
        opened.add_spare(fs, options)?;
        Ok(opened)
    }
}

/// Head and active base of the manifest, if there is a usable one.
fn bounds(manifest: &Manifest) -> Option<(u64, u64)> {
    let base = |value: i64| u64::try_from(value).unwrap_or(0);
    match manifest {
        Manifest::Valid { file, .. } => Some((base(file.first), base(file.second))),
        Manifest::Absent | Manifest::Invalid => None,
    }
}

fn decide(
    dir: &Path,
    manifest: &Manifest,
    (damaged, blank): (&[Damaged], Option<&str>),
    found: Vec<Candidate>,
) -> Result<Chain, Error> {
    if let Some((head, active)) = bounds(manifest) {
        let judge = Judge {
            dir,
            head,
            active,
            damaged,
            blank,
        };
        return judge.decide(found);
    }
    let state = match manifest {
        Manifest::Invalid => "no valid record is in sf-manifest.bin",
        _ => "there is no sf-manifest.bin",
    };
    decide_without_manifest(dir, damaged, state, found)
}

fn open_watermark(
    fs: &dyn Fs,
    dir: &Path,
    present: bool,
) -> Result<Option<(DualFile, Content)>, Error> {
    if !present {
        return Ok(None);
    }
    let path = dir.join(WATERMARK);
    match DualFile::open(fs, &path, Kind::Watermark) {
        Ok(found) => Ok(Some(found)),
        Err(source) => Err(Error::disk("read", &path, 0, source)),
    }
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
