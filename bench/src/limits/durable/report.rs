//! Figures of one run side by side, for people and as JSON.

use std::fmt;

use crate::limits::figures::Spread;
use crate::limits::json::JsonRow;

/// Whether a ratio must be low or high.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target {
    /// Ours over the yardstick, at most.
    AtMost(f64),
    /// Ours over the yardstick, at least.
    AtLeast(f64),
}

/// One quantity, by the yardstick and by the engine, alternately.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    /// Of the two values.
    pub(super) unit: &'static str,
    pub(super) target: Target,
    pub(super) pairs: Vec<(f64, f64)>,
}

impl Row {
    fn spreads(&self) -> [Spread; 3] {
        let of = |value: fn(&(f64, f64)) -> f64| Spread::of(self.pairs.iter().map(value));
        [of(|p| p.0), of(|p| p.1), of(|p| p.1 / p.0)]
    }

    /// Whether the median of the ratios is as it should be.
    pub(super) fn holds(&self) -> bool {
        let [_, _, ratio] = self.spreads();
        match self.target {
            Target::AtMost(limit) => ratio.median <= limit,
            Target::AtLeast(limit) => ratio.median >= limit,
        }
    }

    pub(super) fn to_json(&self) -> JsonRow {
        let [raw, ours, spread] = self.spreads();
        JsonRow {
            name: self.name.to_owned(),
            unit: self.unit,
            spread,
            is_ratio: true,
            target: Some(match self.target {
                Target::AtMost(limit) => (limit, "ratio_at_most"),
                Target::AtLeast(limit) => (limit, "ratio_at_least"),
            }),
            met: Some(self.holds()),
            of: Some([ours, raw]),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [raw, ours, ratio] = self.spreads();
        let (raw, ours, ratio) = (raw.text(1), ours.text(1), ratio.text(2));
        let (target, holds) = match (self.target, self.holds()) {
            (Target::AtMost(limit), holds) => (format!(", at most {limit}"), holds),
            (Target::AtLeast(limit), holds) => (format!(", at least {limit}"), holds),
        };
        let missed = if holds { "" } else { ": MISSED" };
        write!(
            f,
            "{:56} {} yardstick {raw}, ours {ours}; ratio {ratio}{target}{missed}",
            self.name, self.unit
        )
    }
}
