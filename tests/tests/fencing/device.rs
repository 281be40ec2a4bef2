//! ext4 on a loop device over the slow file, mounted; taken down on drop, also after a panic.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fuser::{BackgroundSession, Config, MountOption};

use crate::slow_file::{NAME, SlowFile};
use crate::wait_until;

const DISK_BYTES: usize = 64 << 20;
/// Limit of every command.
const PATIENCE: Duration = Duration::from_secs(20);
/// Writes wait at most this long, so that no process hangs in the kernel when a test has failed.
const HELD_MAX: Duration = Duration::from_mins(1);

/// Why this machine cannot run the tests, if so.
pub(crate) fn missing() -> Option<&'static str> {
    if !Path::new("/dev/fuse").exists() {
        return Some("/dev/fuse is missing");
    }
    let reason = if fs::metadata("/proc/self").is_ok_and(|own| own.uid() != 0) {
        "mounting needs root"
    } else if !Path::new("/dev/loop-control").exists() {
        "there are no loop devices"
    } else {
        return None;
    };
    // In CI all but /dev/fuse has to be there.
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{reason}");
    Some(reason)
}

pub(crate) struct Device {
    /// The file that the disk is.
    pub(crate) file: SlowFile,
    dir: tempfile::TempDir,
    fuse: Option<BackgroundSession>,
    block: Option<String>,
}

impl Device {
    pub(crate) fn mount() -> Self {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        for name in ["fuse", "disk"] {
            fs::create_dir(dir.path().join(name)).expect("a new directory");
        }
        let mut device = Self {
            file: SlowFile::new(DISK_BYTES),
            dir,
            fuse: None,
            block: None,
        };
        device.let_go_in_time();
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("forebay-slow-file".to_owned())];
        let (file, fuse) = (device.file.clone(), device.path("fuse"));
        let session = fuser::spawn_mount(file, &fuse, &config).expect("a FUSE mount");
        device.fuse = Some(session);

        let disk = fuse.join(NAME).display().to_string();
        let found = run(&["losetup", "--find", "--show", "--direct-io=on", &disk]);
        let name = found.expect("a loop device").trim().to_owned();
        device.block = Some(name.clone());
        let mkfs = "mkfs.ext4 -q -F -J size=4 -E nodiscard,lazy_itable_init=0,lazy_journal_init=0";
        let mut words: Vec<&str> = mkfs.split(' ').collect();
        words.push(&name);
        run(&words).expect("an ext4 filesystem");
        let root = device.root().display().to_string();
        run(&["mount", "-o", "noatime", &name, &root]).expect("mounted");
        // It is in use, so this takes effect when it is unmounted, by whomever.
        run(&["losetup", "-d", &name]).expect("it detaches itself");
        device
    }

    /// Where the filesystem is mounted.
    pub(crate) fn root(&self) -> PathBuf {
        self.path("disk")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn let_go_in_time(&self) {
        let file = self.file.clone();
        std::thread::spawn(move || {
            std::thread::sleep(HELD_MAX);
            file.release_all();
        });
    }

    /// Whether this loop device still stands on the slow file: its number may be another's by now.
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

impl Drop for Device {
    fn drop(&mut self) {
        self.file.release_all();
        self.unmount("disk");
        if let Some(name) = &self.block {
            // Once more, in case it was never mounted.
            if self.is_backing(name) {
                let _ = run(&["losetup", "-d", name]);
            }
            if !wait_until(PATIENCE, || !self.is_backing(name)) {
                eprintln!("{name} stays attached");
            }
        }
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

/// Runs a command to its end within [`PATIENCE`]; its stdout, or what went wrong.
fn run(words: &[&str]) -> Result<String, String> {
    let command = words.join(" ");
    let mut child = Command::new(words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{command}: {error}"))?;
    let deadline = Instant::now() + PATIENCE;
    while child
        .try_wait()
        .map_err(|error| error.to_string())?
        .is_none()
    {
        if Instant::now() > deadline {
            // It may hang in the kernel: nobody waits for it.
            let _ = child.kill();
            return Err(format!("{command}: not done within {PATIENCE:?}"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let output = child
        .wait_with_output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command}: {}: {stderr}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
