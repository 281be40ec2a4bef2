//! An unfinished group of frames at the end of the chain (slot-format.md section 10).
//!
//! A frame with the flag `DEFER_COMMIT` leaves its rows uncommitted until a later frame without it
//! arrives on the same connection. When the writer died before that frame was on disk, the group
//! can never be finished, and sending it would let the next commit of somebody else bring half of
//! it to life. So it is retired: never sent, and taken out of the chain before anything is
//! appended, because behind new frames nobody could tell it from a group that was committed.
//!
//! Taken out from the end, segment by segment: copy, zero, then the manifest's active segment goes
//! back by one. Between any two of these steps the slot is a valid one with a shorter group.

use std::path::Path;

use super::chain::Candidate;
use super::dual::DualFile;
use super::names::MANIFEST;
use super::record::signed;
use super::report::RecoveryReport;
use super::salvage;
use crate::error::Error;
use crate::io::Fs;

/// The first FSN of the unfinished group, or the next FSN when there is none.
pub(crate) fn first_open(links: &[Candidate]) -> u64 {
    let mut boundary = links.last().map_or(0, Candidate::end_fsn);
    for link in links.iter().rev().filter(|link| link.scan.frames > 0) {
        let committed = link.scan.committed.frames;
        if committed < link.scan.frames {
            boundary = link.base() + committed;
        }
        if committed > 0 {
            break;
        }
    }
    boundary
}

/// Takes the unfinished group out of the chain.
pub(crate) fn retire(
    fs: &dyn Fs,
    dir: &Path,
    links: &mut Vec<Candidate>,
    manifest: &mut DualFile,
    report: &mut RecoveryReport,
) -> Result<(), Error> {
    while let Some(last) = links.last_mut() {
        let (scan, committed) = (&last.scan, last.scan.committed);
        let open = scan.frames - committed.frames;
        if open > 0 {
            let range = committed.end..scan.end;
            let copy = salvage::keep(fs, dir, &last.name, range.clone(), "deferred")?;
            salvage::zero(fs, &dir.join(&last.name), range)?;
            report.deferred_frames += open;
            report.deferred_copies.push(copy);
            last.scan.frames = committed.frames;
            last.scan.end = committed.end;
        }
        let empty = last.scan.frames == 0;
        let before = links.iter().rev().nth(1);
        let Some(before) = before.filter(|b| empty && b.scan.committed.frames < b.scan.frames)
        else {
            return Ok(());
        };
        let active = signed(before.base());
        let written = manifest.write(fs, manifest.first, active);
        written.map_err(|source| Error::disk("write", &dir.join(MANIFEST), 0, source))?;
        if let Some(Candidate { name, .. }) = links.pop() {
            match fs.unlink(&dir.join(&name)) {
                Ok(()) => report.removed.push(name),
                Err(_) => report.left.push(name),
            }
        }
    }
    Ok(())
}
