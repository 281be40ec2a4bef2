//! Message numbers of one connection <-> frame numbers of the slot (protocol.md section 12).

use crate::fsn::Fsn;

/// What was sent on one connection. Catch-up messages carry no frame: most come before the first
/// frame, but one is also due before a frame that builds on symbols of a frame lost in a crash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Window {
    base: Fsn,
    frames: u64,
    /// Message numbers of the catch-up, ascending, and of all but the last part of a frame that is
    /// sent table by table.
    catch_up: Vec<u64>,
    /// Parts of frames: message number, frame, table.
    parts: Vec<(u64, Fsn, usize)>,
    /// Frames whose rows wait for a later frame to commit them, ascending.
    deferred: Vec<Fsn>,
}

impl Window {
    /// A fresh connection whose first frame will be `base`.
    pub(crate) fn new(base: Fsn) -> Self {
        Self {
            base,
            frames: 0,
            catch_up: Vec::new(),
            parts: Vec::new(),
            deferred: Vec::new(),
        }
    }

    /// A catch-up message was handed to the socket.
    pub(crate) fn sent_catch_up(&mut self) {
        self.catch_up.push(self.messages());
    }

    fn messages(&self) -> u64 {
        self.catch_up.len() as u64 + self.frames
    }

    /// How many of the first `messages` messages carry a frame.
    fn frames_within(&self, messages: u64) -> u64 {
        let without = self.catch_up.partition_point(|seq| *seq < messages);
        messages - without as u64
    }

    /// The next frame was handed to the socket.
    pub(crate) fn sent_frame(&mut self) {
        self.sent_frames(1);
    }

    /// The next `count` frames were.
    pub(crate) fn sent_frames(&mut self, count: u64) {
        self.frames += count;
    }

    /// The next frame will only be committed by one behind it.
    pub(crate) fn defers(&mut self) {
        self.deferred.push(self.sent());
    }

    /// One table of the next frame was handed to the socket; the last one carries the frame.
    pub(crate) fn sent_part(&mut self, table: usize, last: bool) {
        self.parts.push((self.messages(), self.sent(), table));
        if last {
            self.sent_frame();
        } else {
            self.sent_catch_up();
        }
    }

    /// The frame and table that message `seq` is a part of.
    pub(crate) fn part(&self, seq: i64) -> Option<(Fsn, usize)> {
        let last = self.messages().checked_sub(1)?;
        let seq = u64::try_from(seq).ok()?.min(last);
        let at = self.parts.binary_search_by_key(&seq, |part| part.0).ok()?;
        let (_, frame, table) = self.parts[at];
        Some((frame, table))
    }

    /// The parts among the messages up to `seq`.
    pub(crate) fn parts_within(&self, seq: i64) -> impl Iterator<Item = (Fsn, usize)> + '_ {
        let within = self
            .parts
            .partition_point(|part| i64::try_from(part.0).is_ok_and(|number| number <= seq));
        self.parts[..within]
            .iter()
            .map(|(_, frame, table)| (*frame, *table))
    }

    /// First frame not sent on this connection.
    pub(crate) fn sent(&self) -> Fsn {
        self.base.plus(self.frames)
    }

    /// Whether anything was sent.
    pub(crate) fn is_used(&self) -> bool {
        self.messages() > 0
    }

    /// What a cumulative OK for message `seq` confirms: the first frame that is *not* acked, or
    /// `None` if it names no frame. A number beyond what was sent counts as all of it.
    pub(crate) fn confirmed(&self, seq: i64) -> Option<Fsn> {
        let seq = u64::try_from(seq).ok()?;
        let frames = self.frames_within(seq.checked_add(1)?.min(self.messages()));
        (frames > 0).then(|| self.committed(frames))
    }

    /// Some servers confirm what is not committed yet: a group counts with its last frame.
    fn committed(&self, mut frames: u64) -> Fsn {
        if !self.deferred.is_empty() {
            let is_deferred = |frame| self.deferred.binary_search(&self.base.plus(frame)).is_ok();
            while frames > 0 && is_deferred(frames - 1) {
                frames -= 1;
            }
        }
        self.base.plus(frames)
    }

    /// The frame that an error answer for message `seq` names; `None` for a catch-up message.
    pub(crate) fn named(&self, seq: i64) -> Option<Fsn> {
        let last = self.messages().checked_sub(1)?;
        let seq = u64::try_from(seq).ok()?.min(last);
        let carries_frame = self.catch_up.binary_search(&seq).is_err();
        carries_frame.then(|| self.base.plus(self.frames_within(seq)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ok_confirms_frames_behind_the_catch_up() {
        let mut window = Window::new(Fsn(10));
        window.sent_catch_up();
        window.sent_catch_up();
        window.sent_frame();
        window.sent_frame();
        assert_eq!(window.sent(), Fsn(12));
        assert_eq!(window.confirmed(1), None);
        assert_eq!(window.confirmed(2), Some(Fsn(11)));
        assert_eq!(window.confirmed(3), Some(Fsn(12)));
        assert_eq!(
            window.confirmed(900),
            Some(Fsn(12)),
            "clamped to what was sent"
        );
        assert_eq!(window.confirmed(-1), None);
        assert_eq!(window.confirmed(i64::MAX), Some(Fsn(12)));
        assert_eq!(window.named(2), Some(Fsn(10)));
        assert_eq!(window.named(0), None);
    }

    #[test]
    fn catch_up_between_frames_moves_what_follows() {
        let mut window = Window::new(Fsn(10));
        window.sent_frame();
        window.sent_catch_up();
        window.sent_frame();
        let confirmed: Vec<_> = (0..3).map(|seq| window.confirmed(seq)).collect();
        assert_eq!(confirmed, [Some(Fsn(11)), Some(Fsn(11)), Some(Fsn(12))]);
        let named: Vec<_> = (0..3).map(|seq| window.named(seq)).collect();
        assert_eq!(named, [Some(Fsn(10)), None, Some(Fsn(11))]);
    }

    #[test]
    fn deferred_acked_early() {
        let mut window = Window::new(Fsn(10));
        window.sent_frame();
        for _ in 0..2 {
            window.defers();
            window.sent_frame();
        }
        let first = window.confirmed(0);
        assert_eq!([window.confirmed(1), window.confirmed(2)], [first; 2]);
        window.sent_frame();
        assert_eq!(window.confirmed(3), Some(Fsn(14)), "the group is whole");
    }

    #[test]
    fn a_frame_in_parts_is_confirmed_with_its_last() {
        let mut window = Window::new(Fsn(10));
        window.sent_catch_up();
        window.sent_frame();
        window.sent_part(0, false);
        window.sent_part(2, true);
        window.sent_frame();
        let confirmed: Vec<_> = (0..5).map(|seq| window.confirmed(seq)).collect();
        assert_eq!(
            confirmed,
            [None, Some(11), Some(11), Some(12), Some(13)].map(|end| end.map(Fsn))
        );
        let parts: Vec<_> = (0..5).map(|seq| window.part(seq)).collect();
        let (first, second) = (Some((Fsn(11), 0)), Some((Fsn(11), 2)));
        assert_eq!(parts, [None, None, first, second, None]);
        assert_eq!(window.parts_within(2).collect::<Vec<_>>(), [(Fsn(11), 0)]);
        assert_eq!(window.parts_within(9).count(), 2);
    }
}
