//! `okaywal` and `fjall` as local logs.

use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use okaywal::{Configuration, Entry, EntryId, LogManager, SegmentReader, WriteAheadLog};

use super::Log;

/// As long as ours; its own default of 1 MiB is slower.
const SEGMENT_BYTES: u32 = 64 << 20;
/// Nothing is checkpointed, so that the whole log is there to be recovered.
const NEVER_BYTES: u64 = 1 << 40;

/// Counts what it is given back at the start.
#[derive(Debug, Default, Clone)]
struct Seen(Arc<AtomicU64>);

impl LogManager for Seen {
    fn recover(&mut self, entry: &mut Entry<'_>) -> io::Result<()> {
        let chunks = entry.read_all_chunks()?.unwrap_or_default();
        let bytes: usize = chunks.iter().map(Vec::len).sum();
        self.0.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(())
    }

    fn checkpoint_to(
        &mut self,
        _: EntryId,
        _: &mut SegmentReader,
        _: &WriteAheadLog,
    ) -> io::Result<()> {
        Ok(())
    }
}

/// Every entry is synced when it is committed, so it has the synced measurement alone.
pub(super) struct Okaywal(WriteAheadLog);

impl Okaywal {
    pub(super) fn create(dir: &Path, sync: bool) -> Result<Self, Box<dyn Error>> {
        if !sync {
            return Err("okaywal has no append without a sync".into());
        }
        Ok(Self(Self::open(dir, Seen::default())?))
    }

    /// Bytes of all entries.
    pub(super) fn reopen(dir: &Path) -> Result<u64, Box<dyn Error>> {
        let seen = Seen::default();
        Self::open(dir, seen.clone())?.shutdown()?;
        Ok(seen.0.load(Ordering::Relaxed))
    }

    fn open(dir: &Path, manager: Seen) -> io::Result<WriteAheadLog> {
        Configuration::default_for(dir.join("okaywal"))
            .preallocate_bytes(SEGMENT_BYTES)
            .checkpoint_after_bytes(NEVER_BYTES)
            .buffer_bytes(64 << 10)
            .open(manager)
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

/// A keyspace with the number of the batch as key.
pub(super) struct Fjall {
    keyspace: Keyspace,
    database: Database,
    sync: bool,
}

impl Fjall {
    pub(super) fn create(dir: &Path, sync: bool) -> Result<Self, Box<dyn Error>> {
        let database = Database::builder(dir.join("fjall")).open()?;
        let keyspace = database.keyspace("batches", KeyspaceCreateOptions::default)?;
        Ok(Self {
            keyspace,
            database,
            sync,
        })
    }

    /// Bytes of all values.
    pub(super) fn reopen(dir: &Path) -> Result<u64, Box<dyn Error>> {
        let this = Self::create(dir, false)?;
        let mut bytes = 0;
        for each in this.keyspace.iter() {
            bytes += each.value()?.len() as u64;
        }
        Ok(bytes)
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
