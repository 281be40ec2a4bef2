//! The engine handle: opens the slot, starts the shard, gives out producers, closes.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::config::{Config, Durability, InitialConnect};
use crate::error::Error;
use crate::io::sys::{EventFd, RealFs, monotonic_nanos};
use crate::io::uring::{self, Hosted, Tap, UringIo};
use crate::io::{BLOCK, Fs, OpenMode};
use crate::observe::{Counters, LatencyHistogram, Stats};
use crate::producer::{Producer, ProducerOptions};
use crate::router::gate::{Gate, lock};
use crate::router::lane::{self, Stage};
use crate::shard::{Handover, Remains, Shard};
use crate::slot::{self, Drained, RecoveryProgress, RecoveryReport, SetAside, SlotOptions};
use crate::steward::{self, StewardThreads};

/// How long `connect` waits for the shard's thread; rows are taken anyway afterwards.
const START_LIMIT: Duration = Duration::from_secs(5);
/// Allowance for resolving one server's name on the first connection.
const RESOLVE_LIMIT: Duration = Duration::from_secs(10);
/// Most producers of an engine.
const PRODUCERS_MAX: usize = 1024;
/// Largest frame (protocol.md section 10.7).
const FRAME_BYTES_MAX: u64 = 16 << 20;
/// What a segment does not hold of a frame: its own header and the frame's.
const SEGMENT_OVERHEAD: u64 = 32;

/// Which latency a histogram shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Latency {
    /// From accepted to written.
    AcceptToWritten,
    /// From accepted to stable.
    AcceptToStable,
    /// From accepted to acked.
    AcceptToAcked,
}

/// A running engine. See the crate documentation for an example.
#[derive(Debug)]
pub struct Engine {
    config: Config,
    gate: Arc<Gate>,
    set_aside: Option<SetAside>,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    shard: Hosted,
    steward: StewardThreads,
}

impl Engine {
    /// Opens the slot (recovering what it holds), starts the shard and, as `initial_connect_retry`
    /// says, waits for the first connection.
    ///
    /// Every error comes before a row was accepted: an unknown key ([`Error::Config`], before any
    /// file is touched), a held slot ([`Error::Locked`]), a machine that forbids io_uring
    /// ([`Error::Unsupported`]), a disk that fails ([`Error::Disk`]).
    pub fn connect(connect_string: &str) -> Result<Self, Error> {
        Self::connect_watched(connect_string, &RecoveryProgress::new())
    }

    /// As [`connect`](Self::connect); another thread may watch `progress` meanwhile. Recovering a
    /// large backlog takes as long as reading it from the disk.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), forebay::Error> {
    /// use std::time::Duration;
    /// use forebay::{Engine, RecoveryProgress};
    ///
    /// let progress = RecoveryProgress::new();
    /// let engine = std::thread::scope(|scope| {
    ///     let connect = scope.spawn(|| {
    ///         Engine::connect_watched("ws::addr=localhost:9000;sf_dir=/var/lib/ticks;", &progress)
    ///     });
    ///     while !connect.is_finished() {
    ///         println!("{} of {} bytes", progress.bytes_scanned(), progress.bytes_total());
    ///         std::thread::sleep(Duration::from_secs(1));
    ///     }
    ///     connect.join().expect("no panic")
    /// })?;
    /// # drop(engine); Ok(()) }
    /// ```
    pub fn connect_watched(
        connect_string: &str,
        progress: &RecoveryProgress,
    ) -> Result<Self, Error> {
        Self::start(Config::parse(connect_string)?, progress, None)
    }

