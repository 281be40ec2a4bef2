//! Who does what in which bout.

mod entries;
mod loads;
mod rings;
mod slots;

use super::VersusOptions;
use super::disk;
use super::entry::{Beside, Entry};

pub(super) use rings::{RingLoad, ring_load};
pub(super) use slots::backlogs;

/// Contenders that take turns.
#[derive(Debug, Clone)]
pub(super) struct Bout {
    pub(super) name: &'static str,
    pub(super) entries: Vec<Entry>,
    /// In no more rounds than this: what hardly varies, or takes long.
    pub(super) rounds_max: usize,
}

impl Bout {
    /// Why this machine cannot have it.
    pub(super) fn obstacle(&self) -> Option<String> {
        let own = |entry: &Entry| matches!(entry.beside, Beside::Disk(_));
        self.entries.iter().any(own).then(disk::lacks).flatten()
    }
}

/// All bouts, in their order.
pub(super) fn bouts(options: &VersusOptions) -> Vec<Bout> {
    let bout = |name, entries| Bout {
        name,
        entries,
        rounds_max: usize::MAX,
    };
    let few = |rounds_max, bout| Bout { rounds_max, ..bout };
    let mut bouts = vec![
        bout("rows", loads::rows(options)),
        few(1, bout("allocations", loads::allocations())),
        bout("chunks of 1,000", loads::chunks(options, 1_000)),
        bout("chunks of 10,000", loads::chunks(options, 10_000)),
        bout(
            "frames of one row, an OK each",
            loads::frames(options, true),
        ),
        bout(
            "frames of one row, OKs coalesced",
            loads::frames(options, false),
        ),
        bout("8 producers", loads::many(options)),
        bout("flush of one row at 50,000/s", loads::flushes(options)),
        bout("flush of one row at 100/s", loads::rare(options)),
        bout(
            "flush of 1,000 rows at 500/s",
            loads::large_flushes(options),
        ),
        few(3, bout("neighbour", loads::beside_neighbour(options))),
        few(3, bout("disk stall", loads::stalls(options))),
        bout("open a backlog of 1 GiB", slots::opens()),
        few(1, bout("open a backlog of 4 GiB", slots::large_opens())),
        bout("drain a backlog", slots::drains(options)),
        few(1, bout("outage", slots::outages())),
        few(1, bout("full disk", slots::full_disks())),
        bout("local logs", slots::logs(options, false)),
        bout("local logs, synced", slots::logs(options, true)),
        few(3, bout("open a local log of 1 GiB", slots::log_opens())),
    ];
    if options.quick {
        // Its files alone take longer than everything else together.
        bouts.retain(|bout| bout.name != "open a backlog of 4 GiB");
    }
    if let Some(only) = &options.only {
        bouts.retain(|bout| bout.name.contains(only.as_str()));
    }
    bouts
}
