//! What a client hears: frames of the server turned into events.
//!
//! The caller keeps the received bytes in one growing buffer and asks [`Reader::next`] again and
//! again; each answer says how many bytes may be discarded. An unfragmented message is borrowed
//! from that buffer; only fragments are gathered here. What must be held is bounded by the limit
//! given at construction.
//!
//! The genuine server neither fragments nor pings; both are understood because the official
//! client understands them (protocol.md 3.2).
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use super::{Opcode, ServerFrame, Violation, close};

/// What the server said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A whole response, put together from fragments where there were some.
    Binary(&'a [u8]),
    /// Must be answered by a pong with the same payload.
    Ping(&'a [u8]),
    /// The answer to a ping.
    Pong(&'a [u8]),
    /// The server ends the conversation; nothing after it counts.
    Close {
        /// Close code, `None` when the frame was empty.
        code: Option<u16>,
        /// Reason, often empty.
        reason: &'a str,
    },
}

/// One answer of [`Reader::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// Bytes at the front of the input that are done with, also when there is no event.
    pub consumed: usize,
    /// The event, or `None` when the input ends before one is complete.
    pub event: Option<Event<'a>>,
}

/// Incremental reader of a server's frames. One per connection.
#[derive(Debug)]
pub struct Reader {
    limit_bytes: u64,
    gathered: Vec<u8>,
    in_message: bool,
}

impl Reader {
    /// A reader that refuses messages above `message_bytes_max`.
    pub const fn new(message_bytes_max: usize) -> Self {
        Self {
            limit_bytes: message_bytes_max as u64,
            gathered: Vec::new(),
            in_message: false,
        }
    }

    /// Looks for the next event at the front of `input`.
    ///
    /// A violation ends the connection: later calls have no meaning.
    ///
    /// ```
    /// use forebay_wire::ws::{Event, Reader};
    /// let mut reader = Reader::new(1 << 20);
    /// let received = [0x82, 0x02, 7, 9, 0x89];
    /// let step = reader.next(&received)?;
    /// assert_eq!((step.consumed, step.event), (4, Some(Event::Binary(&[7, 9]))));
    /// assert_eq!(reader.next(&received[4..])?.event, None);
    /// # Ok::<(), forebay_wire::ws::Violation>(())
    /// ```
    pub fn next<'a>(&'a mut self, input: &'a [u8]) -> Result<Step<'a>, Violation> {
        let mut consumed = 0_usize;
        loop {
            let rest = input.get(consumed..).unwrap_or_default();
            let Some((frame, payload)) = self.split(rest)? else {
                return Ok(Step {
                    consumed,
                    event: None,
                });
            };
            let frame_bytes = frame.header_bytes.saturating_add(payload.len());
            consumed = consumed.saturating_add(frame_bytes);
            match (frame.opcode, frame.fin) {
                (Opcode::Binary, true) => {
                    return Ok(Step {
                        consumed,
                        event: Some(Event::Binary(payload)),
                    });
                }
                (Opcode::Binary, false) => {
                    self.in_message = true;
                    self.gathered.clear();
                    self.gathered.extend_from_slice(payload);
                }
                (Opcode::Continuation, fin) => {
                    self.gathered.extend_from_slice(payload);
                    if fin {
                        self.in_message = false;
                        let event = Some(Event::Binary(&self.gathered));
                        return Ok(Step { consumed, event });
                    }
                }
                (Opcode::Text, _) => return Err(Violation::Text),
                (Opcode::Ping, _) => {
                    return Ok(Step {
                        consumed,
                        event: Some(Event::Ping(payload)),
                    });
                }
                (Opcode::Pong, _) => {
                    return Ok(Step {
                        consumed,
                        event: Some(Event::Pong(payload)),
                    });
                }
                (Opcode::Close, _) => {
                    return Ok(Step {
                        consumed,
                        event: Some(close_event(payload)?),
                    });
                }
            }
        }
    }

    /// The next frame, if it is complete and legal here.
    fn split<'a>(&self, bytes: &'a [u8]) -> Result<Option<(ServerFrame, &'a [u8])>, Violation> {
        let Some(frame) = ServerFrame::parse(bytes)? else {
            return Ok(None);
        };
        match frame.opcode {
            Opcode::Text => return Err(Violation::Text),
            Opcode::Binary if self.in_message => return Err(Violation::InterruptedMessage),
            Opcode::Continuation if !self.in_message => return Err(Violation::StrayContinuation),
            _ => {}
        }
        if !frame.opcode.is_control() {
            let before = if self.in_message {
                self.gathered.len() as u64
            } else {
                0
            };
            let message_bytes = frame.payload_bytes.saturating_add(before);
            if message_bytes > self.limit_bytes {
                let limit_bytes = self.limit_bytes;
                return Err(Violation::MessageTooLarge {
                    message_bytes,
                    limit_bytes,
                });
            }
        }
        let Ok(payload_bytes) = usize::try_from(frame.payload_bytes) else {
            return Ok(None);
        };
        let end = frame.header_bytes.saturating_add(payload_bytes);
        Ok(bytes
            .get(frame.header_bytes..end)
            .map(|payload| (frame, payload)))
    }
}

fn close_event(payload: &[u8]) -> Result<Event<'_>, Violation> {
    let (code, reason) = close::split_payload(payload);
    if let Some(code) = code.filter(|&code| !close::is_legal_from_server(code)) {
        return Err(Violation::IllegalCloseCode { code });
    }
    let reason = std::str::from_utf8(reason).map_err(|_| Violation::CloseReasonNotUtf8)?;
    Ok(Event::Close { code, reason })
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
