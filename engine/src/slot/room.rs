//! Whether the filesystem can hold what all senders of a host may store (operations.md O31).
//!
//! Several engines share an `sf_dir`, one slot each, and each may grow to its own cap. How large
//! the others' caps are stands nowhere, so they are taken to be like this one's.

use std::fmt;
use std::io;
use std::path::Path;

use super::names::{LOCK, is_unreplayable};
use crate::io::{EntryKind, Fs};

/// The slots of an `sf_dir` may need more than there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shortage {
    /// Senders that have a slot there, this one included.
    pub senders: u64,
    /// `sf_max_total_bytes` of this one.
    pub cap_bytes: u64,
    /// What their slots occupy already, in bytes.
    pub used_bytes: u64,
    /// What the filesystem has left, in bytes.
    pub free_bytes: u64,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            senders,
            cap_bytes,
            used_bytes,
            free_bytes,
        } = self;
        write!(
            f,
            "{senders} senders of {cap_bytes} bytes (sf_max_total_bytes) may need more than the \
             {used_bytes} bytes that they hold and the {free_bytes} bytes that are free"
        )
    }
}

/// Looks at the slots beside those of `own`, which are open. Blocking, for the caller of `connect`.
pub(crate) fn check(
    fs: &dyn Fs,
    sf_dir: &Path,
    own: &[String],
    (cap_bytes, free_bytes): (u64, u64),
) -> io::Result<Option<Shortage>> {
    let mut shortage = Shortage {
        senders: 0,
        cap_bytes,
        used_bytes: 0,
        free_bytes,
    };
    let slots = fs.entries(sf_dir)?;
    let slots = slots.iter().filter(|e| e.kind == EntryKind::Directory);
    for slot in slots.filter(|e| !e.name.starts_with('.') && !is_unreplayable(&e.name)) {
        // One that went away meanwhile, or that belongs to somebody else, needs nothing of ours.
        let files = fs.entries(&sf_dir.join(&slot.name)).unwrap_or_default();
        if !own.contains(&slot.name) && !files.iter().any(|file| file.name == LOCK) {
            continue;
        }
        let used = files.iter().map(|file| file.bytes);
        shortage.senders += 1;
        shortage.used_bytes = used.fold(shortage.used_bytes, u64::saturating_add);
    }
    let wanted = cap_bytes.saturating_mul(shortage.senders);
    let there = shortage.used_bytes.saturating_add(free_bytes);
    Ok((wanted > there).then_some(shortage))
}
