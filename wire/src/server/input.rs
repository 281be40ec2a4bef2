//! The receive buffer of a session.
//!
//! ```text
//! 0        start                  end            len
//! | done   | received, not parsed | spare room   |
//! ```
//! The socket reads into the spare room; payloads are unmasked where they lie. What a pass leaves
//! unparsed is moved to the front once, so a payload byte is moved at most once after the
//! socket's copy.
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use crate::ws::{ClientFault, ClientFrame, mask};

/// Room for a frame header and some small frames, whatever is configured.
const BUFFER_BYTES_MIN: usize = 1024;

/// The next thing in the buffer.
#[derive(Debug)]
pub(super) enum Front<'a> {
    /// A frame header that is complete or not there yet, with too little payload behind it.
    Incomplete,
    /// Header and payload exceed the receive buffer.
    TooLarge { payload_exceeds: bool },
    /// A whole frame, unmasked and taken out of the buffer.
    Frame(ClientFrame, &'a [u8]),
}

#[derive(Debug)]
pub(super) struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    limit_bytes: usize,
}

impl Input {
    pub(super) fn new(limit_bytes: usize, bytes_at_start: usize) -> Self {
        let limit_bytes = limit_bytes.max(BUFFER_BYTES_MIN);
        let bytes_at_start = bytes_at_start.clamp(BUFFER_BYTES_MIN, limit_bytes);
        Self {
            bytes: vec![0; bytes_at_start],
            start: 0,
            end: 0,
            limit_bytes,
        }
    }

    /// Room to receive into; never empty between passes.
    pub(super) fn spare(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.end..).unwrap_or_default()
    }

    /// Counts bytes that were received into the spare room.
    pub(super) fn received(&mut self, count: usize) {
        self.end = self.end.saturating_add(count).min(self.bytes.len());
    }

    /// Takes the next frame from the front.
    pub(super) fn next_frame(&mut self) -> Result<Front<'_>, ClientFault> {
        let pending = self.bytes.get(self.start..self.end).unwrap_or_default();
        let Some(frame) = ClientFrame::parse(pending)? else {
            return Ok(Front::Incomplete);
        };
        let limit = self.limit_bytes as u64;
        let frame_bytes = frame
            .payload_bytes
            .saturating_add(frame.header_bytes as u64);
        if frame_bytes > limit {
            return Ok(Front::TooLarge {
                payload_exceeds: frame.payload_bytes > limit,
            });
        }
        let frame_bytes = usize::try_from(frame_bytes).unwrap_or(usize::MAX);
        if pending.len() < frame_bytes {
            if frame_bytes > self.bytes.len() {
                self.bytes.resize(self.limit_bytes, 0);
            }
            return Ok(Front::Incomplete);
        }
        let payload_start = self.start.saturating_add(frame.header_bytes);
        let payload_end = self.start.saturating_add(frame_bytes);
        self.start = payload_end;
        let payload = self
            .bytes
            .get_mut(payload_start..payload_end)
            .unwrap_or_default();
        mask::apply(payload, frame.mask_key, 0);
        Ok(Front::Frame(frame, payload))
    }

    /// Moves what is left to the front, so that the spare room is as large as it can be.
    pub(super) fn compact(&mut self) {
        if self.start == 0 {
            return;
        }
        self.bytes.copy_within(self.start..self.end, 0);
        self.end = self.end.saturating_sub(self.start);
        self.start = 0;
    }

    /// Forgets everything; what follows a CLOSE is not read.
    pub(super) fn clear(&mut self) {
        self.start = 0;
        self.end = 0;
    }
}
