//! `.intake-id`: the identity of a slot's intake, and which rings it consists of.
//!
//! ```text
//! id=5f0c...                       32 hex digits, random
//! ring=3 1048576                   number, bytes of the buffer: the file is in the slot
//! ring=4 1048576 /dev/shm/forebay  the file is in this directory
//! ```
//!
//! A ring is listed after its file is made and struck off before the file is removed. So a ring
//! that is listed and not there is gone with what it held: a wiped tmpfs, a container that was
//! replaced.

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

use super::header::IntakeId;
use crate::io::Fs;
use crate::slot::names::{INTAKE, INTAKE_ID, LOST};
use crate::slot::whole;

/// Far more than the rings of all producers of an engine take.
const BYTES_MAX: usize = 8 << 20;

/// One ring's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RingPlace {
    /// Its number, never used for two rings of an intake.
    pub(crate) number: u64,
    /// Bytes of its buffer.
    pub(crate) capacity: u64,
    /// Where the file is; `None` in the slot itself.
    pub(crate) dir: Option<PathBuf>,
}

/// What `.intake-id` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// Names the intake, in the headers of its rings and in names outside the slot.
    pub(crate) id: IntakeId,
    /// Its rings.
    pub(crate) rings: Vec<RingPlace>,
}

impl Record {
    /// A new intake without rings.
    pub(crate) fn new(fs: &dyn Fs) -> Self {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&fs.random().to_le_bytes());
        id[8..].copy_from_slice(&fs.random().to_le_bytes());
        Self {
            id,
            rings: Vec::new(),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let id = parse_id(lines.next()?.strip_prefix("id=")?)?;
        let rings = lines.filter_map(|line| {
            let mut words = line.strip_prefix("ring=")?.splitn(3, ' ');
            Some(RingPlace {
                number: words.next()?.parse().ok()?,
                capacity: words.next()?.parse().ok()?,
                dir: words.next().map(PathBuf::from),
            })
        });
        Some(Self {
            id,
            rings: rings.collect(),
        })
    }

    fn text(&self) -> String {
        let mut out = format!("id={}\n", hex(&self.id));
        for ring in &self.rings {
            let _ = write!(out, "ring={} {}", ring.number, ring.capacity);
            if let Some(dir) = &ring.dir {
                let _ = write!(out, " {}", dir.display());
            }
            out.push('\n');
        }
        out
    }

    /// Reads the record of a slot; `None` if there is none, or none that can be understood.
    pub(crate) fn read(fs: &dyn Fs, slot: &Path) -> io::Result<Option<Self>> {
        let text = whole::read(fs, slot, INTAKE_ID, BYTES_MAX)?;
        Ok(text.and_then(|text| Self::parse(&text)))
    }

    /// Makes it the record of the slot, durably; one without rings is removed.
    pub(crate) fn write(&self, fs: &dyn Fs, slot: &Path) -> io::Result<()> {
        if self.rings.is_empty() {
            return match fs.unlink(&slot.join(INTAKE_ID)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        whole::write(fs, slot, INTAKE_ID, self.text().as_bytes()).map(drop)
    }
}

impl RingPlace {
    /// Path of the file.
    pub(crate) fn path(&self, slot: &Path, id: &IntakeId) -> PathBuf {
        match &self.dir {
            None => slot.join(format!("{INTAKE}{}", self.number)),
            Some(dir) => dir.join(format!("{}{}", outside(id), self.number)),
        }
    }
}

/// Begins the name of a ring outside its slot; its number follows.
pub(crate) fn outside(id: &IntakeId) -> String {
    format!("{}{INTAKE}", hex(id))
}

/// A name beside `path`, for a ring whose entries cannot be delivered: the first that is free.
pub(crate) fn free_lost_name(fs: &dyn Fs, path: &Path) -> io::Result<PathBuf> {
    let dir = path.parent().unwrap_or_else(|| Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let prefix = name.split(INTAKE).next().unwrap_or_default().to_owned() + LOST;
    let entries = fs.entries(dir)?;
    let taken = |name: &String| entries.iter().any(|entry| entry.name == *name);
    let free = (0..u64::MAX)
        .map(|k| format!("{prefix}{k}"))
        .find(|name| !taken(name));
    Ok(dir.join(free.ok_or(io::ErrorKind::AlreadyExists)?))
}

fn hex(id: &IntakeId) -> String {
    id.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

fn parse_id(text: &str) -> Option<IntakeId> {
    let valid = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u128::from_str_radix(text, 16).ok().filter(|_| valid)?;
    Some(number.to_be_bytes())
}
