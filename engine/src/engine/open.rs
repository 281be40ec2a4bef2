//! Opening: the slot, the threads, and the wait for the first connection.

use std::io;
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::ClientConfig;

use super::doorway::Opened;
use super::intake::new_lane;
use super::succeed::{Plans, plan_succession};
use super::{Engine, Running};
use crate::config::{Config, Durability, InitialConnect};
use crate::error::Error;
use crate::fsn::Fsn;
use crate::intake::Store;
use crate::io::sys::{Filesystem, Home, RealFs, filesystem, free_bytes, lighten, monotonic_nanos};
use crate::io::uring::{self, Tap};
use crate::io::{BLOCK, Fs, OpenMode};
use crate::observe::{Category, Counters, Event, Handlers, Notifier, Policy, SenderError};
use crate::orphan::{self, Orphans, Plan, Until};
use crate::producer::{Producer, ProducerOptions, Way};
use crate::router::gate::{Gate, lock};
use crate::router::hall::Hall;
use crate::router::lane::Stage;
use crate::shard::Handover;
use crate::slot::{
    self, OpenedSlot, RecoveryProgress, RecoveryReport, SetAside, SlotOptions, room,
};
use crate::steward::{self, Incarnation, Resolver};
use crate::units::nanos;

/// How long `connect` waits for the shard's thread; rows are taken anyway afterwards.
const START_LIMIT: Duration = Duration::from_secs(5);
/// Allowance for resolving one server's name on the first connection.
const RESOLVE_LIMIT: Duration = Duration::from_secs(10);
/// Allowance for the TLS handshake with one server.
const TLS_LIMIT: Duration = Duration::from_secs(5);
/// Largest frame (protocol.md section 10.7).
const FRAME_BYTES_MAX: u64 = 16 << 20;
/// What a segment does not hold of a frame: its own header and the frame's.
const SEGMENT_OVERHEAD: u64 = 32;

/// What an engine is given beside its configuration.
pub(crate) struct Outfit {
    /// A look at every piece of bytes received.
    pub(crate) tap: Option<Tap>,
    /// Looks names up.
    pub(crate) resolver: Resolver,
    /// The application's handlers.
    pub(crate) handlers: Handlers,
    /// Where recovery tells how far it has come.
    pub(crate) progress: RecoveryProgress,
}

impl Default for Outfit {
    fn default() -> Self {
        Self {
            tap: None,
            resolver: steward::system(),
            handlers: Handlers::default(),
            progress: RecoveryProgress::new(),
        }
    }
}

impl Engine {
    pub(crate) fn start(config: Config, outfit: Outfit) -> Result<Self, Error> {
        let shards = uring::shard_count(&config);
        uring::probe_locked_memory(shards)?;
        uring::probe()?;
        let is_eased = lighten();
        let tls = uring::tls::client(&config)?;
        if config.sf_dir.is_some() && config.initial_connect == InitialConnect::Off {
            tracing::warn!(
                "FB-C001 sf_dir is set but initial_connect_retry is off: with the server down, \
                 connect fails although rows could be journaled; async avoids that"
            );
        }
        if cfg!(panic = "abort") {
            tracing::warn!(
                "FB-C009 built with panic=abort: a panic of the shard ends the process, and the \
                 next start recovers"
            );
        }
        let hall = Arc::new(Hall::new(config.events));
        let names = slot_names(&config.sender_id, shards);
        let mut opened = Vec::with_capacity(names.len());
        for (shard, name) in (0..).zip(&names) {
            let name = (shard, name.clone());
            opened.push(Opened::open(&config, name, &hall, &outfit.progress)?);
        }
        let succession = plan_succession(&config, &names, &opened)?;
        warn_of_shortage(&config, &names);
        if let Some(sf_dir) = &config.sf_dir {
            warn_of_network(sf_dir, filesystem(sf_dir));
        }
        let gates = opened.iter().map(|opened| Arc::clone(&opened.door.gate));
        let notifier = Notifier::spawn(&hall, gates.collect(), outfit.handlers)?;
        let mut engine = Self {
            doors: Vec::with_capacity(opened.len()),
            next: AtomicUsize::new(0),
            running: Mutex::new(None),
            home: Home::here(),
            config,
            hall,
            names,
        };
        let mut running = Running {
            shards: Vec::with_capacity(opened.len()),
            successor: None,
            orphans: None,
            notifier,
        };
        let outset = (tls, outfit.resolver, outfit.tap);
        let started = engine.start_shards(&mut running, opened, outset);
        *lock(&engine.running) = Some(running);
        let settled = started
            .map_err(|error| uring::with_locked_memory(shards, error))
            .and_then(|()| engine.settle_in(succession));
        match settled {
            Ok(()) => {
                let cores = uring::Placement::here(&engine.config).in_words(shards);
                let usable = uring::usable_cores();
                tracing::info!(shards, cores, usable, "FB-C011 started");
                if !is_eased {
                    tracing::info!(
                        "FB-C012 the kernel has no membarrier for this process, or a seccomp \
                         profile hides it: a hand-over costs a fence more"
                    );
                }
                Ok(engine)
            }
            Err(error) => {
                // Nothing was accepted: how the threads end adds nothing to why.
                let _ = engine.finish(Duration::ZERO);
                Err(error)
            }
        }
    }

