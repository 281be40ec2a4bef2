//! What the design asks, line by line, and which figures answer it.

use super::results::Results;
use super::verdict::{Line, Pair, Target};

/// A line of the table before it is measured.
struct Claim {
    name: &'static str,
    unit: &'static str,
    ours: &'static str,
    theirs: Option<&'static str>,
    figure: &'static str,
    target: Target,
}

const fn claim(
    name: &'static str,
    unit: &'static str,
    [ours, theirs]: [&'static str; 2],
    figure: &'static str,
    target: Target,
) -> Claim {
    Claim {
        name,
        unit,
        ours,
        theirs: Some(theirs),
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
const THOUSAND: [&str; 2] = ["flush1000 ours", "flush1000 official"];

const THIRD: Target = Target::AtMost(1.0 / 3.0);
const HALF: Target = Target::AtMost(0.5);

#[rustfmt::skip]
const CLAIMS: &[Claim] = &[
    claim("to acked, rows by name, batch 1,000", "rows/s", ROW, "rows_s", Target::AtLeast(2.5)),
    claim("to acked, prepared rows, batch 1,000", "rows/s", PREPARED, "rows_s", Target::None),
    claim("CPU of the producer, rows by name", "ns/row", ROW, "producer_ns_row", THIRD),
    claim("CPU of the producer, prepared rows", "ns/row", PREPARED, "producer_ns_row", Target::None),
    claim("CPU of the I/O threads, rows by name", "ns/row", ROW, "io_ns_row", Target::None),
    claim("CPU in all, rows by name", "ns/row", ROW, "whole_ns_row", HALF),
    claim("CPU in all, prepared rows", "ns/row", PREPARED, "whole_ns_row", Target::None),
    claim("context switches a batch, rows by name", "count", ROW, "switches_batch", Target::None),
    claim("bytes a row on the wire", "bytes", ROW, "bytes_row", Target::None),
    claim("to acked, chunks of 1,000", "rows/s", CHUNK, "rows_s", Target::AtLeast(2.0)),
    claim("to acked, chunks of 1,000 (raw writes)", "rows/s", ["chunk ours", "chunk raw"], "rows_s", Target::None),
    claim("CPU of the producer, chunks of 1,000", "ns/row", CHUNK, "producer_ns_row", THIRD),
    claim("CPU of the I/O threads, chunks of 1,000", "ns/row", CHUNK, "io_ns_row", Target::None),
    claim("CPU in all, chunks of 1,000", "ns/row", CHUNK, "whole_ns_row", HALF),
    claim("to acked, chunks of 10,000", "rows/s", CHUNK10, "rows_s", Target::AtLeast(2.0)),
    claim("to acked, chunks of 10,000 (raw writes)", "rows/s", ["chunk10 ours", "chunk10 raw"], "rows_s", Target::None),
    claim("frames of one row, an OK each", "frames/s", EACH, "rows_s", Target::AtLeast(2.5)),
    claim("frames of one row, OKs coalesced", "frames/s", COALESCED, "rows_s", Target::AtLeast(1.5)),
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
    claim("flush of 1,000 rows at 500/s, p50", "us", THOUSAND, "flush_p50_us", THIRD),
    claim("flush of 1,000 rows at 500/s, p99", "us", THOUSAND, "flush_p99_us", THIRD),
    claim("flush of 1,000 rows at 500/s, p99.9", "us", THOUSAND, "flush_p999_us", THIRD),
    claim("building and flushing 1,000 rows at 500/s, p50", "us", THOUSAND, "response_p50_us", Target::None),
    claim("building and flushing 1,000 rows at 500/s, p99", "us", THOUSAND, "response_p99_us", Target::None),
    claim("open 1 GiB, cold", "ms", ["open ours", "open official"], "open_ms", Target::None),
    claim("open 1 GiB, cold (raw direct read)", "ms", ["open ours", "open raw"], "open_ms", Target::AtMost(1.25)),
    claim("open 1 GiB that the official client left, warm", "ms", ["open foreign", "open official warm"], "open_ms", Target::AtMost(1.0)),
    claim("peak memory of opening 1 GiB", "MiB", ["open ours", "open official"], "peak_mib", Target::OursAtMost(128.0)),
    claim("open and drain 1 GiB", "GB/s", ["drain ours", "drain official"], "gb_s", Target::OursAtLeast(2.0)),
    claim("peak memory of draining 1 GiB", "MiB", ["drain ours", "drain official"], "peak_mib", Target::None),
    claim("kept in an outage, `periodic`, cap 1 GiB", "MiB", ["outage ours", "outage official"], "stored_mib", Target::OursAtLeast(900.0)),
    claim("local log, batches of 1,000 (file, page cache)", "rows/s", ["log ours", "log file"], "rows_s", Target::None),
    claim("local log, batches of 1,000 (fjall)", "rows/s", ["log ours", "log fjall"], "rows_s", Target::None),
    claim("append of a batch, p99 (file, page cache)", "us", ["log ours", "log file"], "append_p99_us", Target::None),
    claim("append of a batch, p99 (fjall)", "us", ["log ours", "log fjall"], "append_p99_us", Target::None),
    claim("synced append of a batch, p50 (file, fdatasync)", "us", ["logs ours", "logs file"], "append_p50_us", Target::None),
    claim("synced append of a batch, p50 (fjall)", "us", ["logs ours", "logs fjall"], "append_p50_us", Target::None),
    claim("synced append of a batch, p50 (okaywal)", "us", ["logs ours", "logs okaywal"], "append_p50_us", Target::None),
];

/// The share of the raw loop that chunks have to move where that is less than twice the peer.
const RAW_SHARE: f64 = 0.9;

/// The lines that were measured, in order.
pub(super) fn lines(results: &Results) -> Vec<Line> {
    let lines = CLAIMS.iter().filter_map(|claim| line(claim, results));
    lines.collect()
}

fn line(claim: &Claim, results: &Results) -> Option<Line> {
    let pairs = results.pairs(claim.ours, claim.theirs, claim.figure);
    if pairs.is_empty() || claim.theirs.is_some() && pairs.iter().all(|pair| pair.theirs.is_none())
    {
        return None;
    }
    let target = match (claim.figure, claim.theirs) {
        ("rows_s", Some("chunk official")) => {
            lower(claim.target, results, "chunk raw", "chunk official")
        }
        ("rows_s", Some("chunk10 official")) => {
            lower(claim.target, results, "chunk10 raw", "chunk10 official")
        }
        _ => claim.target,
    };
    Some(Line {
        name: claim.name.to_owned(),
        peer: peer(claim.theirs.unwrap_or_default()).to_owned(),
        unit: claim.unit,
        target,
        pairs,
    })
}

/// The target, or what the raw loop moves, whichever is lower.
fn lower(target: Target, results: &Results, raw: &str, official: &str) -> Target {
    let Target::AtLeast(times) = target else {
        return target;
    };
    let ratios = results.pairs(raw, Some(official), "rows_s");
    let mut ratios: Vec<f64> = ratios
        .iter()
        .filter_map(|Pair { ours, theirs }| Some(RAW_SHARE * ours / (*theirs)?))
        .collect();
    ratios.sort_by(f64::total_cmp);
    let share = ratios.get(ratios.len() / 2).copied();
    Target::AtLeast(share.map_or(times, |share| share.min(times)))
}

/// Who stands behind a key.
fn peer(key: &str) -> &str {
    match key.rsplit(' ').next() {
        Some("official" | "warm") => "questdb-rs 7.2.1",
        Some("raw") => "raw loop",
        Some(other) => other,
        None => key,
    }
}

#[cfg(test)]
mod tests {
    use super::{CLAIMS, lines};
    use crate::versus::VersusOptions;
    use crate::versus::figures::Figures;
    use crate::versus::plan::bouts;
    use crate::versus::results::Results;
    use crate::versus::verdict::Target;

    #[test]
    fn every_line_is_answered_by_contenders_of_one_bout() {
        let bouts = bouts(&VersusOptions::default());
        for claim in CLAIMS {
            let theirs = claim.theirs.expect("every line has a peer");
            if theirs.contains("fjall") || theirs.contains("okaywal") {
                continue; // Only with the feature.
            }
            let together = bouts.iter().any(|bout| {
                let has = |key| bout.entries.iter().any(|entry| entry.key == key);
                has(claim.ours) && has(theirs)
            });
            assert!(together, "{}: {} and {theirs}", claim.name, claim.ours);
        }
    }

    #[test]
    fn names_are_unique_with_their_peer() {
        let mut names: Vec<_> = CLAIMS
            .iter()
            .map(|claim| (claim.name, claim.theirs))
            .collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn chunks_need_not_outrun_the_disk() {
        let mut results = Results::default();
        for (key, rate) in [
            ("chunk ours", 15.0),
            ("chunk official", 10.0),
            ("chunk raw", 16.0),
        ] {
            let mut figures = Figures::default();
            figures.set("rows_s", rate);
            results.push(0, key, figures);
        }
        let lines = lines(&results);
        let line = lines
            .iter()
            .find(|line| line.peer.starts_with("questdb"))
            .expect("measured");
        assert_eq!(line.target, Target::AtLeast(0.9 * 16.0 / 10.0));
        assert_eq!(line.met(), Some(true));
    }
}
