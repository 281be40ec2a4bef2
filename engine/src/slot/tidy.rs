//! Files outside the chain: removed where nothing can be lost, else renamed to `*.corrupt`
//! (slot-format.md section 2.4).

use std::path::Path;

use super::chain::{Candidate, Damaged};
use super::names;
use super::report::RecoveryReport;
use crate::io::Fs;

/// What to do with the files that are not in the chain.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    remove: Vec<String>,
    set_aside: Vec<String>,
}

impl Leftovers {
    /// Sorts them: unused spares, acked segments and blank files go, files with bytes that nobody
    /// can name stay as evidence.
    pub(crate) fn new(extras: Vec<Candidate>, damaged: Vec<Damaged>, blank: Vec<String>) -> Self {
        let mut leftovers = Self {
            remove: blank,
            set_aside: Vec::new(),
        };
        for extra in extras {
            if extra.scan.residue.is_some() {
                leftovers.set_aside.push(extra.name);
            } else {
                leftovers.remove.push(extra.name);
            }
        }
        leftovers
            .set_aside
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
                Err(_) => report.left.push(name),
            }
        }
        for name in self.set_aside {
            match fs.rename(&dir.join(&name), &dir.join(names::set_aside(&name))) {
                Ok(()) => report.set_aside.push(name),
                Err(_) => report.left.push(name),
            }
        }
    }
}
