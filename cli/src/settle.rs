//! `forebay settle`: moves a slot's intake into its segments, without a server and without the
//! program that filled it. Afterwards the slot is one that the official clients take over whole.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use forebay::internals::settle::settle;

use crate::error::Failure;
use crate::{Outcome, paper};

/// Moves the batches that wait in a slot's intake into segments. Exit status: 0 nothing is left in
/// the intake, 1 some of it could not be moved and is kept as .lost-*.
#[derive(Debug, Args)]
pub(crate) struct SettleArgs {
    /// The slot: a directory in an `sf_dir`.
    #[arg(value_name = "SLOT")]
    slot: PathBuf,
    /// Size of the segments that are made: at least as large as the sender's, and the largest
    /// batch.
    #[arg(long, value_name = "BYTES", default_value_t = 4 << 20)]
    segment_bytes: u64,
}

impl SettleArgs {
    pub(crate) fn execute(self, out: &mut impl Write) -> Result<Outcome, Failure> {
        let slot = self.slot.canonicalize();
        let slot = slot.map_err(|source| Failure::read("open", &self.slot, source))?;
        let (Some(sf_dir), Some(name)) = (slot.parent(), slot.file_name()) else {
            return Err(no_slot(&self.slot));
        };
        let Some(name) = name.to_str().filter(|name| is_sender_id(name)) else {
            return Err(no_slot(&self.slot));
        };
        // A page is the unit of direct I/O; the smallest segment is that of the engine.
        let bytes = self.segment_bytes.max(64 << 10) / 4096 * 4096;
        let settled = settle(sf_dir, name, bytes)?;
        let text = format!(
            "{}: {} batches moved into segments, {} were there already, {} frames unacked",
            slot.display(),
            settled.batches,
            settled.skipped,
            settled.frames
        );
        writeln!(out, "{}", paper::tame(&text)).map_err(Failure::Output)?;
        if settled.rings_lost == 0 {
            return Ok(Outcome::Sound);
        }
        let text = format!(
            "{}: {} rings could not be moved whole ({} bytes): kept as .lost-*",
            slot.display(),
            settled.rings_lost,
            settled.bytes_lost
        );
        writeln!(out, "{}", paper::tame(&text)).map_err(Failure::Output)?;
        Ok(Outcome::Damaged)
    }
}

fn is_sender_id(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    !name.is_empty() && name.bytes().all(allowed)
}

fn no_slot(path: &std::path::Path) -> Failure {
    Failure::NoSlot {
        path: path.to_path_buf(),
        reason: "its name is not one that a sender may have",
    }
}
