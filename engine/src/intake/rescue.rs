//! The intake of a slot that was set aside goes to the slot that took its name: what was accepted
//! is not damaged with the journal.

use std::path::Path;

use super::record::Record;
use crate::error::Error;
use crate::io::{EntryKind, Fs};
use crate::slot::names::{INTAKE, INTAKE_ID, intake_number, unreplayable};

/// Brings the intakes of `<sender_id>.unreplayable-*` to `slot`, whose lock is held. Every step may
/// be repeated. One that belongs to another intake than the slot already has stays where it is, and
/// so does one that cannot be brought: its slot's journal was put aside for a reason.
pub(crate) fn rescue(
    fs: &dyn Fs,
    sf_dir: &Path,
    sender_id: &str,
    slot: &Path,
) -> Result<(), Error> {
    let entries = fs
        .entries(sf_dir)
        .map_err(|source| Error::disk("list", sf_dir, 0, source))?;
    let prefix = unreplayable(sender_id, 0);
    let prefix = prefix.trim_end_matches('0');
    let aside = entries
        .iter()
        .filter(|entry| entry.kind == EntryKind::Directory && entry.name.starts_with(prefix));
    for entry in aside {
        let dir = sf_dir.join(&entry.name);
        if let Err(error) = bring(fs, &dir, slot) {
            tracing::warn!(
                from = %dir.display(), %error,
                "FB-R021 the intake of a slot that was set aside could not be brought over, the \
                 next start tries again"
            );
        }
    }
    Ok(())
}

fn bring(fs: &dyn Fs, from: &Path, slot: &Path) -> std::io::Result<()> {
    let names = fs.entries(from)?.into_iter().map(|entry| entry.name);
    let names: Vec<String> = names
        .filter(|name| name == INTAKE_ID || intake_number(name, INTAKE).is_some())
        .collect();
    if names.is_empty() {
        return Ok(());
    }
    let theirs = Record::read(fs, from)?;
    match (&theirs, Record::read(fs, slot)?) {
        (Some(theirs), None) => theirs.write(fs, slot)?,
        (Some(theirs), Some(own)) if own.id != theirs.id => {
            tracing::warn!(
                from = %from.display(),
                "FB-R021 the intake of a slot that was set aside stays there: this slot has another"
            );
            return Ok(());
        }
        _ => {}
    }
    for name in names.iter().filter(|name| *name != INTAKE_ID) {
        fs.rename(&from.join(name), &slot.join(name))?;
    }
    if theirs.is_some() {
        fs.unlink(&from.join(INTAKE_ID))?;
    }
    Ok(())
}
