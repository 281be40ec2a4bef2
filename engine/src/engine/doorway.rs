//! One shard as the engine holds it: its slot opened, its threads started, all of it ended again.

use std::sync::Arc;

use super::close::{Left, hand_back};
use super::open::{can_tell_boots, count_recovery, lost, open_slot_watched, unsupported};
use super::{HeldLock, OpenedIntake};
use crate::config::Config;
use crate::error::Error;
use crate::fsn::Fsn;
use crate::intake::Store;
use crate::io::sys::{EventFd, RealFs};
use crate::io::uring::{self, Hosted, Tap, UringIo};
use crate::router::gate::Gate;
use crate::router::hall::Hall;
use crate::shard::{Handover, Shard};
use crate::slot::{RecoveryProgress, SetAside};
use crate::steward::{self, Resolver, StewardOptions, StewardThreads};

/// What callers of an engine need of a shard.
#[derive(Debug)]
pub(crate) struct Doorway {
    pub(super) gate: Arc<Gate>,
    /// Where the rings of new producers are made; `None` for memory.
    pub(super) intake: Option<Arc<Store>>,
    pub(super) set_aside: Option<SetAside>,
}

/// A shard whose slot is ready and which has no thread yet.
pub(super) struct Opened {
    /// The engine's, with this slot's name.
    config: Config,
    pub(super) door: Doorway,
    handover: Option<Handover>,
    lock: HeldLock,
    /// First frame that is not acked, and the first that this engine will give out: what the intake
    /// holds comes before.
    pub(super) frames: (Fsn, Fsn),
}

/// A running shard.
#[derive(Debug)]
pub(super) struct Started {
    shard: Hosted,
    steward: StewardThreads,
    /// Released at the latest when this goes, whatever became of the shard.
    lock: HeldLock,
}

impl Opened {
    /// Opens the slot `name` for shard number `shard`, recovering what it holds.
    pub(super) fn open(
        config: &Config,
        (shard, name): (u32, String),
        hall: &Arc<Hall>,
        progress: &RecoveryProgress,
    ) -> Result<Self, Error> {
        let config = Config {
            sender_id: name,
            ..config.clone()
        };
        // Slots are opened one after the other: what the last one was is over.
        progress.begin(0, 0);
        let handover = open_slot_watched(&RealFs, &config, progress)?;
        let incarnation = handover.as_ref().map(|h| h.incarnation.clone());
        let lock = HeldLock::new(incarnation);
        let bell = EventFd::new().map_err(|error| unsupported("eventfd", &error))?;
        let gate = Arc::new(Gate::of(Arc::clone(hall), shard, bell));
        let report = handover.as_ref().map(|handover| &handover.slot.report);
        let set_aside = report.and_then(|report| report.set_aside.clone());
        if let Some(report) = report {
            count_recovery(&gate.counters, report, progress);
        }
        if let Some(set_aside) = &set_aside {
            gate.tell(lost(set_aside));
        }
        let intake = match &handover {
            Some(handover) => Some(OpenedIntake::open(&handover.slot, &config)?),
            None => None,
        };
        let left = intake.as_ref().map_or(0, OpenedIntake::entries);
        let frames = handover.as_ref().map_or((Fsn(0), Fsn(0)), |handover| {
            (handover.slot.acked, handover.slot.next.plus(left))
        });
        let intake = intake.map(|intake| intake.join(&gate));
        let intake = intake.filter(|_| config.intake.file && can_tell_boots());
        let door = Doorway {
            gate,
            intake,
            set_aside,
        };
        Ok(Self {
            config,
            door,
            handover,
            lock,
            frames,
        })
    }

    /// Starts the shard and its steward.
    pub(super) fn start(
        self,
        tls: Option<Arc<rustls::ClientConfig>>,
        resolver: Resolver,
        tap: Option<Tap>,
    ) -> Result<(Doorway, Started), Error> {
        let (config, gate) = (&self.config, &self.door.gate);
        let keeping = StewardOptions::of(config);
        let (handle, steward) = steward::spawn(&RealFs, gate, resolver, keeping)?;
        let io = UringIo::new(Arc::clone(gate), handle, self.lock.file(), tap)
            .map_err(|error| unsupported("setting up the shard's ring", &error))?
            .with_tls(tls);
        let slot = self.handover.as_ref().map(|h| h.incarnation.clone());
        let shard = Shard::new(config, Arc::clone(gate), self.handover)?;
        let shard = uring::spawn(config, shard, io, slot)?;
        let started = Started {
            shard,
            steward,
            lock: self.lock,
        };
        Ok((self.door, started))
    }
}

impl Started {
    /// Waits for the shard, whose gate was closed, and releases its slot.
    pub(super) fn end(self) -> Result<Left, Error> {
        let joined = self.shard.join();
        self.steward.stop();
        let outcome = joined.and_then(|remains| {
            let left = Left::of(&remains);
            let poisoned = remains.poisoned.clone();
            hand_back(&RealFs, remains)?;
            match poisoned {
                None => Ok(left),
                Some(cause) => Err(Error::Poisoned {
                    cause: format!("{cause}; the next start recovers what is on disk"),
                }),
            }
        });
        drop(self.lock);
        outcome
    }
}
