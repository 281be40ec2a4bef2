//! Opening that fails half-way leaves the slot free: field report `failed-open-leaks-lock`. Every
//! file call of opening fails once, and panics once; the slot opens at once afterwards.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::open_slot;
use crate::config::Config;
use crate::io::sys::RealFs;
use crate::io::{Entry, File, Fs, Machine, OpenMode};

/// The real files, until the call that fails.
struct Failing {
    calls: AtomicU64,
    fatal: u64,
    panics: bool,
}

impl Failing {
    fn step(&self) -> io::Result<()> {
        if self.calls.fetch_add(1, Ordering::Relaxed) != self.fatal {
            return Ok(());
        }
        assert!(!self.panics, "injected");
        Err(io::Error::from_raw_os_error(libc::EIO))
    }
}

impl Fs for Failing {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        RealFs.create_dir(path)
    }

    fn entries(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.step()?;
        RealFs.entries(dir)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<File> {
        self.step()?;
        RealFs.open(path, mode)
    }

    fn bytes(&self, file: &File) -> io::Result<u64> {
        self.step()?;
        RealFs.bytes(file)
    }

    fn read_at(&self, file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.step()?;
        RealFs.read_at(file, into, offset)
    }

    fn read_direct(&self, file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.step()?;
        RealFs.read_direct(file, into, offset)
    }

    fn is_cached(&self, file: &File, offset: u64) -> bool {
        RealFs.is_cached(file, offset)
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.step()?;
        RealFs.write_at(file, bytes, offset)
    }

    fn set_bytes(&self, file: &File, bytes: u64) -> io::Result<()> {
        self.step()?;
        RealFs.set_bytes(file, bytes)
    }

    fn allocate(&self, file: &File, bytes: u64) -> io::Result<()> {
        self.step()?;
        RealFs.allocate(file, bytes)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        RealFs.free_bytes(dir)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.step()?;
        RealFs.sync(file)
    }

    fn sync_filesystem(&self, dir: &Path) -> io::Result<()> {
        self.step()?;
        RealFs.sync_filesystem(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.step()?;
        RealFs.sync_dir(dir)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        RealFs.unlink(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        RealFs.rename(from, to)
    }

    fn try_lock(&self, file: &File) -> io::Result<bool> {
        self.step()?;
        RealFs.try_lock(file)
    }

    fn unlock(&self, file: &File) -> io::Result<()> {
        self.step()?;
        RealFs.unlock(file)
    }

    fn now(&self) -> u64 {
        RealFs.now()
    }

    fn sleep(&self, nanos: u64) {
        RealFs.sleep(nanos);
    }

    fn wall_micros(&self) -> u64 {
        RealFs.wall_micros()
    }

    fn pid(&self) -> u32 {
        RealFs.pid()
    }

    fn is_at(&self, file: &File, path: &Path) -> io::Result<bool> {
        self.step()?;
        RealFs.is_at(file, path)
    }

    fn machine(&self) -> Machine {
        RealFs.machine()
    }

    fn random(&self) -> u64 {
        RealFs.random()
    }
}

/// Lets call after call of one opening fail until an opening needs fewer; answers how many it needs.
fn every_step(config: &Config, panics: bool) -> u64 {
    for fatal in 0.. {
        let fs = Failing {
            calls: AtomicU64::new(0),
            fatal,
            panics,
        };
        // The result is what the slot looks like to whoever opens it next.
        let outcome = catch_unwind(AssertUnwindSafe(|| open_slot(&fs, config).map(drop)));
        let again = open_slot(&RealFs, config);
        assert!(
            again.is_ok(),
            "step {fatal}, panics: {panics}: {outcome:?}, then {:?}",
            again.err()
        );
        if fs.calls.load(Ordering::Relaxed) <= fatal {
            return fatal;
        }
    }
    unreachable!("an opening ends")
}

#[test]
fn failed_open_leaks_lock() {
    let dir = tempfile::tempdir().unwrap();
    let config = format!(
        "ws::addr=h;sf_dir={};sf_max_segment_bytes=64k;lock_retry_millis=0;",
        dir.path().join("sf").display()
    );
    let config = Config::parse(&config).unwrap();
    for panics in [false, true] {
        // A fresh slot first; each opening leaves one to be recovered by the next.
        let steps = every_step(&config, panics);
        assert!(steps > 20, "{steps}");
    }
}
