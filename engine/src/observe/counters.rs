//! The counters of one shard: a fixed layout of 64-bit words with one writer each.
//!
//! The layout is `repr(C)`, so that the region can later be mapped into a file and read by
//! another process. Fields are only ever appended.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Histogram;

/// A counter or gauge with one writing thread.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct Word(AtomicU64);

impl Word {
    /// Adds to a counter. One writing thread only: no read-modify-write instruction is needed.
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        self.0.store(
            self.0.load(Ordering::Relaxed).wrapping_add(n),
            Ordering::Relaxed,
        );
    }

    /// Adds to a counter that several threads write.
    pub(crate) fn add_shared(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Sets a gauge.
    #[inline]
    pub(crate) fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// The present value.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters and histograms of one shard, in one region.
        #[derive(Debug, Default)]
        #[repr(C)]
        pub(crate) struct Counters {
            $($(#[$doc])* pub $name: Word,)*
            /// Nanoseconds from accepted to written, per frame.
            pub accept_to_written: Histogram,
            /// Nanoseconds from accepted to stable, per frame.
            pub accept_to_stable: Histogram,
            /// Nanoseconds from accepted to acked, per frame.
            pub accept_to_acked: Histogram,
        }

        /// A snapshot of the counters.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// A snapshot.
            pub(crate) fn stats(&self) -> Stats {
                Stats { $($name: self.$name.get(),)* }
            }
        }

        impl Stats {
            /// The same words of another region added.
            fn plus(self, other: &Self) -> Self {
                Self { $($name: self.$name.wrapping_add(other.$name),)* }
            }

            /// Every counter with its name, in the order of the layout.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

counters! {
    /// Frames given an FSN by this process.
    frames_published,
    /// Rows in them.
    rows_published,
    /// Their bytes on disk, frame headers included.
    bytes_published,
    /// Frames whose write completed.
    frames_written,
    /// Frames covered by an fdatasync.
    frames_stable,
    /// Frames confirmed by the server, recovered ones included.
    frames_acked,
    /// Rows confirmed by the server, of frames published by this process.
    rows_acked,
    /// Frames handed to the socket.
    frames_sent,
    /// Frames sent again after a reconnect.
    frames_replayed,
    /// Unacked frames found in the slot at start.
    frames_recovered,
    /// Bytes handed to the socket.
    bytes_sent,
    /// Segments that became active.
    segments_written,
    /// Segments removed after acknowledgement.
    segments_trimmed,
    /// Gauge: frames not acked.
    unacked_frames,
    /// Gauge: bytes of frames not acked.
    unacked_bytes,
    /// Gauge: bytes of segments, spares and dictionary (memory mode: of segments).
    disk_bytes,
    /// Bytes written to segments, padding included.
    journal_bytes_written,
    /// Journal commits (one write each).
    commits,
    /// fdatasync calls of the journal.
    syncs,
    /// Connection attempts.
    reconnect_attempts,
    /// Connections established after the first.
    reconnects_succeeded,
    /// Error answers of the server.
    server_errors,
    /// Producer calls that found the engine full.
    backpressure_stalls,
    /// Times the intake waited for a spare segment or a rotation.
    rotation_stalls,
    /// Cumulative OKs received.
    oks_received,
    /// Turns of the shard.
    turns,
    /// Times the shard parked.
    parks,
    /// CPU time of the shard's thread, updated about every 100 ms.
    shard_cpu_nanos,
    /// Gauge: 1 while a server is connected, to every shard.
    connected,
    /// Symbols in the dictionary; of several shards, in the largest.
    symbols,
    /// Bytes of torn tail found and zeroed at start.
    torn_tail_bytes,
    /// Connections dropped because a stored frame exceeds the server's cap.
    blocked_by_cap,
    /// Disk operations that failed.
    disk_errors,
    /// Whole frames behind a damaged one of the active segment at start: kept aside, not delivered.
    torn_tail_frames,
    /// Sealed segments with bytes behind their last frame, repaired at start.
    sealed_residues,
    /// Damaged slots put aside at start.
    slots_set_aside,
    /// Frames of a transaction that was never committed, retired at start.
    deferred_frames_retired,
    /// Starts on a slot that was last open on another host.
    slot_host_changes,
    /// Starts on a slot that was last open before its machine was started again.
    slot_reboots,
    /// Whole frames found in the slot at start, acked ones included.
    recovery_frames,
    /// Their bytes, frame headers included.
    recovery_bytes,
    /// Bytes of segment files that were read and checked at start.
    recovery_bytes_scanned,
    /// How long opening the slot took at start, waiting for its lock included.
    recovery_nanos,
    /// Errors that the notifier told.
    errors_delivered,
    /// Errors that were dropped from the full inbox.
    errors_dropped,
    /// Connection events that the notifier told.
    connection_events_delivered,
    /// Connection events that were dropped from the full inbox.
    connection_events_dropped,
    /// Handlers of the application that panicked.
    handler_panics,
    /// Calls that published nothing because there was no room, at once or in time.
    publishes_timed_out,
    /// Calls that published nothing because the batch can never fit.
    publishes_oversize,
    /// Calls that published nothing because the engine has ended.
    publishes_ended,
    /// Rows that were left out because they cannot be sent as they are.
    rows_invalid,
    /// Gauge: orphaned slots that are being drained.
    drainers_active,
    /// Drainers that emptied their slot.
    drainers_succeeded,
    /// Drainers that marked their slot `.failed`.
    drainers_failed,
    /// Gauge: first FSN not given out.
    fsn_next,
    /// Gauge: first FSN not acked.
    fsn_acked,
    /// Durable acknowledgements received, of the tier that was asked for.
    durable_acks_received,
    /// PINGs sent, to a silent server or for durable acknowledgements.
    pings_sent,
    /// Connections given up because the server fell silent or confirmed nothing any more.
    half_open_drops,
    /// Tables of frames that the server refused and that were kept as files.
    tables_dead_lettered,
    /// Rows in them; `rows_acked` counts them too, once their frame is done with.
    rows_dead_lettered,
    /// Gauge: slots of other senders that nobody holds and nobody marked as failed.
    orphan_slots,
    /// Gauge: bytes of their segment files.
    orphan_bytes,
    /// Gauge: bytes of segments that have left the chain and are not removed yet; part of
    /// `disk_bytes`.
    unreclaimed_bytes,
    /// Times the steward died, or could not be started.
    steward_deaths,
    /// Times it was started again, in vain or not.
    steward_respawns,
    /// Times its thread could not be started.
    steward_spawn_failures,
    /// Times it fell behind with removing.
    steward_escalations,
    /// Gauge: 1 since the steward was given up and the shard does its work.
    steward_fallback,
    /// Requests to the steward that the shard did itself.
    steward_inline_requests,
    /// Rotations that found no spare ready.
    spare_stalls,
    /// Dictionary epochs begun: the slot was emptied and its symbols numbered anew.
    symbol_epochs,
    /// Times the journal was repaired from memory after a disk operation had failed.
    repairs,
    /// Disk operations that were interrupted or cancelled, and submitted again.
    disk_retries,
    /// Rows that were in the buffer of a producer when it was dropped, and found no room.
    rows_dropped_unflushed,
    /// Batches taken over at start from the intake of an earlier process, to be delivered.
    intake_entries_recovered,
    /// Batches found in the intake at start whose frames were in the journal.
    intake_entries_skipped,
    /// Rings of the intake of which something is not delivered: gone, damaged, of another boot.
    intake_rings_lost,
    /// Batches in them that could be counted.
    intake_entries_lost,
    /// Bytes of them; of rings that are gone, what they could hold.
    intake_bytes_lost,
    /// Panics of the shard.
    shard_panics,
    /// Times the shard was started again after one.
    shard_restarts,
    /// Turns of the shard that found nothing to do: it spun.
    turns_idle,
    /// Times a producer slept because its ring was full.
    room_sleeps,
    /// Times the shard woke one because enough was free.
    room_wakes,
}

impl Stats {
    /// What shards and hall have counted together. Of gauges that do not add up, the worst counts.
    pub(crate) fn of_engine(hall: Self, shards: &[Self]) -> Self {
        let worst = |gauge: fn(&Self) -> u64| shards.iter().map(gauge).max().unwrap_or(0);
        Self {
            connected: shards.iter().map(|s| s.connected).min().unwrap_or(0),
            symbols: worst(|shard| shard.symbols),
            steward_fallback: worst(|shard| shard.steward_fallback),
            ..shards.iter().fold(hall, Self::plus)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_adds_its_shards_up_and_shows_the_worst_of_what_does_not_add() {
        let shard = |frames, connected, symbols| Stats {
            frames_acked: frames,
            connected,
            symbols,
            ..Stats::default()
        };
        let hall = Stats {
            errors_delivered: 3,
            ..Stats::default()
        };
        let all = Stats::of_engine(hall, &[shard(5, 1, 10), shard(7, 0, 4)]);
        let told = (all.frames_acked, all.connected, all.symbols);
        assert_eq!((told, all.errors_delivered), ((12, 0, 10), 3));
    }

    #[test]
    fn every_counter_has_its_words_for_operators() {
        let operations = include_str!("../../../docs/operations.md");
        for (name, _) in Stats::default().iter() {
            let quoted = format!("`{name}`");
            assert!(
                operations.contains(&quoted),
                "{name}: not in docs/operations.md"
            );
        }
    }
}
