//! Who does what in which bout.

use std::collections::BTreeMap;

use super::VersusOptions;
use super::entry::{Entry, Files};
use super::raw::ROW_BYTES;

/// Contenders that take turns.
#[derive(Debug, Clone)]
pub(super) struct Bout {
    pub(super) name: &'static str,
    pub(super) entries: Vec<Entry>,
    /// In every round, or in the first alone: what does not vary.
    pub(super) once: bool,
}

/// An answer per message, and one per read.
const EACH: u64 = 1;
const COALESCED: u64 = 1 << 30;
/// As the genuine server.
const USUAL: u64 = 8;

/// Keys that both clients have: where, and no wait at the end.
const BOTH: &str = "sf_dir={dir};sender_id=versus;initial_connect_retry=async;\
                    close_flush_timeout_millis=0;sf_max_total_bytes=10g;";
/// Segments of 64 MiB: faster for both.
const LARGE: &str = "sf_max_segment_bytes=64m;";
const OFFICIAL_POOL: &str = "sender_pool_min=1;sender_pool_max=1;";
const TMPFS: &str = "intake=file;intake_dir={shm};";
const DISK_INTAKE: &str = "intake=file;";

fn job(what: &str, who: &str, keys: &[&str], more: &[&str]) -> Vec<String> {
    let conf = format!("ws::addr={{addr}};{BOTH}{}", keys.concat());
    let fixed = [what, "--who", who, "--conf", &conf, "--dir", "{dir}"];
    fixed
        .iter()
        .chain(more)
        .map(|arg| (*arg).to_owned())
        .collect()
}

fn entry(key: &'static str, args: Vec<String>, ok_every: Option<u64>) -> Entry {
    Entry {
        key,
        args,
        ok_every,
        files: Files::None,
    }
}

/// A closed loop to acked.
fn flow(key: &'static str, who: &str, how: &str, batch: u64, rows: u64, ok_every: u64) -> Entry {
    let rows = rows.next_multiple_of(batch);
    let pool = if who == "official" && how == "chunk" {
        OFFICIAL_POOL
    } else {
        ""
    };
    let (batch, rows) = (batch.to_string(), rows.to_string());
    let more = ["--how", how, "--batch", &batch, "--rows", &rows];
    entry(key, job("flow", who, &[LARGE, pool], &more), Some(ok_every))
}

/// An open loop of flushes.
fn paced(
    key: &'static str,
    who: &str,
    keys: &[&str],
    batch: u64,
    rate: u64,
    seconds: f64,
) -> Entry {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a number of rows of seconds"
    )]
    let rows = ((rate as f64 * seconds).ceil() as u64 * batch).to_string();
    let (batch, rate) = (batch.to_string(), rate.to_string());
    let mut more = vec!["--batch", &batch, "--rows", &rows, "--rate", &rate];
    if who == "ours" {
        more.push("--flush");
    }
    let keys: Vec<&str> = keys.iter().copied().chain([LARGE]).collect();
    entry(key, job("flow", who, &keys, &more), Some(USUAL))
}

/// All bouts, in their order.
pub(super) fn bouts(options: &VersusOptions) -> Vec<Bout> {
    let bout = |name, entries| Bout {
        name,
        entries,
        once: false,
    };
    let mut bouts = vec![
        bout("rows", rows(options)),
        bout("chunks of 1,000", chunks(options, 1_000)),
        bout("chunks of 10,000", chunks(options, 10_000)),
        bout("frames of one row, an OK each", frames(options, EACH)),
        bout(
            "frames of one row, OKs coalesced",
            frames(options, COALESCED),
        ),
        bout("flush of one row at 50,000/s", flushes(options)),
        bout("flush of one row at 100/s", rare(options)),
        bout("flush of 1,000 rows at 500/s", large_flushes(options)),
        bout("open a backlog", opens()),
        bout("drain a backlog", drains(options)),
        Bout {
            once: true,
            ..bout("outage", outages())
        },
        bout("local logs", logs(options, false)),
        bout("local logs, synced", logs(options, true)),
    ];
    if let Some(only) = &options.only {
        bouts.retain(|bout| bout.name.contains(only.as_str()));
    }
    bouts
}

