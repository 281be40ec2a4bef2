//! A ring's file against a naive reader: header, cursors, and the batches that are whole and in
//! their place.
#![no_main]

use forebay::internals::intake::{Ring, ring};
use forebay_fuzz::{flags, mend};
use libfuzzer_sys::fuzz_target;

const FRONT: usize = 4096;
const CAPACITY: usize = 4096;

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// The CRC of the entry that would be at `position`.
fn crc(buffer: &[u8], position: u64) -> Option<(u32, usize)> {
    let place = usize::try_from(position % buffer.len() as u64).ok()?;
    let head = buffer.get(place..place + 32)?;
    let bytes = usize::try_from(u32_at(head, 0)?).ok()?;
    let mut covered = position.to_le_bytes().to_vec();
    covered.extend_from_slice(&head[..8]);
    let payload = buffer.get(place + 32..(place + 32).checked_add(bytes)?)?;
    match u32_at(head, 4)? {
        1 => covered.extend_from_slice(payload),
        2 => {}
        _ => return None,
    }
    Some((crc32c::crc32c(&covered), (32 + bytes).next_multiple_of(32)))
}

/// Makes the entries from `head` to `tail` valid as far as their lengths lead.
fn mend_entries(file: &mut [u8], head: u64, tail: u64) {
    let buffer = &mut file[FRONT..];
    let mut at = head;
    while at < tail {
        let Some((crc, bytes)) = crc(buffer, at) else {
            return;
        };
        let place = usize::try_from(at % buffer.len() as u64).expect("inside");
        buffer[place + 8..place + 12].copy_from_slice(&crc.to_le_bytes());
        buffer[place + 12..place + 16].fill(0);
        at += bytes as u64;
    }
}

/// Batches and where the walk ends, by the book; what a batch holds is not looked at.
fn naive(buffer: &[u8], head: u64, tail: u64) -> (u64, u64) {
    let (mut batches, mut end, mut at, mut pads) = (0, head, head, 0);
    while at < tail {
        let place = usize::try_from(at % buffer.len() as u64).expect("inside");
        let Some((crc, bytes)) = crc(buffer, at) else {
            break;
        };
        let sealed = u64_at(buffer, place + 8) == Some(u64::from(crc));
        if !sealed || at + bytes as u64 > tail {
            break;
        }
        at += bytes as u64;
        if u32_at(buffer, place + 4) == Some(1) {
            (batches, end, pads) = (batches + 1, at, 0);
        } else {
            pads += 1;
            if pads > 1 {
                break;
            }
        }
    }
    (batches, end)
}

fn check(file: &[u8], found: &Ring) {
    let buffer = &file[FRONT..];
    assert_eq!(found.capacity, buffer.len() as u64);
    assert!(found.head <= found.tail && found.tail - found.head <= found.capacity);
    let (batches, end) = naive(buffer, found.head, found.tail);
    // Batches that contradict themselves end the walk earlier.
    assert!(found.batches <= batches && found.taken <= found.batches);
    match found.damaged_at {
        Some(at) => assert!((found.head..found.tail).contains(&at) && at <= end),
        None => assert!(end == found.tail && batches == found.batches),
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((flags, rest)) = flags(data) else {
        return;
    };
    // As it comes: most files are no rings.
    let _ = ring(rest);
    let mut file = vec![0; FRONT + CAPACITY];
    let front = rest.len().min(320);
    file[..front].copy_from_slice(&rest[..front]);
    let behind = &rest[front..rest.len().min(front + CAPACITY)];
    file[FRONT..FRONT + behind.len()].copy_from_slice(behind);
    if flags & 1 != 0 {
        file[..8].copy_from_slice(b"FBINTAKE");
        file[8..12].copy_from_slice(&1_u32.to_le_bytes());
        file[24..32].copy_from_slice(&(CAPACITY as u64).to_le_bytes());
        mend(&mut file, 0..124, 124);
    }
    if flags & 2 != 0 {
        let head = u64_at(&file, 128).unwrap_or(0) % (1 << 20) / 32 * 32;
        let used = u64_at(&file, 256).unwrap_or(0) % (CAPACITY as u64 + 1) / 32 * 32;
        file[128..136].copy_from_slice(&head.to_le_bytes());
        file[256..264].copy_from_slice(&(head + used).to_le_bytes());
        if flags & 4 != 0 {
            mend_entries(&mut file, head, head + used);
        }
    }
    if let Ok(found) = ring(&file) {
        check(&file, &found);
    }
});
