//! Slots that other senders left beside the own one: found, reported and drained in the background
//! (operations.md O23 to O25, protocol.md section 13.9).
//!
//! [`scan()`] looks, [`manager`] decides which slots are drained and when, [`order`] whose turn it
//! is, [`drainer`] does it: one thread for each slot of a [`crew`], with a shard without producers, a ring, a socket and endpoint health
//! of its own, at the lowest priority. Nothing of this runs on the foreground's shard, and nothing
//! of it is told as a connection event.
//!
//! A slot is marked `.failed` when trying again cannot help: the server refuses the credentials or
//! a frame, or the slot is damaged. A server that is merely down never marks.

mod scan;

#[cfg(feature = "uring")]
mod crew;
#[cfg(feature = "uring")]
mod drainer;
#[cfg(feature = "uring")]
mod manager;
#[cfg(feature = "uring")]
mod order;
#[cfg(feature = "uring")]
mod stop;
#[cfg(feature = "uring")]
mod succession;
#[cfg(all(feature = "uring", any(test, feature = "internals")))]
pub mod tool;

use std::path::Path;

use crate::io::Fs;
use crate::observe::Counters;

pub(crate) use scan::{Obstacle, Orphan, scan};

#[cfg(feature = "uring")]
pub(crate) use manager::{Orphans, Plan, Until};
#[cfg(feature = "uring")]
pub(crate) use succession::{Left, Stage, Succession, Successor};

/// Tells the operator, once, what lies beside the own slots while nobody drains it.
pub(crate) fn report(fs: &dyn Fs, sf_dir: &Path, own: &[String], counters: &Counters) {
    let found = match scan(fs, sf_dir, own) {
        Ok(found) => found,
        Err(error) => {
            tracing::warn!(
                sf_dir = %sf_dir.display(), %error,
                "FB-O002 cannot look for slots of other senders"
            );
            return;
        }
    };
    let free: Vec<_> = found.iter().filter(|o| o.obstacle.is_none()).collect();
    let (slots, bytes) = (free.len(), free.iter().map(|o| o.bytes).sum::<u64>());
    counters.orphan_slots.set(slots as u64);
    counters.orphan_bytes.set(bytes);
    if slots > 0 {
        let names: Vec<_> = free.iter().take(8).map(|o| o.name.as_str()).collect();
        tracing::warn!(
            sf_dir = %sf_dir.display(), slots, bytes, first = names.join(", "),
            "FB-O001 slots of other senders hold frames that nobody delivers: drain_orphans=on \
             or `forebay drain` does"
        );
    }
    report_failed(sf_dir, &found);
}

/// Tells of slots that wait for an operator.
fn report_failed(sf_dir: &Path, found: &[Orphan]) {
    let marked = found
        .iter()
        .filter(|orphan| orphan.obstacle == Some(Obstacle::Failed));
    let slots = marked.count();
    if slots > 0 {
        tracing::warn!(
            sf_dir = %sf_dir.display(), slots,
            "FB-O003 slots were given up (.failed): `forebay clear-failed` shows why"
        );
    }
}
