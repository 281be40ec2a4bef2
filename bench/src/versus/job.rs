//! One measurement, in a process of its own: its CPU time and peak memory are its own.

use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use forebay_loadgen::usage::Usage;
use questdb::QuestDb;

use super::contender::{Contender, How, Load, drive};
use super::figures::Figures;
use super::logs;
use super::official::{Columns, Rows};
use super::ours::Ours;
use super::outage;
use super::raw;
use super::work::Work;
use crate::limits::figures::float;

/// What to measure.
#[derive(Debug, Clone, Args)]
pub struct Job {
    #[arg(value_enum)]
    what: What,
    #[arg(long, value_enum, default_value_t = Who::Ours)]
    who: Who,
    #[arg(long, value_enum, default_value_t = How::Row)]
    how: How,
    /// Connect string.
    #[arg(long, default_value = "")]
    conf: String,
    #[arg(long, default_value_t = 1000)]
    batch: u64,
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// Batches a second.
    #[arg(long)]
    rate: Option<f64>,
    /// Flush every batch instead of publishing it (ours; the official client always does).
    #[arg(long)]
    flush: bool,
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
                self.with(|contender, work| outage::measure(contender, work, &self.dir))?
            }
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
            rate: self.rate,
        }
    }

    fn with<T>(
        &self,
        f: impl FnOnce(&mut dyn Contender, &Work) -> Result<T, Box<dyn Error>>,
    ) -> Result<T, Box<dyn Error>> {
        let work = Work::new(usize::try_from(self.batch)?);
        if self.who == Who::Ours {
            return f(&mut Ours::connect(&self.conf, self.how, self.flush)?, &work);
        }
        if self.how == How::Chunk {
            let db = QuestDb::connect(&self.conf)?;
            return f(&mut Columns::connect(&db, &work)?, &work);
        }
        f(&mut Rows::connect(&self.conf)?, &work)
    }

    fn flow(&self) -> Result<Figures, Box<dyn Error>> {
        let load = self.load();
        self.with(|contender, work| drive(contender, work, load))
    }

    /// Everything is in files when this returns, synced or not.
    fn fill(&self) -> Result<Figures, Box<dyn Error>> {
        let (batch, rows) = (self.batch, self.rows);
        self.with(|contender, work| {
            let mut row = 0;
            while row < rows {
                contender.fill(work, row)?;
                contender.hand_over(work, row)?;
                row += batch;
            }
            Ok(Figures::default())
        })
    }

    fn open(&self) -> Result<Figures, Box<dyn Error>> {
        let start = Instant::now();
        let opened = if self.who == Who::Ours {
            let ours = Ours::connect(&self.conf, self.how, false)?;
            let opened = start.elapsed();
            ours.close()?;
            opened
        } else {
            let rows = Rows::connect(&self.conf)?;
            let opened = start.elapsed();
            drop(rows);
            opened
        };
        let mut figures = Figures::default();
        figures.set("open_ms", opened.as_secs_f64() * 1e3);
        Ok(figures)
    }

    fn drain(&self) -> Result<Figures, Box<dyn Error>> {
        let start = Instant::now();
        let figures = self.with(|contender, _| {
            contender.wait_acked(DRAIN_LIMIT)?;
            let mut figures = Figures::default();
            figures.set("seconds", start.elapsed().as_secs_f64());
            Ok(figures)
        })?;
        Ok(figures)
    }
}
