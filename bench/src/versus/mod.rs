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
//! | `many` | several producers at once |
//! | `outage`, `full` | what a sender does without a server, and without room |
//! | `disk`, `neighbour` | disks of a measurement's own, and who else writes to one |
//! | `rings` | what the size of an intake ring does |
//! | `allocated` | requests for memory by a frame |
//! | `idle` | what a spinning shard's idle turns cost |
//! | `server` | the sink in a process of its own |
//! | `figures`, `results` | numbers |
//! | `verdict` | a line of the table |

mod allocated;
mod claims;
mod contender;
mod disk;
mod entry;
mod figures;
mod full;
mod idle;
mod job;
mod logs;
mod many;
mod neighbour;
mod official;
mod ours;
mod outage;
mod plan;
mod raw;
mod results;
pub mod rings;
mod server;
mod verdict;

use std::error::Error;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use serde_json::json;

pub use disk::OnDisk;
pub use job::Job;
pub use server::Seat;

use entry::Place;
use plan::Bout;
use results::Results;

use crate::busy::Busy;

/// Options of `forebay-bench versus`.
#[derive(Debug, Clone, Args)]
pub struct VersusOptions {
    /// Alternations; the median counts.
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Only bouts whose name contains this.
    #[arg(long)]
    pub only: Option<String>,
    /// Rows of a throughput measurement; chunks take 10/3 as many.
    #[arg(long, default_value_t = 6_000_000)]
    pub rows: u64,
    /// Length of a latency measurement.
    #[arg(long, default_value_t = 2.0)]
    pub seconds: f64,
    /// Shards of our engine in the bout of 8 producers.
    #[arg(long, default_value_t = 1)]
    pub shards: u64,
    /// One short round, for trying: a tenth of the rows and of the time, figures for nobody.
    #[arg(long, conflicts_with_all = ["rounds", "rows", "seconds"])]
    pub quick: bool,
    /// Core of the server, of either side: `spare` is the last, where a single shard of ours is, but
    /// the first while a backlog is delivered and nobody makes rows; `last`, `any`, or its number.
    #[arg(long, value_name = "CORE", default_value = "spare")]
    pub server_core: Seat,
    /// Where slots go (must be on a disk) instead of here.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Write the lines to this file as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

impl VersusOptions {
    /// What `quick` means for the others.
    fn resolved(&self) -> Self {
        let mut options = self.clone();
        if self.quick {
            options.rounds = 1;
            options.rows /= 10;
            options.seconds /= 5.0;
        }
        options
    }
}

/// Runs everything; answers the table, and whether every target was met.
pub fn run(options: &VersusOptions) -> Result<(String, bool), Box<dyn Error>> {
    let options = &options.resolved();
    let machine = forebay_loadgen::machine::describe();
    let bouts = plan::bouts(options);
    if bouts.is_empty() {
        return Err("no bout has such a name".into());
    }
    let (bouts, notes) = possible(bouts);
    let here = PathBuf::from(".");
    let mut place = Place::new(
        options.dir.as_ref().unwrap_or(&here),
        options.server_core,
        plan::backlogs(options),
    )?;
    let begun = Instant::now();
    let (results, others) = rounds(options, &bouts, &mut place)?;
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
    for told in lines.iter().filter_map(verdict::Line::to_complaint) {
        writeln!(said, "{told}")?;
    }
    for note in &notes {
        writeln!(said, "{note}")?;
    }
    let short: Vec<_> = claims::short(&lines).collect();
    if !short.is_empty() {
        writeln!(said, "\nIn short:\n\n{}", verdict::SHORT_HEAD)?;
        for line in short {
            writeln!(said, "{}", line.to_short_markdown())?;
        }
    }
    if let Some(path) = &options.json {
        let report = json!({
            "machine": machine,
            "others_cores_busy": others,
            "rows": lines.iter().map(verdict::Line::to_json).collect::<Vec<_>>(),
            "not_measured": notes,
            "measurements": results.to_json(),
        });
        std::fs::write(path, format!("{report:#}\n"))?;
    }
    Ok((said, missed.is_empty()))
}

/// The bouts that this machine can have, and a note for each of the others.
fn possible(bouts: Vec<Bout>) -> (Vec<Bout>, Vec<String>) {
    let (mut can, mut notes) = (Vec::new(), Vec::new());
    for bout in bouts {
        match bout.obstacle() {
            None => can.push(bout),
            Some(why) => notes.push(format!("not measured: {} ({why})", bout.name)),
        }
    }
    (can, notes)
}

/// Measures; answers how many cores others kept busy as well.
fn rounds(
    options: &VersusOptions,
    bouts: &[Bout],
    place: &mut Place,
) -> Result<(Results, f64), Box<dyn Error>> {
    // The first measurement of a run meets a cold program and a cold disk: it counts for nobody.
    if let Some(first) = bouts.first().and_then(|bout| bout.entries.first()) {
        place.run(first)?;
    }
    let (mut results, mut others) = (Results::default(), Vec::new());
    for round in 0..options.rounds {
        for bout in bouts.iter().filter(|bout| round < bout.rounds_max) {
            let begun = Instant::now();
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
            if bout.rounds_max == 1 {
                place.forget(&bout.entries)?;
            }
            let (round, seconds) = (round + 1, begun.elapsed().as_secs_f64());
            eprintln!(
                "round {round} of {}: {}, {seconds:.1} s",
                options.rounds, bout.name
            );
        }
    }
    others.sort_by(f64::total_cmp);
    let others = others.get(others.len() / 2).copied().unwrap_or(f64::NAN);
    Ok((results, others))
}

/// The server of a measurement, in this process; ends when standard input does.
pub fn serve(ok_every: u64, core: Option<usize>) -> Result<(), Box<dyn Error>> {
    server::serve(ok_every, core)
}