    /// Starts one shard after the other, up to one that cannot be.
    fn start_shards(
        &mut self,
        running: &mut Running,
        opened: Vec<Opened>,
        (tls, resolver, mut tap): (Option<Arc<ClientConfig>>, Resolver, Option<Tap>),
    ) -> Result<(), Error> {
        for opened in opened {
            let (door, started) = opened.start(tls.clone(), Arc::clone(&resolver), tap.take())?;
            self.doors.push(door);
            running.shards.push(started);
        }
        Ok(())
    }

    /// Waits until the shards' threads are up and, as configured, connected.
    fn settle_in(&self, (stages, strangers): Plans) -> Result<(), Error> {
        // A moment, so that the first batches do not wait for the threads to come up.
        let deadline = monotonic_nanos().saturating_add(nanos(START_LIMIT));
        for gate in self.gates() {
            gate.wait_for(deadline, |gate| gate.is_started() || gate.is_over());
            if !gate.is_started()
                && let Some(error) = gate.ending()
            {
                return Err(uring::with_locked_memory(self.doors.len(), error));
            }
        }
        self.succeed(stages)?;
        self.first_connection()?;
        self.look_after_orphans(&strangers)
    }

    /// Drains what other senders left, or reports it.
    fn look_after_orphans(&self, strangers: &[String]) -> Result<(), Error> {
        let Some(sf_dir) = &self.config.sf_dir else {
            return Ok(());
        };
        let keys = &self.config.orphans;
        if !keys.drain || keys.drainers_max == 0 {
            let own = [&self.names, strangers].concat();
            orphan::report(&RealFs, sf_dir, &own, &self.hall.counters);
            return Ok(());
        }
        let hall = Arc::clone(&self.hall);
        let orphans = Orphans::spawn(Plan {
            config: self.config.clone(),
            sf_dir: sf_dir.clone(),
            own: [&self.names, strangers].concat(),
            until: Until::Stopped,
            hall: Arc::clone(&self.hall),
            audience: Box::new(move |event| hall.events.push(Event::Drainer(event))),
        })?;
        if let Some(running) = lock(&self.running).as_mut() {
            running.orphans = Some(orphans);
        }
        Ok(())
    }

    /// Waits for the first connection as configured; its failure closes the engine again.
    fn first_connection(&self) -> Result<(), Error> {
        if self.config.initial_connect == InitialConnect::Async {
            return Ok(());
        }
        // Every server takes at most its resolve, connect and upgrade limits.
        let mut each = RESOLVE_LIMIT + self.config.connect_timeout + self.config.auth_timeout;
        if self.config.tls {
            each += TLS_LIMIT;
        }
        let servers = u32::try_from(self.config.endpoints.len()).unwrap_or(u32::MAX);
        let each = nanos(each * servers);
        let start = monotonic_nanos();
        // The shards connect beside each other: one wait for all.
        for gate in self.gates() {
            self.connection_of(gate, start, each)?;
        }
        Ok(())
    }

    fn connection_of(&self, gate: &Gate, start: u64, each: u64) -> Result<(), Error> {
        let decided = |gate: &Gate| gate.is_over() || gate.was_connected();
        // At least one round, however short the limit is.
        gate.wait_for(start.saturating_add(each), |gate| {
            decided(gate) || gate.failures().0 >= 1
        });
        if self.config.initial_connect == InitialConnect::Sync {
            let limit = nanos(self.config.reconnect_max_duration);
            gate.wait_for(start.saturating_add(limit), decided);
        }
        if gate.was_connected() {
            return Ok(());
        }
        let (_, reason) = gate.failures();
        let endpoint = self.config.endpoints[0].to_string();
        Err(gate.ending().unwrap_or(Error::Peer {
            endpoint,
            reason,
            retryable: true,
        }))
    }
}

