//! The short way of the sender: frames one behind the other that lie in memory and need nothing but
//! a mask.
//!
//! What holds for all of them is asked once, and what counts them is told once: at one row a frame
//! that is half of the sender's work. Whatever is unusual about a frame, it goes the long way
//! ([`take`](Outgoing::take)), alone.

use forebay_wire::header::{Flags, HEADER_LEN, MAGIC, VERSION};
use forebay_wire::varint;
use forebay_wire::ws::{Opcode, client_frame_len, write_client_frame};

use super::send::{OUTBOX_BYTES, Outgoing, key};
use crate::delivery::Conversation;
use crate::fsn::Fsn;
use crate::io::Clock;
use crate::shard::journal::{Journal, first_frame};
use crate::slot::frame::FRAME_HEADER_BYTES;

/// The first bytes of a message that commits its rows and brings the symbols it is the first to
/// use.
const USUAL: [u8; 6] = {
    let [m0, m1, m2, m3] = MAGIC;
    let flags = Flags::DELTA_SYMBOL_DICT.bits();
    [m0, m1, m2, m3, VERSION, flags]
};

impl Outgoing {
    /// Takes usual frames from the present position on, below `limit` and while the outbox has
    /// room; returns how many.
    pub(super) fn take_usual(
        &mut self,
        io: &mut impl Clock,
        talk: &mut Conversation,
        journal: &Journal,
        (limit, now): (Fsn, u64),
    ) -> u64 {
        let first = self.position.fsn;
        if first != talk.window.sent() || talk.is_dividing() {
            return 0;
        }
        let Some(mut rest) = journal.memory_from(self.position) else {
            return 0;
        };
        let (known, cap) = (journal.dictionary.len(), self.batch_bytes_max);
        let mut fsn = first;
        while fsn < limit && self.used < OUTBOX_BYTES / 2 {
            let Some((payload, behind)) = first_frame(rest) else {
                break;
            };
            let Some((start, end)) = symbols(payload) else {
                break;
            };
            let fits = cap.is_none_or(|cap| payload.len() as u64 <= cap);
            if !fits || start > self.registered || end > known {
                break;
            }
            self.registered = self.registered.max(end);
            let random = io.random();
            let room = self.room(client_frame_len(payload.len()));
            write_client_frame(room, Opcode::Binary, payload, key(random));
            self.position.offset += FRAME_HEADER_BYTES + payload.len() as u64;
            fsn = fsn.plus(1);
            rest = behind;
        }
        let count = fsn.since(first);
        if count > 0 {
            self.position.fsn = fsn;
            talk.sent_frames(count, now);
            self.count_sent(first, fsn);
        }
        count
    }

    /// Frames `first..end` were handed to the socket.
    pub(super) fn count_sent(&mut self, first: Fsn, end: Fsn) {
        let counters = &self.gate.counters;
        counters.frames_sent.add(end.since(first));
        let again = end.min(self.sent_before);
        if again > first {
            counters.frames_replayed.add(again.since(first));
        }
        self.sent_before = self.sent_before.max(end);
    }
}

/// The symbols that a usual message introduces, as ids `start..end`; `None` for another one.
#[inline]
fn symbols(message: &[u8]) -> Option<(u32, u32)> {
    let (header, rest) = message.split_first_chunk::<HEADER_LEN>()?;
    if *header.first_chunk()? != USUAL {
        return None;
    }
    let (start, used) = varint::decode(rest).ok()?;
    let (count, _) = varint::decode(rest.get(used..)?).ok()?;
    let end = start.checked_add(count)?;
    Some((u32::try_from(start).ok()?, u32::try_from(end).ok()?))
}

#[cfg(test)]
mod tests {
    use forebay_wire::control::write_catch_up;
    use forebay_wire::header::Header;

    use super::*;

    #[test]
    fn a_usual_message_tells_its_symbols() {
        let mut message = Vec::new();
        write_catch_up(&mut message, 300, 2, b"\x01a\x01b");
        assert_eq!(symbols(&message), Some((300, 302)));
        assert_eq!(symbols(&message[..13]), None, "cut");
        for at in 0..6 {
            let mut other = message.clone();
            other[at] ^= 1;
            assert_eq!(symbols(&other), None, "byte {at}");
        }
        let deferring = Flags::DELTA_SYMBOL_DICT.with(Flags::DEFER_COMMIT);
        Header::new(deferring, 1, 7).write(&mut message);
        assert_eq!(symbols(&message), None, "its rows wait for a later message");
    }
}
