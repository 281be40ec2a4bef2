//! ext4 on a loop device over the file; taken down on drop, also after a panic.

use std::fs;
use std::path::{Path, PathBuf};

use fuser::{BackgroundSession, Config, MountOption};

use super::Backing;
use super::command::{PATIENCE, run, wait_until};
use super::file::{NAME, OneFile};
use super::small::{no_loop, skipped};

/// Why this machine cannot have such a device, if so. Panics in CI, where a skip is a failure.
#[must_use]
pub fn missing() -> Option<&'static str> {
    if Path::new("/dev/fuse").exists() {
        return no_loop();
    }
    Some(skipped("/dev/fuse is missing"))
}

/// The device.
#[derive(Debug)]
pub struct Device<B: Backing> {
    /// What the disk is made of.
    pub file: B,
    dir: tempfile::TempDir,
    fuse: Option<BackgroundSession>,
    block: Option<String>,
}

impl<B: Backing> Device<B> {
    /// The file alone, in a filesystem mounted below `parent`. Panics where something is refused.
    pub fn new(file: B, parent: &Path) -> Self {
        let dir = tempfile::tempdir_in(parent).expect("a directory");
        for name in ["fuse", "disk"] {
            fs::create_dir(dir.path().join(name)).expect("a new directory");
        }
        let mut device = Self {
            file,
            dir,
            fuse: None,
            block: None,
        };
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("forebay-test-file".to_owned())];
        let fuse = device.path("fuse");
        let session = fuser::spawn_mount(OneFile(device.file.clone()), &fuse, &config);
        device.fuse = Some(session.expect("a FUSE mount"));
        device
    }

    /// The same, with a fresh ext4 on it, mounted.
    pub fn mount(file: B, parent: &Path) -> Self {
        let mut device = Self::new(file, parent);
        device.attach();
        device.format();
        device.mount_disk().expect("mounted");
        device
    }

    /// Where the ext4 is mounted.
    pub fn root(&self) -> PathBuf {
        self.path("disk")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Puts a loop device over the file.
    pub fn attach(&mut self) {
        let disk = self.path("fuse").join(NAME).display().to_string();
        let found = run(&["losetup", "--find", "--show", "--direct-io=on", &disk]);
        self.block = Some(found.expect("a loop device").trim().to_owned());
    }

    fn format(&self) {
        let mkfs =
            "mkfs.ext4 -q -F -b 4096 -J size=4 -E nodiscard,lazy_itable_init=0,lazy_journal_init=0";
        let mut words: Vec<&str> = mkfs.split(' ').collect();
        words.push(self.block());
        run(&words).expect("an ext4 filesystem");
    }

    /// Mounts what is on the device, with its journal replayed.
    pub fn mount_disk(&self) -> Result<(), String> {
        let root = self.root().display().to_string();
        run(&["mount", "-o", "noatime", self.block(), &root])?;
        // It is in use, so this takes effect when it is unmounted, by whomever.
        run(&["losetup", "-d", self.block()])?;
        Ok(())
    }

    /// Unmounts the disk, and with it goes the loop device. False if somebody keeps it.
    pub fn unmount_disk(&mut self) -> bool {
        self.unmount("disk") && self.detach()
    }

    fn block(&self) -> &str {
        self.block.as_deref().expect("attached before")
    }

    fn detach(&mut self) -> bool {
        let Some(name) = self.block.take() else {
            return true;
        };
        // Once more, in case it was never mounted.
        if self.is_backing(&name) {
            let _ = run(&["losetup", "-d", &name]);
        }
        let gone = wait_until(PATIENCE, || !self.is_backing(&name));
        if !gone {
            eprintln!("{name} stays attached");
        }
        gone
    }

    /// Whether this loop device still stands on the file: its number may be another's by now.
    fn is_backing(&self, name: &str) -> bool {
        let name = name.trim_start_matches("/dev/");
        let file = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file"));
        file.is_ok_and(|file| Path::new(file.trim_end()).starts_with(self.dir.path()))
    }

    fn unmount(&self, name: &str) -> bool {
        let path = self.path(name).display().to_string();
        // Who was killed may still be on its way out.
        let done = || !is_mounted(&path) || run(&["umount", &path]).is_ok();
        let done = wait_until(PATIENCE, done);
        if !done {
            eprintln!("{path} stays mounted: {:?}", run(&["umount", "-l", &path]));
        }
        done
    }
}

impl<B: Backing> Drop for Device<B> {
    fn drop(&mut self) {
        self.file.release_all();
        self.unmount_disk();
        self.detach();
        if self.unmount("fuse")
            && let Some(session) = self.fuse.take()
            && let Err(error) = session.join()
        {
            eprintln!("the filesystem ended with {error}");
        }
    }
}

fn is_mounted(path: &str) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts
        .lines()
        .any(|line| line.split(' ').nth(1) == Some(path))
}
