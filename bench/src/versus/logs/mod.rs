//! Local logs that a user might pick instead: append batches, synced or not, nothing delivered.
//!
//! A batch is as long as [`ROW_BYTES`] a row. Our side encodes its rows as well, the others get
//! bytes. Without syncs each counts what survives the death of the process, with them what
//! survives the loss of power. Recovery is what a process does before it can append again and
//! has seen every entry that the one before it left.

#[cfg(feature = "logs")]
mod foreign;

use std::error::Error;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use forebay_loadgen::feed::Way;
use forebay_loadgen::quotes::Quotes;
use forebay_loadgen::usage::process_cpu;
use hdrhistogram::Histogram;

use super::contender::{Contender, Load};
use super::figures::Figures;
use super::job::{FIRST_NS, Who};
use super::ours::Ours;
use super::raw::ROW_BYTES;
use crate::limits::figures::{float, nanos};

const LIMIT: Duration = Duration::from_mins(1);

/// A log that is appended to.
trait Log {
    fn append(&mut self, number: u64, batch: &[u8]) -> Result<(), Box<dyn Error>>;
    /// Waits until everything survives the death of the process.
    fn finish(&mut self) -> Result<(), Box<dyn Error>> {
        Ok(())
    }
}

/// Appends the load, timed.
pub(super) fn measure(
    who: Who,
    dir: &Path,
    load: Load,
    sync: bool,
    conf: &str,
) -> Result<Figures, Box<dyn Error>> {
    let quotes = Quotes::new(FIRST_NS);
    let mut log: Box<dyn Log + '_> = if who == Who::Ours {
        Box::new(Forebay {
            ours: Ours::connect(conf, &quotes, Way::Prepared, sync)?,
            batch: load.batch,
        })
    } else {
        foreign(who, dir, sync)?
    };
    let batch = vec![0x5a; usize::try_from(load.batch * ROW_BYTES)?];
    let mut times = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3)?;
    let (begun, before) = (Instant::now(), process_cpu());
    for number in 0..load.rows / load.batch {
        let called = Instant::now();
        log.append(number, &batch)?;
        times.saturating_record(nanos(called.elapsed()).max(1));
    }
    log.finish()?;
    let seconds = begun.elapsed().as_secs_f64();
    let cpu = nanos(process_cpu().saturating_sub(before));
    let mut figures = Figures::default();
    figures.set("rows_s", float(load.rows) / seconds);
    figures.set("whole_ns_row", float(cpu) / float(load.rows));
    figures.set("append_p50_us", float(times.value_at_quantile(0.5)) / 1e3);
    figures.set("append_p99_us", float(times.value_at_quantile(0.99)) / 1e3);
    Ok(figures)
}

/// Leaves a log of the load.
pub(super) fn fill(who: Who, dir: &Path, load: Load) -> Result<Figures, Box<dyn Error>> {
    // okaywal has no other append than a synced one.
    let mut log = foreign(who, dir, who == Who::Okaywal)?;
    let batch = vec![0x5a; usize::try_from(load.batch * ROW_BYTES)?];
    for number in 0..load.rows / load.batch {
        log.append(number, &batch)?;
    }
    log.finish()?;
    Ok(Figures::default())
}

/// Opens it and sees every entry.
pub(super) fn open(who: Who, dir: &Path) -> Result<Figures, Box<dyn Error>> {
    let begun = Instant::now();
    let bytes = match who {
        Who::File => read(&dir.join("log"))?,
        #[cfg(feature = "logs")]
        Who::Okaywal => foreign::Okaywal::reopen(dir)?,
        #[cfg(feature = "logs")]
        Who::Fjall => foreign::Fjall::reopen(dir)?,
        other => return Err(format!("{other:?} is no log, or needs the feature `logs`").into()),
    };
    let mut figures = Figures::default();
    figures.set("open_ms", begun.elapsed().as_secs_f64() * 1e3);
    figures.set("mib", float(bytes) / float(1 << 20));
    Ok(figures)
}

fn foreign(who: Who, dir: &Path, sync: bool) -> Result<Box<dyn Log>, Box<dyn Error>> {
    Ok(match who {
        Who::File => Box::new(Plain {
            file: File::create_new(dir.join("log"))?,
            sync,
        }),
        #[cfg(feature = "logs")]
        Who::Okaywal => Box::new(foreign::Okaywal::create(dir, sync)?),
        #[cfg(feature = "logs")]
        Who::Fjall => Box::new(foreign::Fjall::create(dir, sync)?),
        other => return Err(format!("{other:?} is no log, or needs the feature `logs`").into()),
    })
}

struct Forebay<'a> {
    ours: Ours<'a>,
    batch: u64,
}

impl Log for Forebay<'_> {
    fn append(&mut self, number: u64, _: &[u8]) -> Result<(), Box<dyn Error>> {
        let first = number * self.batch;
        self.ours.fill(first..first + self.batch)?;
        self.ours.hand_over(first..first + self.batch)
    }

    fn finish(&mut self) -> Result<(), Box<dyn Error>> {
        Ok(self.ours.wait_written(LIMIT)?)
    }
}

/// `write`, and `fdatasync` where syncs are asked for.
struct Plain {
    file: File,
    sync: bool,
}

impl Log for Plain {
    fn append(&mut self, _: u64, batch: &[u8]) -> Result<(), Box<dyn Error>> {
        self.file.write_all(batch)?;
        if self.sync {
            self.file.sync_data()?;
        }
        Ok(())
    }
}

/// Reads the plain file through a buffer and checksums it, as whoever recovers it would.
fn read(path: &Path) -> Result<u64, Box<dyn Error>> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 1 << 20];
    let (mut bytes, mut crc) = (0, 0);
    loop {
        let got = file.read(&mut buffer)?;
        if got == 0 {
            break;
        }
        crc = crc32c::crc32c_append(crc, &buffer[..got]);
        bytes += got as u64;
    }
    std::hint::black_box(crc);
    Ok(bytes)
}
