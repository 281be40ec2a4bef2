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
    /// The limit and what it limits, as `versus` names it (`ratio_at_most`, `ours_at_most`, ...),
    /// if anything is asked for.
    pub(super) target: Option<(f64, &'static str)>,
    /// Whether the median is as it should be.
    pub(super) met: Option<bool>,
    /// What the ratio is of: ours and the yardstick.
    pub(super) of: Option<[Spread; 2]>,
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
            "target": self.target.map(|target| target.0),
            "target_kind": self.target.map(|target| target.1),
            "met": self.met,
            "ours": self.of.map(|of| spread(of[0])),
            "theirs": self.of.map(|of| spread(of[1])),
        })
    }
}

fn spread(spread: Spread) -> Value {
    json!({"min": spread.least, "median": spread.median, "max": spread.most})
}

/// Writes the rows of one run.
pub(super) fn write(path: &Path, kind: &str, rows: &[JsonRow]) -> std::io::Result<()> {
    let rows: Vec<_> = rows.iter().map(JsonRow::to_json).collect();
    let all = json!({"limits": kind, "rows": rows});
    std::fs::write(path, format!("{all:#}\n"))
}
