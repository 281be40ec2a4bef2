//! The changes that a recovery makes to the files it keeps, each safe to repeat.

use std::path::Path;

use super::chain::Candidate;
use super::dual::{Content, DualFile};
use super::fresh::new_watermark;
use super::names::{MANIFEST, WATERMARK};
use super::record::{Kind, Record, signed};
use super::report::{RecoveryReport, Torn};
use super::salvage;
use super::takeover::Manifest;
use super::tidy::quarantine;
use crate::error::Error;
use crate::fsn::Fsn;
use crate::io::Fs;

/// Copies and zeroes what lies behind the last frame of every segment of the chain: appends will go
/// there, and official clients want sealed segments to be clean.
pub(crate) fn clean_tails(
    fs: &dyn Fs,
    dir: &Path,
    links: &[Candidate],
    report: &mut RecoveryReport,
) -> Result<(), Error> {
    let last = links.len().saturating_sub(1);
    for (index, link) in links.iter().enumerate() {
        let Some(residue) = link.scan.residue else {
            continue;
        };
        let path = dir.join(&link.name);
        let tail = link.scan.end..link.bytes;
        let frames = salvage::count_frames(fs, &path, tail.clone())?;
        let copy = salvage::keep(fs, dir, &link.name, tail.clone(), "torn")?;
        salvage::zero(fs, &path, residue.first..residue.last + 1)?;
        if index == last {
            report.torn_tail_bytes = tail.end - tail.start;
        }
        report.torn.push(Torn {
            copy,
            bytes: tail.end - tail.start,
            frames,
            sealed: index < last,
        });
    }
    Ok(())
}

/// The manifest in its present form: kept, rewritten from an older form, or made for a chain that
/// had none.
pub(crate) fn manifest(
    fs: &dyn Fs,
    dir: &Path,
    found: Manifest,
    links: &[Candidate],
    report: &mut RecoveryReport,
) -> Result<DualFile, Error> {
    let disk = |op| {
        let path = dir.join(MANIFEST);
        move |source| Error::disk(op, &path, 0, source)
    };
    let place =
        |record| DualFile::place(fs, dir, MANIFEST, Kind::Manifest, record).map_err(disk("write"));
    match found {
        Manifest::Valid { file, older: false } => return Ok(file),
        Manifest::Valid { file, older: true } => {
            report.migrated.push(MANIFEST);
            return place(file.next(file.first, file.second));
        }
        Manifest::Invalid => quarantine(fs, dir, MANIFEST).map_err(disk("rename"))?,
        Manifest::Absent => {}
    }
    report.migrated.push("the chain of segments");
    let base = |link: Option<&Candidate>| signed(link.map_or(0, Candidate::base));
    place(Record {
        generation: 1,
        first: base(links.first()),
        second: base(links.last()),
    })
}

/// The watermark file in its present form, with a record that claims no more than there is: made
/// where it is absent, emptied where it holds nothing usable, corrected where it is ahead.
pub(crate) fn watermark(
    fs: &dyn Fs,
    dir: &Path,
    found: Option<(DualFile, Content)>,
    (acked, next, refused): (Fsn, Fsn, bool),
    report: &mut RecoveryReport,
) -> Result<DualFile, Error> {
    let Some((mut watermark, content)) = found else {
        return new_watermark(fs, dir);
    };
    let path = dir.join(WATERMARK);
    let claimed = watermark.first;
    if refused {
        report.watermark_refused = Some(claimed);
    }
    // A base is below 2^63; below base 0 nothing is acked, which -1 says.
    let corrected = signed(acked.0) - 1;
    let ahead = u64::try_from(claimed).is_ok_and(|last| last >= next.0);
    let value = if ahead { corrected } else { claimed };
    let mut settle = || {
        match content {
            Content::Older => {
                report.migrated.push(WATERMARK);
                let record = watermark.next(value, 0);
                watermark = DualFile::place(fs, dir, WATERMARK, Kind::Watermark, record)?;
            }
            Content::Unusable => {
                report.watermark_reset = true;
                watermark.reset(fs)?;
            }
            Content::Current | Content::Blank => {}
        }
        if watermark.first == value {
            return Ok(());
        }
        watermark.write(fs, value, 0)
    };
    settle().map_err(|source| Error::disk("write", &path, 0, source))?;
    Ok(watermark)
}
