//! Which files of a slot form its chain (slot-format.md section 8, steps 4 to 7).
//!
//! Pure: it judges what the scans found and touches nothing. The chain is accepted only when it
//! starts at the manifest's head, has no gap, and ends in the manifest's active segment; in a slot
//! of the form before manifests, when it has no gap and nothing speaks of a manifest. Anything else
//! is an error that names the file.

use std::path::Path;

use super::names::{MANIFEST, segment_generation};
use super::scan::Scan;
use super::segment::HeaderError;
use crate::error::Error;
use crate::fsn::Fsn;

/// A readable segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// File name.
    pub name: String,
    /// File size in bytes.
    pub bytes: u64,
    /// What it holds.
    pub scan: Scan,
}

impl Candidate {
    /// FSN of its first frame.
    pub(crate) fn base(&self) -> u64 {
        self.scan.header.base.0
    }

    /// First FSN behind its last frame. A base is below 2^63 and so is the number of frames.
    pub(crate) fn end_fsn(&self) -> u64 {
        self.base() + self.scan.frames
    }
}

/// A file with the usual name of a segment whose header is no segment header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Damaged {
    /// File name.
    pub name: String,
    /// What is wrong with its header.
    pub error: HeaderError,
}

/// The segments that count, and the others.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    /// In FSN order, the last is the active segment. Empty: the slot was drained and its clean-up
    /// cut short.
    pub links: Vec<Candidate>,
    /// Acknowledged segments, unused spares, and other empties.
    pub extras: Vec<Candidate>,
}

/// What the decision needs to know.
#[derive(Debug)]
pub(crate) struct Judge<'a> {
    /// Slot directory, for errors.
    pub dir: &'a Path,
    /// `headBase` of the manifest.
    pub head: u64,
    /// `activeBase` of the manifest.
    pub active: u64,
    /// Files that may have been segments.
    pub damaged: &'a [Damaged],
    /// A file of nothing but zeros.
    pub blank: Option<&'a str>,
}

/// Picks the chain of a slot without a manifest, `state` saying why there is none.
pub(crate) fn decide_without_manifest(
    dir: &Path,
    damaged: &[Damaged],
    state: &str,
    found: Vec<Candidate>,
) -> Result<Chain, Error> {
    if let Some(Damaged { name, error }) = damaged.first() {
        return Err(Error::Corrupt {
            path: dir.join(name),
            offset: error.offset(),
            reason: format!("{error}, and {state}"),
        });
    }
    let flagged = found.iter().find(|c| c.scan.header.manifest_required);
    if let Some(Candidate { name, .. }) = flagged {
        return Err(Error::Corrupt {
            path: dir.join(name),
            offset: 5,
            reason: format!("the segment demands a manifest, but {state}"),
        });
    }
    let bases = || found.iter().filter(|c| c.scan.frames > 0);
    let judge = Judge {
        dir,
        head: bases().map(Candidate::base).min().unwrap_or(0),
        active: bases().map(Candidate::base).max().unwrap_or(0),
        damaged,
        blank: None,
    };
    let mut chain = if bases().next().is_none() {
        // Files of a first open that died before it made the manifest.
        let (links, extras) = (Vec::new(), found);
        Chain { links, extras }
    } else {
        judge.decide(found)?
    };
    // Nothing says where such a chain begins and ends, so a segment whose first frame is damaged
    // may be a part of it. Right behind the end it is the active one.
    let end = chain.links.last().map(Candidate::end_fsn);
    let torn = |c: &Candidate| c.scan.residue.is_some();
    let is_active = |c: &Candidate| torn(c) && Some(c.base()) == end;
    if let Some(at) = chain.extras.iter().position(is_active) {
        let active = chain.extras.swap_remove(at);
        chain.links.push(active);
    }
    match chain.extras.iter().find(|c| torn(c)) {
        None => Ok(chain),
        Some(Candidate { name, scan, .. }) => Err(Error::Corrupt {
            path: dir.join(name),
            offset: scan.end,
            reason: format!("its first frame is damaged, and {state}"),
        }),
    }
}

