//! Figures of one run side by side, for people and as JSON.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

/// Whether a ratio must be low or high.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target {
    /// Ours over the yardstick, at most.
    AtMost(f64),
    /// Ours over the yardstick, at least.
    AtLeast(f64),
    /// Shown only.
    Shown,
}

/// Least, median and most.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spread {
    least: f64,
    median: f64,
    most: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        Self {
            least: at(0),
            median: at(values.len() / 2),
            most: at(values.len().saturating_sub(1)),
        }
    }

    fn to_json(self) -> Value {
        json!({"min": self.least, "median": self.median, "max": self.most})
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(2);
        let Self {
            least,
            median,
            most,
        } = self;
        write!(f, "{least:.digits$} / {median:.digits$} / {most:.digits$}")
    }
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
        let of = |value: fn(&(f64, f64)) -> f64| Spread::of(self.pairs.iter().map(value).collect());
        [of(|p| p.0), of(|p| p.1), of(|p| p.1 / p.0)]
    }

    /// Whether the median of the ratios is as it should be.
    pub(super) fn holds(&self) -> bool {
        let [_, _, ratio] = self.spreads();
        match self.target {
            Target::AtMost(limit) => ratio.median <= limit,
            Target::AtLeast(limit) => ratio.median >= limit,
            Target::Shown => true,
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let [raw, ours, ratio] = self.spreads().map(Spread::to_json);
        let target = match self.target {
            Target::AtMost(limit) => json!({"at_most": limit}),
            Target::AtLeast(limit) => json!({"at_least": limit}),
            Target::Shown => Value::Null,
        };
        let (name, unit, holds) = (self.name, self.unit, self.holds());
        json!({
            "name": name, "unit": unit, "yardstick": raw, "ours": ours, "ratio": ratio,
            "target": target, "holds": holds,
        })
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [raw, ours, ratio] = self.spreads();
        let (target, holds) = match (self.target, self.holds()) {
            (Target::AtMost(limit), holds) => (format!(", at most {limit}"), holds),
            (Target::AtLeast(limit), holds) => (format!(", at least {limit}"), holds),
            (Target::Shown, holds) => (String::new(), holds),
        };
        let missed = if holds { "" } else { ": MISSED" };
        write!(
            f,
            "{:56} {} yardstick {raw:.1}, ours {ours:.1}; ratio {ratio:.2}{target}{missed}",
            self.name, self.unit
        )
    }
}

/// The value below which `share` of the times lie, in microseconds.
pub(super) fn quantile_micros(times: &mut [u64], share: f64) -> f64 {
    times.sort_unstable();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index below the length"
    )]
    let index = (float(times.len() as u64) * share) as usize;
    let last = times.len().saturating_sub(1);
    times
        .get(index.min(last))
        .map_or(f64::NAN, |ns| float(*ns) / 1e3)
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub(super) fn float(value: u64) -> f64 {
    value as f64
}

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
