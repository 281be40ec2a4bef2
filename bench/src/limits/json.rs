//! What `--json FILE` writes: one row for each line that is printed.

use std::path::Path;

use serde_json::{Value, json};

use super::figures::Spread;

/// One line.
#[derive(Debug)]
pub(super) struct JsonRow {
    pub(super) name: String,
    pub(super) unit: &'static str,
    /// Ours over the yardstick; with neither, what was measured.
    pub(super) spread: Spread,
    /// Whether `spread` is of ratios.
    pub(super) is_ratio: bool,
    /// `{"at_most": x}` or `{"at_least": x}`, if anything is asked for.
    pub(super) target: Option<Value>,
    /// Whether the median is as it should be.
    pub(super) met: Option<bool>,
    /// What else is known of it.
    pub(super) more: Value,
}

impl JsonRow {
    fn to_json(&self) -> Value {
        let Spread {
            least,
            median,
            most,
        } = self.spread;
        json!({
            "name": self.name,
            "unit": self.unit,
            "ratio_median": self.is_ratio.then_some(median),
            "median": median,
            "min": least,
            "max": most,
            "target": self.target,
            "met": self.met,
            "more": self.more,
        })
    }
}

/// Writes the rows of one run.
pub(super) fn write(path: &Path, kind: &str, rows: &[JsonRow]) -> std::io::Result<()> {
    let rows: Vec<_> = rows.iter().map(JsonRow::to_json).collect();
    let all = json!({"limits": kind, "rows": rows});
    std::fs::write(path, format!("{all:#}\n"))
}
