//! The ring in one thread and between two.

#![allow(clippy::unwrap_used, reason = "a panic here is a failed test")]

use std::path::Path;

use super::region::{FRONT_BYTES, Region};
use super::ring::{Reader, Writer, over};
use crate::io::sys::RealFs;
use crate::io::{Fs, OpenMode};

fn ring(capacity: usize) -> (Writer, Reader) {
    over(Region::private(capacity).unwrap())
}

#[test]
fn entries_come_out_whole_and_in_order_across_the_end() {
    let (mut writer, mut reader) = ring(256);
    for round in 0..1000usize {
        let bytes = 1 + round % writer.payload_bytes_max();
        let fill = round.to_le_bytes()[0];
        writer.reserve(bytes).expect("empty ring").fill(fill);
        writer.commit();
        assert_eq!(reader.peek().expect("committed"), vec![fill; bytes]);
        reader.release();
        assert!(reader.is_empty());
    }
}

#[test]
fn a_full_ring_refuses_and_recovers() {
    let (mut writer, mut reader) = ring(256);
    let mut count = 0;
    while writer.reserve(24).is_some() {
        writer.commit();
        count += 1;
    }
    assert_eq!(count, 4);
    assert!(reader.peek().is_some());
    reader.release();
    assert!(writer.reserve(24).is_some());
}

#[test]
fn an_uncommitted_reservation_is_invisible() {
    let (mut writer, mut reader) = ring(128);
    writer.reserve(8).expect("room").fill(1);
    assert!(reader.peek().is_none());
    writer.reserve(4).expect("room").fill(2);
    writer.commit();
    assert_eq!(reader.peek(), Some(&[2u8; 4][..]));
}

fn file_ring(path: &Path, capacity: usize) -> (Writer, Reader) {
    let file = RealFs.open(path, OpenMode::CreateNew).unwrap();
    let bytes = vec![0; FRONT_BYTES + capacity];
    RealFs.write_at(&file, &bytes, 0).unwrap();
    let memory = RealFs.map(&file, bytes.len()).unwrap();
    over(Region::shared(memory))
}

/// In a file, where entries have their CRC: across the end, and with reservations between that come
/// to nothing.
#[test]
fn an_entry_that_is_put_is_the_one_that_is_reserved_and_filled() {
    let dir = tempfile::tempdir().unwrap();
    let paths = ["reserved", "put"].map(|name| dir.path().join(name));
    let [mut reserved, mut put] = paths.each_ref().map(|path| file_ring(path, 1024));
    for round in 0..200usize {
        let bytes = 1 + round * 37 % 150;
        let payload: Vec<u8> = (0..bytes).map(|at| (at * round).to_le_bytes()[0]).collect();
        if round % 3 == 0 {
            // Of the same size, and given up.
            assert!(put.0.put(&vec![0xaa; bytes]));
            assert!(reserved.0.reserve(bytes).is_some());
        }
        let entry = reserved.0.reserve(bytes).expect("room");
        entry.copy_from_slice(&payload);
        if round % 5 == 0 {
            assert!(put.0.put(&vec![0xaa; bytes]));
            let entry = put.0.reserve(bytes).expect("room");
            entry.copy_from_slice(&payload);
        } else {
            assert!(put.0.put(&payload));
        }
        for (writer, reader) in [&mut reserved, &mut put] {
            writer.commit();
            assert_eq!(reader.peek(), Some(&payload[..]), "round {round}");
            reader.release();
        }
        let [one, other] = paths.each_ref().map(|path| std::fs::read(path).unwrap());
        assert!(one == other, "round {round}: the files differ");
    }
    while put.0.put(&[1; 100]) {
        put.0.commit();
    }
    assert!(put.0.room() < 256, "full");
}

#[test]
fn several_entries_appear_at_once_or_not_at_all() {
    let (mut writer, mut reader) = ring(512);
    assert_eq!(writer.footprint([200, 40]), 256 + 96);
    writer.reserve(200).expect("room").fill(1);
    writer.reserve_next(40).expect("room").fill(2);
    assert!(writer.reserve_next(200).is_none(), "full");
    assert!(reader.peek().is_none(), "nothing is committed");
    writer.reserve(200).expect("room").fill(3);
    writer.reserve_next(40).expect("room").fill(4);
    assert!(reader.peek().is_none());
    writer.commit();
    for (bytes, fill) in [(200, 3), (40, 4)] {
        assert_eq!(reader.peek(), Some(&vec![fill; bytes][..]));
        reader.release();
    }
    assert!(reader.is_empty());
    assert_eq!(writer.room(), 512);
    assert_eq!(writer.footprint([200]), 160 + 256, "behind a pad");
}

#[test]
fn two_threads_hand_over_a_million_numbers() {
    let (mut writer, mut reader) = ring(4096);
    let producer = std::thread::spawn(move || {
        for n in 0..1_000_000u64 {
            loop {
                if let Some(room) = writer.reserve(8 + usize::try_from(n % 40).unwrap()) {
                    room[..8].copy_from_slice(&n.to_le_bytes());
                    break;
                }
                std::thread::yield_now();
            }
            writer.commit();
        }
    });
    let mut expected = 0u64;
    while expected < 1_000_000 {
        let Some(entry) = reader.peek() else {
            std::thread::yield_now();
            continue;
        };
        assert_eq!(entry[..8], expected.to_le_bytes());
        assert_eq!(entry.len(), 8 + usize::try_from(expected % 40).unwrap());
        reader.release();
        expected += 1;
    }
    producer.join().unwrap();
}
