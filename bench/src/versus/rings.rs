//! `forebay-bench rings`: what `intake_ring_bytes` buys and costs, the sizes by turns in one run.

use std::error::Error;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;

use super::entry::{Entry, Place};
use super::plan::{self, RingLoad};
use super::server::Seat;
use crate::limits::figures::Spread;

/// Options of `forebay-bench rings`.
#[derive(Debug, Clone, Args)]
pub struct RingsOptions {
    /// Alternations; the median counts.
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Sizes to compare, as the connect string takes them.
    #[arg(long, value_delimiter = ',', default_value = "1m,2m,4m,8m,16m")]
    pub sizes: Vec<String>,
    /// Rows of a throughput measurement.
    #[arg(long, default_value_t = 10_000_000)]
    pub rows: u64,
    /// Length of a latency measurement.
    #[arg(long, default_value_t = 2.0)]
    pub seconds: f64,
    /// Where slots go (must be on a disk) instead of here.
    #[arg(long)]
    pub dir: Option<PathBuf>,
}

/// A column: a load, and the figure of it that is shown.
struct Column {
    title: &'static str,
    load: RingLoad,
    figure: &'static str,
    /// The figure is divided by this.
    unit: f64,
}

const fn column(title: &'static str, load: RingLoad, figure: &'static str, unit: f64) -> Column {
    Column {
        title,
        load,
        figure,
        unit,
    }
}

#[rustfmt::skip]
const COLUMNS: &[Column] = &[
    column("chunks, M rows/s", RingLoad::Chunks, "rows_s", 1e6),
    column("I/O, ns/row", RingLoad::Chunks, "io_ns_row", 1.0),
    column("peak, MiB", RingLoad::Chunks, "peak_mib", 1.0),
    column("chunks, intake on tmpfs", RingLoad::ChunksTmpfs, "rows_s", 1e6),
    column("rows by name", RingLoad::Rows, "rows_s", 1e6),
    column("4 producers", RingLoad::Many, "rows_s", 1e6),
    column("flush of 1,000 p50, us", RingLoad::Flush, "flush_p50_us", 1.0),
    column("p99", RingLoad::Flush, "flush_p99_us", 1.0),
    column("p99.9", RingLoad::Flush, "flush_p999_us", 1.0),
    column("on tmpfs p50", RingLoad::FlushTmpfs, "flush_p50_us", 1.0),
    column("p99", RingLoad::FlushTmpfs, "flush_p99_us", 1.0),
];

const LOADS: [RingLoad; 6] = [
    RingLoad::Chunks,
    RingLoad::ChunksTmpfs,
    RingLoad::Rows,
    RingLoad::Many,
    RingLoad::Flush,
    RingLoad::FlushTmpfs,
];

/// Measures; answers the table.
pub fn run(options: &RingsOptions) -> Result<String, Box<dyn Error>> {
    let here = PathBuf::from(".");
    let dir = options.dir.as_ref().unwrap_or(&here);
    let mut place = Place::new(dir, Seat::Spare, std::collections::BTreeMap::new())?;
    let entry = |load, size: &str| plan::ring_load(load, size, options.rows, options.seconds);
    let mut measured = Vec::new();
    for round in 0..options.rounds {
        for load in LOADS {
            let mut sizes: Vec<_> = options.sizes.iter().collect();
            if round % 2 == 1 {
                sizes.reverse();
            }
            for size in sizes {
                let entry: Entry = entry(load, size);
                eprintln!("round {} of {}: {load:?} {size}", round + 1, options.rounds);
                measured.push((load, size.clone(), place.run(&entry)?));
            }
        }
    }
    let titles = COLUMNS.iter().map(|column| column.title);
    let titles: Vec<&str> = titles.collect();
    let mut table = format!(
        "| ring | {} |\n|---|{}\n",
        titles.join(" | "),
        "---|".repeat(titles.len())
    );
    for size in &options.sizes {
        write!(table, "| `{size}` |")?;
        for column in COLUMNS {
            let of = measured
                .iter()
                .filter(|(load, of, _)| *load == column.load && of == size);
            let values = of.filter_map(|(_, _, figures)| figures.get(column.figure));
            let spread = Spread::of(values.map(|value| value / column.unit));
            let digits = usize::from(spread.median < 100.0);
            write!(
                table,
                " {:.digits$} ({:.digits$}-{:.digits$}) |",
                spread.median, spread.least, spread.most
            )?;
        }
        table.push('\n');
    }
    Ok(table)
}