/// The slots of an engine, by shard: a shard that is alone has the sender's name.
fn slot_names(base: &str, shards: usize) -> Vec<String> {
    match shards {
        1 => vec![base.to_owned()],
        _ => (0..shards).map(|shard| format!("{base}-{shard}")).collect(),
    }
}

/// A producer with a lane through each of these gates.
pub(crate) fn new_producer(
    config: &Config,
    doors: &[(&Arc<Gate>, Option<&Arc<Store>>)],
) -> Result<Producer, Error> {
    let mut ways = Vec::with_capacity(doors.len());
    for (gate, intake) in doors {
        let (writer, end, lane) = new_lane(config, gate, *intake)?;
        gate.join(Arc::clone(&lane), end);
        let way = Way {
            gate: Arc::clone(gate),
            lane,
        };
        ways.push((way, writer));
    }
    let kill_safe = doors.iter().all(|(_, intake)| intake.is_some());
    Ok(Producer::new(options(config, kill_safe), ways))
}

/// A slot set aside, for handlers; the log has it from the opener too.
pub(super) fn lost(set_aside: &SetAside) -> SenderError {
    let message = format!(
        "{} frames ({} bytes) are not delivered, every byte is kept in {}: {}",
        set_aside.frames,
        set_aside.bytes,
        set_aside.path.display(),
        set_aside.reason
    );
    let error = SenderError::new(Category::DataLoss, Policy::Abandoned, message);
    match set_aside.fsns {
        Some((first, end)) => error.of_frames(Fsn(first), Fsn(end)),
        None => error,
    }
}

/// What the opener found, for the counters. The shard does not run yet: there is one writer.
pub(super) fn count_recovery(
    counters: &Counters,
    report: &RecoveryReport,
    progress: &RecoveryProgress,
) {
    counters.recovery_frames.set(report.frames);
    counters.recovery_bytes.set(report.bytes);
    counters
        .recovery_bytes_scanned
        .set(progress.bytes_scanned());
    counters.recovery_nanos.set(report.elapsed_nanos);
    counters.torn_tail_bytes.set(report.torn_tail_bytes);
    counters.torn_tail_frames.set(report.torn_tail_frames());
    counters.sealed_residues.set(report.sealed_residues());
    counters
        .slots_set_aside
        .set(u64::from(report.set_aside.is_some()));
    counters.deferred_frames_retired.set(report.deferred_frames);
    let moved = &report.moved;
    counters
        .slot_host_changes
        .set(u64::from(moved.hosts.is_some()));
    counters.slot_reboots.set(u64::from(moved.rebooted));
}

/// Tells when the filesystem cannot hold what the senders of this directory may store. A full disk
/// is survived, so this is a warning, and what cannot be found out is none.
fn warn_of_shortage(config: &Config, own: &[String]) {
    let Some(sf_dir) = &config.sf_dir else { return };
    let looked = free_bytes(sf_dir)
        .and_then(|free| room::check(&RealFs, sf_dir, own, (config.total_bytes, free)));
    match looked {
        Ok(Some(shortage)) => {
            tracing::warn!(
                sf_dir = %sf_dir.display(), %shortage,
                "FB-C005 the disk is smaller than the senders' caps: it may be full before they are"
            );
        }
        Ok(None) => {}
        Err(error) => tracing::debug!(%error, "the free space could not be found out"),
    }
}

/// Whether an intake's file can be told from one of another boot; tells where not.
pub(super) fn can_tell_boots() -> bool {
    let bootless = RealFs.machine().boot.is_empty();
    if bootless {
        tracing::warn!(
            "FB-C008 /proc/sys/kernel/random/boot_id cannot be read: the intake is in memory"
        );
    }
    !bootless
}

/// Tells when other hosts may see `sf_dir`: each may have locks of its own there.
fn warn_of_network(sf_dir: &Path, kind: io::Result<Filesystem>) {
    match kind {
        Ok(kind) if kind.is_network() => {
            tracing::warn!(
                sf_dir = %sf_dir.display(), filesystem = %kind,
                "FB-C007 sf_dir is on a network filesystem: locks may not hold between hosts, and \
                 two senders could write one slot; put it on a local one"
            );
        }
        Ok(_) => {}
        Err(error) => tracing::debug!(%error, "the kind of filesystem could not be found out"),
    }
}

