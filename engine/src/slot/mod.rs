//! The slot directory: its bytes, and opening, recovering and closing it.
//!
//! Pure codecs: [`segment`], [`frame`], [`record`], [`chunk`], [`names`]. Decisions without I/O:
//! [`chain`], [`deferred`], [`fold`], [`dictionary`]. Everything else blocks and works over
//! [`crate::io::Fs`]: [`open()`] (lock, takeover, recovery or fresh start), [`make_spare`],
//! [`close_drained`]. Those run on the caller of `connect` or on the steward while no shard holds
//! the slot; from hand-over to hand-back the shard alone writes the slot's files, on its own ring,
//! but for the moments in which it waits for the steward to [`renew()`] them or to write them anew
//! after a failed operation. `view` looks at a slot without owning it, for the tools.
//!
//! Format and behaviour: slot-format.md. Bytes from disk never panic, and no length read from disk
//! is allocated before it was compared with the file's size.

mod adopt;
mod chain;
pub(crate) mod chunk;
mod close;
mod deferred;
mod dictionary;
mod dictionary_file;
mod dual;
pub(crate) mod eras;
mod fold;
pub(crate) mod frame;
mod fresh;
mod gather;
mod identity;
mod lock;
mod marker;
pub(crate) mod names;
mod open;
mod opened;
mod pieces;
mod progress;
pub(crate) mod record;
mod recover;
mod renew;
mod reopen;
mod report;
pub(crate) mod room;
mod salvage;
mod scan;
pub(crate) mod segment;
mod set_aside;
mod settle;
mod spare;
mod supply;
mod takeover;
mod tape;
mod tidy;
#[cfg(any(test, feature = "internals"))]
pub mod view;
pub(crate) mod whole;
pub(crate) mod window;

#[cfg(test)]
mod tests;

pub(crate) use adopt::{Adoption, adopt, is_held};
pub(crate) use close::{Drained, close_drained};
pub(crate) use dictionary::{Dictionary, DictionaryFull, ENTRIES_MAX, NEW_ENTRIES_MAX};
pub(crate) use dual::DualFile;
pub(crate) use marker::{clear_last_error, mark_failed, note_error};
pub(crate) use open::open;
pub(crate) use opened::{OpenedSegment, OpenedSlot, SlotOptions};
pub use progress::RecoveryProgress;
pub(crate) use renew::{Renewal, renew};
pub(crate) use reopen::reopen;
pub(crate) use report::RecoveryReport;
pub use set_aside::SetAside;
pub(crate) use spare::make_spare;