fn rows(options: &VersusOptions) -> Vec<Entry> {
    let rows = options.rows;
    vec![
        flow("row ours", "ours", "row", 1000, rows, USUAL),
        flow("row official", "official", "row", 1000, rows, USUAL),
        flow("row prepared", "ours", "prepared", 1000, rows, USUAL),
    ]
}

fn chunks(options: &VersusOptions, batch: u64) -> Vec<Entry> {
    let rows = options.rows * 2;
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

fn frames(options: &VersusOptions, ok_every: u64) -> Vec<Entry> {
    let frames = options.rows / 4;
    let (ours, official) = if ok_every == EACH {
        ("frame ours", "frame official")
    } else {
        ("coalesced ours", "coalesced official")
    };
    vec![
        flow(ours, "ours", "row", 1, frames, ok_every),
        flow(official, "official", "row", 1, frames, ok_every),
    ]
}

fn flushes(options: &VersusOptions) -> Vec<Entry> {
    let paced = |key, who, keys: &[&str]| paced(key, who, keys, 1, 50_000, options.seconds);
    vec![
        paced("flush1 tmpfs", "ours", &[TMPFS]),
        paced("flush1 official", "official", &[]),
        paced("flush1 disk", "ours", &[DISK_INTAKE]),
    ]
}

fn rare(options: &VersusOptions) -> Vec<Entry> {
    let paced = |key, who, keys: &[&str]| paced(key, who, keys, 1, 100, options.seconds);
    vec![
        paced("rare tmpfs", "ours", &[TMPFS]),
        paced("rare official", "official", &[]),
    ]
}

fn large_flushes(options: &VersusOptions) -> Vec<Entry> {
    let seconds = options.seconds * 1.5;
    let paced = |key, who, keys: &[&str]| paced(key, who, keys, 1_000, 500, seconds);
    vec![
        paced("flush1000 ours", "ours", &[TMPFS]),
        paced("flush1000 official", "official", &[]),
    ]
}

/// Rows of a backlog of 1 GiB.
const BACKLOG_ROWS: u64 = (1 << 30) / ROW_BYTES / 1000 * 1000;

fn fill(who: &str) -> Vec<String> {
    let rows = BACKLOG_ROWS.to_string();
    let mut more = vec!["--rows", &rows];
    if who == "ours" {
        more.push("--flush");
    }
    job("fill", who, &[], &more)
}

/// The backlogs that are kept: each client's, and one of the official client for ours to open.
pub(super) fn backlogs() -> BTreeMap<&'static str, Vec<String>> {
    BTreeMap::from([
        ("ours", fill("ours")),
        ("official", fill("official")),
        ("foreign", fill("official")),
    ])
}

fn opens() -> Vec<Entry> {
    let open = |key, who, files| Entry {
        files,
        ..entry(key, job("open", who, &[], &[]), None)
    };
    vec![
        open("open ours", "ours", Files::Cold("ours")),
        open("open official", "official", Files::Cold("official")),
        Entry {
            files: Files::Cold("ours"),
            ..entry("open raw", job("raw-read", "file", &[], &[]), None)
        },
        open("open foreign", "ours", Files::Warm("foreign")),
        open("open official warm", "official", Files::Warm("official")),
    ]
}

fn drains(_: &VersusOptions) -> Vec<Entry> {
    let drain = |key, who| Entry {
        files: Files::Backlog(fill(who)),
        ..entry(key, job("drain", who, &[], &[]), Some(USUAL))
    };
    vec![
        drain("drain ours", "ours"),
        drain("drain official", "official"),
    ]
}

fn outages() -> Vec<Entry> {
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

fn logs(options: &VersusOptions, sync: bool) -> Vec<Entry> {
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
