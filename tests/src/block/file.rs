//! The filesystem: one file, whose bytes are a [`Backing`].

use std::ffi::OsStr;
use std::io;
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyWrite, Request, WriteFlags,
};

use super::Backing;

/// Name of the file.
pub const NAME: &str = "disk";
const SECTOR: usize = 512;
const IN_FLIGHT_MAX: u16 = 512;
const FILE: INodeNo = INodeNo(2);
const TTL: Duration = Duration::from_mins(1);

/// The filesystem.
#[derive(Debug)]
pub(super) struct OneFile<B>(pub(super) B);

impl<B: Backing> OneFile<B> {
    fn attr(&self, ino: INodeNo) -> FileAttr {
        let (kind, perm, size) = match ino {
            FILE => (FileType::RegularFile, 0o600, self.0.bytes()),
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
            blksize: 4096,
            flags: 0,
        }
    }
}

impl<B: Backing> Filesystem for OneFile<B> {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let refused = |_| io::Error::other("the kernel refuses a parameter of the filesystem");
        config.set_max_write(B::WRITE_BYTES_MAX).map_err(refused)?;
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
        match self.0.read(index(offset), size as usize) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
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
        self.0.write(index(offset), data, reply);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.0.flush(reply);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }
}

/// An offset as an index; what no file holds lies behind the end.
fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX / 2)
}
