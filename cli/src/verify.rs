//! `forebay verify`: is a slot sound, as recovery would judge it?

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::error::Failure;
use crate::slot::Slot;
use crate::slot::dir::{self, Dir, Kind};
use crate::slot::verdict::{Chain, Verdict};
use crate::{Outcome, paper};

/// Part of the name of a slot that was set aside: its damage is known.
const SET_ASIDE: &str = ".unreplayable-";

/// Says whether a slot, or each slot in a directory, is sound. Exit status: 0 sound, 1 damaged,
/// 2 cannot say.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// A slot, or a directory of slots (`sf_dir`).
    #[arg(value_name = "SLOT|SF_DIR")]
    path: PathBuf,
}

impl VerifyArgs {
    pub(crate) fn execute(self, out: &mut impl Write) -> Result<Outcome, Failure> {
        let top = Dir::new(&self.path);
        let entries = top.entries()?;
        if dir::is_slot(&entries) {
            return verify(&top, out);
        }
        let mut worst = None;
        for entry in entries {
            let candidate = Dir::new(&top.join(&entry.name));
            if entry.kind != Kind::Directory || entry.name.starts_with('.') {
                continue;
            }
            if entry.name.contains(SET_ASIDE) {
                line(candidate.path(), "skipped: a slot that was set aside", out)?;
                continue;
            }
            match candidate.entries() {
                Ok(entries) if dir::is_slot(&entries) => {}
                Ok(_) => continue,
                Err(failure) if failure.is_gone() => continue,
                // What it is cannot be said; neither can it be passed over.
                Err(_) => {}
            }
            let outcome = verify(&candidate, out)?;
            worst = Some(worst.map_or(outcome, |before| worse(before, outcome)));
        }
        worst.ok_or(Failure::NoSlot {
            path: self.path,
            reason: "neither a slot nor a directory with slots in it",
        })
    }
}

/// Damage is worse than not knowing.
fn worse(a: Outcome, b: Outcome) -> Outcome {
    match (a, b) {
        (Outcome::Damaged, _) | (_, Outcome::Damaged) => Outcome::Damaged,
        (Outcome::Unknown, _) | (_, Outcome::Unknown) => Outcome::Unknown,
        _ => Outcome::Sound,
    }
}

fn verify(dir: &Dir, out: &mut impl Write) -> Result<Outcome, Failure> {
    let slot = match Slot::read(dir) {
        Ok(slot) => slot,
        Err(failure) => {
            let text = format!("cannot say: {failure}");
            line(dir.path(), &text, out)?;
            return Ok(Outcome::Unknown);
        }
    };
    let (outcome, text) = match &slot.verdict {
        Verdict::Sound(chain) => (Outcome::Sound, sound(chain)),
        Verdict::Damaged {
            path,
            offset,
            reason,
        } => (
            Outcome::Damaged,
            format!("damaged: {} at offset {offset}: {reason}", path.display()),
        ),
        Verdict::Unknown { reason } => (Outcome::Unknown, format!("cannot say: {reason}")),
    };
    line(dir.path(), &text, out)?;
    for note in &slot.notes {
        line(dir.path(), &format!("note: {note}"), out)?;
    }
    Ok(outcome)
}

fn sound(chain: &Chain) -> String {
    if chain.links.is_empty() {
        return "sound: nothing is stored".to_owned();
    }
    format!(
        "sound: frames {}..{}, {} unacked ({} bytes)",
        chain.lowest,
        chain.next,
        chain.next.saturating_sub(chain.unacked),
        chain.unacked_bytes
    )
}

fn line(slot: &Path, text: &str, out: &mut impl Write) -> Result<(), Failure> {
    let slot = slot.display().to_string();
    writeln!(out, "{}: {}", paper::tame(&slot), paper::tame(text)).map_err(Failure::Output)
}
