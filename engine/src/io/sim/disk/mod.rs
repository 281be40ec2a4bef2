//! The simulated disk: files and directories with what is durable and what is not, handles that
//! belong to one process, and the two kinds of crash.
//!
//! * Process death ([`SimDisk::kill`]): every completed write stays; of each write in flight any
//!   part may have arrived, in sectors of 512 bytes; locks are free and old handles dead.
//! * Power cut ([`SimDisk::power_cut`]): of everything that no fdatasync or directory sync covers,
//!   any part may be lost, sector by sector and entry by entry.

mod directory;
mod fs;
mod inode;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use self::fs::SimFs;

use self::directory::{Directory, Node};
use self::inode::Inode;
use super::clock::SimClock;
use super::random::Rng;
use crate::io::{BLOCK, File, FileOwner, OpenMode};

/// How much of a write in flight survives the death of its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Nothing of it.
    Nothing,
    /// Nothing, all, a prefix, or any sectors: chance decides.
    Random,
}

/// A write that was submitted and has not completed.
#[derive(Debug)]
pub(crate) struct Unfinished {
    /// The file.
    pub(crate) inode: usize,
    /// Where in the file.
    pub(crate) offset: u64,
    /// What is to be written.
    pub(crate) bytes: Vec<u8>,
}

#[derive(Debug, Default)]
struct State {
    inodes: Vec<Inode>,
    /// The first is the root. One that no name leads to any more is lost.
    directories: Vec<Directory>,
    handles: HashMap<i32, (usize, OpenMode)>,
    handles_made: i32,
    locks: HashMap<usize, i32>,
    incarnation: u64,
    /// Every call that changes something fails with this error.
    broken: Option<i32>,
}

/// The disk. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct SimDisk(Arc<Mutex<State>>);

/// Closes with the last clone of its [`File`].
struct Handle(SimDisk, i32);

impl FileOwner for Handle {
    fn raw(&self) -> i32 {
        self.1
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.handles.remove(&self.1);
        state.locks.retain(|_, holder| *holder != self.1);
    }
}

impl SimDisk {
    /// From now on every blocking call that changes something fails with `errno`, or none.
    #[cfg(test)]
    pub(crate) fn break_calls(&self, errno: Option<i32>) {
        self.state().broken = errno;
    }

