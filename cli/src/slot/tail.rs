//! Looking for whole frames behind a broken one, which ends a segment's data for recovery.
//!
//! Every frame holds a QWP message, so only places with its magic are tried, and not endlessly
//! many: a file can be made of magics.

use std::fs::File;

use forebay::internals::slot::{is_frame, payload_len};

use super::dir::{Dir, read_up_to};
use crate::error::Failure;

const MAGIC: &[u8] = b"QWP1";
/// Bytes between a frame's start and its message.
const FRAME_HEAD: usize = 8;
/// Bytes read at once.
const PIECE: usize = 1 << 20;
/// Largest message that servers take, its header included.
pub(crate) const MESSAGE_BYTES_MAX: u32 = (16 << 20) + 12;
/// Places that are tried.
const TRIES_MAX: u32 = 256;

/// Offset of a whole frame in `from..=last` of a file.
pub(super) fn whole_frame_within(
    dir: &Dir,
    name: &str,
    from: u64,
    last: u64,
) -> Result<Option<u64>, Failure> {
    let file = dir.open(name)?;
    let failed = |source| Failure::read("read", &dir.join(name), source);
    let mut tries = TRIES_MAX;
    let mut at = from;
    while at <= last && tries > 0 {
        let piece = read_up_to(&file, at, PIECE).map_err(failed)?;
        for place in magics(&piece) {
            let Some(start) = at
                .saturating_add(place as u64)
                .checked_sub(FRAME_HEAD as u64)
            else {
                continue;
            };
            if tries == 0 {
                break;
            }
            tries -= 1;
            if start >= from && frame_at(&file, start).map_err(failed)? {
                return Ok(Some(start));
            }
        }
        if piece.len() < PIECE {
            break;
        }
        // A magic may lie across the border.
        at = at.saturating_add((PIECE - MAGIC.len()) as u64 + 1);
    }
    Ok(None)
}

fn magics(piece: &[u8]) -> impl Iterator<Item = usize> {
    let windows = piece.windows(MAGIC.len()).enumerate();
    windows.filter_map(|(at, window)| (window == MAGIC).then_some(at))
}

fn frame_at(file: &File, start: u64) -> std::io::Result<bool> {
    let head = read_up_to(file, start, FRAME_HEAD)?;
    let len = payload_len(&head).filter(|len| *len <= MESSAGE_BYTES_MAX);
    let Some(len) = len.and_then(|len| usize::try_from(len).ok()) else {
        return Ok(false);
    };
    if file.metadata()?.len().saturating_sub(start) < (FRAME_HEAD + len) as u64 {
        return Ok(false);
    }
    Ok(is_frame(&read_up_to(file, start, FRAME_HEAD + len)?))
}
