//! The rings of a running engine: made when a producer is, removed when what went through them is
//! written. Blocking: on the caller of `Engine::producer`, on the steward, at close.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::header::FileHeader;
use super::record::{Record, RingPlace};
use crate::error::Error;
use crate::io::{Fs, OpenMode};
use crate::router::gate::lock;
use crate::router::region::{FRONT_BYTES, Region};

/// A file is filled with zeros in pieces of this size.
const PIECE_BYTES: usize = 1 << 20;

/// The intake of one slot.
pub(crate) struct Store {
    fs: Box<dyn Fs>,
    slot: PathBuf,
    /// Where new rings go; `None` for the slot itself.
    dir: Option<PathBuf>,
    boot: String,
    state: Mutex<State>,
}

struct State {
    record: Record,
    next: u64,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Store({})", self.slot.display())
    }
}

/// A ring's file, to be removed when its last entry is written.
#[derive(Debug, Clone)]
pub(crate) struct RingFile {
    store: Arc<Store>,
    number: u64,
}

impl RingFile {
    /// Removes the file.
    pub(crate) fn remove(&self) -> Result<(), Error> {
        self.store.remove(&[self.number])
    }

    /// Removes the files of rings of one intake.
    pub(crate) fn remove_all(files: &[Self]) -> Result<(), Error> {
        let Some(first) = files.first() else {
            return Ok(());
        };
        let numbers: Vec<u64> = files.iter().map(|file| file.number).collect();
        first.store.remove(&numbers)
    }
}

impl Store {
    /// The intake of `slot` with the rings in `record`; new ones get numbers from `next` on.
    pub(crate) fn new(
        fs: impl Fs + 'static,
        slot: &Path,
        dir: Option<&Path>,
        record: Record,
        next: u64,
    ) -> Self {
        let boot = fs.machine().boot;
        Self {
            fs: Box::new(fs),
            slot: slot.to_path_buf(),
            dir: dir.map(Path::to_path_buf),
            boot,
            state: Mutex::new(State { record, next }),
        }
    }

    /// The handle of a ring that is there.
    pub(crate) fn ring(self: &Arc<Self>, number: u64) -> RingFile {
        RingFile {
            store: Arc::clone(self),
            number,
        }
    }

    /// Makes a ring of `capacity` bytes for `shard`: blocks reserved and written, pages in memory.
    pub(crate) fn create(
        self: &Arc<Self>,
        shard: u32,
        capacity: usize,
    ) -> Result<(Region, RingFile), Error> {
        let mut state = lock(&self.state);
        let number = state.next;
        let place = RingPlace {
            number,
            capacity: capacity as u64,
            dir: self.dir.clone(),
        };
        let path = place.path(&self.slot, &state.record.id);
        let header = FileHeader {
            shard,
            number,
            capacity: capacity as u64,
            id: state.record.id,
            boot: self.boot.clone(),
        };
        let region = self.make(&path, &header).map_err(|source| {
            // Whatever was made holds nothing.
            let _ = self.fs.unlink(&path);
            Error::disk("create", &path, 0, source)
        })?;
        state.next += 1;
        state.record.rings.push(place);
        if let Err(source) = state.record.write(&*self.fs, &self.slot) {
            state.record.rings.pop();
            let _ = self.fs.unlink(&path);
            return Err(Error::disk("write .intake-id in", &self.slot, 0, source));
        }
        Ok((region, self.ring(number)))
    }

    fn make(&self, path: &Path, header: &FileHeader) -> std::io::Result<Region> {
        let bytes = FRONT_BYTES as u64 + header.capacity;
        self.fs
            .create_reserved(path, bytes, &header.to_bytes(), None)?;
        let file = self.fs.open(path, OpenMode::ReadWrite)?;
        // A page of a block that was written is made writable without a journal transaction; one
        // of a block that is merely reserved is not.
        let zeros = vec![0; PIECE_BYTES];
        let mut at = FRONT_BYTES as u64;
        while at < bytes {
            let piece = usize::try_from(bytes - at).map_or(PIECE_BYTES, |n| n.min(PIECE_BYTES));
            self.fs.write_at(&file, &zeros[..piece], at)?;
            at += piece as u64;
        }
        self.fs.sync(&file)?;
        let memory = self
            .fs
            .map(&file, FRONT_BYTES + zeros_len(header.capacity))?;
        memory.populate();
        Ok(Region::shared(memory))
    }

    fn remove(&self, numbers: &[u64]) -> Result<(), Error> {
        let mut state = lock(&self.state);
        let (gone, left): (Vec<_>, Vec<_>) = std::mem::take(&mut state.record.rings)
            .into_iter()
            .partition(|ring| numbers.contains(&ring.number));
        state.record.rings = left;
        if gone.is_empty() {
            return Ok(());
        }
        // Struck off first: a ring that is there and not listed holds nothing that is missed.
        let struck = state.record.write(&*self.fs, &self.slot);
        struck.map_err(|source| Error::disk("write .intake-id in", &self.slot, 0, source))?;
        for place in gone {
            let path = place.path(&self.slot, &state.record.id);
            match self.fs.unlink(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::disk("unlink", &path, 0, error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn zeros_len(capacity: u64) -> usize {
    usize::try_from(capacity).expect("it came from usize")
}
