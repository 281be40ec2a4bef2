//! A disk in memory that can be killed between any two calls and can lose what was not synced.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::io::{BLOCK, Entry, EntryKind, File, FileOwner, Fs, Machine, OpenMode};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Node {
    File(usize),
    /// By number, so that it keeps its entries when it is renamed.
    Directory(usize),
}

type Names = BTreeMap<String, Node>;

#[derive(Clone, Default)]
struct Both<T> {
    now: T,
    stable: T,
}

#[derive(Default)]
struct State {
    inodes: Vec<Both<Vec<u8>>>,
    /// The first is the root.
    directories: Vec<Both<Names>>,
    handles: HashMap<i32, (usize, OpenMode)>,
    locks: HashMap<usize, i32>,
    handles_made: i32,
    trace: Vec<String>,
    steps_left: Option<u32>,
    refused: Option<(&'static str, i32)>,
    clock: u64,
    pid: u32,
    machine: Machine,
    randoms: u64,
    before_piece: Option<Arc<dyn Fn() + Send + Sync>>,
}

/// The disk. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Disk(Arc<Mutex<State>>);

struct Handle(Disk, i32);

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

impl Disk {
    /// A disk with an empty directory `/d`.
    pub(crate) fn new() -> Self {
        let disk = Self::default();
        let mut state = disk.state();
        let root = Names::from([("d".to_owned(), Node::Directory(1))]);
        state.directories = vec![
            Both {
                now: root.clone(),
                stable: root,
            },
            Both::default(),
        ];
        state.pid = 4711;
        state.machine = Machine {
            host: "here".to_owned(),
            boot: "first".to_owned(),
        };
        drop(state);
        disk
    }

    /// From now on the disk is in this machine.
    pub(crate) fn move_to(&self, host: &str, boot: &str) {
        self.restart();
        self.state().machine = Machine {
            host: host.to_owned(),
            boot: boot.to_owned(),
        };
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// From now on `steps` changing calls succeed, then every call fails.
    pub(crate) fn die_after(&self, steps: u32) {
        self.state().steps_left = Some(steps);
    }

    /// Everything is on the platter.
    pub(crate) fn settle(&self) {
        let mut state = self.state();
        for inode in &mut state.inodes {
            inode.stable.clone_from(&inode.now);
        }
        for directory in &mut state.directories {
            directory.stable.clone_from(&directory.now);
        }
    }

    /// The process is gone; the kernel keeps what it was told.
    pub(crate) fn restart(&self) {
        let mut state = self.state();
        state.steps_left = None;
        state.handles.clear();
        state.locks.clear();
    }

    /// The machine is gone: of what was not synced, bit `n` of `keep` decides whether the `n`th
    /// file or directory keeps it.
    pub(crate) fn power_cut(&self, keep: u64) {
        self.restart();
        let mut state = self.state();
        let mut bit = 0;
        let mut kept = || {
            bit += 1;
            keep >> (bit % 64) & 1 == 1
        };
        for inode in &mut state.inodes {
            if !kept() {
                inode.now.clone_from(&inode.stable);
            }
            inode.stable.clone_from(&inode.now);
        }
        for directory in &mut state.directories {
            if !kept() {
                directory.now.clone_from(&directory.stable);
            }
            directory.stable.clone_from(&directory.now);
        }
    }

    /// Makes the next calls of this kind fail with this error number.
    pub(crate) fn refuse(&self, call: Option<(&'static str, i32)>) {
        self.state().refused = call;
    }

    /// Calls `hook` before every read of a large piece, on the thread that reads.
    pub(crate) fn before_pieces(&self, hook: impl Fn() + Send + Sync + 'static) {
        self.state().before_piece = Some(Arc::new(hook));
    }

    fn pause(&self, len: usize) {
        let hook = self.state().before_piece.clone();
        if let Some(hook) = hook.filter(|_| len > 65_536) {
            hook();
        }
    }

    /// The changing calls since the last time, as text.
    pub(crate) fn trace(&self) -> Vec<String> {
        std::mem::take(&mut self.state().trace)
    }

    /// Names and contents of all files of a directory.
    pub(crate) fn files(&self, dir: &str) -> BTreeMap<String, Vec<u8>> {
        let mut state = self.state();
        let entries = state.directory(Path::new(dir)).unwrap().now.clone();
        let file = |(name, node): (&String, &Node)| match node {
            Node::File(inode) => Some((name.clone(), state.inodes[*inode].now.clone())),
            Node::Directory(_) => None,
        };
        entries.iter().filter_map(file).collect()
    }

    /// Names of everything in a directory; none if it is not there.
    pub(crate) fn names(&self, dir: &str) -> Vec<String> {
        let mut state = self.state();
        let found = state.directory(Path::new(dir));
        found.map_or_else(|_| Vec::new(), |found| found.now.keys().cloned().collect())
    }

    /// Contents of a file.
    pub(crate) fn read(&self, path: &str) -> Vec<u8> {
        let path = Path::new(path);
        let name = path.file_name().unwrap().to_str().unwrap();
        self.files(path.parent().unwrap().to_str().unwrap())[name].clone()
    }

    /// Creates or replaces a file, durably.
    pub(crate) fn put(&self, path: &str, bytes: &[u8]) {
        let mut state = self.state();
        state.inodes.push(Both {
            now: bytes.to_vec(),
            stable: bytes.to_vec(),
        });
        let node = Node::File(state.inodes.len() - 1);
        let (parent, name) = split(Path::new(path));
        let directory = state.directory(&parent).unwrap();
        directory.now.insert(name.clone(), node);
        directory.stable.insert(name, node);
    }

    /// Changes a file in place, durably.
    pub(crate) fn patch(&self, path: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.read(path);
        change(&mut bytes);
        self.put(path, &bytes);
    }

    fn step(&self, call: &'static str, text: &str) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        if let Some((refused, errno)) = state.refused
            && refused == call
        {
            return Err(io::Error::from_raw_os_error(errno));
        }
        match &mut state.steps_left {
            Some(0) => return Err(io::Error::other("the process died")),
            Some(left) => *left -= 1,
            None => {}
        }
        state.trace.push(format!("{call} {text}"));
        Ok(state)
    }
}

fn split(path: &Path) -> (PathBuf, String) {
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    (path.parent().unwrap().to_path_buf(), name)
}

fn not_found() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOENT)
}

impl State {
    fn directory(&mut self, path: &Path) -> io::Result<&mut Both<Names>> {
        let mut at = 0;
        for name in path.iter().skip(1) {
            match self.directories[at].now.get(name.to_str().unwrap()) {
                Some(Node::Directory(inner)) => at = *inner,
                _ => return Err(not_found()),
            }
        }
        Ok(&mut self.directories[at])
    }

