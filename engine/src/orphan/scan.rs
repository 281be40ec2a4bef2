//! Looking for slots that nobody serves (operations.md O23).

use std::io;
use std::path::Path;

use crate::intake::is_filled;
use crate::io::{EntryKind, Fs};
use crate::slot::is_held;
use crate::slot::names::{FAILED, LOCK_OWNER, is_segment, is_sender_id};

/// A slot that is not ours, with segments or with batches in its intake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Orphan {
    /// Its directory below `sf_dir`.
    pub(crate) name: String,
    /// Bytes of its segment files.
    pub(crate) bytes: u64,
    /// What keeps drainers away from it.
    pub(crate) obstacle: Option<Obstacle>,
}

/// Why a slot with segments is no candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// Another process holds it.
    Held,
    /// `.failed` is in it.
    Failed,
}

/// Lists the slots in `sf_dir` with at least one segment or a filled intake, by name, without
/// `own`.
///
/// Symbolic links, hidden directories, slots that were set aside and whatever else cannot be the
/// name of a sender are passed over, and so is a directory that cannot be listed.
pub(crate) fn scan(fs: &dyn Fs, sf_dir: &Path, own: &[String]) -> io::Result<Vec<Orphan>> {
    let mut found = Vec::new();
    for entry in fs.entries(sf_dir)? {
        let name = entry.name;
        let other = entry.kind == EntryKind::Directory && !own.contains(&name);
        if other
            && is_sender_id(&name)
            && let Some(orphan) = look(fs, sf_dir, name)
        {
            found.push(orphan);
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn look(fs: &dyn Fs, sf_dir: &Path, name: String) -> Option<Orphan> {
    let dir = sf_dir.join(&name);
    let entries = fs.entries(&dir).ok()?;
    let segments: Vec<u64> = entries
        .iter()
        .filter(|entry| entry.kind == EntryKind::File && is_segment(&entry.name))
        .map(|entry| entry.bytes)
        .collect();
    if segments.is_empty() && !is_filled(fs, &dir) {
        return None;
    }
    let has = |name: &str| entries.iter().any(|entry| entry.name == name);
    let obstacle = if has(FAILED) {
        Some(Obstacle::Failed)
    } else if has(LOCK_OWNER) || is_held(fs, &dir) {
        Some(Obstacle::Held)
    } else {
        None
    };
    Some(Orphan {
        name,
        bytes: segments.iter().sum(),
        obstacle,
    })
}
