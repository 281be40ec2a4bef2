//! Disks of a measurement's own: one that is soon full, one that stalls.
//!
//! ext4 on loop devices, mounted in a mount namespace of this process alone: whatever becomes of it,
//! nothing stays mounted. Needs root, `mkfs.ext4`, `mount`, `unshare` and `fsfreeze`.

use std::error::Error;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use super::figures::Figures;
use super::full::BALLAST;

/// Whose disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// With a ballast on it that is taken away once it is full.
    Small,
    /// Whose device does nothing for half a second.
    Stalling,
}

/// A measurement on such a disk: what runs in the namespace.
#[derive(Debug, Clone, Args)]
pub struct OnDisk {
    #[arg(value_enum)]
    kind: Kind,
    /// Where the images go.
    dir: PathBuf,
    /// The server.
    address: String,
    /// Arguments of the job. `{disk}` is filled in, and `{server}`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    job: Vec<String>,
}

const SMALL_BYTES: u64 = 160 << 20;
const BALLAST_BYTES: usize = 48 << 20;
const STALL: Duration = Duration::from_millis(500);
/// From the beginning of the measurement.
const BEFORE_STALL: Duration = Duration::from_millis(100);
/// The stalling disk, and the one below it that holds its blocks.
const STALLING_BYTES: u64 = 1 << 30;
const BELOW_BYTES: u64 = 3 << 29;
const NOBODY: &str = "127.0.0.1:1";
/// A file whose appearance tells that a measurement begins; the variable that names it.
pub(super) const MARK: &str = "FOREBAY_VERSUS_MARK";

/// What is missing for such disks, if anything.
pub(super) fn lacks() -> Option<String> {
    for tool in ["mkfs.ext4", "mount", "unshare", "fsfreeze"] {
        let found = Command::new("sh")
            .args(["-c", &format!("command -v {tool}")])
            .stdout(Stdio::null())
            .status();
        if !found.is_ok_and(|status| status.success()) {
            return Some(format!("no {tool}"));
        }
    }
    let id = Command::new("id").arg("-u").output().ok()?;
    (id.stdout.trim_ascii() != b"0").then(|| "mounting needs root".to_owned())
}

/// The command that runs `job` on such a disk, in a namespace of its own.
pub(super) fn command(
    kind: Kind,
    dir: &Path,
    address: &str,
    job: &[String],
) -> Result<Command, Box<dyn Error>> {
    let kind = kind.to_possible_value().ok_or("a kind without a name")?;
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--propagation", "private"])
        .arg(std::env::current_exe()?)
        .args(["versus-disk", kind.get_name()])
        .arg(dir)
        .arg(address)
        .args(job);
    Ok(command)
}

impl OnDisk {
    /// Measures and answers a line of JSON.
    pub fn run(&self) -> Result<String, Box<dyn Error>> {
        let figures = match self.kind {
            Kind::Small => self.small()?,
            Kind::Stalling => self.stalling()?,
        };
        Ok(figures.to_json().to_string())
    }

    fn small(&self) -> Result<Figures, Box<dyn Error>> {
        let disk = mount(&self.dir, "small", SMALL_BYTES)?;
        File::create_new(disk.join(BALLAST))?.write_all(&vec![0x5a; BALLAST_BYTES])?;
        checked(Command::new("sync").arg("-f").arg(&disk))?;
        // Whatever becomes of the two is the figure.
        let sent = self.child(&disk, NOBODY, &self.job).output()?;
        let mut figures = last_figures(&sent.stdout);
        fill(&disk)?;
        let mut second = self.job.clone();
        if let Some(what) = second.first_mut() {
            *what = "reopen".to_owned();
        }
        let opened = self.child(&disk, &self.address, &second).output()?;
        let opened = last_figures(&opened.stdout);
        for name in ["opens", "drained", "open_ms"] {
            figures.set(name, opened.get(name).unwrap_or(0.0));
        }
        Ok(figures)
    }

    fn stalling(&self) -> Result<Figures, Box<dyn Error>> {
        let below = mount(&self.dir, "below", BELOW_BYTES)?;
        let disk = mount(&below, "above", STALLING_BYTES)?;
        let mark = self.dir.join("begun");
        let mut job = self.child(&disk, &self.address, &self.job);
        let mut job = job.env(MARK, &mark).stdout(Stdio::piped()).spawn()?;
        let mut stalled = Duration::ZERO;
        while job.try_wait()?.is_none() {
            if stalled.is_zero() && mark.exists() {
                std::thread::sleep(BEFORE_STALL);
                stalled = stall(&below)?;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let done = job.wait_with_output()?;
        if !done.status.success() || stalled.is_zero() {
            return Err(format!("{}, stalled {stalled:?}", done.status).into());
        }
        let mut figures = last_figures(&done.stdout);
        figures.set("stall_ms", stalled.as_secs_f64() * 1e3);
        Ok(figures)
    }

    fn child(&self, disk: &Path, server: &str, job: &[String]) -> Command {
        let disk = disk.display().to_string();
        let fill_in = |arg: &String| arg.replace("{disk}", &disk).replace("{server}", server);
        let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("forebay-bench"));
        let mut command = Command::new(program);
        command
            .arg("versus-child")
            .args(job.iter().map(fill_in))
            .stdin(Stdio::null())
            .stderr(Stdio::inherit());
        command
    }
}

/// Makes a filesystem in a file of `dir` and mounts it; answers where.
fn mount(dir: &Path, name: &str, bytes: u64) -> Result<PathBuf, Box<dyn Error>> {
    let (image, at) = (dir.join(format!("{name}.img")), dir.join(name));
    let size = bytes.to_string();
    checked(Command::new("fallocate").args(["-l", &size]).arg(&image))?;
    checked(
        Command::new("mkfs.ext4")
            .args(["-q", "-F", "-m", "0", "-E", "nodiscard"])
            .arg(&image),
    )?;
    std::fs::create_dir(&at)?;
    checked(
        Command::new("mount")
            .args(["-o", "loop"])
            .args([&image, &at]),
    )?;
    Ok(at)
}

fn checked(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let status = command.status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{command:?}: {status}").into())
    }
}

/// Writes to a file until no block is left.
fn fill(disk: &Path) -> io::Result<()> {
    let mut file = File::create_new(disk.join("filler"))?;
    for step in [1 << 20, 4096] {
        let bytes = vec![0x5a; step];
        while file
            .write_all(&bytes)
            .and_then(|()| file.sync_data())
            .is_ok()
        {}
    }
    Ok(())
}

/// Lets nothing be written for a while; answers how long it was.
fn stall(disk: &Path) -> Result<Duration, Box<dyn Error>> {
    let begun = Instant::now();
    checked(Command::new("fsfreeze").arg("-f").arg(disk))?;
    std::thread::sleep(STALL.saturating_sub(begun.elapsed()));
    checked(Command::new("fsfreeze").arg("-u").arg(disk))?;
    Ok(begun.elapsed())
}

/// The last figures that a process said, however it ended.
fn last_figures(said: &[u8]) -> Figures {
    let said = String::from_utf8_lossy(said);
    let mut lines = said.lines().rev();
    lines.find_map(Figures::parse).unwrap_or_default()
}
