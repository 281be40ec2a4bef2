//! A distribution of latencies, as the report shows it.

use std::time::Duration;

use forebay::LatencyHistogram;
use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::{grouped, ratio};

/// Three significant digits, from 1 ns to 5 minutes; what is longer counts as 5 minutes.
const LATENCY_NS_MAX: u64 = 300_000_000_000;

/// A distribution of latencies in nanoseconds.
#[derive(Debug, Clone)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3)
            .expect("1 <= low, low * 2 <= high and 0..=5 digits are the only conditions");
        Self(histogram)
    }
}

impl Latencies {
    /// What the engine counted.
    pub fn from_engine(engine: &LatencyHistogram) -> Self {
        let mut latencies = Self::default();
        for (value_ns, count) in engine.iter() {
            latencies.0.saturating_record_n(value_ns, count);
        }
        latencies
    }

    /// Adds one.
    pub fn record(&mut self, latency: Duration) {
        self.0
            .saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(LATENCY_NS_MAX));
    }

    /// Adds all of `other`.
    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("both have the same bounds");
    }

    /// The value below which `percent` of 100 lie, in nanoseconds.
    fn at(&self, percent: f64) -> u64 {
        self.0.value_at_percentile(percent)
    }

    /// Count, percentiles and maximum; null where nothing was counted.
    pub(super) fn json(&self) -> Value {
        if self.0.is_empty() {
            return json!({"count": 0, "p50": null, "p99": null, "p999": null, "max": null});
        }
        json!({
            "count": self.0.len(),
            "p50": self.at(50.0),
            "p99": self.at(99.0),
            "p999": self.at(99.9),
            "max": self.0.max(),
        })
    }

    /// A row of the table, with times in microseconds.
    pub(super) fn cells(&self, name: &str) -> Vec<String> {
        let mut cells = vec![name.to_owned(), grouped(self.0.len())];
        if self.0.is_empty() {
            cells.extend(["-", "-", "-", "-"].map(str::to_owned));
        } else {
            let values = [self.at(50.0), self.at(99.0), self.at(99.9), self.0.max()];
            cells.extend(values.map(micros));
        }
        cells
    }
}

fn micros(ns: u64) -> String {
    format!("{:.1} us", ratio(ns, 1_000))
}
