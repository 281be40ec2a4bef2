//! A small ext4 on a loop device over a file, taken down on drop.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const DISK_BYTES: u64 = 48 << 20;

/// The disk.
pub(crate) struct SmallDisk {
    dir: tempfile::TempDir,
    root: PathBuf,
    block: String,
}

impl SmallDisk {
    /// With sectors of this size. `None`, with the reason printed, where nothing can be mounted;
    /// in CI that is a failure.
    pub(crate) fn new(sector_bytes: u32) -> Option<Self> {
        let root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
        if !root || !Path::new("/dev/loop-control").exists() {
            let ci = std::env::var("CI").as_deref() == Ok("true");
            assert!(!ci, "needs root and loop devices");
            eprintln!("skipped: needs root and loop devices");
            return None;
        }
        let dir = super::loadgen::scratch();
        let image = dir.path().join("image");
        File::create(&image).unwrap().set_len(DISK_BYTES).unwrap();
        let image = image.display().to_string();
        let sector = sector_bytes.to_string();
        let found = run(&[
            "losetup",
            "--find",
            "--show",
            "--sector-size",
            &sector,
            &image,
        ]);
        let root = dir.path().join("root");
        std::fs::create_dir(&root).unwrap();
        let disk = Self {
            dir,
            root,
            block: found.trim().to_owned(),
        };
        run(&[
            "mkfs.ext4",
            "-q",
            "-F",
            "-b",
            "4096",
            "-m",
            "0",
            &disk.block,
        ]);
        disk.mount();
        Some(disk)
    }

    /// Where it is mounted.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    fn mount(&self) {
        let root = self.root.display().to_string();
        run(&["mount", "-o", "noatime", &self.block, &root]);
    }

    /// `FS_IOC_SHUTDOWN` without writing the log: from now on nothing reaches the disk.
    pub(crate) fn shut_down(&self) {
        let root = self.root.display().to_string();
        let call = "import fcntl, os, struct, sys\n\
                    fd = os.open(sys.argv[1], os.O_RDONLY)\n\
                    fcntl.ioctl(fd, 0x8004587d, struct.pack('I', 2))";
        run(&["python3", "-c", call, &root]);
    }

    /// As after a restart of the machine.
    pub(crate) fn mount_again(&self) {
        let root = self.root.display().to_string();
        let start = Instant::now();
        // The kernel takes the ring of a killed process down behind its back.
        while !Command::new("umount")
            .arg(&root)
            .status()
            .unwrap()
            .success()
        {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "{root} stays in use"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        self.mount();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let root = self.root.display().to_string();
        for words in [["umount", "-l", &root], ["losetup", "-d", &self.block]] {
            let done = Command::new(words[0]).args(&words[1..]).status();
            if !done.is_ok_and(|status| status.success()) {
                eprintln!("{words:?} failed, below {}", self.dir.path().display());
            }
        }
    }
}

/// Writes a file until not a byte more fits.
pub(crate) fn fill_up(path: &Path) {
    let mut file = File::create(path).unwrap();
    let mut piece = vec![7; 1 << 20];
    while !piece.is_empty() {
        if file.write_all(&piece).is_err() {
            piece.truncate(piece.len() / 2);
        }
    }
    // What is left is found when it reaches the disk.
    let _ = file.sync_all();
}

fn run(words: &[&str]) -> String {
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}
