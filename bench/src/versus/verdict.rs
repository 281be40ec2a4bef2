//! A line of the table: ours beside a yardstick, alternately, and what the design asks of it.

use serde_json::{Value, json};

use crate::limits::figures::{Spread, number_text, ratio_text};
use crate::limits::table::{met_text, target_text};

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Target {
    /// Nothing: for the reader.
    None,
    /// Ours over theirs.
    AtLeast(f64),
    /// Ours over theirs.
    AtMost(f64),
    /// Our own figure.
    OursAtLeast(f64),
    /// Our own figure.
    OursAtMost(f64),
}

impl Target {
    /// The limit and its kind, in the words of `--json`.
    fn asked(self) -> Option<(f64, &'static str)> {
        match self {
            Self::None => None,
            Self::AtLeast(limit) => Some((limit, "ratio_at_least")),
            Self::AtMost(limit) => Some((limit, "ratio_at_most")),
            Self::OursAtLeast(limit) => Some((limit, "ours_at_least")),
            Self::OursAtMost(limit) => Some((limit, "ours_at_most")),
        }
    }
}

/// Ours and theirs of one round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pair {
    pub(super) ours: f64,
    /// Nothing where the peer cannot do it.
    pub(super) theirs: Option<f64>,
}

/// One line.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) peer: String,
    pub(super) unit: &'static str,
    pub(super) target: Target,
    pub(super) pairs: Vec<Pair>,
    /// Why it may miss its target, where that is known.
    pub(super) reason: Option<&'static str>,
}

impl Line {
    fn ours(&self) -> Spread {
        Spread::of(self.pairs.iter().map(|pair| pair.ours))
    }

    fn theirs(&self) -> Option<Spread> {
        let theirs: Vec<f64> = self.pairs.iter().filter_map(|pair| pair.theirs).collect();
        (!theirs.is_empty()).then(|| Spread::of(theirs.into_iter()))
    }

    fn ratio(&self) -> Option<Spread> {
        let ratios = self.pairs.iter();
        let ratios = ratios.filter_map(|pair| Some(pair.ours / pair.theirs?));
        let ratios: Vec<f64> = ratios.collect();
        (!ratios.is_empty()).then(|| Spread::of(ratios.into_iter()))
    }

    /// Whether the median is as it should be; nothing where nothing is asked.
    pub(super) fn met(&self) -> Option<bool> {
        if self.pairs.is_empty() {
            return None;
        }
        match self.target {
            Target::None => None,
            Target::AtLeast(limit) => Some(self.ratio()?.median >= limit),
            Target::AtMost(limit) => Some(self.ratio()?.median <= limit),
            Target::OursAtLeast(limit) => Some(self.ours().median >= limit),
            Target::OursAtMost(limit) => Some(self.ours().median <= limit),
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let (target, kind) = self.target.asked().unzip();
        let spread = |spread: Spread| json!({"min": spread.least, "median": spread.median, "max": spread.most});
        let ratio = self.ratio();
        json!({
            "name": format!("{} / {}", self.name, self.peer),
            "ratio_median": ratio.map(|ratio| ratio.median),
            "min": ratio.map(|ratio| ratio.least),
            "max": ratio.map(|ratio| ratio.most),
            "target": target,
            "target_kind": kind,
            "met": self.met(),
            "unit": self.unit,
            "ours": spread(self.ours()),
            "theirs": self.theirs().map(spread),
            "rounds": self.pairs.len(),
            "reason": self.reason.filter(|_| self.met() == Some(false)),
        })
    }

    /// A row of the short table: medians alone; [`SHORT_HEAD`] is its head.
    pub(super) fn to_short_markdown(&self) -> String {
        let median = |spread: Option<Spread>, text: fn(f64) -> String| {
            spread.map_or_else(|| "-".to_owned(), |spread| text(spread.median))
        };
        let ours = number_text(self.ours().median);
        let theirs = median(self.theirs(), number_text);
        let ratio = match self.ratio() {
            Some(ratio) if !ratio.median.is_finite() => "-".to_owned(),
            ratio => median(ratio, ratio_text),
        };
        format!(
            "| {} | {} | {ours} | {theirs} | {ratio} |",
            self.name, self.unit
        )
    }

    /// What a line that misses its target adds below the table: by how much, and why.
    pub(super) fn to_complaint(&self) -> Option<String> {
        if self.met()? {
            return None;
        }
        let (measured, limit) = match self.target {
            Target::None => return None,
            Target::AtLeast(limit) | Target::AtMost(limit) => {
                (format!("{}x", ratio_text(self.ratio()?.median)), limit)
            }
            Target::OursAtLeast(limit) | Target::OursAtMost(limit) => {
                (number_text(self.ours().median), limit)
            }
        };
        let why = self.reason.unwrap_or("no profile of it yet");
        let Self {
            name, peer, unit, ..
        } = self;
        let limit = number_text(limit);
        Some(format!(
            "- {name} ({unit}, {peer}): {measured}, asked {limit}. {why}."
        ))
    }

    /// A row of a Markdown table; [`HEAD`] is its head.
    pub(super) fn to_markdown(&self) -> String {
        let dash = || "-".to_owned();
        let ratio = self
            .ratio()
            .map_or_else(dash, |ratio| ratio.with(ratio_text));
        let theirs = self
            .theirs()
            .map_or_else(dash, |theirs| theirs.with(number_text));
        let ours = self.ours().with(number_text);
        let (target, met) = (target_text(self.target.asked()), met_text(self.met()));
        format!(
            "| {} | {} | {} | {ours} | {theirs} | {ratio} | {target} | {met} |",
            self.name, self.unit, self.peer
        )
    }
}

/// Head of the short table.
pub(super) const SHORT_HEAD: &str = "\
| measure | unit | ours | questdb-rs 7.2.1 | ratio |
|---|---|---|---|---|";

/// Head of the Markdown table.
pub(super) const HEAD: &str = "\
| measure | unit | beside | ours min / median / max | theirs | ratio | target | met |
|---|---|---|---|---|---|---|---|";

#[cfg(test)]
mod tests {
    use super::{Line, Pair, Target};