    fn inode(&self, file: &File) -> usize {
        self.handles[&file.raw()].0
    }

    fn buffered(&mut self, file: &File) -> usize {
        let (inode, mode) = self.handles[&file.raw()];
        assert!(
            !matches!(mode, OpenMode::Direct | OpenMode::ReadDirect),
            "buffered call on a direct file"
        );
        inode
    }

    fn name_of(&self, file: &File) -> String {
        let inode = self.inode(file);
        let names = self
            .directories
            .iter()
            .flat_map(|directory| directory.now.iter());
        let mut names = names.filter(|(_, node)| **node == Node::File(inode));
        names
            .next()
            .map_or_else(|| "?".to_owned(), |(name, _)| name.clone())
    }
}

impl Fs for Disk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = split(path);
        if self.state().directory(&parent)?.now.contains_key(&name) {
            return Err(io::Error::from_raw_os_error(libc::EEXIST));
        }
        let mut state = self.step("mkdir", &name)?;
        let node = Node::Directory(state.directories.len());
        state.directories.push(Both::default());
        state.directory(&parent)?.now.insert(name, node);
        Ok(())
    }

    fn entries(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let mut state = self.state();
        let names = state.directory(dir)?.now.clone();
        let entry = |(name, node): (String, Node)| match node {
            Node::File(inode) => Entry {
                name,
                kind: EntryKind::File,
                bytes: state.inodes[inode].now.len() as u64,
            },
            Node::Directory(_) => Entry {
                name,
                kind: EntryKind::Directory,
                bytes: 0,
            },
        };
        Ok(names.into_iter().map(entry).collect())
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<File> {
        let (parent, name) = split(path);
        if let Some(("open segment", errno)) = self.state().refused
            && crate::slot::names::is_segment(&name)
        {
            return Err(io::Error::from_raw_os_error(errno));
        }
        let found = {
            let mut state = self.state();
            state.directory(&parent)?.now.get(&name).copied()
        };
        let inode = match (found, mode) {
            (Some(Node::File(_)), OpenMode::CreateNew) => {
                return Err(io::Error::from_raw_os_error(libc::EEXIST));
            }
            (Some(Node::File(inode)), _) => inode,
            (Some(Node::Directory(_)), _) => {
                return Err(io::Error::from_raw_os_error(libc::EISDIR));
            }
            (None, OpenMode::Create | OpenMode::CreateNew) => {
                let mut state = self.step("create", &name)?;
                state.inodes.push(Both::default());
                let inode = state.inodes.len() - 1;
                let node = Node::File(inode);
                state.directory(&parent)?.now.insert(name, node);
                inode
            }
            (None, _) => return Err(not_found()),
        };
        let mut state = self.state();
        state.handles_made += 1;
        let handle = state.handles_made;
        state.handles.insert(handle, (inode, mode));
        drop(state);
        Ok(File::new(Handle(self.clone(), handle)))
    }

    fn bytes(&self, file: &File) -> io::Result<u64> {
        let state = self.state();
        Ok(state.inodes[state.inode(file)].now.len() as u64)
    }

    fn read_at(&self, file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.pause(into.len());
        if let Some(("read", errno)) = self.state().refused {
            return Err(io::Error::from_raw_os_error(errno));
        }
        let mut state = self.state();
        let inode = state.buffered(file);
        let from = usize::try_from(offset).unwrap();
        let bytes = state.inodes[inode].now.get(from..).unwrap_or_default();
        let len = bytes.len().min(into.len());
        into[..len].copy_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn read_direct(&self, file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.pause(into.len());
        if let Some(("read" | "direct read", errno)) = self.state().refused {
            return Err(io::Error::from_raw_os_error(errno));
        }
        let state = self.state();
        let (inode, mode) = state.handles[&file.raw()];
        assert_eq!(mode, OpenMode::ReadDirect);
        let from = usize::try_from(offset).unwrap();
        for value in [into.as_ptr() as usize, into.len(), from] {
            assert!(value.is_multiple_of(BLOCK), "direct read of half a block");
        }
        let bytes = state.inodes[inode].now.get(from..).unwrap_or_default();
        let len = bytes.len().min(into.len());
        into[..len].copy_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn is_cached(&self, file: &File, offset: u64) -> bool {
        let page = usize::try_from(offset).unwrap() / BLOCK;
        (self.state().inode(file) + page).is_multiple_of(2)
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        let text = format!("{} {offset}+{}", self.state().name_of(file), bytes.len());
        let mut state = self.step("write", &text)?;
        let inode = state.buffered(file);
        let data = &mut state.inodes[inode].now;
        let from = usize::try_from(offset).unwrap();
        let end = from + bytes.len();
        data.resize(data.len().max(end), 0);
        data[from..end].copy_from_slice(bytes);
        Ok(())
    }

    fn set_bytes(&self, file: &File, bytes: u64) -> io::Result<()> {
        let text = format!("{} {bytes}", self.state().name_of(file));
        let mut state = self.step("truncate", &text)?;
        let inode = state.buffered(file);
        state.inodes[inode]
            .now
            .resize(usize::try_from(bytes).unwrap(), 0);
        Ok(())
    }

    fn allocate(&self, file: &File, bytes: u64) -> io::Result<()> {
        let text = format!("{} {bytes}", self.state().name_of(file));
        let mut state = self.step("allocate", &text)?;
        let inode = state.inode(file);
        let data = &mut state.inodes[inode].now;
        data.resize(data.len().max(usize::try_from(bytes).unwrap()), 0);
        Ok(())
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        let text = self.state().name_of(file);
        let mut state = self.step("sync", &text)?;
        let inode = state.inode(file);
        let inode = &mut state.inodes[inode];
        inode.stable.clone_from(&inode.now);
        Ok(())
    }

    fn sync_filesystem(&self, _dir: &Path) -> io::Result<()> {
        drop(self.step("syncfs", "")?);
        self.settle();
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.step("syncdir", dir.to_str().unwrap())?;
        let directory = state.directory(dir)?;
        directory.stable.clone_from(&directory.now);
        Ok(())
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = split(path);
        if !self.state().directory(&parent)?.now.contains_key(&name) {
            return Err(not_found());
        }
        let mut state = self.step("unlink", &name)?;
        state.directory(&parent)?.now.remove(&name);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let ((parent, old), (target, new)) = (split(from), split(to));
        assert_eq!(parent, target, "renames stay in their directory");
        let mut state = self.step("rename", &format!("{old} {new}"))?;
        let names = &mut state.directory(&parent)?.now;
        let node = names.remove(&old).ok_or_else(not_found)?;
        names.insert(new, node);
        Ok(())
    }

    fn try_lock(&self, file: &File) -> io::Result<bool> {
        let mut state = self.state();
        let inode = state.inode(file);
        let holder = *state.locks.entry(inode).or_insert(file.raw());
        Ok(holder == file.raw())
    }

    fn unlock(&self, file: &File) -> io::Result<()> {
        self.state().locks.retain(|_, holder| *holder != file.raw());
        Ok(())
    }

    fn now(&self) -> u64 {
        self.state().clock
    }

    fn sleep(&self, nanos: u64) {
        self.state().clock += nanos;
    }

    fn wall_micros(&self) -> u64 {
        1_234_567_890_123
    }

    fn pid(&self) -> u32 {
        self.state().pid
    }

    fn is_at(&self, file: &File, path: &Path) -> io::Result<bool> {
        let (parent, name) = split(path);
        let mut state = self.state();
        let inode = state.inode(file);
        let named = state
            .directory(&parent)
            .is_ok_and(|names| names.now.get(&name) == Some(&Node::File(inode)));
        Ok(named)
    }

    fn machine(&self) -> Machine {
        self.state().machine.clone()
    }

    fn random(&self) -> u64 {
        let mut state = self.state();
        state.randoms += 1;
        state.randoms
    }
}
