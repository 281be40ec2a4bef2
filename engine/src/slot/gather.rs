//! Scanning every segment file of a slot, once, before anything is decided.

use std::ops::RangeInclusive;
use std::path::Path;

use super::chain::{Candidate, Damaged};
use super::fold::Fold;
use super::names;
use super::progress::RecoveryProgress;
use super::scan::{Found, Scanner};
use super::segment::{HEADER_BYTES, HeaderError};
use super::supply::with_pieces;
use super::takeover::Peeked;
use crate::error::Error;
use crate::fsn::Fsn;
use crate::io::Fs;

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

/// What a slot holds, whether or not it can be used: told when it is set aside.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Inventory {
    /// Readable segments with frames.
    pub segments: u64,
    /// Valid frames in them.
    pub frames: u64,
    /// Their bytes, frame headers included.
    pub bytes: u64,
    /// First FSN, and first behind the last, of all these frames.
    pub fsns: Option<(u64, u64)>,
    /// First FSN that the watermark does not call acked.
    pub acked: u64,
}

impl Sorted {
    fn sort(&mut self, peeked: &Peeked, found: Found, path: &Path) -> Result<(), Error> {
        match found {
            Found::Segment(scan) => self.found.push(Candidate {
                name: peeked.name.clone(),
                bytes: peeked.bytes,
                scan,
            }),
            Found::Blank => self.blank.push(peeked.name.clone()),
            Found::Damaged(HeaderError::Version(version)) => {
                return Err(unknown_version(path, version));
            }
            Found::Damaged(error) if names::is_canonical_segment(&peeked.name) => {
                self.damaged.push(Damaged {
                    name: peeked.name.clone(),
                    error,
                });
            }
            Found::Damaged(error) => {
                tracing::warn!(file = %path.display(), %error, "FB-R009 not a segment, left alone");
            }
        }
        Ok(())
    }

    /// What is there.
    pub(crate) fn inventory(&self, acked: Fsn) -> Inventory {
        let mut all = Inventory {
            acked: acked.0,
            ..Inventory::default()
        };
        for candidate in self.found.iter().filter(|c| c.scan.frames > 0) {
            let (base, end) = (candidate.base(), candidate.end_fsn());
            let (first, last) = all.fsns.unwrap_or((base, end));
            all.fsns = Some((first.min(base), last.max(end)));
            all.segments += 1;
            all.frames += candidate.scan.frames;
            all.bytes += candidate.scan.end - HEADER_BYTES;
        }
        all
    }
}

/// Scans every file; frames of segments with a base in `range` are folded, in FSN order.
pub(crate) fn scan_all(
    fs: &dyn Fs,
    dir: &Path,
    segments: &[Peeked],
    fold: &mut Fold,
    range: &RangeInclusive<u64>,
    progress: &RecoveryProgress,
) -> Result<Sorted, Error> {
    let started = fs.now();
    let sorted = with_pieces(fs, dir, segments, progress, |mut supply| {
        let mut scanner = Scanner::default();
        let mut sorted = Sorted::default();
        for peeked in segments {
            let path = dir.join(&peeked.name);
            supply.begin(peeked.bytes);
            let found = scanner.scan(&mut supply, &path, peeked.bytes, &mut |header, frame| {
                if range.contains(&header.base.0) {
                    let fsn = Fsn(header.base.0.saturating_add(frame.index));
                    fold.frame(fsn, &peeked.name, frame.offset, frame.payload);
                }
            })?;
            supply.end();
            sorted.sort(peeked, found, &path)?;
        }
        Ok(sorted)
    })?;
    progress.scanned(fs.now().saturating_sub(started));
    Ok(sorted)
}

fn unknown_version(path: &Path, version: u8) -> Error {
    Error::Unsupported {
        what: format!("reading {}", path.display()),
        reason: HeaderError::Version(version).to_string(),
        remedy: "Open the slot with the client that wrote it; nothing was touched",
    }
}
