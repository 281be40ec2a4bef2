//! Draining a directory of slots without an engine: for the command `forebay drain`. Public
//! through `internals`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::order::{Turn, turns};
use super::{Obstacle, Orphans, Plan, Until, scan};
use crate::config::Config;
use crate::error::Error;
use crate::io::sys::{RealFs, monotonic_nanos};
use crate::io::uring;
use crate::observe::{DrainerEvent, Stats};
use crate::router::hall::Hall;
use crate::slot::eras;
use crate::units::nanos;

/// Time between two looks while something could not be drained.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Drainers at work on every slot of a directory.
#[derive(Debug)]
pub struct Drain {
    orphans: Orphans,
    hall: Arc<Hall>,
}

/// A slot with segments that is still there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// Name of the slot.
    pub slot: String,
    /// Bytes of its segment files.
    pub bytes: u64,
    /// Whether somebody holds it.
    pub held: bool,
    /// Whether it is marked as given up.
    pub failed: bool,
    /// The slot of the same sender that has to be delivered before.
    pub behind: Option<String>,
}

impl Drain {
    /// Starts draining the slots in `sf_dir`; the `sf_dir` and `sender_id` of the connect string
    /// are not used. With `once` a slot is left when every server was tried in vain; else it ends
    /// when nothing is left that could be drained.
    ///
    /// # Errors
    /// [`Error::Config`], and [`Error::Unsupported`] where this machine forbids io_uring or
    /// threads.
    pub fn start(
        connect_string: &str,
        sf_dir: &Path,
        once: bool,
        tell: impl FnMut(DrainerEvent) + Send + 'static,
    ) -> Result<Self, Error> {
        let mut config = Config::parse(connect_string)?;
        uring::probe()?;
        config.orphans.drainers_max = config.orphans.drainers_max.max(1);
        config.orphans.scan_interval = LOOK_AGAIN;
        let hall = Arc::<Hall>::default();
        let orphans = Orphans::spawn(Plan {
            config,
            sf_dir: sf_dir.to_path_buf(),
            own: Vec::new(),
            until: if once { Until::TriedOnce } else { Until::Empty },
            hall: Arc::clone(&hall),
            audience: Box::new(tell),
        })?;
        Ok(Self { orphans, hall })
    }

    /// Counts of this drain: `orphan_slots`, `orphan_bytes`, `drainers_*`.
    pub fn stats(&self) -> Stats {
        self.hall.counters.stats()
    }

    /// Whether it has ended by itself.
    pub fn is_finished(&self) -> bool {
        self.orphans.is_finished()
    }

    /// Asks the drainers to end: those that are not done after `wait` leave their slots as they
    /// are.
    pub fn stop(&self, wait: Duration) {
        self.orphans
            .stop(monotonic_nanos().saturating_add(nanos(wait)));
    }

    /// Waits for the end; everything was told then.
    pub fn join(self) {
        self.orphans.join();
    }
}

/// The slots in `sf_dir` that have segments, by name.
///
/// # Errors
/// The kernel's, of listing the directory.
pub fn left(sf_dir: &Path) -> std::io::Result<Vec<Left>> {
    let found = scan(&RealFs, sf_dir, &[])?;
    let noted = |name: &str| eras::read(&RealFs, &sf_dir.join(name)).unwrap_or_default();
    let mut turns = turns(&found, noted, &BTreeMap::new());
    let left = found.into_iter().map(|orphan| Left {
        behind: match turns.remove(&orphan.name) {
            Some(Turn::Behind(other)) => Some(other),
            _ => None,
        },
        slot: orphan.name,
        bytes: orphan.bytes,
        held: orphan.obstacle == Some(Obstacle::Held),
        failed: orphan.obstacle == Some(Obstacle::Failed),
    });
    Ok(left.collect())
}
