//! Bouts of loads: batches to a server, as fast as they are taken or by the clock.

use super::entries::{
    AWAKE, COALESCED, DISK_INTAKE, EACH, LARGE, Paced, TMPFS, USUAL, entry, flow, job, on_disk,
    warm_rows,
};
use crate::versus::VersusOptions;
use crate::versus::disk::Kind;
use crate::versus::entry::{Beside, Entry};

pub(super) fn rows(options: &VersusOptions) -> Vec<Entry> {
    let rows = options.rows;
    vec![
        flow("row ours", "ours", "row", 1000, rows, USUAL),
        flow("row official", "official", "row", 1000, rows, USUAL),
        flow("row prepared", "ours", "prepared", 1000, rows, USUAL),
    ]
}

/// Ours alone, without kernel and network.
pub(super) fn allocations() -> Vec<Entry> {
    let counted = |key, how| {
        let more = ["--how", how];
        entry(key, job("allocations", "ours", &[], &more), None)
    };
    vec![
        counted("allocations row", "row"),
        counted("allocations prepared", "prepared"),
        counted("allocations chunk", "chunk"),
    ]
}

pub(super) fn chunks(options: &VersusOptions, batch: u64) -> Vec<Entry> {
    // Enough that whoever writes through the page cache meets the disk behind it.
    let rows = (options.rows * 10 / 3).next_multiple_of(batch);
    let (ours, official, raw) = if batch == 1_000 {
        ("chunk ours", "chunk official", "chunk raw")
    } else {
        ("chunk10 ours", "chunk10 official", "chunk10 raw")
    };
    let loop_rows = rows.to_string();
    vec![
        flow(ours, "ours", "chunk", batch, rows, USUAL),
        flow(official, "official", "chunk", batch, rows, USUAL),
        entry(
            raw,
            job("raw-write", "file", &[], &["--rows", &loop_rows]),
            None,
        ),
    ]
}

/// Frames of one row; an answer each, or one a read.
pub(super) fn frames(options: &VersusOptions, each: bool) -> Vec<Entry> {
    let frames = options.rows / 8;
    let (ours, official, ok_every) = if each {
        ("frame ours", "frame official", EACH)
    } else {
        ("coalesced ours", "coalesced official", COALESCED)
    };
    vec![
        flow(ours, "ours", "row", 1, frames, ok_every),
        flow(official, "official", "row", 1, frames, ok_every),
    ]
}

const MANY: &str = "8";

pub(super) fn many(options: &VersusOptions) -> Vec<Entry> {
    let warm = warm_rows(1_000, options.rows).to_string();
    let rows = options.rows.to_string();
    let more = ["--producers", MANY, "--rows", &rows, "--warm-rows", &warm];
    let shards = match options.shards {
        0 | 1 => String::new(),
        count => format!("shards={count};route_by=producer;"),
    };
    let many = |key, who, own: &[&str]| {
        let keys: Vec<&str> = [LARGE].iter().chain(own).copied().collect();
        entry(key, job("flow", who, &keys, &more), Some(USUAL))
    };
    vec![
        many("many ours", "ours", &[&shards]),
        many("many official", "official", &[]),
    ]
}

fn single(options: &VersusOptions) -> Paced {
    Paced {
        batch: 1,
        rate: 50_000,
        seconds: options.seconds,
    }
}

fn thousand(options: &VersusOptions) -> Paced {
    Paced {
        batch: 1_000,
        rate: 500,
        seconds: options.seconds * 1.5,
    }
}

pub(super) fn flushes(options: &VersusOptions) -> Vec<Entry> {
    let paced = single(options);
    vec![
        paced.entry("flush1 tmpfs", "ours", &[TMPFS, AWAKE]),
        paced.entry("flush1 official", "official", &[]),
        paced.entry("flush1 disk", "ours", &[DISK_INTAKE]),
    ]
}

/// So rare that the shard is parked each time.
pub(super) fn rare(options: &VersusOptions) -> Vec<Entry> {
    let paced = Paced {
        rate: 100,
        ..single(options)
    };
    vec![
        paced.entry("rare tmpfs", "ours", &[TMPFS]),
        paced.entry("rare official", "official", &[]),
        paced.entry("rare disk", "ours", &[DISK_INTAKE]),
    ]
}

pub(super) fn large_flushes(options: &VersusOptions) -> Vec<Entry> {
    let paced = thousand(options);
    vec![
        paced.entry("flush1000 ours", "ours", &[TMPFS]),
        paced.entry("flush1000 official", "official", &[]),
        paced.entry("flush1000 disk", "ours", &[DISK_INTAKE]),
    ]
}

/// Everything, intake included, on the disk that the neighbour keeps busy.
pub(super) fn beside_neighbour(options: &VersusOptions) -> Vec<Entry> {
    let (single, thousand) = (single(options), thousand(options));
    let mut entries = vec![
        single.entry("neighbour1 ours", "ours", &[DISK_INTAKE]),
        single.entry("neighbour1 official", "official", &[]),
        thousand.entry("neighbour1000 ours", "ours", &[DISK_INTAKE]),
        thousand.entry("neighbour1000 official", "official", &[]),
    ];
    for entry in &mut entries {
        entry.beside = Beside::Neighbour;
    }
    entries
}

/// Everything, intake included, on a disk that does nothing for half a second.
pub(super) fn stalls(options: &VersusOptions) -> Vec<Entry> {
    let (single, thousand) = (single(options), thousand(options));
    let entries = [
        single.entry("stall1 ours", "ours", &[DISK_INTAKE]),
        single.entry("stall1 official", "official", &[]),
        thousand.entry("stall1000 ours", "ours", &[DISK_INTAKE]),
        thousand.entry("stall1000 official", "official", &[]),
    ];
    let stalling = |entry| on_disk(entry, Kind::Stalling);
    entries.map(stalling).to_vec()
}