/// Opens the configured slot unwatched; `None` in memory mode.
#[cfg(any(test, feature = "internals"))]
pub(crate) fn open_slot(fs: &dyn Fs, config: &Config) -> Result<Option<Handover>, Error> {
    open_slot_watched(fs, config, &RecoveryProgress::new())
}

/// Opens the configured slot; `None` in memory mode.
pub(super) fn open_slot_watched(
    fs: &dyn Fs,
    config: &Config,
    progress: &RecoveryProgress,
) -> Result<Option<Handover>, Error> {
    let Some(options) = slot_options(config, progress) else {
        return Ok(None);
    };
    let slot = slot::open(fs, &options)?;
    hand_over(fs, slot, false).map(Some)
}

/// How the configured slot is opened; `None` in memory mode.
pub(crate) fn slot_options(config: &Config, progress: &RecoveryProgress) -> Option<SlotOptions> {
    Some(SlotOptions {
        sf_dir: config.sf_dir.clone()?,
        sender_id: config.sender_id.clone(),
        segment_bytes: config.segment_bytes,
        total_bytes: config.total_bytes,
        prefill: config.fills_spares(),
        lock_retry: config.lock_retry,
        progress: progress.clone(),
    })
}

/// Reads what the shard needs beside the opened slot; `replay_only` for one without producers.
pub(crate) fn hand_over(
    fs: &dyn Fs,
    slot: OpenedSlot,
    replay_only: bool,
) -> Result<Handover, Error> {
    let active = slot
        .segments
        .last()
        .expect("an opened slot has an active segment");
    let block = active.end - active.end % BLOCK as u64;
    let bytes = usize::try_from(active.end - block).expect("below a block");
    let path = slot.dir.join(&active.name);
    let mut active_tail = vec![0; bytes];
    let read = fs
        .open(&path, OpenMode::Read)
        .and_then(|file| fs.read_at(&file, &mut active_tail, block))
        .map_err(|source| Error::disk("read", &path, block, source))?;
    if read != bytes {
        return Err(Error::Corrupt {
            path,
            offset: block,
            reason: format!("{read} of {bytes} bytes of the last block, just scanned"),
        });
    }
    let unacked = slot.next.since(slot.acked) > 0;
    let stored: u64 = slot
        .segments
        .iter()
        .map(|s| s.end - slot::segment::HEADER_BYTES)
        .sum();
    let unacked_bytes = if unacked { stored } else { 0 };
    let incarnation = Incarnation::new(slot.lock.clone());
    Ok(Handover {
        slot,
        active_tail,
        unacked_bytes,
        incarnation,
        replay_only,
        journal_first: false,
    })
}

/// `kill_safe`: what is accepted survives the process.
fn options(config: &Config, kill_safe: bool) -> ProducerOptions {
    let has_files = config.sf_dir.is_some();
    let sync = matches!(config.durability, Durability::Flush | Durability::Append);
    let caps = [
        (config.max_buf_bytes, "max_buf_size"),
        (
            config.segment_bytes - SEGMENT_OVERHEAD,
            "sf_max_segment_bytes",
        ),
        (FRAME_BYTES_MAX, "the protocol (16 MiB)"),
    ];
    ProducerOptions {
        append_deadline: config.append_deadline,
        flush_limit_least: Duration::from_secs(30),
        message_bytes_max: caps
            .into_iter()
            .min_by_key(|cap| cap.0)
            .expect("three caps"),
        name_bytes_max: config.max_name_bytes,
        flush_stage: match (has_files, sync) {
            (true, true) => Stage::Stable,
            (true, false) if !kill_safe => Stage::Written,
            _ => Stage::Accepted,
        },
        publish_stable: config.durability == Durability::Append,
        has_files,
        keys: config.producer.clone(),
        symbols_max: config.symbols_max,
        route_by: config.shards.route_by,
    }
}

pub(super) fn unsupported(what: &str, error: &io::Error) -> Error {
    Error::Unsupported {
        what: what.to_owned(),
        reason: error.to_string(),
        remedy: "Check descriptor (ulimit -n) and locked-memory (ulimit -l) limits",
    }
}

#[cfg(test)]
mod tests;
