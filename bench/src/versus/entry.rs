//! One contender of a bout, and running it: files, server, a child that measures.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::disk::{self, Kind};
use super::figures::Figures;
use super::neighbour::Neighbour;
use super::raw;
use super::server::{Seat, Server};
use crate::limits::figures::float;

/// What lies in the directory when the measurement begins.
#[derive(Debug, Clone)]
pub(super) enum Files {
    /// Nothing.
    None,
    /// A backlog left by this job, new for every measurement; not in the page cache.
    Backlog(Vec<String>),
    /// The same, as whoever wrote it left it: on the disk, and in the page cache if it went through
    /// that.
    JustLeft(Vec<String>),
    /// The backlog of that name, which is kept for all measurements; not in the page cache.
    Cold(&'static str),
    /// The same, in the page cache.
    Warm(&'static str),
}

/// What goes on beside the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beside {
    /// Nothing of ours.
    Nothing,
    /// A neighbour that writes to the same disk and syncs.
    Neighbour,
    /// The disk is one of its own.
    Disk(Kind),
}

/// A contender.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// What its figures are kept under.
    pub(super) key: &'static str,
    /// Arguments of the job. `{addr}`, `{dir}` and `{shm}` are filled in.
    pub(super) args: Vec<String>,
    /// The server's number of messages between two OKs; no server if there is none.
    pub(super) ok_every: Option<u64>,
    pub(super) files: Files,
    pub(super) beside: Beside,
    /// Rows are made while it is measured, not only moved.
    pub(super) makes_rows: bool,
}

/// Directories of a run, and the backlogs that are kept.
#[derive(Debug)]
pub(super) struct Place {
    parent: TempDir,
    kept: BTreeMap<&'static str, PathBuf>,
    /// Jobs that make the backlogs to keep.
    backlogs: BTreeMap<&'static str, Vec<String>>,
    /// Where servers run.
    seat: Seat,
}

impl Place {
    pub(super) fn new(
        dir: &Path,
        seat: Seat,
        backlogs: BTreeMap<&'static str, Vec<String>>,
    ) -> Result<Self, Box<dyn Error>> {
        Ok(Self {
            parent: tempfile::Builder::new()
                .prefix("forebay-versus-")
                .tempdir_in(dir)?,
            kept: BTreeMap::new(),
            backlogs,
            seat,
        })
    }

    /// Measures.
    pub(super) fn run(&mut self, entry: &Entry) -> Result<Figures, Box<dyn Error>> {
        let fresh = tempfile::tempdir_in(self.parent.path())?;
        let dir = match &entry.files {
            Files::None => fresh.path().to_owned(),
            Files::Backlog(job) => {
                child(job, fresh.path(), "127.0.0.1:1")?;
                raw::evict(fresh.path())?;
                fresh.path().to_owned()
            }
            Files::JustLeft(job) => {
                child(job, fresh.path(), "127.0.0.1:1")?;
                raw::sync(fresh.path())?;
                fresh.path().to_owned()
            }
            Files::Cold(name) => {
                let dir = self.backlog(name)?;
                raw::evict(&dir)?;
                dir
            }
            Files::Warm(name) => {
                let dir = self.backlog(name)?;
                for file in raw::segments(&dir)? {
                    std::io::copy(&mut std::fs::File::open(file)?, &mut std::io::sink())?;
                }
                dir
            }
        };
        let Some(ok_every) = entry.ok_every else {
            return child(&entry.args, &dir, "127.0.0.1:1");
        };
        let server = Server::start(ok_every, self.seat.core(entry.makes_rows))?;
        let figures = match entry.beside {
            Beside::Nothing => child(&entry.args, &dir, &server.address),
            Beside::Neighbour => {
                let beside = tempfile::tempdir_in(self.parent.path())?;
                let neighbour = Neighbour::start(beside.path())?;
                let figures = child(&entry.args, &dir, &server.address);
                drop(neighbour);
                figures
            }
            Beside::Disk(kind) => {
                let (args, _shm) = filled_in(&entry.args, &dir, &server.address)?;
                said(disk::command(kind, &dir, &server.address, &args)?)
            }
        };
        let (rows, bytes) = server.stop()?;
        let mut figures = figures?;
        if let Some(accepted) = figures.get("accepted_rows") {
            figures.set("arrived_share", float(rows) / accepted.max(1.0));
        } else if rows == 0 {
            return Err(format!("{}: no row reached the server", entry.key).into());
        }
        figures.set("server_rows", float(rows));
        figures.set("bytes_row", float(bytes) / float(rows));
        for (times, rate) in [
            ("seconds", "gb_s"),
            ("after_open_seconds", "after_open_gb_s"),
        ] {
            if let Some(seconds) = figures.get(times) {
                figures.set(rate, float(bytes) / seconds / 1e9);
            }
        }
        Ok(figures)
    }

    /// Removes the backlogs of these entries, which nobody opens any more.
    pub(super) fn forget(&mut self, entries: &[Entry]) -> Result<(), Box<dyn Error>> {
        for entry in entries {
            if let Files::Cold(name) | Files::Warm(name) = entry.files
                && let Some(dir) = self.kept.remove(name)
            {
                std::fs::remove_dir_all(dir)?;
            }
        }
        Ok(())
    }

    /// The backlog of that name, made at its first use.
    fn backlog(&mut self, name: &'static str) -> Result<PathBuf, Box<dyn Error>> {
        if let Some(dir) = self.kept.get(name) {
            return Ok(dir.clone());
        }
        let dir = self.parent.path().join(name);
        std::fs::create_dir(&dir)?;
        let job = self.backlogs.get(name).ok_or("no such backlog")?;
        child(job, &dir, "127.0.0.1:1")?;
        // What is dirty would be written first by who opens it.
        raw::evict(&dir)?;
        self.kept.insert(name, dir.clone());
        Ok(dir)
    }
}

/// Runs a job in a process of its own.
fn child(args: &[String], dir: &Path, address: &str) -> Result<Figures, Box<dyn Error>> {
    let (args, _shm) = filled_in(args, dir, address)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("versus-child").args(args);
    said(command)
}

/// The arguments with all places filled in, and the directory on tmpfs among them.
fn filled_in(
    args: &[String],
    dir: &Path,
    address: &str,
) -> Result<(Vec<String>, TempDir), Box<dyn Error>> {
    let memory = Path::new("/dev/shm");
    let shm = tempfile::tempdir_in(if memory.is_dir() { memory } else { dir })?;
    let fill_in = |arg: &String| {
        arg.replace("{addr}", address)
            .replace("{dir}", &dir.display().to_string())
            .replace("{shm}", &shm.path().display().to_string())
    };
    Ok((args.iter().map(fill_in).collect(), shm))
}

/// What the command says in its last line.
fn said(mut command: Command) -> Result<Figures, Box<dyn Error>> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    Figures::parse(&said)
        .filter(|_| output.status.success())
        .ok_or_else(|| format!("{command:?}: {} {said}", output.status).into())
}
