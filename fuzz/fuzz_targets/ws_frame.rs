//! The client's reader of a server's WebSocket frames: in one piece and in two it hears the same.
#![no_main]

use forebay_fuzz::flags;
use forebay_wire::ws::{ClientFrame, Event, Reader, Violation};
use libfuzzer_sys::fuzz_target;

/// Small, so that inputs can pass it, in one frame and in fragments.
const MESSAGE_BYTES_MAX: usize = 256;

#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<u16>, String),
}

impl Heard {
    fn new(event: Event<'_>) -> Self {
        match event {
            Event::Binary(bytes) => {
                assert!(bytes.len() <= MESSAGE_BYTES_MAX);
                Self::Binary(bytes.to_vec())
            }
            Event::Ping(bytes) => Self::Ping(bytes.to_vec()),
            Event::Pong(bytes) => Self::Pong(bytes.to_vec()),
            Event::Close { code, reason } => Self::Close(code, reason.to_owned()),
        }
    }
}

/// All events, and how it ended; bytes after the first `split` arrive later.
fn hear(bytes: &[u8], split: usize) -> (Vec<Heard>, Option<Violation>) {
    let mut reader = Reader::new(MESSAGE_BYTES_MAX);
    let mut heard = Vec::new();
    let mut at = 0;
    for arrived in [split, bytes.len()] {
        loop {
            let input = &bytes[at..arrived];
            match reader.next(input) {
                Ok(step) => {
                    assert!(step.consumed <= input.len());
                    at += step.consumed;
                    let Some(event) = step.event else { break };
                    assert!(step.consumed > 0);
                    heard.push(Heard::new(event));
                    if let Some(Heard::Close(..)) = heard.last() {
                        return (heard, None);
                    }
                }
                Err(violation) => return (heard, Some(violation)),
            }
        }
    }
    (heard, None)
}

fuzz_target!(|data: &[u8]| {
    let Some((split, bytes)) = flags(data) else {
        return;
    };
    let whole = hear(bytes, bytes.len());
    assert_eq!(hear(bytes, usize::from(split).min(bytes.len())), whole);
    if let Ok(Some(frame)) = ClientFrame::parse(bytes) {
        assert!(frame.header_bytes <= bytes.len());
    }
});
