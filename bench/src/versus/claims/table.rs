//! The lines, in their order: design section 11 first of all, and what a reader asks next.

use super::Claim;
use crate::versus::verdict::Target;

const fn claim(
    name: &'static str,
    unit: &'static str,
    [ours, theirs]: [&'static str; 2],
    figure: &'static str,
    target: Target,
) -> Claim {
    Claim {
        theirs: Some(theirs),
        ..own(name, unit, ours, figure, target)
    }
}

/// The lines of the README, by name; their peer is the official client.
pub(super) const SHORT: &[&str] = &[
    "to acked, rows by name, batch 1,000",
    "to acked, chunks of 1,000",
    "frames of one row, an OK each",
    "CPU in all, rows by name",
    "flush of a row at 50,000/s, intake on disk, p99",
    "flush of 1,000 rows at 500/s, intake on disk, p99.9",
    "open 1 GiB, cold",
    "peak memory of opening 1 GiB",
    "open and drain 1 GiB",
    "kept in an outage, `periodic`, cap 1 GiB",
    "disk full: the next process opens the slot (1: yes)",
];

/// A line without a peer.
const fn own(
    name: &'static str,
    unit: &'static str,
    ours: &'static str,
    figure: &'static str,
    target: Target,
) -> Claim {
    Claim {
        name,
        unit,
        ours,
        theirs: None,
        figure,
        target,
    }
}

const ROW: [&str; 2] = ["row ours", "row official"];
const PREPARED: [&str; 2] = ["row prepared", "row official"];
const CHUNK: [&str; 2] = ["chunk ours", "chunk official"];
const CHUNK10: [&str; 2] = ["chunk10 ours", "chunk10 official"];
const EACH: [&str; 2] = ["frame ours", "frame official"];
const COALESCED: [&str; 2] = ["coalesced ours", "coalesced official"];
const TMPFS: [&str; 2] = ["flush1 tmpfs", "flush1 official"];
const DISK: [&str; 2] = ["flush1 disk", "flush1 official"];
const RARE: [&str; 2] = ["rare tmpfs", "rare official"];
const RARE_DISK: [&str; 2] = ["rare disk", "rare official"];
const THOUSAND: [&str; 2] = ["flush1000 ours", "flush1000 official"];
const THOUSAND_DISK: [&str; 2] = ["flush1000 disk", "flush1000 official"];
const MANY: [&str; 2] = ["many ours", "many official"];
const NEIGHBOUR: [&str; 2] = ["neighbour1 ours", "neighbour1 official"];
const NEIGHBOUR_1000: [&str; 2] = ["neighbour1000 ours", "neighbour1000 official"];
const STALL: [&str; 2] = ["stall1 ours", "stall1 official"];
const STALL_1000: [&str; 2] = ["stall1000 ours", "stall1000 official"];
const FULL: [&str; 2] = ["full ours", "full official"];

const THIRD: Target = Target::AtMost(1.0 / 3.0);
const HALF: Target = Target::AtMost(0.5);

#[rustfmt::skip]
pub(super) const CLAIMS: &[Claim] = &[
    claim("to acked, rows by name, batch 1,000", "rows/s", ROW, "rows_s", Target::AtLeast(2.5)),
    claim("to acked, prepared rows, batch 1,000", "rows/s", PREPARED, "rows_s", Target::None),
    claim("CPU of the producer, rows by name", "ns/row", ROW, "producer_ns_row", THIRD),
    claim("CPU of the producer, prepared rows", "ns/row", PREPARED, "producer_ns_row", Target::None),
    claim("CPU of the I/O threads, rows by name", "ns/row", ROW, "io_ns_row", Target::None),
    claim("CPU in all, rows by name", "ns/row", ROW, "whole_ns_row", HALF),
    own("of it idle turns of the spinning shard, rows by name", "ns/row", "row ours", "idle_ns_row", Target::None),
    claim("CPU in all but idle turns, rows by name", "ns/row", ["row ours", "row official"], "busy_whole_ns_row", HALF),
    claim("CPU in all, prepared rows", "ns/row", PREPARED, "whole_ns_row", Target::None),
    claim("context switches a batch, rows by name", "count", ROW, "switches_batch", Target::None),
    claim("bytes a row on the wire", "bytes", ROW, "bytes_row", Target::None),
    claim("to acked, chunks of 1,000", "rows/s", CHUNK, "rows_s", Target::AtLeast(2.0)),
    claim("to acked, chunks of 1,000 (raw writes)", "rows/s", ["chunk ours", "chunk raw"], "rows_s", Target::None),
    claim("CPU of the producer, chunks of 1,000", "ns/row", CHUNK, "producer_ns_row", THIRD),
    claim("CPU of the I/O threads, chunks of 1,000", "ns/row", CHUNK, "io_ns_row", Target::None),
    claim("CPU in all, chunks of 1,000", "ns/row", CHUNK, "whole_ns_row", HALF),
    own("of it idle turns of the spinning shard, chunks of 1,000", "ns/row", "chunk ours", "idle_ns_row", Target::None),
    claim("CPU in all but idle turns, chunks of 1,000", "ns/row", CHUNK, "busy_whole_ns_row", HALF),
    own("heap allocations a frame, producer and shard, rows by name", "count", "allocations row", "allocs_frame", Target::OursAtMost(0.0)),
    own("heap allocations a frame, producer and shard, prepared rows", "count", "allocations prepared", "allocs_frame", Target::OursAtMost(0.0)),
    own("heap allocations a frame, producer and shard, chunks of 1,000", "count", "allocations chunk", "allocs_frame", Target::OursAtMost(0.0)),
    claim("heap allocations a frame at full load, producer, rows by name", "count", ROW, "producer_allocs_frame", Target::None),
    claim("heap allocations a frame at full load, I/O thread (ours: 3 a segment), rows by name", "count", ROW, "io_allocs_frame", Target::None),
    claim("heap allocations a frame at full load, producer, chunks of 1,000", "count", CHUNK, "producer_allocs_frame", Target::None),
    claim("heap allocations a frame at full load, I/O thread (ours: 3 a segment), chunks of 1,000", "count", CHUNK, "io_allocs_frame", Target::None),
    claim("to acked, chunks of 10,000", "rows/s", CHUNK10, "rows_s", Target::AtLeast(2.0)),
    claim("to acked, chunks of 10,000 (raw writes)", "rows/s", ["chunk10 ours", "chunk10 raw"], "rows_s", Target::None),
    claim("frames of one row, an OK each", "frames/s", EACH, "rows_s", Target::AtLeast(2.5)),
    claim("frames of one row, OKs coalesced", "frames/s", COALESCED, "rows_s", Target::AtLeast(1.5)),
    claim("8 producers, to acked, rows by name, batch 1,000", "rows/s", MANY, "rows_s", Target::None),
    claim("8 producers, CPU of the producers", "ns/row", MANY, "producer_ns_row", Target::None),
    claim("8 producers, CPU in all", "ns/row", MANY, "whole_ns_row", Target::None),
    claim("flush of a row at 50,000/s, intake on tmpfs, p50", "us", TMPFS, "flush_p50_us", Target::OursAtMost(0.25)),
    claim("flush of a row at 50,000/s, intake on tmpfs, p99", "us", TMPFS, "flush_p99_us", Target::OursAtMost(1.0)),
    claim("flush of a row at 50,000/s, intake on tmpfs, p99.9", "us", TMPFS, "flush_p999_us", Target::OursAtMost(3.0)),
    claim("flush of a row at 50,000/s, intake on tmpfs, p99.99", "us", TMPFS, "flush_p9999_us", Target::OursAtMost(15.0)),
    claim("flush of a row at 50,000/s, intake on disk, p50", "us", DISK, "flush_p50_us", Target::None),
    claim("flush of a row at 50,000/s, intake on disk, p99", "us", DISK, "flush_p99_us", Target::OursAtMost(3.0)),
    claim("flush of a row at 50,000/s, intake on disk, p99.9", "us", DISK, "flush_p999_us", Target::None),
    claim("from intended start, a row at 50,000/s, tmpfs, p99.9", "us", TMPFS, "response_p999_us", Target::None),
    claim("flush of a row at 100/s (parked), tmpfs, p50", "us", RARE, "flush_p50_us", Target::None),
    claim("flush of a row at 100/s (parked), tmpfs, p99", "us", RARE, "flush_p99_us", Target::None),
    claim("flush of a row at 100/s (parked), intake on disk, p50", "us", RARE_DISK, "flush_p50_us", Target::None),
    claim("flush of a row at 100/s (parked), intake on disk, p99", "us", RARE_DISK, "flush_p99_us", Target::None),
    claim("flush of 1,000 rows at 500/s, p50", "us", THOUSAND, "flush_p50_us", THIRD),
    claim("flush of 1,000 rows at 500/s, p99", "us", THOUSAND, "flush_p99_us", THIRD),
    claim("flush of 1,000 rows at 500/s, p99.9", "us", THOUSAND, "flush_p999_us", THIRD),
    claim("flush of 1,000 rows at 500/s, intake on disk, p50", "us", THOUSAND_DISK, "flush_p50_us", THIRD),
    claim("flush of 1,000 rows at 500/s, intake on disk, p99", "us", THOUSAND_DISK, "flush_p99_us", THIRD),
    claim("flush of 1,000 rows at 500/s, intake on disk, p99.9", "us", THOUSAND_DISK, "flush_p999_us", THIRD),
    claim("building and flushing 1,000 rows at 500/s, p50", "us", THOUSAND, "response_p50_us", THIRD),
    claim("building and flushing 1,000 rows at 500/s, p99", "us", THOUSAND, "response_p99_us", THIRD),
    claim("building and flushing 1,000 rows at 500/s, p99.9", "us", THOUSAND, "response_p999_us", THIRD),
    claim("beside a neighbour that syncs, a row at 50,000/s, p99", "us", NEIGHBOUR, "flush_p99_us", Target::None),
    claim("beside a neighbour that syncs, a row at 50,000/s, p99.9", "us", NEIGHBOUR, "flush_p999_us", Target::None),
    claim("beside a neighbour that syncs, a row at 50,000/s, longest", "us", NEIGHBOUR, "flush_max_us", Target::None),
    claim("beside a neighbour that syncs, 1,000 rows at 500/s, p50", "us", NEIGHBOUR_1000, "flush_p50_us", Target::None),
    claim("beside a neighbour that syncs, 1,000 rows at 500/s, p99", "us", NEIGHBOUR_1000, "flush_p99_us", Target::None),
    claim("beside a neighbour that syncs, 1,000 rows at 500/s, longest", "us", NEIGHBOUR_1000, "flush_max_us", Target::None),
    claim("the disk stalls for 500 ms, a row at 50,000/s, p99", "us", STALL, "flush_p99_us", Target::None),
    claim("the disk stalls for 500 ms, a row at 50,000/s, longest", "us", STALL, "flush_max_us", Target::None),
    claim("the disk stalls for 500 ms, 1,000 rows at 500/s, p99", "us", STALL_1000, "flush_p99_us", Target::None),
    claim("the disk stalls for 500 ms, 1,000 rows at 500/s, longest", "us", STALL_1000, "flush_max_us", Target::None),
    claim("open 1 GiB, cold", "ms", ["open ours", "open official"], "open_ms", Target::None),
    claim("open 1 GiB, cold (raw direct read)", "ms", ["open ours", "open raw"], "open_ms", Target::AtMost(1.25)),
    claim("open 1 GiB that the official client left, warm", "ms", ["open foreign", "open official warm"], "open_ms", Target::AtMost(1.0)),
    claim("peak memory of opening 1 GiB", "MiB", ["open ours", "open official"], "peak_mib", Target::OursAtMost(128.0)),
    claim("open 4 GiB, cold (raw direct read)", "ms", ["open4 ours", "open4 raw"], "open_ms", Target::AtMost(1.25)),
    claim("open 4 GiB that the official client left, warm", "ms", ["open4 foreign", "open4 official warm"], "open_ms", Target::AtMost(1.0)),
    own("peak memory of opening 4 GiB", "MiB", "open4 ours", "peak_mib", Target::OursAtMost(128.0)),
    claim("open and drain 1 GiB", "GB/s", ["drain ours", "drain official"], "gb_s", Target::OursAtLeast(2.0)),
    claim("drain 1 GiB after opening it, cold", "GB/s", ["drain ours", "drain official"], "after_open_gb_s", Target::OursAtLeast(2.0)),
    claim("drain 1 GiB after opening it, in the page cache", "GB/s", ["drain cached ours", "drain cached official"], "after_open_gb_s", Target::OursAtLeast(2.0)),
    claim("open and drain 1 GiB in the page cache", "GB/s", ["drain cached ours", "drain cached official"], "gb_s", Target::None),
    claim("peak memory of draining 1 GiB", "MiB", ["drain ours", "drain official"], "peak_mib", Target::None),
    claim("kept in an outage, `periodic`, cap 1 GiB", "MiB", ["outage ours", "outage official"], "stored_mib", Target::OursAtLeast(900.0)),
    claim("disk full, then room again: the sender goes on (1: yes)", "1 or 0", FULL, "resumed", Target::OursAtLeast(1.0)),
    claim("disk full: the next process opens the slot (1: yes)", "1 or 0", FULL, "opens", Target::OursAtLeast(1.0)),
    claim("disk full: accepted rows that arrive", "share", FULL, "arrived_share", Target::OursAtLeast(1.0)),
    claim("local log, batches of 1,000 (file, page cache)", "rows/s", ["log ours", "log file"], "rows_s", Target::None),
    claim("local log, batches of 1,000 (fjall)", "rows/s", ["log ours", "log fjall"], "rows_s", Target::None),
    claim("local log, CPU (file, page cache)", "ns/row", ["log ours", "log file"], "whole_ns_row", Target::None),
    claim("local log, CPU (fjall)", "ns/row", ["log ours", "log fjall"], "whole_ns_row", Target::None),
    claim("append of a batch, p99 (file, page cache)", "us", ["log ours", "log file"], "append_p99_us", Target::None),
    claim("append of a batch, p99 (fjall)", "us", ["log ours", "log fjall"], "append_p99_us", Target::None),
    claim("synced append of a batch, p50 (file, fdatasync)", "us", ["logs ours", "logs file"], "append_p50_us", Target::None),
    claim("synced append of a batch, p50 (fjall)", "us", ["logs ours", "logs fjall"], "append_p50_us", Target::None),
    claim("synced append of a batch, p50 (okaywal)", "us", ["logs ours", "logs okaywal"], "append_p50_us", Target::None),
    claim("synced append of a batch, p99 (file, fdatasync)", "us", ["logs ours", "logs file"], "append_p99_us", Target::None),
    claim("synced append of a batch, p99 (fjall)", "us", ["logs ours", "logs fjall"], "append_p99_us", Target::None),
    claim("synced append of a batch, p99 (okaywal)", "us", ["logs ours", "logs okaywal"], "append_p99_us", Target::None),
    claim("synced log, batches of 1,000 (file, fdatasync)", "rows/s", ["logs ours", "logs file"], "rows_s", Target::None),
    claim("synced log, batches of 1,000 (fjall)", "rows/s", ["logs ours", "logs fjall"], "rows_s", Target::None),
    claim("synced log, batches of 1,000 (okaywal)", "rows/s", ["logs ours", "logs okaywal"], "rows_s", Target::None),
    claim("recovery of 1 GiB, cold (file, read and checksummed)", "ms", ["logopen ours", "logopen file"], "open_ms", Target::None),
    claim("recovery of 1 GiB, cold (fjall)", "ms", ["logopen ours", "logopen fjall"], "open_ms", Target::None),
    claim("recovery of 1 GiB, cold (okaywal)", "ms", ["logopen ours", "logopen okaywal"], "open_ms", Target::None),
    claim("memory of that recovery (file)", "MiB", ["logopen ours", "logopen file"], "peak_mib", Target::None),
    claim("memory of that recovery (fjall)", "MiB", ["logopen ours", "logopen fjall"], "peak_mib", Target::None),
    claim("memory of that recovery (okaywal)", "MiB", ["logopen ours", "logopen okaywal"], "peak_mib", Target::None),
];
