//! Figures for people.

use std::time::Duration;

/// Least, median and most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) least: f64,
    pub(crate) median: f64,
    pub(crate) most: f64,
}

impl Spread {
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        Self {
            least: at(0),
            median: at(values.len() / 2),
            most: at(values.len().saturating_sub(1)),
        }
    }

    /// Least / median / most, with so many digits behind the point.
    pub(crate) fn text(self, digits: usize) -> String {
        let Self {
            least,
            median,
            most,
        } = self;
        format!("{least:.digits$} / {median:.digits$} / {most:.digits$}")
    }

    /// The same in a form that is given.
    pub(crate) fn with(self, text: fn(f64) -> String) -> String {
        let Self {
            least,
            median,
            most,
        } = self;
        format!("{} / {} / {}", text(least), text(median), text(most))
    }
}

pub(crate) fn ratio_text(value: f64) -> String {
    if value < 0.1 {
        format!("{value:.3}")
    } else {
        format!("{value:.2}")
    }
}

/// Three digits or so.
pub(crate) fn number_text(value: f64) -> String {
    match value.abs() {
        size if size >= 1e6 => format!("{:.2} M", value / 1e6),
        size if size >= 1e4 => format!("{:.1} k", value / 1e3),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub(crate) fn float(value: u64) -> f64 {
    value as f64
}

pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
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
