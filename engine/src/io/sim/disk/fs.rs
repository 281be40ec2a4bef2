//! Blocking file calls of one process on the simulated disk. They take no virtual time.

use std::io;
use std::path::Path;
use std::sync::MutexGuard;

use super::super::clock::SimClock;
use super::super::fate::{Event, Fate};
use super::directory::{Directory, Node};
use super::inode::Inode;
use super::{Handle, SimDisk, State, index, split};
use crate::io::{BLOCK, Entry, EntryKind, File, Fs, Machine, OpenMode};

/// File calls of one incarnation. Clones share their fate.
#[derive(Debug, Clone)]
pub(crate) struct SimFs {
    disk: SimDisk,
    clock: SimClock,
    incarnation: u64,
    fate: Fate,
    /// Reservations that fail, of 100.
    full_percent: u64,
}

impl SimFs {
    pub(super) fn new(disk: SimDisk, clock: SimClock, incarnation: u64) -> Self {
        Self {
            disk,
            clock,
            incarnation,
            fate: Fate::default(),
            full_percent: 0,
        }
    }

    /// The process dies at the changing call with this number, counted from 1; at 0 it is dead.
    pub(crate) fn dying_after(self, steps: u32) -> Self {
        let fate = Fate::default();
        match steps.checked_sub(1) {
            Some(left) => fate.decide(Some(left), false),
            None => fate.kill(),
        }
        self.bound_to(&fate)
    }

    /// The calls are steps of the process with this fate.
    pub(crate) fn bound_to(mut self, fate: &Fate) -> Self {
        self.fate = fate.clone();
        self
    }

    /// Whether it died.
    pub(crate) fn is_dead(&self) -> bool {
        self.fate.is_dead()
    }

    /// This many of 100 reservations find the disk full.
    pub(crate) fn full(mut self, percent: u64) -> Self {
        self.full_percent = percent;
        self
    }

    /// The disk, for a call that changes nothing.
    fn look(&self) -> io::Result<MutexGuard<'_, State>> {
        if self.is_dead() {
            return Err(io::Error::other("the process died"));
        }
        let state = self.disk.state();
        assert_eq!(
            self.incarnation, state.incarnation,
            "a dead process touched the disk"
        );
        Ok(state)
    }

    /// The disk, for a call that changes something.
    fn step(&self, what: &'static str, on: On<'_>) -> io::Result<MutexGuard<'_, State>> {
        let state = self.look()?;
        let event = || {
            let on = match on {
                On::Path(path) => path.display().to_string(),
                On::File(file) => state.name(state.handle(file).0),
            };
            Event::Call(what, on)
        };
        if let Some(errno) = state.broken {
            return Err(io::Error::from_raw_os_error(errno));
        }
        if self.fate.step(event) {
            Ok(state)
        } else {
            Err(io::Error::other("the process died"))
        }
    }
}

/// What a call changes.
#[derive(Clone, Copy)]
enum On<'a> {
    Path(&'a Path),
    File(&'a File),
}

fn missing() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOENT)
}

impl State {
    fn directory(&mut self, path: &Path) -> io::Result<&mut Directory> {
        let number = self.find(path).ok_or_else(missing)?;
        Ok(&mut self.directories[number])
    }

    fn inode_mut(&mut self, file: &File) -> &mut Inode {
        let (inode, _) = self.handle(file);
        &mut self.inodes[inode]
    }
}

