//! A small ext4 on a loop device over a plain file, taken down on drop.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::command::{PATIENCE, run, wait_until};

/// Why this machine cannot have a loop device, if so. Panics in CI, where a skip is a failure.
pub(super) fn no_loop() -> Option<&'static str> {
    if fs::metadata("/proc/self").is_ok_and(|own| own.uid() != 0) {
        Some(skipped("mounting needs root"))
    } else if !Path::new("/dev/loop-control").exists() {
        Some(skipped("there are no loop devices"))
    } else {
        None
    }
}

/// A reason to skip a test, which in CI is a failure.
pub(super) fn skipped(reason: &'static str) -> &'static str {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{reason}");
    reason
}

/// The disk.
#[derive(Debug)]
pub struct SmallDisk {
    dir: tempfile::TempDir,
    root: PathBuf,
    block: String,
}

impl SmallDisk {
    /// So large, with sectors of that size, below `parent`. `None`, with the reason printed, where
    /// nothing can be mounted; in CI that is a failure. Panics where something is refused.
    pub fn new(bytes: u64, sector_bytes: u32, parent: &Path) -> Option<Self> {
        if let Some(reason) = no_loop() {
            eprintln!("skipped: {reason}");
            return None;
        }
        let dir = tempfile::tempdir_in(parent).expect("a directory");
        let (image, root) = (dir.path().join("image"), dir.path().join("root"));
        let file = File::create(&image).expect("a new file");
        file.set_len(bytes).expect("a sparse file");
        fs::create_dir(&root).expect("a new directory");
        let (image, sector) = (image.display().to_string(), sector_bytes.to_string());
        let losetup = ["losetup", "--find", "--show", "--sector-size"];
        let found = run(&[&losetup[..], &[&sector, &image]].concat()).expect("a loop device");
        let disk = Self {
            dir,
            root,
            block: found.trim().to_owned(),
        };
        let mkfs = ["mkfs.ext4", "-q", "-F", "-b", "4096", "-m", "0"];
        run(&[&mkfs[..], &[&disk.block]].concat()).expect("an ext4 filesystem");
        disk.mount();
        Some(disk)
    }

    /// Where it is mounted.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn mount(&self) {
        let root = self.root.display().to_string();
        run(&["mount", "-o", "noatime", &self.block, &root]).expect("mounted");
    }

    /// `FS_IOC_SHUTDOWN` without writing the log: from now on nothing reaches the disk.
    pub fn shut_down(&self) {
        let root = self.root.display().to_string();
        let call = "import fcntl, os, struct, sys\n\
                    fd = os.open(sys.argv[1], os.O_RDONLY)\n\
                    fcntl.ioctl(fd, 0x8004587d, struct.pack('I', 2))";
        run(&["python3", "-c", call, &root]).expect("the ioctl");
    }

    /// As after a restart of the machine.
    pub fn mount_again(&self) {
        let root = self.root.display().to_string();
        // The kernel takes the ring of a killed process down behind its back.
        let done = wait_until(PATIENCE, || run(&["umount", &root]).is_ok());
        assert!(done, "{root} stays in use");
        self.mount();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let root = self.root.display().to_string();
        // At once or when the last file is closed.
        for words in [["umount", "-l", &root], ["losetup", "-d", &self.block]] {
            if let Err(error) = run(&words) {
                eprintln!("{error}, below {}", self.dir.path().display());
            }
        }
    }
}