    /// A disk with an empty root directory.
    pub(crate) fn new() -> Self {
        let state = State {
            directories: vec![Directory::default()],
            ..State::default()
        };
        Self(Arc::new(Mutex::new(state)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// File calls for the process that runs now.
    pub(crate) fn fs(&self, clock: &SimClock) -> SimFs {
        SimFs::new(self.clone(), clock.clone(), self.state().incarnation)
    }

    /// The file behind a handle, and whether it is open for direct I/O.
    pub(crate) fn inode(&self, file: &File) -> (usize, bool) {
        let (inode, mode) = self.state().handle(file);
        (inode, mode == OpenMode::Direct)
    }

    /// Number of the file's last completed change.
    pub(crate) fn last_change(&self, inode: usize) -> u64 {
        self.state().inodes[inode].last_change()
    }

    /// A write completed.
    pub(crate) fn write(&self, inode: usize, offset: u64, bytes: &[u8]) {
        self.state().inodes[inode].write(index(offset), bytes);
    }

    /// A write failed with some of it done.
    pub(crate) fn write_part(&self, write: &Unfinished, keep: Keep, rng: &mut Rng) {
        let inode = &mut self.state().inodes[write.inode];
        inode.write_part(index(write.offset), &write.bytes, keep, rng);
    }

    /// An fdatasync completed that was submitted after change `number`.
    pub(crate) fn sync(&self, inode: usize, number: u64) {
        self.state().inodes[inode].sync(number);
    }

    /// Reads up to `bytes`; fewer at the end of the file.
    pub(crate) fn read(&self, inode: usize, offset: u64, bytes: usize) -> Vec<u8> {
        let state = self.state();
        let rest = state.inodes[inode]
            .bytes()
            .get(index(offset)..)
            .unwrap_or_default();
        rest[..rest.len().min(bytes)].to_vec()
    }

    /// Names in a directory.
    pub(crate) fn names(&self, dir: &Path) -> Vec<String> {
        let state = self.state();
        let directory = state.find(dir).map(|number| &state.directories[number]);
        let entries = directory.into_iter().flat_map(Directory::entries);
        entries.map(|(name, _)| name.clone()).collect()
    }

    /// Names and contents of the files in a directory.
    pub(crate) fn files(&self, dir: &Path) -> BTreeMap<String, Vec<u8>> {
        let state = self.state();
        let directory = state.find(dir).map(|number| &state.directories[number]);
        let entries = directory.into_iter().flat_map(Directory::entries);
        let files = entries.filter_map(|(name, node)| match node {
            Node::File(inode) => Some((name.clone(), state.inodes[inode].bytes().to_vec())),
            Node::Directory(_) => None,
        });
        files.collect()
    }

    /// Damage from outside: replaces the contents of a file, or removes it. All that is on the disk
    /// is durable then.
    pub(crate) fn damage(&self, dir: &Path, name: &str, contents: Option<&[u8]>) {
        let mut state = self.state();
        let number = state.find(dir).expect("the slot is there");
        let directory = &mut state.directories[number];
        let Some(Node::File(inode)) = directory.get(name) else {
            panic!("{name} is not there");
        };
        match contents {
            None => directory.unlink(name),
            Some(bytes) => {
                state.inodes[inode].set_len(bytes.len());
                state.inodes[inode].write(0, bytes);
            }
        }
        state.directories.iter_mut().for_each(Directory::sync);
        for inode in &mut state.inodes {
            inode.sync(inode.last_change());
        }
    }

    /// The process dies.
    pub(crate) fn kill(&self, in_flight: &[Unfinished], keep: Keep, rng: &mut Rng) {
        let mut state = self.state();
        for write in in_flight {
            let inode = &mut state.inodes[write.inode];
            inode.write_part(index(write.offset), &write.bytes, keep, rng);
        }
        state.incarnation += 1;
        state.handles.clear();
        state.locks.clear();
    }

    /// The machine loses power.
    pub(crate) fn power_cut(&self, in_flight: &[Unfinished], rng: &mut Rng) {
        self.kill(in_flight, Keep::Random, rng);
        let mut state = self.state();
        for inode in &mut state.inodes {
            inode.power_cut(rng);
        }
        for directory in &mut state.directories {
            directory.power_cut(rng);
        }
    }
}

impl State {
    fn handle(&self, file: &File) -> (usize, OpenMode) {
        *self
            .handles
            .get(&file.raw())
            .expect("a handle of a dead process was used")
    }

    /// A name of the file, for messages.
    fn name(&self, inode: usize) -> String {
        let entries = self.directories.iter().flat_map(Directory::entries);
        let mut named = entries.filter(|(_, node)| *node == Node::File(inode));
        let (name, _) = named.next().unzip();
        name.map_or_else(|| "an unlinked file".to_owned(), String::clone)
    }

    fn buffered(&self, file: &File) -> usize {
        let (inode, mode) = self.handle(file);
        assert!(
            !matches!(mode, OpenMode::Direct | OpenMode::ReadDirect),
            "a buffered call on a direct file"
        );
        inode
    }

    /// The number of a directory.
    fn find(&self, path: &Path) -> Option<usize> {
        let names = path.components().filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_str()),
            _ => None,
        });
        let mut number = 0;
        for name in names {
            match self.directories[number].get(name?) {
                Some(Node::Directory(inner)) => number = inner,
                _ => return None,
            }
        }
        Some(number)
    }
}

/// Checks that an operation on a direct file is aligned.
pub(crate) fn assert_aligned(offset: u64, lengths: &[usize]) {
    assert!(
        offset.is_multiple_of(BLOCK as u64),
        "direct I/O at offset {offset}"
    );
    for length in lengths {
        assert!(length.is_multiple_of(BLOCK), "direct I/O of {length} bytes");
    }
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("simulated files are small")
}

fn split(path: &Path) -> io::Result<(PathBuf, String)> {
    let name = path.file_name().and_then(|name| name.to_str());
    match (path.parent(), name) {
        (Some(parent), Some(name)) => Ok((parent.to_path_buf(), name.to_owned())),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}
