//! Message numbers of one connection <-> frame numbers of the slot (protocol.md section 12).

use crate::fsn::Fsn;

/// What was sent on one connection. The first `catch_up` messages carry no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    base: Fsn,
    catch_up: u64,
    frames: u64,
}

impl Window {
    /// A fresh connection whose first frame will be `base`.
    pub(crate) fn new(base: Fsn) -> Self {
        Self {
            base,
            catch_up: 0,
            frames: 0,
        }
    }

    /// A catch-up message was handed to the socket; all of them precede the first frame.
    pub(crate) fn sent_catch_up(&mut self) {
        assert_eq!(self.frames, 0, "catch-up comes before frames");
        self.catch_up += 1;
    }

    /// The next frame was handed to the socket.
    pub(crate) fn sent_frame(&mut self) {
        self.frames += 1;
    }

    /// First frame not sent on this connection.
    pub(crate) fn sent(&self) -> Fsn {
        self.base.plus(self.frames)
    }

    /// Whether anything was sent.
    pub(crate) fn is_used(&self) -> bool {
        self.catch_up + self.frames > 0
    }

    /// What a cumulative OK for message `seq` confirms: the first frame that is *not* acked, or
    /// `None` if it names no frame. A number beyond what was sent counts as all of it.
    pub(crate) fn confirmed(&self, seq: i64) -> Option<Fsn> {
        let seq = u64::try_from(seq).ok()?;
        let messages = seq.checked_add(1)?.min(self.catch_up + self.frames);
        let frames = messages.checked_sub(self.catch_up)?;
        (frames > 0).then(|| self.base.plus(frames))
    }

    /// The frame that an error answer for message `seq` names; `None` for a catch-up message.
    pub(crate) fn named(&self, seq: i64) -> Option<Fsn> {
        let seq = u64::try_from(seq)
            .ok()?
            .min((self.catch_up + self.frames).checked_sub(1)?);
        seq.checked_sub(self.catch_up)
            .map(|frames| self.base.plus(frames))
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
}
