//! Rows that carry their number, and the account of those that arrived.

use std::sync::atomic::{AtomicU64, Ordering};

use forebay::{Producer, TimestampNanos};

/// Marks the number of a row in its message.
const MARK: &[u8] = b"number:";

/// Fills one row that carries the number `n`, a symbol of its own and `weight` bytes more.
pub(crate) fn fill(producer: &mut Producer, n: u64, weight: usize) {
    let text = format!("number:{n:012}{}", "x".repeat(weight));
    producer.table("t").unwrap();
    producer.symbol("sym", &format!("S{n}")).unwrap();
    producer.column_str("v", &text).unwrap();
    producer
        .at(TimestampNanos(i64::try_from(n).unwrap() + 1))
        .unwrap();
}

/// The number of the row in a message, if it has one.
pub(super) fn number(message: &[u8]) -> Option<u64> {
    let at = message.windows(MARK.len()).position(|part| part == MARK)?;
    let digits = message.get(at + MARK.len()..at + MARK.len() + 12)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// What the server saw, checked as it comes: each connection begins at a frame that was seen or at
/// the next (an OK may be lost with its socket) and goes on without a gap.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Frames seen so far, all of `0..frames`.
    pub(crate) frames: AtomicU64,
}

impl Seen {
    /// A row arrived, behind `first` on this connection.
    pub(crate) fn row(&self, n: u64, first: &mut Option<u64>) {
        let frames = self.frames.load(Ordering::Acquire);
        match *first {
            None => assert!(n <= frames, "the first frame is {n}, {frames} were seen"),
            Some(before) => assert_eq!(n, before + 1, "a gap"),
        }
        *first = Some(n);
        self.frames.fetch_max(n + 1, Ordering::AcqRel);
    }
}