    /// As [`connect`](Self::connect), with a look at every piece of bytes received, on the
    /// shard's thread.
    #[cfg(feature = "internals")]
    #[doc(hidden)]
    #[expect(
        clippy::type_complexity,
        reason = "an alias would be public for this alone"
    )]
    pub fn connect_tapped(
        connect_string: &str,
        tap: Box<dyn FnMut(&[u8]) + Send>,
    ) -> Result<Self, Error> {
        let config = Config::parse(connect_string)?;
        Self::start(config, &RecoveryProgress::new(), Some(tap))
    }

    fn start(config: Config, progress: &RecoveryProgress, tap: Option<Tap>) -> Result<Self, Error> {
        uring::probe()?;
        if config.sf_dir.is_some() && config.initial_connect == InitialConnect::Off {
            tracing::warn!(
                "FB-C001 sf_dir is set but initial_connect_retry is off: with the server down, \
                 connect fails although rows could be journaled; async avoids that"
            );
        }
        let handover = open_slot_watched(&RealFs, &config, progress)?;
        let lock = handover.as_ref().map(|handover| handover.slot.lock.clone());
        let bell = EventFd::new().map_err(|error| unsupported("eventfd", &error))?;
        let gate = Arc::new(Gate::new(bell));
        let report = handover.as_ref().map(|handover| &handover.slot.report);
        let set_aside = report.and_then(|report| report.set_aside.clone());
        if let Some(report) = report {
            count_recovery(&gate.counters, report, progress);
        }
        let (steward, threads) = steward::spawn(&RealFs, &gate)?;
        let io = UringIo::new(Arc::clone(&gate), steward, lock.as_ref(), tap)
            .map_err(|error| unsupported("setting up the shard's ring", &error))?;
        let shard = Shard::new(&config, Arc::clone(&gate), handover)?;
        let shard = uring::spawn(&config, shard, io)?;
        let running = Mutex::new(Some(Running {
            shard,
            steward: threads,
        }));
        let engine = Self {
            config,
            gate,
            set_aside,
            running,
        };
        // A moment, so that the first batches do not wait for the thread to come up.
        let deadline = monotonic_nanos().saturating_add(nanos(START_LIMIT));
        engine
            .gate
            .wait_for(deadline, |gate| gate.is_started() || gate.is_over());
        if !engine.gate.is_started()
            && let Some(error) = engine.gate.ending()
        {
            // Nothing was accepted: how the thread ended adds nothing to why.
            let _ = engine.finish(Duration::ZERO);
            return Err(error);
        }
        engine.first_connection()?;
        Ok(engine)
    }

    /// Waits for the first connection as configured; its failure closes the engine again.
    fn first_connection(&self) -> Result<(), Error> {
        let rounds = match self.config.initial_connect {
            InitialConnect::Async => return Ok(()),
            InitialConnect::Off => 1,
            InitialConnect::Sync => u32::MAX,
        };
        let limit = if rounds == 1 {
            // Every server takes at most its resolve, connect and upgrade limits.
            let each = RESOLVE_LIMIT + self.config.connect_timeout + self.config.auth_timeout;
            each * u32::try_from(self.config.endpoints.len()).unwrap_or(u32::MAX)
        } else {
            self.config.reconnect_max_duration
        };
        let deadline = monotonic_nanos().saturating_add(nanos(limit));
        self.gate.wait_for(deadline, |gate| {
            gate.is_over() || gate.was_connected() || gate.failures().0 >= rounds
        });
        if self.gate.was_connected() {
            return Ok(());
        }
        let ending = self.gate.ending();
        let (_, reason) = self.gate.failures();
        let endpoint = self.config.endpoints[0].to_string();
        let error = ending.unwrap_or(Error::Peer {
            endpoint,
            reason,
            retryable: true,
        });
        // Nothing was accepted, so nothing is waited for; the first error is the one to report.
        let _ = self.finish(Duration::ZERO);
        Err(error)
    }

    /// A handle for one application thread, with a ring of `intake_ring_bytes` of its own.
    pub fn producer(&self) -> Result<Producer, Error> {
        if let Some(error) = self.gate.refusal() {
            return Err(error);
        }
        if self.gate.lanes() >= PRODUCERS_MAX {
            return Err(Error::Misuse(
                "an engine has at most 1,024 producers: drop some",
            ));
        }
        Ok(new_producer(&self.config, &self.gate))
    }

    /// A snapshot of the counters.
    pub fn stats(&self) -> Stats {
        self.gate.counters.stats()
    }

    /// The damaged slot that this start put aside, if there was one: its frames are not delivered,
    /// every byte of it is kept, and this engine began with an empty slot.
    pub fn set_aside(&self) -> Option<&SetAside> {
        self.set_aside.as_ref()
    }

    /// Why the last connection, attempt or spare segment failed; `None` if nothing has yet. What
    /// happened is over or being tried again: terminal errors come out of the calls themselves.
    pub fn last_failure(&self) -> Option<String> {
        Some(self.gate.failures().1).filter(|cause| !cause.is_empty())
    }

    /// A snapshot of a latency histogram.
    pub fn histogram(&self, which: Latency) -> LatencyHistogram {
        let counters = &self.gate.counters;
        match which {
            Latency::AcceptToWritten => counters.accept_to_written.snapshot(),
            Latency::AcceptToStable => counters.accept_to_stable.snapshot(),
            Latency::AcceptToAcked => counters.accept_to_acked.snapshot(),
        }
    }

    /// Waits until everything that was published or recovered so far is acked.
    pub fn wait_acked(&self, timeout: Duration) -> Result<(), Error> {
        let start = Instant::now();
        loop {
            if self.gate.is_acked() {
                return Ok(());
            }
            if let Some(error) = self.gate.ending() {
                return Err(error);
            }
            if start.elapsed() >= timeout {
                return Err(Error::Timeout {
                    stage: Stage::Acked.name(),
                    waited_millis: millis(start.elapsed()),
                });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Stops accepting rows, writes what was accepted, waits up to `close_flush_timeout_millis`
    /// until all of it is acked, and releases the slot. A drained slot is left empty; otherwise
    /// [`Error::NotDrained`] says what stays on disk. A latched terminal error is returned.
    pub fn close(self) -> Result<(), Error> {
        self.finish(self.config.close_flush_timeout.unwrap_or(Duration::ZERO))
    }

    fn finish(&self, wait: Duration) -> Result<(), Error> {
        let Some(running) = lock(&self.running).take() else {
            return Ok(());
        };
        let start = Instant::now();
        self.gate
            .close(monotonic_nanos().saturating_add(nanos(wait)));
        let remains = running.shard.join()?;
        running.steward.join();
        let (frames, bytes, untaken) = (remains.frames, remains.bytes, remains.untaken);
        hand_back(&RealFs, remains)?;
        if let Some(terminal) = self.gate.terminal() {
            tracing::warn!(
                frames,
                bytes,
                untaken,
                "FB-C004 closed after a terminal error"
            );
            return Err(terminal.to_error());
        }
        if frames > 0 || untaken > 0 {
            let waited_millis = millis(start.elapsed());
            tracing::warn!(
                frames,
                bytes,
                untaken,
                waited_millis,
                "FB-C002 closed before all was acked"
            );
            return Err(Error::NotDrained {
                frames,
                bytes,
                untaken,
                waited_millis,
            });
        }
        Ok(())
    }
}

impl Drop for Engine {
    /// Closes as [`Engine::close`] does, unless the thread is panicking: then without a wait.
    fn drop(&mut self) {
        let wait = self
            .config
            .close_flush_timeout
            .filter(|_| !std::thread::panicking());
        if let Err(error) = self.finish(wait.unwrap_or(Duration::ZERO)) {
            tracing::warn!(%error, "FB-C003 engine dropped");
        }
    }
}

/// A producer whose lane has joined the gate's shard.
pub(crate) fn new_producer(config: &Config, gate: &Arc<Gate>) -> Producer {
    let (writer, end, lane) = lane::lane(config.intake_ring_bytes);
    gate.join(Arc::clone(&lane), end);
    Producer::new(options(config), Arc::clone(gate), lane, writer)
}

/// What the opener found, for the counters. The shard does not run yet: there is one writer.
fn count_recovery(counters: &Counters, report: &RecoveryReport, progress: &RecoveryProgress) {
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

/// Opens the configured slot unwatched; `None` in memory mode.
#[cfg(any(test, feature = "internals"))]
pub(crate) fn open_slot(fs: &dyn Fs, config: &Config) -> Result<Option<Handover>, Error> {
    open_slot_watched(fs, config, &RecoveryProgress::new())
}

/// Opens the configured slot; `None` in memory mode.
fn open_slot_watched(
    fs: &dyn Fs,
    config: &Config,
    progress: &RecoveryProgress,
) -> Result<Option<Handover>, Error> {
    let Some(sf_dir) = &config.sf_dir else {
        return Ok(None);
    };
    let slot = slot::open(
        fs,
        &SlotOptions {
            sf_dir: sf_dir.clone(),
            sender_id: config.sender_id.clone(),
            segment_bytes: config.segment_bytes,
            total_bytes: config.total_bytes,
            lock_retry: config.lock_retry,
            progress: progress.clone(),
        },
    )?;
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
    Ok(Some(Handover {
        slot,
        active_tail,
        unacked_bytes,
    }))
}

/// The directory work of close, and the end of the lock.
pub(crate) fn hand_back(fs: &dyn Fs, remains: Remains) -> Result<(), Error> {
    let Some(left) = remains.slot else {
        return Ok(());
    };
    let mut files = left.files;
    let lock = files.lock.clone();
    let outcome = if remains.frames == 0 && remains.poisoned.is_none() {
        let drained = Drained {
            dir: &files.dir,
            manifest: &mut files.manifest,
            watermark: &mut files.watermark,
            segments: &left.segments,
            active_base: left.active_base,
            acked: left.acked,
        };
        // Dropping the older segments leaves the dictionary as the only copy of their symbols, as
        // in a trim: a power cut half-way through must not make the rest undeliverable.
        fs.sync(&files.dictionary)
            .map_err(|source| Error::disk("sync", &files.dir, 0, source))
            .and_then(|()| slot::close_drained(fs, drained))
    } else {
        Ok(())
    };
    fs.unlock(&lock)
        .map_err(|source| Error::disk("unlock", &files.dir, 0, source))?;
    outcome
}

fn options(config: &Config) -> ProducerOptions {
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
        flush_limit: config.append_deadline.max(Duration::from_secs(30)),
        message_bytes_max: caps
            .into_iter()
            .min_by_key(|cap| cap.0)
            .expect("three caps"),
        name_bytes_max: config.max_name_bytes,
        flush_stage: match (has_files, sync) {
            (false, _) => Stage::Accepted,
            (true, false) => Stage::Written,
            (true, true) => Stage::Stable,
        },
        publish_stable: config.durability == Durability::Append,
        has_files,
    }
}

fn unsupported(what: &str, error: &std::io::Error) -> Error {
    Error::Unsupported {
        what: what.to_owned(),
        reason: error.to_string(),
        remedy: "Check descriptor (ulimit -n) and locked-memory (ulimit -l) limits",
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
