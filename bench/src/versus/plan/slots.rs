//! Bouts of what lies on disk: backlogs that are opened and delivered, logs, disks that fill up.

use std::collections::BTreeMap;

use super::entries::{LARGE, USUAL, entry, job, on_disk};
use crate::versus::VersusOptions;
use crate::versus::disk::Kind;
use crate::versus::entry::{Entry, Files};
use crate::versus::raw::ROW_BYTES;

/// Rows of a backlog of 1 GiB.
const BACKLOG_ROWS: u64 = (1 << 30) / ROW_BYTES / 1000 * 1000;

/// Of so many GiB; an eighth of it for trying.
fn backlog_rows(options: &VersusOptions, gib: u64) -> u64 {
    let rows = BACKLOG_ROWS * gib;
    if options.quick { rows / 8 } else { rows }
}

fn fill(options: &VersusOptions, who: &str, gib: u64) -> Vec<String> {
    let rows = backlog_rows(options, gib).to_string();
    // The official client's pool would name its slot otherwise: rows there, the quicker chunks here.
    let how = if who == "ours" { "chunk" } else { "row" };
    job("fill", who, &[], &["--rows", &rows, "--how", how])
}

fn fill_log(options: &VersusOptions, who: &str) -> Vec<String> {
    let rows = backlog_rows(options, 1).to_string();
    job("log-fill", who, &[], &["--rows", &rows])
}

/// The backlogs that are kept: each client's, one of the official client for ours to open, and
/// logs.
pub(in crate::versus) fn backlogs(options: &VersusOptions) -> BTreeMap<&'static str, Vec<String>> {
    BTreeMap::from([
        ("ours", fill(options, "ours", 1)),
        ("official", fill(options, "official", 1)),
        ("foreign", fill(options, "official", 1)),
        ("ours 4", fill(options, "ours", 4)),
        ("foreign 4", fill(options, "official", 4)),
        ("file log", fill_log(options, "file")),
        ("fjall log", fill_log(options, "fjall")),
        ("okaywal log", fill_log(options, "okaywal")),
    ])
}

fn open(key: &'static str, who: &str, files: Files) -> Entry {
    Entry {
        files,
        ..entry(key, job("open", who, &[], &[]), None)
    }
}

fn raw_read(key: &'static str, name: &'static str) -> Entry {
    Entry {
        files: Files::Cold(name),
        ..entry(key, job("raw-read", "file", &[], &[]), None)
    }
}

pub(super) fn opens() -> Vec<Entry> {
    vec![
        open("open ours", "ours", Files::Cold("ours")),
        open("open official", "official", Files::Cold("official")),
        raw_read("open raw", "ours"),
        open("open foreign", "ours", Files::Warm("foreign")),
        open("open official warm", "official", Files::Warm("official")),
    ]
}

pub(super) fn large_opens() -> Vec<Entry> {
    vec![
        open("open4 ours", "ours", Files::Cold("ours 4")),
        raw_read("open4 raw", "ours 4"),
        // The same slot, theirs first: it leaves it as it was.
        open("open4 official warm", "official", Files::Warm("foreign 4")),
        open("open4 foreign", "ours", Files::Warm("foreign 4")),
    ]
}

pub(super) fn drains(options: &VersusOptions) -> Vec<Entry> {
    let drain = |key, who, files| Entry {
        files,
        makes_rows: false,
        ..entry(key, job("drain", who, &[], &[]), Some(USUAL))
    };
    let cold = |who| Files::Backlog(fill(options, who, 1));
    // What goes around the page cache is not in it: of the official client's both drain one.
    let cached = || Files::JustLeft(fill(options, "official", 1));
    vec![
        drain("drain ours", "ours", cold("ours")),
        drain("drain official", "official", cold("official")),
        drain("drain cached ours", "ours", cached()),
        drain("drain cached official", "official", cached()),
    ]
}

pub(super) fn outages() -> Vec<Entry> {
    let outage = |key, who| {
        let conf = "ws::addr={addr};sf_dir={dir};sender_id=versus;initial_connect_retry=async;\
                    close_flush_timeout_millis=0;sf_max_total_bytes=1g;sf_durability=periodic;\
                    sf_append_deadline_millis=3000;";
        let args = ["outage", "--who", who, "--conf", conf, "--dir", "{dir}"];
        entry(key, args.map(str::to_owned).to_vec(), None)
    };
    vec![
        outage("outage ours", "ours"),
        outage("outage official", "official"),
    ]
}

pub(super) fn full_disks() -> Vec<Entry> {
    let full = |key, who| {
        let conf = "ws::addr={server};sf_dir={dir};sender_id=versus;initial_connect_retry=async;\
                    close_flush_timeout_millis=0;sf_append_deadline_millis=1000;";
        let args = ["full", "--who", who, "--conf", conf, "--dir", "{disk}"];
        let full = entry(key, args.map(str::to_owned).to_vec(), Some(USUAL));
        on_disk(full, Kind::Small)
    };
    vec![full("full ours", "ours"), full("full official", "official")]
}

pub(super) fn logs(options: &VersusOptions, sync: bool) -> Vec<Entry> {
    let rows = if sync {
        options.rows / 10
    } else {
        options.rows * 2
    };
    let rows = rows.next_multiple_of(1_000).to_string();
    let (ours, file, fjall) = if sync {
        ("logs ours", "logs file", "logs fjall")
    } else {
        ("log ours", "log file", "log fjall")
    };
    let durability = if sync { "sf_durability=flush;" } else { "" };
    let mut more = vec!["--rows", rows.as_str()];
    if sync {
        more.push("--sync");
    }
    let log = |key, who| entry(key, job("log", who, &[LARGE, durability], &more), None);
    let mut entries = vec![log(ours, "ours"), log(file, "file")];
    if cfg!(feature = "logs") {
        entries.push(log(fjall, "fjall"));
        if sync {
            entries.push(log("logs okaywal", "okaywal"));
        }
    }
    entries
}

/// Cold; ours is the slot whose opening is measured beside the official client's, too.
pub(super) fn log_opens() -> Vec<Entry> {
    let log = |key, who, name| Entry {
        files: Files::Cold(name),
        ..entry(key, job("log-open", who, &[], &[]), None)
    };
    let mut entries = vec![
        open("logopen ours", "ours", Files::Cold("ours")),
        log("logopen file", "file", "file log"),
    ];
    if cfg!(feature = "logs") {
        entries.push(log("logopen fjall", "fjall", "fjall log"));
        entries.push(log("logopen okaywal", "okaywal", "okaywal log"));
    }
    entries
}
