//! `forebay-bench versus`: the same work done by this engine and by what a user might pick
//! instead, in one run, by turns.
//!
//! Every measurement has a process of its own, and so has its server, so that CPU time and memory
//! are those of one contender. In every second round they go in the opposite order. A line of the
//! table is the median of the ratios of the rounds, so what the machine does over minutes falls
//! out; lines that lose are printed like the others.
//!
//! | file | concept |
//! |---|---|
//! | `plan` | who does what in which bout |
//! | `claims` | what the design asks, and which figures answer it |
//! | `entry` | running one contender |
//! | `job` | what the child does |
//! | `contender` | driving one, closed or open loop |
//! | `ours`, `official`, `logs`, `raw` | the contenders |
//! | `outage` | how much is kept without a server |
//! | `server` | the sink in a process of its own |
//! | `figures`, `results` | numbers |
//! | `verdict` | a line of the table |
//! | `machine` | what it ran beside |

mod claims;
mod contender;
mod entry;
mod figures;
mod job;
mod logs;
mod machine;
mod official;
mod ours;
mod outage;
mod plan;
mod raw;
mod results;
mod server;
mod verdict;

use std::error::Error;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use serde_json::json;

pub use job::Job;

use entry::Place;
use machine::Busy;
use results::Results;

/// Options of `forebay-bench versus`.
#[derive(Debug, Clone)]
pub struct VersusOptions {
    /// Alternations; the median counts.
    pub rounds: usize,
    /// Only bouts whose name contains this.
    pub only: Option<String>,
    /// Rows of a throughput measurement of rows; chunks take 10/3 as many.
    pub rows: u64,
    /// Length of a latency measurement.
    pub seconds: f64,
    /// Where slots go (must be on a disk) instead of here.
    pub dir: Option<PathBuf>,
    /// Where to write the lines as JSON.
    pub json: Option<PathBuf>,
}

impl Default for VersusOptions {
    fn default() -> Self {
        Self {
            rounds: 5,
            only: None,
            rows: 6_000_000,
            seconds: 2.0,
            dir: None,
            json: None,
        }
    }
}

/// Runs everything; answers the table, and whether every target was met.
pub fn run(options: &VersusOptions) -> Result<(String, bool), Box<dyn Error>> {
    let machine = forebay_loadgen::machine::describe();
    let bouts = plan::bouts(options);
    if bouts.is_empty() {
        return Err("no bout has such a name".into());
    }
    let here = PathBuf::from(".");
    let mut place = Place::new(options.dir.as_ref().unwrap_or(&here), plan::backlogs())?;
    let (mut results, mut others) = (Results::default(), Vec::new());
    let begun = Instant::now();
    for round in 0..options.rounds {
        for bout in bouts.iter().filter(|bout| round == 0 || !bout.once) {
            eprintln!("round {} of {}: {}", round + 1, options.rounds, bout.name);
            let mut entries: Vec<_> = bout.entries.iter().collect();
            if round % 2 == 1 {
                entries.reverse();
            }
            for entry in entries {
                let busy = Busy::now();
                let figures = place.run(entry)?;
                others.push(busy.others());
                results.push(round, entry.key, figures);
            }
        }
    }
    others.sort_by(f64::total_cmp);
    let others = others.get(others.len() / 2).copied().unwrap_or(f64::NAN);
    let lines = claims::lines(&results);
    let mut said = format!(
        "{machine}; {} rounds in {:.0} s, others kept {others:.2} cores busy (median)\n\n{}\n",
        options.rounds,
        begun.elapsed().as_secs_f64(),
        verdict::HEAD
    );
    for line in &lines {
        writeln!(said, "{}", line.to_markdown())?;
    }
    let asked = lines.iter().filter_map(verdict::Line::met);
    let (met, missed): (Vec<bool>, Vec<bool>) = asked.partition(|met| *met);
    writeln!(said, "\n{} targets met, {} missed", met.len(), missed.len())?;
    if let Some(path) = &options.json {
        let report = json!({
            "machine": machine,
            "others_cores_busy": others,
            "rows": lines.iter().map(verdict::Line::to_json).collect::<Vec<_>>(),
            "measurements": results.to_json(),
        });
        std::fs::write(path, format!("{report:#}\n"))?;
    }
    Ok((said, missed.is_empty()))
}

/// The server of a measurement, in this process; ends when standard input does.
pub fn serve(ok_every: u64) -> Result<(), Box<dyn Error>> {
    server::serve(ok_every)
}
