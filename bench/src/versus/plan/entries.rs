//! Entries of bouts: arguments of jobs, and the settings that they share.

use crate::versus::entry::{Beside, Entry, Files};

/// An answer per message.
pub(super) const EACH: u64 = 1;
/// An answer per read.
pub(super) const COALESCED: u64 = 1 << 30;
/// As the genuine server.
pub(super) const USUAL: u64 = 8;

/// Keys that both clients have: where, and no wait at the end.
const BOTH: &str = "sf_dir={dir};sender_id=versus;initial_connect_retry=async;\
                    close_flush_timeout_millis=0;sf_max_total_bytes=10g;";
/// Segments of 64 MiB: faster for both.
pub(super) const LARGE: &str = "sf_max_segment_bytes=64m;";
const OFFICIAL_POOL: &str = "sender_pool_min=1;sender_pool_max=1;";
pub(super) const TMPFS: &str = "intake=file;intake_dir={shm};";
/// The shard never parks: for whom the tail is worth a core.
pub(super) const AWAKE: &str = "idle=spin;";
pub(super) const DISK_INTAKE: &str = "intake=file;";

pub(super) fn job(what: &str, who: &str, keys: &[&str], more: &[&str]) -> Vec<String> {
    let conf = format!("ws::addr={{addr}};{BOTH}{}", keys.concat());
    let fixed = [what, "--who", who, "--conf", &conf, "--dir", "{dir}"];
    fixed
        .iter()
        .chain(more)
        .map(|arg| (*arg).to_owned())
        .collect()
}

pub(super) fn entry(key: &'static str, args: Vec<String>, ok_every: Option<u64>) -> Entry {
    Entry {
        key,
        args,
        ok_every,
        files: Files::None,
        beside: Beside::Nothing,
        makes_rows: true,
    }
}

/// Rows of a closed loop that are sent before the clock starts: two segments and a half of 64 MiB, so
/// that memory and files which are used again have been met once. One-row frames take more than
/// twice as many bytes a row. A short run warms up in proportion.
pub(super) fn warm_rows(batch: u64, rows: u64) -> u64 {
    const MOST: u64 = 4_000_000;
    if batch == 1 {
        2 * rows
    } else {
        (rows * 2 / 3).min(MOST).next_multiple_of(batch)
    }
}

/// A closed loop to acked.
pub(super) fn flow(
    key: &'static str,
    who: &str,
    how: &str,
    batch: u64,
    rows: u64,
    ok_every: u64,
) -> Entry {
    let rows = rows.next_multiple_of(batch);
    let own = match (who, how) {
        ("official", "chunk") => OFFICIAL_POOL,
        _ => "",
    };
    let warm = warm_rows(batch, rows).to_string();
    let (batch, rows) = (batch.to_string(), rows.to_string());
    let mut more = vec!["--how", how, "--batch", &batch, "--rows", &rows];
    more.extend(["--warm-rows", &warm]);
    if who == "ours" {
        more.push("--idle");
    }
    entry(key, job("flow", who, &[LARGE, own], &more), Some(ok_every))
}

/// An open loop of flushes of `batch` rows, so many a second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paced {
    pub(super) batch: u64,
    pub(super) rate: u64,
    pub(super) seconds: f64,
}

impl Paced {
    pub(super) fn entry(self, key: &'static str, who: &str, keys: &[&str]) -> Entry {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a number of rows of seconds"
        )]
        let rows = ((self.rate as f64 * self.seconds).ceil() as u64 * self.batch).to_string();
        let (batch, rate) = (self.batch.to_string(), self.rate.to_string());
        let mut more = vec!["--batch", &batch, "--rows", &rows, "--rate", &rate];
        if who == "ours" {
            more.push("--flush");
        }
        let keys: Vec<&str> = keys.iter().copied().chain([LARGE]).collect();
        entry(key, job("flow", who, &keys, &more), Some(USUAL))
    }
}

/// With its slot on a disk of its own, below the directory of the measurement.
pub(super) fn on_disk(mut entry: Entry, kind: crate::versus::disk::Kind) -> Entry {
    for arg in &mut entry.args {
        *arg = arg.replace("sf_dir={dir};", "sf_dir={disk}/slots;");
    }
    entry.beside = Beside::Disk(kind);
    entry
}
