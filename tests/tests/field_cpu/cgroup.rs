//! Control groups of a test's own: what one process alone waits for disks, and fewer cores for it
//! than the machine has. Root alone makes them, and only where their hierarchies can be written.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The kernel brings sums of pressure up to date no more often than every 2 s.
pub(crate) const WINDOW: Duration = Duration::from_millis(2_300);

/// Microseconds of a period, those of the kernel's default.
const PERIOD: u32 = 100_000;

/// A group; removed when dropped, once its processes have ended.
pub(crate) struct Cgroup(PathBuf);

impl Cgroup {
    fn below(root: &Path, name: &str) -> Option<Self> {
        let group = root.join(format!("forebay-test-{}-{name}", std::process::id()));
        std::fs::create_dir(&group).ok()?;
        Some(Self(group))
    }

    /// One with this process alone, whose `io.pressure` is known (cgroup2).
    pub(crate) fn watching(process: u32) -> Option<Self> {
        let roots = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(Path::new);
        let mut roots = roots.into_iter();
        let root = roots.find(|root| root.join("cgroup.controllers").exists())?;
        let group = Self::below(root, "watched")?;
        std::fs::write(group.members(), process.to_string()).ok()?;
        group.0.join("io.pressure").exists().then_some(group)
    }

    /// One that has so many cores' worth of time (either version).
    pub(crate) fn with_quota(cores: u32) -> Option<Self> {
        let quota = PERIOD * cores;
        let versions = [
            ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", quota.to_string()),
            ("/sys/fs/cgroup", "cpu.max", format!("{quota} {PERIOD}")),
        ];
        let mut made = versions.into_iter().filter_map(|(root, file, text)| {
            let group = Self::below(Path::new(root), "quota")?;
            let limit = group.0.join(file);
            // What is no cgroup would take any file.
            (limit.exists() && std::fs::write(limit, text).is_ok()).then_some(group)
        });
        made.next()
    }

    /// Where a process writes its id to become a member.
    pub(crate) fn members(&self) -> PathBuf {
        self.0.join("cgroup.procs")
    }

    /// For how long at least one thread of a member has waited for a disk so far: the kernel's
    /// `in_iowait`, which `/proc/stat` adds up for everybody.
    pub(crate) fn waited(&self) -> Duration {
        let text = std::fs::read_to_string(self.0.join("io.pressure")).unwrap();
        let line = text.lines().find(|line| line.starts_with("some ")).unwrap();
        let micros = line.rsplit("total=").next().unwrap();
        Duration::from_micros(micros.parse().unwrap())
    }

    /// Runs a command as a member.
    pub(crate) fn run(&self, script: &str) {
        let script = format!("echo $$ >'{}' && {script}", self.members().display());
        let status = Command::new("sh").args(["-c", &script]).status().unwrap();
        assert!(status.success(), "{script}");
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // A process that was just killed may be in it for a moment. An empty group that stays
        // harms nobody.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