impl Judge<'_> {
    /// Picks the chain out of all readable segments.
    pub(crate) fn decide(&self, found: Vec<Candidate>) -> Result<Chain, Error> {
        for candidate in &found {
            if i64::try_from(candidate.end_fsn()).is_err() {
                return Err(self.corrupt(&candidate.name, 8, "its frames pass FSN 2^63-1".into()));
            }
        }
        let (mut data, mut extras): (Vec<_>, Vec<_>) = found
            .into_iter()
            .partition(|candidate| candidate.scan.frames > 0);
        data.sort_by_key(Candidate::base);
        let mut links = Vec::new();
        for candidate in data {
            if candidate.end_fsn() <= self.head {
                extras.push(candidate);
            } else {
                links.push(candidate);
            }
        }
        let end = self.contiguous(&links)?;
        if links.last().is_none_or(|last| last.base() != self.active) {
            match self.empty_active(&mut extras, end) {
                Some(active) => links.push(active),
                None if links.is_empty() && self.head == self.active && self.damaged.is_empty() => {
                    self.nothing_was_zeroed()?;
                }
                None => return Err(self.active_missing(end)),
            }
        }
        Ok(Chain { links, extras })
    }

    /// Checks that the segments with frames follow each other from the head on, none beyond the
    /// active base; answers the FSN behind the last.
    fn contiguous(&self, links: &[Candidate]) -> Result<u64, Error> {
        let mut expected = self.head;
        for link in links {
            let base = link.base();
            if base > self.active {
                let reason = format!(
                    "its frames start at FSN {base}, beyond the active segment's {} in {MANIFEST}",
                    self.active
                );
                return Err(self.corrupt(&link.name, 8, reason));
            }
            if base != expected {
                let reason = format!(
                    "its frames start at FSN {base}, expected {expected}: frames {} \
                     (head {} and active {} in {MANIFEST})",
                    if base > expected {
                        "are missing"
                    } else {
                        "are there twice"
                    },
                    self.head,
                    self.active
                );
                return Err(self.corrupt(&link.name, 8, reason));
            }
            expected = link.end_fsn();
        }
        Ok(expected)
    }

    /// Takes the empty segment that was made active last but got no frame yet.
    fn empty_active(&self, extras: &mut Vec<Candidate>, end: u64) -> Option<Candidate> {
        if end != self.active || !self.damaged.is_empty() {
            return None;
        }
        // A torn first frame shows which of two empties was in use; else the newest is.
        let rank = |c: &Candidate| (c.scan.residue.is_some(), segment_generation(&c.name));
        let (at, _) = extras
            .iter()
            .enumerate()
            .filter(|(_, c)| c.scan.frames == 0 && c.base() == self.active)
            .max_by_key(|(_, c)| rank(c))?;
        Some(extras.swap_remove(at))
    }

    /// A drained close leaves no file. Where one of zeros is, it may have been the active segment.
    fn nothing_was_zeroed(&self) -> Result<(), Error> {
        let Some(name) = self.blank else {
            return Ok(());
        };
        let reason = format!(
            "nothing but zeros, and no file has the frames from FSN {} on, which {MANIFEST} names: \
             they may have been here",
            self.active
        );
        Err(self.corrupt(name, 0, reason))
    }

    fn active_missing(&self, end: u64) -> Error {
        let reason = format!(
            "it names an active segment with base {}, but the chain ends at FSN {end} and no \
             readable segment fits",
            self.active
        );
        self.corrupt(MANIFEST, 0, reason)
    }

    fn corrupt(&self, name: &str, offset: u64, mut reason: String) -> Error {
        if let Some(damaged) = self.damaged.first() {
            reason = format!("{reason}; also {}: {}", damaged.name, damaged.error);
        }
        Error::Corrupt {
            path: self.dir.join(name),
            offset,
            reason,
        }
    }
}

/// The first FSN that is not acked, given the chain's first FSN and the watermark's last acked one.
pub(crate) fn first_unacked(lowest: u64, next: u64, watermark: i64) -> Result<Fsn, Refused> {
    let upper = u64::try_from(watermark).map_or(0, |last| last.saturating_add(1));
    if upper > next {
        Err(Refused(Fsn(lowest)))
    } else {
        Ok(Fsn(upper.max(lowest)))
    }
}

/// The watermark claims frames that do not exist; the chain's first FSN counts instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused(pub Fsn);

#[cfg(test)]
mod tests;
