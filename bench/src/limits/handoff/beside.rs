//! Several producers beside one: the same rows in all, one after the other in every round.

use std::error::Error;
use std::path::Path;

use super::HandoffOptions;
use super::crowd::{Crowd, Journal};
use crate::limits::figures::Spread;
use crate::limits::json::JsonRow;

const BATCHES: [(&str, u64); 2] = [("1,000 rows", 1_000), ("a row", 1)];
const JOURNALS: [(&str, Journal); 2] = [("no files", Journal::Memory), ("files", Journal::Files)];
/// How many, their name, and how much of the rate of one they shall reach.
const CROWDS: [(u64, &str, Option<f64>); 3] =
    [(2, "two", Some(1.0)), (4, "four", None), (8, "eight", None)];
const STAGES: [&str; 2] = ["accepted", "acked"];

/// What is compared with one producer in the same rounds.
struct Form<'a> {
    options: &'a HandoffOptions,
    parent: &'a Path,
    batch: u64,
    journal: Journal,
}

/// Rates by round, for each number of producers; the first is one.
type Rounds = Vec<Vec<[f64; 2]>>;

/// The rows whose names contain `options.only`.
pub(super) fn rows(
    options: &HandoffOptions,
    parent: &Path,
) -> Result<Vec<JsonRow>, Box<dyn Error>> {
    let only = options.only.as_deref().unwrap_or_default();
    let mut rows = Vec::new();
    for (size, batch) in BATCHES {
        for (place, journal) in JOURNALS {
            let name = |many: &str, stage: &str| {
                format!("{many} producers over one, batches of {size}, {place}, {stage}")
            };
            let asked = |many: &str| STAGES.iter().any(|stage| name(many, stage).contains(only));
            let crowds: Vec<_> = CROWDS.iter().filter(|crowd| asked(crowd.1)).collect();
            if crowds.is_empty() {
                continue;
            }
            let form = Form {
                options,
                parent,
                batch,
                journal,
            };
            let counts: Vec<u64> = crowds.iter().map(|crowd| crowd.0).collect();
            let rounds = form.rounds(&counts)?;
            for (at, (_, many, target)) in crowds.into_iter().enumerate() {
                for (stage, stage_name) in STAGES.into_iter().enumerate() {
                    let name = name(many, stage_name);
                    if name.contains(only) {
                        rows.push(compared(name, &rounds, (at + 1, stage), *target));
                    }
                }
            }
        }
    }
    Ok(rows)
}

impl Form<'_> {
    /// One producer and each of these crowds in every round, the other way round in every second.
    fn rounds(&self, counts: &[u64]) -> Result<Rounds, Box<dyn Error>> {
        let there: Vec<u64> = [1].iter().chain(counts).copied().collect();
        let back: Vec<u64> = there.iter().rev().copied().collect();
        let turns: Vec<u64> = (0..self.options.turns)
            .flat_map(|round| if round % 2 == 0 { &there } else { &back })
            .copied()
            .collect();
        // A row in a batch of its own costs some ten times as much.
        let share = if self.batch == 1 { 10 } else { 1 };
        let crowd = Crowd {
            rows: self.options.rows / share,
            batch: self.batch,
            journal: self.journal,
            shards: self.options.shards,
        };
        let dir = tempfile::tempdir_in(self.parent)?;
        let rates = crowd.take(self.options.shard_core, dir.path(), &turns)?;
        let mut rounds: Rounds = rates.chunks(there.len()).map(<[_]>::to_vec).collect();
        rounds
            .iter_mut()
            .skip(1)
            .step_by(2)
            .for_each(|round| round.reverse());
        Ok(rounds)
    }
}

/// The row of the crowd and the stage at these places, over one producer.
fn compared(
    name: String,
    rounds: &Rounds,
    (crowd, stage): (usize, usize),
    target: Option<f64>,
) -> JsonRow {
    let of = |at: usize| Spread::of(rounds.iter().map(move |rates| rates[at][stage] / 1e6));
    let ratios = rounds
        .iter()
        .map(|rates| rates[crowd][stage] / rates[0][stage]);
    let spread = Spread::of(ratios);
    JsonRow {
        name,
        unit: "M rows/s",
        spread,
        is_ratio: true,
        target: target.map(|target| (target, "ratio_at_least")),
        met: target.map(|target| spread.median >= target),
        of: Some([of(crowd), of(0)]),
    }
}
