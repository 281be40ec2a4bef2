//! The engine's side of the intake: what an earlier process left is taken over before the shard
//! starts, rings for new producers are made.

use std::sync::Arc;

use crate::config::Config;
use crate::error::Error;
use crate::intake::{self, IntakeReport, LeftRing, Store};
use crate::io::Fs;
use crate::io::sys::RealFs;
use crate::observe::{Category, Counters, Policy, SenderError};
use crate::router::gate::Gate;
use crate::router::lane::{self, Lane, LaneEnd};
use crate::router::region::Region;
use crate::slot::OpenedSlot;

/// What a segment does not hold of a message: its own header and the frame's.
const SEGMENT_OVERHEAD: u64 = 32;

/// The intake of an opened slot.
#[derive(Debug)]
pub(crate) struct OpenedIntake {
    store: Arc<Store>,
    left: Vec<LeftRing>,
    report: IntakeReport,
}

impl OpenedIntake {
    /// Takes over what the slot has. Its lock is held, no shard has it yet.
    pub(crate) fn open(slot: &OpenedSlot, config: &Config) -> Result<Self, Error> {
        let keys = &config.intake;
        if let Some(dir) = &keys.dir {
            match RealFs.create_dir(dir) {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(Error::disk("create directory", dir, 0, error));
                }
                _ => {}
            }
        }
        let recovered = intake::recover(&RealFs, slot, keys.dir.as_deref())?;
        let needed = recovered.message_bytes_max.saturating_add(SEGMENT_OVERHEAD);
        if needed > config.segment_bytes {
            return Err(Error::config(
                "sf_max_segment_bytes",
                format!(
                    "the intake of {} holds a batch that needs a segment of {needed} bytes: \
                     start with at least that until it is written",
                    slot.dir.display()
                ),
            ));
        }
        let (record, next) = (recovered.record, recovered.next);
        let store = Store::new(RealFs, &slot.dir, keys.dir.as_deref(), record, next);
        Ok(Self {
            store: Arc::new(store),
            left: recovered.rings,
            report: recovered.report,
        })
    }

    /// Whether an earlier process left batches.
    pub(crate) fn is_filled(&self) -> bool {
        !self.left.is_empty()
    }

    /// How many they are.
    pub(super) fn entries(&self) -> u64 {
        self.left.iter().map(|ring| ring.entries).sum()
    }

    /// Hands the rings that were left to the gate's shard, before anybody else joins; counts and
    /// tells. Answers where rings of new producers are made.
    pub(crate) fn join(self, gate: &Gate) -> Arc<Store> {
        count(&gate.counters, &self.report);
        if !self.report.losses.is_empty() {
            let told = self.report.losses.iter().take(8);
            let told: Vec<&str> = told.map(String::as_str).collect();
            let (category, policy) = (Category::DataLoss, Policy::Abandoned);
            let error = SenderError::new(category, policy, told.join("; "));
            gate.tell(error);
        }
        for ring in self.left {
            let file = self.store.ring(ring.number);
            let (end, lane) = lane::left_lane(ring, file);
            gate.join(lane, end);
        }
        self.store
    }
}

fn count(counters: &Counters, report: &IntakeReport) {
    counters.intake_entries_recovered.set(report.recovered);
    counters.intake_entries_skipped.set(report.skipped);
    counters.intake_rings_lost.set(report.rings_lost);
    counters.intake_entries_lost.set(report.entries_lost);
    counters.intake_bytes_lost.set(report.bytes_lost);
}

/// Whether `rings` more fit beside `used` bytes of all producers' rings.
pub(super) fn check_room(config: &Config, used: u64, rings: usize) -> Result<(), Error> {
    let keys = &config.intake;
    let wanted = (keys.ring_bytes as u64).saturating_mul(rings as u64);
    if used.saturating_add(wanted) > keys.total_bytes {
        return Err(Error::config(
            "intake_total_bytes",
            format!(
                "{used} of {} bytes are used by rings of intake_ring_bytes={}: drop producers or \
                 raise it",
                keys.total_bytes, keys.ring_bytes
            ),
        ));
    }
    Ok(())
}

/// A lane for a new producer, in a file of `store` if there is one.
pub(super) fn new_lane(
    config: &Config,
    gate: &Gate,
    store: Option<&Arc<Store>>,
) -> Result<(crate::router::ring::Writer, LaneEnd, Arc<Lane>), Error> {
    let keys = &config.intake;
    let ring = keys.ring_bytes;
    let (region, file) = match store {
        Some(store) => {
            let (region, file) = store.create(gate.shard, ring)?;
            (region, Some(file))
        }
        None => (Region::private(ring).map_err(no_memory)?, None),
    };
    Ok(lane::lane(region, file, &gate.hall.herald))
}

#[expect(clippy::needless_pass_by_value, reason = "the shape of map_err")]
fn no_memory(source: std::io::Error) -> Error {
    Error::Unsupported {
        what: "mapping an intake ring".to_owned(),
        reason: source.to_string(),
        remedy: "Lower intake_ring_bytes or raise the process's address-space limit",
    }
}
