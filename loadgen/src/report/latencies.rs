//! A distribution of latencies, as the report shows it.

use std::time::Duration;

use forebay::LatencyHistogram;
use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::{grouped, ratio};

/// Three significant digits, from 1 ns to an hour; longer ones are counted apart.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// A distribution of latencies in nanoseconds.
#[derive(Debug, Clone)]
pub struct Latencies {
    /// All of them; those above the range at its end.
    counts: Histogram<u64>,
    /// How many lie above the range.
    over: u64,
    /// The longest, exact.
    max_ns: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        let counts = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3)
            .expect("1 <= low, low * 2 <= high and 0..=5 digits are the only conditions");
        Self {
            counts,
            over: 0,
            max_ns: 0,
        }
    }
}

impl Latencies {
    /// What the engine counted, in buckets of its own.
    pub fn from_engine(engine: &LatencyHistogram) -> Self {
        let mut latencies = Self::default();
        for (value_ns, count) in engine.iter() {
            latencies.record_n(value_ns, count);
        }
        latencies
    }

    /// Adds one.
    pub fn record(&mut self, latency: Duration) {
        self.record_n(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX), 1);
    }

    fn record_n(&mut self, ns: u64, count: u64) {
        if count == 0 {
            return;
        }
        self.counts
            .saturating_record_n(ns.min(LATENCY_NS_MAX), count);
        if ns > LATENCY_NS_MAX {
            self.over += count;
        }
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds all of `other`.
    pub fn add(&mut self, other: &Self) {
        self.counts
            .add(&other.counts)
            .expect("both have the same bounds");
        self.over += other.over;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Takes away what was counted before, all of which is in here. The longest is then known to
    /// three digits only.
    pub fn subtract(&mut self, before: &Self) {
        if before.is_empty() {
            return;
        }
        // Fails only for counts that are not in here, and then leaves both in: never too few.
        let _ = self.counts.subtract(&before.counts);
        self.over -= before.over.min(self.over);
        if self.over == 0 {
            self.max_ns = self.counts.max();
        }
    }

    /// The counts, for logs and pictures.
    pub(super) fn counts(&self) -> &Histogram<u64> {
        &self.counts
    }

    /// From counts that were read back.
    pub(super) fn from_counts(read: &Histogram<u64>) -> Result<Self, hdrhistogram::AdditionError> {
        let mut latencies = Self::default();
        latencies.counts.add(read)?;
        latencies.max_ns = latencies.counts.max();
        Ok(latencies)
    }

    /// The value below which `percent` of 100 lie, in nanoseconds; the longest of all where that
    /// place is above the range.
    pub fn at(&self, percent: f64) -> u64 {
        match self.counts.value_at_percentile(percent) {
            value if value >= LATENCY_NS_MAX => self.max_ns,
            // Values are known to a thousandth: never say more than was measured.
            value => value.min(self.max_ns),
        }
    }

    /// Count, those above the range, percentiles and maximum; null where nothing was counted.
    pub(super) fn json(&self) -> Value {
        if self.counts.is_empty() {
            return json!({
                "count": 0, "over": 0, "p50": null, "p99": null, "p999": null,
                "p9999": null, "max": null,
            });
        }
        json!({
            "count": self.counts.len(),
            "over": self.over,
            "p50": self.at(50.0),
            "p99": self.at(99.0),
            "p999": self.at(99.9),
            "p9999": self.at(99.99),
            "max": self.max_ns,
        })
    }

    /// A row of the table, with times in microseconds.
    pub(super) fn cells(&self, name: &str) -> Vec<String> {
        let count = match (grouped(self.counts.len()), self.over) {
            (count, 0) => count,
            (count, over) => format!("{count} ({} above 1 h)", grouped(over)),
        };
        let mut cells = vec![name.to_owned(), count];
        if self.counts.is_empty() {
            cells.extend(["-", "-", "-", "-", "-"].map(str::to_owned));
        } else {
            let shares = [50.0, 99.0, 99.9, 99.99].map(|percent| self.at(percent));
            let values = shares.into_iter().chain([self.max_ns]);
            cells.extend(values.map(micros));
        }
        cells
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }
}

fn micros(ns: u64) -> String {
    format!("{:.1} us", ratio(ns, 1_000))
}
