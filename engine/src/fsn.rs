//! Numbers that must not be confused with each other.

use std::fmt;

/// Frame sequence number: 0-based, +1 per frame, per slot lifetime (slot-format.md section 0).
///
/// Cursors are exclusive: "acked = 7" means frames 0..=6 are acked and 7 is the first that is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Fsn(pub u64);

impl Fsn {
    /// The FSN `n` frames later.
    #[must_use]
    pub(crate) fn plus(self, n: u64) -> Self {
        Self(
            self.0
                .checked_add(n)
                .expect("2^63 frames are never reached"),
        )
    }

    /// How many frames lie in `earlier..self`; 0 if there are none.
    pub(crate) fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Fsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Allocation order of a segment file, in its name (slot-format.md section 2.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Generation(pub u64);
