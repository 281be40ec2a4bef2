//! `forebay-count`: instructions of the hot paths by callgrind, and the check against
//! `bench/budget.toml`.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use forebay_bench::count::budget::{Budget, TOLERANCE_PERCENT};
use forebay_bench::count::{self, callgrind};

#[derive(Debug, Parser)]
#[command(
    version,
    about = "Instructions of the hot paths, counted by callgrind (needs valgrind)"
)]
struct Cli {
    /// Exit with 1 if a figure is more than 3 % above its budget.
    #[arg(long)]
    check: bool,
    /// Write the figures into the budget.
    #[arg(long, conflicts_with = "check")]
    write: bool,
    /// The budget.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/budget.toml"))]
    budget: PathBuf,
    /// What is counted, without counting it.
    #[arg(long, hide = true)]
    bare: bool,
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let cli = Cli::parse();
    if cli.bare {
        count::run();
        return Ok(ExitCode::SUCCESS);
    }
    let figures = callgrind::count(&std::env::current_exe()?, "--bare")?;
    if cli.write {
        std::fs::write(&cli.budget, Budget::text(&figures))?;
    }
    let text = std::fs::read_to_string(&cli.budget)
        .map_err(|error| format!("{}: {error}", cli.budget.display()))?;
    let budget = Budget::parse(&text)?;
    println!(
        "{:<42} {:>12} {:>9} {:>7}",
        "", "instructions", "budget", "spread"
    );
    for figure in &figures {
        println!(
            "{:<42} {:>12.1} {:>9.1} {:>5.2} %  per {}",
            figure.name,
            figure.instructions,
            budget.of(figure.name).unwrap_or(0.0),
            figure.spread_percent,
            figure.unit,
        );
    }
    let complaints = budget.complaints(&figures);
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    if cli.check && !complaints.is_empty() {
        eprintln!(
            "the budget allows {TOLERANCE_PERCENT} % more; docs/performance.md says what to do"
        );
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}
