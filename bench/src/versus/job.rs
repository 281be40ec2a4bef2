//! One measurement, in a process of its own: its CPU time and peak memory are its own.

use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use forebay_loadgen::feed::Way;
use forebay_loadgen::quotes::Quotes;
use forebay_loadgen::usage::Usage;
use questdb::QuestDb;

use super::allocated;
use super::contender::{Contender, Load, drive};
use super::figures::Figures;
use super::full;
use super::idle;
use super::logs;
use super::many::Crowd;
use super::neighbour;
use super::official::{Columns, Rows};
use super::ours::Ours;
use super::outage;
use super::raw;
use crate::limits::figures::float;

/// What to measure.
#[derive(Debug, Clone, Args)]
pub struct Job {
    #[arg(value_enum)]
    what: What,
    #[arg(long, value_enum, default_value_t = Who::Ours)]
    who: Who,
    /// How rows get in.
    #[arg(long, value_name = "row|prepared|chunk", default_value = "row")]
    how: Way,
    /// Connect string.
    #[arg(long, default_value = "")]
    conf: String,
    #[arg(long, default_value_t = 1000)]
    batch: u64,
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// Rows before the clock starts, where there is no rate.
    #[arg(long, default_value_t = 20_000)]
    warm_rows: u64,
    /// Batches a second.
    #[arg(long)]
    rate: Option<f64>,
    /// Flush every batch instead of publishing it (ours; the official client always does).
    #[arg(long)]
    flush: bool,
    /// Threads that produce.
    #[arg(long, default_value_t = 1)]
    producers: u64,
    /// Measure what a turn of an idle shard costs as well (ours).
    #[arg(long)]
    idle: bool,
    /// Sync every append (local logs).
    #[arg(long)]
    sync: bool,
    /// Where files go.
    #[arg(long, default_value = ".")]
    dir: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Batches to a server, to acked.
    Flow,
    /// Leave a backlog, without a server.
    Fill,
    /// Open a slot with a backlog.
    Open,
    /// Open it and deliver it.
    Drain,
    /// Batches without a server until they are refused.
    Outage,
    /// Batches onto a disk without room.
    Full,
    /// Open what that left, on the disk that has no room, and deliver it.
    Reopen,
    /// Requests for memory by frame, without kernel and network.
    Allocations,
    /// Writes and syncs through the page cache until it is killed.
    Neighbour,
    /// Leave a local log of so many rows.
    LogFill,
    /// Open it and read what is in it.
    LogOpen,
    /// Direct writes of as many bytes as the rows have.
    RawWrite,
    /// Direct reads of all files in the directory.
    RawRead,
    /// Appends of batches to a local log.
    Log,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Who {
    Ours,
    Official,
    /// A file that is appended to.
    File,
    Okaywal,
    Fjall,
}

/// When the first row is stamped.
pub(super) const FIRST_NS: i64 = 1_750_000_000_000_000_000;
const DRAIN_LIMIT: Duration = Duration::from_mins(2);

impl Job {
    /// Measures and answers a line of JSON.
    pub fn run(&self) -> Result<String, Box<dyn Error>> {
        let mut figures = match self.what {
            What::Flow => self.flow()?,
            What::Fill => self.fill()?,
            What::Open => self.open()?,
            What::Drain => self.drain()?,
            What::Outage => {
                self.with(|contender| outage::measure(contender, self.batch, &self.dir))?
            }
            What::Full => self.with(|contender| full::send(contender, self.batch, &self.dir))?,
            What::Reopen => full::reopen(self.who, &self.conf)?,
            What::Allocations => allocated::measure(self.how, self.batch)?,
            What::Neighbour => {
                neighbour::run(&self.dir)?;
                Figures::default()
            }
            What::LogFill => logs::fill(self.who, &self.dir, self.load())?,
            What::LogOpen => logs::open(self.who, &self.dir)?,
            What::RawWrite => raw::write(&self.dir, self.rows)?,
            What::RawRead => raw::read(&self.dir)?,
            What::Log => logs::measure(self.who, &self.dir, self.load(), self.sync, &self.conf)?,
        };
        figures.set("peak_mib", float(Usage::now().peak_rss_kib) / 1024.0);
        Ok(figures.to_json().to_string())
    }

    fn load(&self) -> Load {
        Load {
            batch: self.batch,
            rows: self.rows,
            warm_rows: self.warm_rows,
            rate: self.rate,
        }
    }

    fn with<T>(
        &self,
        f: impl FnOnce(&mut dyn Contender) -> Result<T, Box<dyn Error>>,
    ) -> Result<T, Box<dyn Error>> {
        let quotes = Quotes::new(FIRST_NS);
        if self.who == Who::Ours {
            let ours = Ours::connect(&self.conf, &quotes, self.how, self.flush);
            return f(&mut ours?);
        }
        if self.how == Way::Chunk {
            let db = QuestDb::connect(&self.conf)?;
            return f(&mut Columns::connect(&db, &quotes)?);
        }
        f(&mut Rows::connect(&self.conf, &quotes)?)
    }

    fn flow(&self) -> Result<Figures, Box<dyn Error>> {
        let load = self.load();
        if self.producers > 1 {
            let crowd = Crowd {
                producers: self.producers,
                batch: self.batch,
                rows: self.rows,
                warm_rows: self.warm_rows,
            };
            return match self.who {
                Who::Ours => crowd.ours(&self.conf, self.how),
                _ => crowd.official(&self.conf),
            };
        }
        let quotes = Quotes::new(FIRST_NS);
        if self.who != Who::Ours {
            return self.with(|contender| drive(contender, load));
        }
        let mut ours = Ours::connect(&self.conf, &quotes, self.how, self.flush)?;
        let turns = ours.stats();
        let mut figures = drive(&mut ours, load)?;
        let turns = idle::Turns::between(&turns, &ours.stats());
        ours.close()?;
        if self.idle {
            turns.tell(&self.conf, load.rows, &mut figures)?;
        }
        Ok(figures)
    }

    /// Everything is in files when this returns, synced or not.
    fn fill(&self) -> Result<Figures, Box<dyn Error>> {
        let (batch, rows) = (self.batch, self.rows);
        self.with(|contender| {
            let mut row = 0;
            while row < rows {
                contender.fill(row..row + batch)?;
                contender.hand_over(row..row + batch)?;
                row += batch;
            }
            Ok(Figures::default())
        })
    }

    fn open(&self) -> Result<Figures, Box<dyn Error>> {
        let quotes = Quotes::new(FIRST_NS);
        let start = Instant::now();
        let opened = if self.who == Who::Ours {
            let ours = Ours::connect(&self.conf, &quotes, self.how, false)?;
            let opened = start.elapsed();
            ours.close()?;
            opened
        } else {
            let rows = Rows::connect(&self.conf, &quotes)?;
            let opened = start.elapsed();
            drop(rows);
            opened
        };
        let mut figures = Figures::default();
        figures.set("open_ms", opened.as_secs_f64() * 1e3);
        Ok(figures)
    }

    /// `seconds` from the start, `after_open_seconds` from when the client could be used.
    fn drain(&self) -> Result<Figures, Box<dyn Error>> {
        let start = Instant::now();
        self.with(|contender| {
            let opened = start.elapsed();
            contender.wait_acked(DRAIN_LIMIT)?;
            let drained = start.elapsed();
            let mut figures = Figures::default();
            figures.set("seconds", drained.as_secs_f64());
            figures.set(
                "after_open_seconds",
                drained.as_secs_f64() - opened.as_secs_f64(),
            );
            Ok(figures)
        })
    }
}