    fn line(target: Target, pairs: &[(f64, Option<f64>)]) -> Line {
        let pair = |&(ours, theirs): &(f64, Option<f64>)| Pair { ours, theirs };
        Line {
            name: "rows".to_owned(),
            peer: "official".to_owned(),
            unit: "rows/s",
            target,
            pairs: pairs.iter().map(pair).collect(),
            reason: Some("the other is older"),
        }
    }

    #[test]
    fn the_median_of_the_ratios_decides_and_not_the_ratio_of_the_medians() {
        let pairs = [(10.0, Some(1.0)), (10.0, Some(10.0)), (30.0, Some(10.0))];
        assert_eq!(line(Target::AtLeast(3.0), &pairs).met(), Some(true));
        assert_eq!(line(Target::AtLeast(3.1), &pairs).met(), Some(false));
        assert_eq!(line(Target::AtMost(2.9), &pairs).met(), Some(false));
        let json = line(Target::AtLeast(3.0), &pairs).to_json();
        assert_eq!(
            (json["min"].as_f64(), json["max"].as_f64()),
            (Some(1.0), Some(10.0))
        );
        assert_eq!(json["ratio_median"].as_f64(), Some(3.0));
    }

    #[test]
    fn what_a_peer_cannot_do_has_no_ratio_and_is_judged_by_our_own_figure() {
        let pairs = [(5.0, None)];
        assert_eq!(line(Target::OursAtLeast(5.0), &pairs).met(), Some(true));
        assert_eq!(line(Target::OursAtMost(4.0), &pairs).met(), Some(false));
        assert_eq!(line(Target::AtLeast(1.0), &pairs).met(), None);
        assert_eq!(line(Target::None, &pairs).met(), None);
        assert!(
            line(Target::None, &pairs)
                .to_markdown()
                .contains("| - | - |")
        );
    }

    #[test]
    fn a_line_that_loses_says_so() {
        let lost = line(Target::AtLeast(2.0), &[(1.0, Some(1.0))]).to_markdown();
        assert!(lost.ends_with("| >= 2.00x | **no** |"), "{lost}");
        let short = line(Target::None, &[(2e6, Some(1e6))]).to_short_markdown();
        assert_eq!(short, "| rows | rows/s | 2.00 M | 1.00 M | 2.00 |");
        let lost = line(Target::AtLeast(2.0), &[(1.0, Some(1.0))]);
        let told = "- rows (rows/s, official): 1.00x, asked 2.00. the other is older.";
        assert_eq!(lost.to_complaint().as_deref(), Some(told));
        assert_eq!(lost.to_json()["reason"], "the other is older");
        let won = line(Target::AtLeast(2.0), &[(2.0, Some(1.0))]);
        assert_eq!(won.to_complaint(), None);
        assert!(won.to_json()["reason"].is_null());
    }
}
