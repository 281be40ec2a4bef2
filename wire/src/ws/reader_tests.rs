//! Scripted servers against [`Reader`].

use super::*;
use crate::ws::append_server_frame;
use proptest::prelude::*;

/// An event that owns its bytes.
#[derive(Debug, PartialEq, Eq, Clone)]
enum Heard {
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<u16>, String),
}

/// Feeds `bytes` in pieces of `piece` bytes, keeping what the reader did not consume.
fn hear(bytes: &[u8], piece: usize) -> Result<Vec<Heard>, Violation> {
    let mut reader = Reader::new(1000);
    let (mut pending, mut heard) = (Vec::new(), Vec::new());
    for piece in bytes.chunks(piece.max(1)) {
        pending.extend_from_slice(piece);
        loop {
            let step = reader.next(&pending)?;
            let event = step.event.map(|event| match event {
                Event::Binary(bytes) => Heard::Binary(bytes.to_vec()),
                Event::Ping(bytes) => Heard::Ping(bytes.to_vec()),
                Event::Pong(bytes) => Heard::Pong(bytes.to_vec()),
                Event::Close { code, reason } => Heard::Close(code, reason.to_owned()),
            });
            pending.drain(..step.consumed);
            let Some(event) = event else { break };
            heard.push(event);
        }
    }
    Ok(heard)
}

#[test]
fn fragments_are_joined_around_interleaved_control_frames() {
    let mut bytes = vec![0x02, 2, 1, 2, 0x89, 1, 9, 0x00, 1, 3, 0x8A, 0, 0x80, 1, 4];
    append_server_frame(&mut bytes, Opcode::Close, &close::payload(1000, "bye"));
    let want = [
        Heard::Ping(vec![9]),
        Heard::Pong(vec![]),
        Heard::Binary(vec![1, 2, 3, 4]),
        Heard::Close(Some(1000), "bye".to_owned()),
    ];
    for piece in 1..=bytes.len() {
        assert_eq!(
            hear(&bytes, piece).as_deref(),
            Ok(&want[..]),
            "pieces of {piece}"
        );
    }
}

#[test]
fn sequence_and_close_breaches_are_told_apart() {
    assert_eq!(hear(&[0x81, 0], 9), Err(Violation::Text));
    assert_eq!(hear(&[0x80, 0], 9), Err(Violation::StrayContinuation));
    assert_eq!(
        hear(&[0x02, 0, 0x82, 0], 9),
        Err(Violation::InterruptedMessage)
    );
    assert_eq!(
        hear(&[0x88, 2, 0x03, 0xED], 9),
        Err(Violation::IllegalCloseCode { code: 1005 })
    );
    assert_eq!(
        hear(&[0x88, 3, 0x03, 0xE8, 0xFF], 9),
        Err(Violation::CloseReasonNotUtf8)
    );
    assert_eq!(
        hear(&[0x88, 0], 9),
        Ok(vec![Heard::Close(None, String::new())])
    );
}

#[test]
fn messages_over_the_limit_are_refused_at_their_header() {
    let too_large = |n| {
        Err(Violation::MessageTooLarge {
            message_bytes: n,
            limit_bytes: 1000,
        })
    };
    assert_eq!(hear(&[0x82, 126, 0x03, 0xE9], 9), too_large(1001));
    let mut fragmented = vec![0x02, 126, 0x03, 0xE8];
    fragmented.resize(4 + 1000, 7);
    fragmented.extend_from_slice(&[0x80, 1]);
    assert_eq!(hear(&fragmented, 2000), too_large(1001));
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic_and_alike_in_any_pieces(
        bytes in proptest::collection::vec(
            prop_oneof![Just(0x82), Just(0x02), Just(0x80), Just(0x89), 0_u8..4, any::<u8>()],
            0..60,
        ),
        piece in 1_usize..60,
    ) {
        let whole = hear(&bytes, 60);
        let pieces = hear(&bytes, piece);
        prop_assert_eq!(whole, pieces);
    }
}
