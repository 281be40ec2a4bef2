//! Catch-up: what a connection must know before a frame that builds on symbols of earlier ones.

use forebay_wire::control;
use forebay_wire::header::{Flags, HEADER_LEN, Header};
use forebay_wire::varint;

use super::send::{OUTBOX_BYTES, Outgoing, Unsent};
use crate::delivery::Conversation;
use crate::slot::Dictionary;

/// Budget of a catch-up message when the server names no cap.
const CATCH_UP_BYTES_MAX: u64 = 1 << 20;

impl Outgoing {
    /// Registers the symbols that the frame at the present position builds on and that this
    /// connection does not know: what earlier connections' frames introduced. In pieces below the
    /// server's cap; `false` when the outbox is full before all is said.
    pub(super) fn catch_up(
        &mut self,
        talk: &mut Conversation,
        random: u64,
        (payload, brings): (&[u8], bool),
        dictionary: &Dictionary,
    ) -> Result<bool, Unsent> {
        // A frame without a delta brings its own symbols, or none.
        let Some((start, end)) = delta(payload) else {
            return Ok(true);
        };
        if start > dictionary.len() || end > dictionary.len() {
            let known = dictionary.len();
            return Err(Unsent::Never(format!(
                "a stored frame needs symbols {start}..{end}, {known} are known: the dictionary \
                 is damaged; keep a copy of the slot and start with a new sender_id"
            )));
        }
        let reserve = control::CATCH_UP_RESERVE as u64;
        let cap = self
            .batch_bytes_max
            .unwrap_or(CATCH_UP_BYTES_MAX)
            .min(CATCH_UP_BYTES_MAX);
        let budget = usize::try_from(cap.saturating_sub(reserve))
            .unwrap_or(usize::MAX)
            .max(1);
        let mut message = Vec::new();
        while self.registered < start {
            if self.used >= OUTBOX_BYTES / 2 {
                return Ok(false);
            }
            let from = self.registered;
            let to = fitting(dictionary, from, start, budget);
            let entries = dictionary.entries(from, to);
            if entries.len() > budget {
                self.gate.counters.blocked_by_cap.add(1);
                return Err(Unsent::Blocked(format!(
                    "symbol {from} exceeds the server's message cap of {cap}"
                )));
            }
            message.clear();
            let count = u64::from(to - from);
            control::write_catch_up(&mut message, u64::from(from), count, entries);
            self.gather(random.rotate_left(from % 64) ^ u64::from(from), &message);
            talk.sent_catch_up();
            self.registered = to;
        }
        if brings {
            self.registered = self.registered.max(end);
        }
        Ok(true)
    }
}

/// The symbols that a message introduces, as ids `start..end`.
fn delta(payload: &[u8]) -> Option<(u32, u32)> {
    let header = Header::parse(payload).ok()?;
    if !header.flags.contains(Flags::DELTA_SYMBOL_DICT) {
        return None;
    }
    let rest = payload.get(HEADER_LEN..)?;
    let (start, used) = varint::decode(rest).ok()?;
    let (count, _) = varint::decode(rest.get(used..)?).ok()?;
    let end = start.checked_add(count)?;
    Some((u32::try_from(start).ok()?, u32::try_from(end).ok()?))
}

/// The end of the longest run of symbols from `from`, below `end`, whose entries fit `budget`
/// bytes; at least one.
fn fitting(dictionary: &Dictionary, from: u32, end: u32, budget: usize) -> u32 {
    let (mut fits, mut over) = (from + 1, end + 1);
    while over - fits > 1 {
        let middle = fits.midpoint(over);
        if dictionary.entries(from, middle).len() <= budget {
            fits = middle;
        } else {
            over = middle;
        }
    }
    fits
}
