//! Files outside the chain: removed where nothing can be lost, else renamed to `*.corrupt`
//! (slot-format.md section 2.4).

use std::io;
use std::path::Path;

use super::chain::{Candidate, Damaged};
use super::names;
use super::report::RecoveryReport;
use crate::io::Fs;

/// What to do with the files that are not in the chain.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    remove: Vec<String>,
    quarantine: Vec<String>,
}

impl Leftovers {
    /// Sorts them: unused spares, acked segments and blank files go, files with bytes that nobody
    /// can name stay as evidence.
    ///
    /// Blank files come with whatever else an open that died was making.
    pub(crate) fn new(extras: Vec<Candidate>, damaged: Vec<Damaged>, blank: Vec<String>) -> Self {
        let mut leftovers = Self {
            remove: blank,
            quarantine: Vec::new(),
        };
        for extra in extras {
            if extra.scan.residue.is_some() {
                leftovers.quarantine.push(extra.name);
            } else {
                leftovers.remove.push(extra.name);
            }
        }
        leftovers
            .quarantine
            .extend(damaged.into_iter().map(|damaged| damaged.name));
        leftovers
            .remove
            .sort_by(|a, b| names::removal_order(a).cmp(&names::removal_order(b)));
        leftovers
    }

    /// Removes and renames. Failures are reported only: the next open tries again.
    pub(crate) fn clear(self, fs: &dyn Fs, dir: &Path, report: &mut RecoveryReport) {
        for name in self.remove {
            match fs.unlink(&dir.join(&name)) {
                Ok(()) => report.removed.push(name),
                // A temporary file that was given its name meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) => report.left.push(name),
            }
        }
        for name in self.quarantine {
            match quarantine(fs, dir, &name) {
                Ok(()) => report.quarantined.push(name),
                Err(_) => report.left.push(name),
            }
        }
    }
}

/// Renames a file to a free `*.corrupt` name.
pub(crate) fn quarantine(fs: &dyn Fs, dir: &Path, name: &str) -> io::Result<()> {
    let entries = fs.entries(dir)?;
    let taken = |to: &String| entries.iter().any(|entry| entry.name == *to);
    let mut to = names::set_aside(name);
    let mut tries = (1..=u32::MAX).map(|n| names::copy(name, "corrupt", n));
    while taken(&to) {
        to = tries.next().ok_or(io::ErrorKind::AlreadyExists)?;
    }
    fs.rename(&dir.join(name), &dir.join(to))
}
