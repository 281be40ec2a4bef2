//! What the design asks, line by line, and which figures answer it.

mod reasons;
mod table;

use super::results::Results;
use super::verdict::{Line, Pair, Target};
use table::{CLAIMS, SHORT};

/// A line of the table before it is measured.
struct Claim {
    name: &'static str,
    unit: &'static str,
    ours: &'static str,
    theirs: Option<&'static str>,
    figure: &'static str,
    target: Target,
}

/// The share of the raw loop that chunks have to move where that is less than twice the peer.
const RAW_SHARE: f64 = 0.9;

/// The lines that were measured, in order.
pub(super) fn lines(results: &Results) -> Vec<Line> {
    let lines = CLAIMS.iter().filter_map(|claim| line(claim, results));
    lines.collect()
}

/// Those of them that the README shows.
pub(super) fn short(lines: &[Line]) -> impl Iterator<Item = &Line> {
    let official = lines.iter().filter(|line| line.peer == OFFICIAL);
    official.filter(|line| SHORT.contains(&line.name.as_str()))
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
        reason: reasons::of(claim.name),
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

const OFFICIAL: &str = "questdb-rs 7.2.1";

/// Who stands behind a key.
fn peer(key: &str) -> &str {
    match key.rsplit(' ').next() {
        Some("official" | "warm") => OFFICIAL,
        Some("raw") => "raw loop",
        Some(other) => other,
        None => "-",
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command, FromArgMatches};

    use super::{CLAIMS, OFFICIAL, SHORT, lines, peer};
    use crate::versus::VersusOptions;
    use crate::versus::figures::Figures;
    use crate::versus::plan::bouts;
    use crate::versus::results::Results;
    use crate::versus::verdict::Target;

    #[test]
    fn every_line_is_answered_by_contenders_of_one_bout() {
        let command = VersusOptions::augment_args(Command::new("versus"));
        let usual = VersusOptions::from_arg_matches(&command.get_matches_from(["versus"]));
        let bouts = bouts(&usual.expect("every option has a default"));
        for claim in CLAIMS {
            let theirs = claim.theirs.unwrap_or(claim.ours);
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
    fn every_line_of_the_readme_is_one_of_the_table() {
        for name in SHORT {
            let found = CLAIMS.iter().filter(|claim| claim.name == *name);
            let mut theirs = found.filter_map(|claim| claim.theirs.map(peer));
            assert!(theirs.any(|peer| peer == OFFICIAL), "{name}");
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
