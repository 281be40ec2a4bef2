//! `forebay clear-failed`: why was a slot given up, and may drainers try it again?

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::error::Failure;
use crate::slot::dir::{self, Dir, FAILED, Kind};
use crate::{Outcome, paper};

/// Part of the name of a slot that was set aside: its marker keeps every client's scan away.
const SET_ASIDE: &str = ".unreplayable-";
/// Most bytes of a reason that are shown.
const REASON_BYTES_MAX: usize = 4096;

/// Shows why slots were given up (`.failed`) and, with `--yes`, lets drainers try them again.
#[derive(Debug, Args)]
pub(crate) struct ClearFailedArgs {
    /// A slot, or a directory of slots (`sf_dir`).
    #[arg(value_name = "SF_DIR|SLOT")]
    path: PathBuf,
    /// Remove the markers.
    #[arg(long)]
    yes: bool,
}

impl ClearFailedArgs {
    pub(crate) fn execute(self, out: &mut impl Write) -> Result<Outcome, Failure> {
        let top = Dir::new(&self.path);
        let entries = top.entries()?;
        if dir::is_slot(&entries) {
            if is_set_aside(&self.path) {
                return Err(Failure::NoSlot {
                    path: self.path,
                    reason: "was set aside: without its marker official clients would deliver it; \
                             give it the name of a sender first",
                });
            }
            if !self.one(&top, out)? {
                say(top.path(), "not marked", out)?;
            }
            return Ok(Outcome::Sound);
        }
        let mut any = false;
        for entry in entries {
            let slot = Dir::new(&top.join(&entry.name));
            if entry.kind == Kind::Directory && !is_set_aside(slot.path()) {
                any |= self.one(&slot, out)?;
            }
        }
        if !any {
            say(top.path(), "no slot is marked", out)?;
        } else if !self.yes {
            say(top.path(), "nothing was removed: --yes does", out)?;
        }
        Ok(Outcome::Sound)
    }

    /// Shows and clears one slot; whether it is marked.
    fn one(&self, slot: &Dir, out: &mut impl Write) -> Result<bool, Failure> {
        let Some(reason) = slot.head_if_any(FAILED, REASON_BYTES_MAX)? else {
            return Ok(false);
        };
        let reason = String::from_utf8_lossy(&reason);
        say(slot.path(), &format!("failed: {}", reason.trim_end()), out)?;
        if self.yes {
            remove(slot)?;
            say(slot.path(), "cleared", out)?;
        }
        Ok(true)
    }
}

fn is_set_aside(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().contains(SET_ASIDE)
}

/// Removes the marker for good: a power cut must not bring it back.
fn remove(slot: &Dir) -> Result<(), Failure> {
    let marker = slot.join(FAILED);
    fs::remove_file(&marker).map_err(|source| Failure::read("remove", &marker, source))?;
    File::open(slot.path())
        .and_then(|dir| dir.sync_all())
        .map_err(|source| Failure::read("sync", slot.path(), source))
}

fn say(slot: &Path, text: &str, out: &mut impl Write) -> Result<(), Failure> {
    let slot = slot.display().to_string();
    writeln!(out, "{}: {}", paper::tame(&slot), paper::tame(text)).map_err(Failure::Output)
}
