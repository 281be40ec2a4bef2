//! One file in a filesystem of this process: writes that carry the mark wait until they are let go.
//!
//! Marked are the bytes of test rows only, so a filesystem on a loop device over this file stays
//! usable (its metadata and journal go through) while the rows' own writes hang in the kernel.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyWrite, Request, WriteFlags,
};

/// Name of the file.
pub(crate) const NAME: &str = "disk";
/// A sector of nothing but this byte marks a write.
pub(crate) const MARK: u8 = b'x';
const SECTOR: usize = 512;
/// Largest write that the kernel hands over: small, so that one write of a process becomes many.
const WRITE_BYTES_MAX: u32 = 4096;
const IN_FLIGHT_MAX: u16 = 512;
const FILE: INodeNo = INodeNo(2);
const TTL: Duration = Duration::from_mins(1);

/// A write that the kernel waits for.
struct Held {
    offset: usize,
    bytes: Vec<u8>,
    reply: ReplyWrite,
}

#[derive(Default)]
struct State {
    image: Vec<u8>,
    holding: bool,
    held: VecDeque<Held>,
    landed: u64,
}

impl State {
    /// The bytes are in the file before anybody hears of it.
    fn land(&mut self, write: Held) {
        self.landed += 1;
        self.store(write.offset, &write.bytes, write.reply);
    }

    fn store(&mut self, offset: usize, bytes: &[u8], reply: ReplyWrite) {
        match self.image.get_mut(offset..offset + bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                reply.written(u32::try_from(bytes.len()).expect("at most WRITE_BYTES_MAX"));
            }
            None => reply.error(Errno::ENOSPC),
        }
    }
}

/// The file as the test holds it.
#[derive(Clone)]
pub(crate) struct SlowFile(Arc<Mutex<State>>);

impl SlowFile {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            image: vec![0; bytes],
            ..State::default()
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on marked writes wait.
    pub(crate) fn hold(&self) {
        self.state().holding = true;
    }

    /// Marked writes that wait.
    pub(crate) fn held(&self) -> usize {
        self.state().held.len()
    }

    /// Marked writes that waited and are in the file now.
    pub(crate) fn landed(&self) -> u64 {
        self.state().landed
    }

    /// Lets the write go that came last; false when none waits.
    pub(crate) fn release_one(&self) -> bool {
        let mut state = self.state();
        let write = state.held.pop_back();
        write.map(|write| state.land(write)).is_some()
    }

    /// No write waits any more.
    pub(crate) fn release_all(&self) {
        self.state().holding = false;
        while self.release_one() {}
    }

    fn attr(&self, ino: INodeNo) -> FileAttr {
        let (kind, perm, size) = match ino {
            FILE => (FileType::RegularFile, 0o600, self.state().image.len()),
            _ => (FileType::Directory, 0o700, 0),
        };
        FileAttr {
            ino,
            size: size as u64,
            blocks: (size / SECTOR) as u64,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: WRITE_BYTES_MAX,
            flags: 0,
        }
    }
}

fn is_marked(bytes: &[u8]) -> bool {
    let mut sectors = bytes.chunks_exact(SECTOR);
    sectors.any(|sector| sector.iter().all(|byte| *byte == MARK))
}

impl Filesystem for SlowFile {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let refused = |_| io::Error::other("the kernel refuses a parameter of the filesystem");
        config.set_max_write(WRITE_BYTES_MAX).map_err(refused)?;
        let in_flight = config.set_max_background(IN_FLIGHT_MAX);
        in_flight.map_err(|_| io::Error::other("the kernel allows too few requests in flight"))?;
        // Without it the loop device waits for each write before it starts the next.
        let missing = |_| io::Error::other("the kernel has no asynchronous direct I/O over FUSE");
        config
            .add_capabilities(InitFlags::FUSE_ASYNC_DIO)
            .map_err(missing)
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == NAME {
            reply.entry(&TTL, &self.attr(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &self.attr(ino));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let parallel = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), parallel);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let state = self.state();
        let start = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(state.image.len());
        let end = start.saturating_add(size as usize).min(state.image.len());
        reply.data(&state.image[start..end]);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut state = self.state();
        let offset = usize::try_from(offset).unwrap_or(usize::MAX / 2);
        if state.holding && is_marked(data) {
            state.held.push_back(Held {
                offset,
                bytes: data.to_vec(),
                reply,
            });
        } else {
            state.store(offset, data, reply);
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }
}