impl Fs for SimFs {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        if self.look()?.find(path).is_some() {
            return Err(io::Error::from_raw_os_error(libc::EEXIST));
        }
        let (parent, name) = split(path)?;
        let mut state = self.step("create directory", On::Path(path))?;
        let number = state.directories.len();
        state
            .directory(&parent)?
            .link(&name, Node::Directory(number));
        state.directories.push(Directory::default());
        Ok(())
    }

    fn entries(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let state = self.look()?;
        let number = state.find(dir).ok_or_else(missing)?;
        let directory = &state.directories[number];
        let entry = |(name, node): (&String, Node)| match node {
            Node::File(inode) => Entry {
                name: name.clone(),
                kind: EntryKind::File,
                bytes: state.inodes[inode].bytes().len() as u64,
            },
            Node::Directory(_) => Entry {
                name: name.clone(),
                kind: EntryKind::Directory,
                bytes: 0,
            },
        };
        Ok(directory.entries().map(entry).collect())
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<File> {
        let (parent, name) = split(path)?;
        let found = self.look()?.directory(&parent)?.get(&name);
        let (mut state, inode) = match (found, mode) {
            (Some(Node::Directory(_)), _) => {
                return Err(io::Error::from_raw_os_error(libc::EISDIR));
            }
            (Some(Node::File(_)), OpenMode::CreateNew) => {
                return Err(io::Error::from_raw_os_error(libc::EEXIST));
            }
            (Some(Node::File(inode)), _) => (self.look()?, inode),
            (None, OpenMode::Create | OpenMode::CreateNew) => {
                let mut state = self.step("create", On::Path(path))?;
                state.inodes.push(Inode::default());
                let inode = state.inodes.len() - 1;
                state.directory(&parent)?.link(&name, Node::File(inode));
                (state, inode)
            }
            (None, _) => return Err(missing()),
        };
        state.handles_made += 1;
        let handle = state.handles_made;
        state.handles.insert(handle, (inode, mode));
        Ok(File::new(Handle(self.disk.clone(), handle)))
    }

    fn bytes(&self, file: &File) -> io::Result<u64> {
        Ok(self.look()?.inode_mut(file).bytes().len() as u64)
    }

    fn read_at(&self, file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.look()?;
        let bytes = state.inodes[state.buffered(file)].bytes();
        let bytes = bytes.get(index(offset)..).unwrap_or_default();
        let len = bytes.len().min(into.len());
        into[..len].copy_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn read_direct(&self, file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.look()?;
        let (inode, mode) = state.handle(file);
        assert_eq!(mode, OpenMode::ReadDirect, "a direct read of another file");
        let aligned = |value: usize| value.is_multiple_of(BLOCK);
        assert!(
            aligned(into.as_ptr() as usize) && aligned(into.len()) && aligned(index(offset)),
            "a direct read of {} bytes at {offset}",
            into.len()
        );
        let bytes = state.inodes[inode].bytes();
        let bytes = bytes.get(index(offset)..).unwrap_or_default();
        let len = bytes.len().min(into.len());
        into[..len].copy_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn is_cached(&self, file: &File, _offset: u64) -> bool {
        self.look()
            .is_ok_and(|state| state.handle(file).0.is_multiple_of(2))
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.step("write", On::File(file))?;
        let inode = state.buffered(file);
        state.inodes[inode].write(index(offset), bytes);
        Ok(())
    }

    fn set_bytes(&self, file: &File, bytes: u64) -> io::Result<()> {
        self.step("truncate", On::File(file))?
            .inode_mut(file)
            .set_len(index(bytes));
        Ok(())
    }

    fn allocate(&self, file: &File, bytes: u64) -> io::Result<()> {
        let mut state = self.step("reserve", On::File(file))?;
        let old = state.inode_mut(file).bytes().len();
        let bytes = index(bytes);
        if old < bytes {
            let dice = super::super::random::mix(&[self.clock.now(), state.inodes.len() as u64]);
            if dice % 100 < self.full_percent {
                return Err(io::Error::from_raw_os_error(libc::ENOSPC));
            }
            state.inode_mut(file).set_len(bytes);
        }
        Ok(())
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        let mut state = self.step("sync", On::File(file))?;
        let inode = state.inode_mut(file);
        let last = inode.last_change();
        inode.sync(last);
        Ok(())
    }

    fn sync_filesystem(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.step("sync filesystem", On::Path(dir))?;
        for inode in &mut state.inodes {
            let last = inode.last_change();
            inode.sync(last);
        }
        state.directories.iter_mut().for_each(Directory::sync);
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.step("sync directory", On::Path(dir))?
            .directory(dir)?
            .sync();
        Ok(())
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = split(path)?;
        self.look()?
            .directory(&parent)?
            .get(&name)
            .ok_or_else(missing)?;
        self.step("unlink", On::Path(path))?
            .directory(&parent)?
            .unlink(&name);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let ((parent, old), (target, new)) = (split(from)?, split(to)?);
        assert_eq!(parent, target, "renames stay in their directory");
        let node = self
            .look()?
            .directory(&parent)?
            .get(&old)
            .ok_or_else(missing)?;
        let mut state = self.step("rename", On::Path(from))?;
        let directory = state.directory(&parent)?;
        let is_directory = matches!(node, Node::Directory(_));
        assert!(
            !is_directory || directory.get(&new).is_none(),
            "{} would be replaced",
            to.display()
        );
        directory.rename(&old, &new, node);
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let ((parent, old), (target, new)) = (split(from)?, split(to)?);
        assert_eq!(parent, target, "second names stay in their directory");
        let node = self.look()?.directory(&parent)?.get(&old);
        let node = node.ok_or_else(missing)?;
        let mut state = self.step("link", On::Path(to))?;
        state.directory(&parent)?.link(&new, node);
        Ok(())
    }

    fn try_lock(&self, file: &File) -> io::Result<bool> {
        let mut state = self.look()?;
        let (inode, _) = state.handle(file);
        let holder = *state.locks.entry(inode).or_insert(file.raw());
        Ok(holder == file.raw())
    }

    fn unlock(&self, file: &File) -> io::Result<()> {
        self.look()?.locks.retain(|_, holder| *holder != file.raw());
        Ok(())
    }

    fn now(&self) -> u64 {
        self.clock.now()
    }

    fn sleep(&self, nanos: u64) {
        self.clock.advance(nanos);
    }

    fn wall_micros(&self) -> u64 {
        self.clock.wall_micros()
    }

    fn pid(&self) -> u32 {
        4711
    }

    fn is_at(&self, file: &File, path: &Path) -> io::Result<bool> {
        let (parent, name) = split(path)?;
        let mut state = self.look()?;
        let (inode, _) = state.handle(file);
        let named = state.directory(&parent)?.get(&name);
        Ok(named == Some(Node::File(inode)))
    }

    fn machine(&self) -> Machine {
        Machine {
            host: "sim".to_owned(),
            boot: "0".to_owned(),
        }
    }

    fn random(&self) -> u64 {
        super::super::random::mix(&[self.clock.now(), self.incarnation])
    }
}
