//! Local logs that a user might pick instead: append batches, synced or not, nothing delivered.
//!
//! A batch is as long as [`ROW_BYTES`] a row. Our side encodes its rows as well, the others get
//! bytes. Without syncs each counts what survives the death of the process, with them what
//! survives the loss of power.

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use forebay_loadgen::feed::Way;
use forebay_loadgen::quotes::Quotes;
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

pub(super) fn measure(
    who: Who,
    dir: &Path,
    load: Load,
    sync: bool,
    conf: &str,
) -> Result<Figures, Box<dyn Error>> {
    let quotes = Quotes::new(FIRST_NS);
    let mut log: Box<dyn Log + '_> = match who {
        Who::Ours => Box::new(Forebay {
            ours: Ours::connect(conf, &quotes, Way::Prepared, sync)?,
            batch: load.batch,
        }),
        Who::File => Box::new(Plain {
            file: File::create_new(dir.join("log"))?,
            sync,
        }),
        #[cfg(feature = "logs")]
        Who::Okaywal => Box::new(foreign::Okaywal::open(dir, sync)?),
        #[cfg(feature = "logs")]
        Who::Fjall => Box::new(foreign::Fjall::open(dir, sync)?),
        other => return Err(format!("{other:?} needs the feature `logs`").into()),
    };
    let batch = vec![0x5a; usize::try_from(load.batch * ROW_BYTES)?];
    let mut times = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3)?;
    let begun = Instant::now();
    for number in 0..load.rows / load.batch {
        let called = Instant::now();
        log.append(number, &batch)?;
        times.saturating_record(nanos(called.elapsed()).max(1));
    }
    log.finish()?;
    let seconds = begun.elapsed().as_secs_f64();
    let mut figures = Figures::default();
    figures.set("rows_s", float(load.rows) / seconds);
    figures.set("append_p50_us", float(times.value_at_quantile(0.5)) / 1e3);
    figures.set("append_p99_us", float(times.value_at_quantile(0.99)) / 1e3);
    Ok(figures)
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

#[cfg(feature = "logs")]
mod foreign {
    use std::error::Error;
    use std::path::Path;

    use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
    use okaywal::{LogVoid, WriteAheadLog};

    use super::Log;

    /// Every entry is synced when it is committed, so it has the synced measurement alone.
    pub(super) struct Okaywal(WriteAheadLog);

    impl Okaywal {
        pub(super) fn open(dir: &Path, sync: bool) -> Result<Self, Box<dyn Error>> {
            if !sync {
                return Err("okaywal has no append without a sync".into());
            }
            let dir = dir.join("okaywal");
            Ok(Self(WriteAheadLog::recover(dir, LogVoid)?))
        }
    }

    impl Log for Okaywal {
        fn append(&mut self, _: u64, batch: &[u8]) -> Result<(), Box<dyn Error>> {
            let mut entry = self.0.begin_entry()?;
            entry.write_chunk(batch)?;
            entry.commit()?;
            Ok(())
        }
    }

    pub(super) struct Fjall {
        keyspace: Keyspace,
        database: Database,
        sync: bool,
    }

    impl Fjall {
        pub(super) fn open(dir: &Path, sync: bool) -> Result<Self, Box<dyn Error>> {
            let database = Database::builder(dir.join("fjall")).open()?;
            let keyspace = database.keyspace("batches", KeyspaceCreateOptions::default)?;
            Ok(Self {
                keyspace,
                database,
                sync,
            })
        }
    }

    impl Log for Fjall {
        fn append(&mut self, number: u64, batch: &[u8]) -> Result<(), Box<dyn Error>> {
            self.keyspace.insert(number.to_be_bytes(), batch)?;
            let mode = if self.sync {
                PersistMode::SyncData
            } else {
                PersistMode::Buffer
            };
            Ok(self.database.persist(mode)?)
        }
    }
}
