//! What a durability mode promises of stable, looked at between any two turns: full segments are
//! stable in every mode, and in `periodic` whatever was written an interval ago, but for the time
//! that the operations before its fdatasync take.

use std::collections::VecDeque;

use super::storage::DiskManners;
use crate::config::{Config, Durability};
use crate::shard::OnDisk;
use crate::units::nanos;

/// Operations that may stand before the fdatasync of a frame: a commit under way, a rotation, and
/// the commit that the fdatasync belongs to.
const OPERATIONS_BEFORE: u64 = 20;
/// The longest sleep of a shard: one that found the queue full looks again after it.
const SLEEP: u64 = 100_000_000;

#[derive(Debug)]
pub(super) struct Promises {
    /// How old a frame may become that is written and not stable, in virtual nanoseconds.
    age_max: Option<u64>,
    /// When how many frames were written.
    writes: VecDeque<(u64, u64)>,
}

impl Promises {
    pub(super) fn of(config: &Config, disk: &DiskManners) -> Self {
        let slow = if disk.slow_percent > 0 { 20 } else { 1 };
        let full = if disk.queue_full_percent > 0 {
            SLEEP
        } else {
            0
        };
        let longest = disk.write_nanos.max(disk.sync_nanos) * slow + full;
        let periodic = config.durability == Durability::Periodic;
        Self {
            age_max: periodic.then_some(nanos(config.sync_interval) + OPERATIONS_BEFORE * longest),
            writes: VecDeque::new(),
        }
    }

    /// Compares what a shard has on disk with what it must have there by now.
    pub(super) fn check(&mut self, now: u64, on_disk: OnDisk) {
        let OnDisk {
            written,
            stable,
            sealed,
        } = on_disk;
        assert!(stable <= written, "{on_disk:?}");
        assert!(
            sealed <= stable,
            "a full segment is not stable: {on_disk:?}"
        );
        let Some(age_max) = self.age_max else { return };
        if self
            .writes
            .back()
            .is_none_or(|(_, count)| *count < written.0)
        {
            self.writes.push_back((now, written.0));
        }
        while let Some((at, count)) = self.writes.pop_front_if(|(at, _)| *at + age_max < now) {
            assert!(
                stable.0 >= count,
                "written at {at}, not stable at {now}: {on_disk:?}"
            );
        }
    }
}
