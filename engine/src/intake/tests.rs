//! Rings in real files: what a dead process left is found, whole or not at all.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::header::{BadHeader, FileHeader};
use super::walk::Walk;
use super::{Store, recover, rescue};
use crate::io::sys::RealFs;
use crate::io::{Fs, OpenMode};
use crate::router::entry::{EntryHeader, HEADER_BYTES};
use crate::router::region::FRONT_BYTES;
use crate::router::ring::{Reader, Writer, over};
use crate::slot::{OpenedSlot, RecoveryProgress, SlotOptions, open};

const CAPACITY: usize = 4096;

/// A batch without symbols: its blocks are bytes of one value.
fn entry(fill: u8, block_bytes: usize) -> Vec<u8> {
    let header = EntryHeader {
        accepted_ns: u64::from(fill),
        rows: 1,
        tables: 1,
        symbol_table: 0,
        symbols: 0,
        symbol_bytes: 0,
        runs: 0,
        block_bytes: u32::try_from(block_bytes).unwrap(),
    };
    let mut out = vec![fill; HEADER_BYTES + block_bytes];
    header.write(&mut out);
    out
}

fn put(writer: &mut Writer, fill: u8, block_bytes: usize) {
    let bytes = entry(fill, block_bytes);
    writer.reserve(bytes.len()).unwrap().copy_from_slice(&bytes);
    writer.commit();
}

struct Rig {
    dir: tempfile::TempDir,
}

impl Rig {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { dir }
    }

    fn slot(&self) -> PathBuf {
        self.dir.path().join("sf/s")
    }

    fn open(&self) -> OpenedSlot {
        let options = SlotOptions {
            sf_dir: self.dir.path().join("sf"),
            sender_id: "s".to_owned(),
            segment_bytes: 65_536,
            total_bytes: 1 << 20,
            lock_retry: Duration::ZERO,
            prefill: false,
            progress: RecoveryProgress::new(),
        };
        open(&RealFs, &options).unwrap()
    }

    /// A process that takes over what is there and makes a ring; both are given back.
    fn ring(&self) -> (Arc<Store>, Writer, Reader) {
        let slot = self.open();
        let found = recover(&RealFs, &slot, None).unwrap();
        let store = Store::new(RealFs, &slot.dir, None, found.record, found.next);
        let store = Arc::new(store);
        let (region, _) = store.create(0, CAPACITY).unwrap();
        let (writer, reader) = over(region);
        RealFs.unlock(&slot.lock).unwrap();
        (store, writer, reader)
    }

    fn names(&self) -> Vec<String> {
        let entries = RealFs.entries(&self.slot()).unwrap().into_iter();
        let mut names: Vec<_> = entries
            .map(|entry| entry.name)
            .filter(|name| name.starts_with(".intake") || name.starts_with(".lost"))
            .collect();
        names.sort();
        names
    }

    fn patch(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let path = self.slot().join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        change(&mut bytes);
        std::fs::write(&path, bytes).unwrap();
    }
}

fn buffer(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()[FRONT_BYTES..].to_vec()
}

#[test]
fn what_was_accepted_is_found_across_the_end_of_the_buffer_and_nothing_of_earlier_laps() {
    let rig = Rig::new();
    let (_store, mut writer, mut reader) = rig.ring();
    for n in 0..100_u8 {
        put(&mut writer, n, 100 + usize::from(n));
        if n < 95 {
            reader.peek().unwrap();
            reader.stamp(7, 8, u64::from(n));
            reader.release();
        }
    }
    let path = rig.slot().join(".intake-0");
    let front = std::fs::read(&path).unwrap();
    let header = FileHeader::parse(&front, (FRONT_BYTES + CAPACITY) as u64).unwrap();
    let cursors = header.cursors(&front).unwrap();
    let buffer = buffer(&path);
    let fills = |tail| {
        Walk::new(&buffer, cursors.head, tail)
            .map(|found| found.entry.header.accepted_ns)
            .collect::<Vec<_>>()
    };
    assert_eq!(fills(cursors.tail), [95, 96, 97, 98, 99]);
    // The whole buffer is full of entries of earlier laps: none of them counts.
    assert_eq!(fills(cursors.head + CAPACITY as u64), [95, 96, 97, 98, 99]);
}

#[test]
fn a_flipped_bit_anywhere_ends_the_walk_before_its_entry() {
    let rig = Rig::new();
    let (_store, mut writer, _reader) = rig.ring();
    for n in 0..3 {
        put(&mut writer, n, 50);
    }
    let whole = buffer(&rig.slot().join(".intake-0"));
    let each = crate::router::ring::head::entry_bytes(HEADER_BYTES + 50);
    for place in 0..usize::try_from(3 * each).unwrap() {
        let mut bytes = whole.clone();
        bytes[place] ^= 0x10;
        let found = Walk::new(&bytes, 0, 3 * each).count() as u64;
        let hit = place as u64 / each;
        let offset = place as u64 % each;
        // The stamp and the padding behind the payload are not covered.
        let covered = offset < 12 || (32..32 + HEADER_BYTES as u64 + 50).contains(&offset);
        let expected = if covered || (12..16).contains(&offset) {
            hit
        } else {
            3
        };
        assert_eq!(found, expected, "byte {place}");
    }
}

#[test]
fn an_intake_of_the_same_boot_is_taken_over_and_one_without_entries_is_removed() {
    let rig = Rig::new();
    let (store, mut writer, _reader) = rig.ring();
    store.create(0, CAPACITY).unwrap();
    put(&mut writer, 1, 50);
    put(&mut writer, 2, 50);
    assert_eq!(rig.names(), [".intake-0", ".intake-1", ".intake-id"]);
    let slot = rig.open();
    let mut found = recover(&RealFs, &slot, None).unwrap();
    assert_eq!(found.report.recovered, 2);
    assert_eq!((found.rings.len(), found.rings[0].entries), (1, 2));
    assert_eq!(found.rings[0].reader.peek().unwrap(), entry(1, 50));
    assert_eq!(rig.names(), [".intake-0", ".intake-id"]);
    assert_eq!(found.next, 2, "numbers are not used again");
}

#[test]
fn a_stamp_without_its_frame_in_the_chain_is_no_proof_and_is_wiped() {
    let rig = Rig::new();
    let (_store, mut writer, mut reader) = rig.ring();
    put(&mut writer, 1, 50);
    reader.peek().unwrap();
    reader.stamp(0x1234, 60, 0);
    reader.take();
    let slot = rig.open();
    let found = recover(&RealFs, &slot, None).unwrap();
    assert_eq!((found.report.recovered, found.report.skipped), (1, 0));
    let buffer = buffer(&rig.slot().join(".intake-0"));
    let left: Vec<_> = Walk::new(&buffer, 0, u64::from(u16::MAX)).collect();
    assert_eq!((left.len(), left[0].stamp), (1, None));
}

#[test]
fn an_intake_of_another_boot_is_kept_aside_and_counted() {
    let rig = Rig::new();
    let (_store, mut writer, _reader) = rig.ring();
    for n in 0..4 {
        put(&mut writer, n, 50);
    }
    let other = |bytes: &mut Vec<u8>| {
        bytes[48..84].copy_from_slice(&[b'x'; 36]);
        let crc = crc32c::crc32c(&bytes[..124]);
        bytes[124..128].copy_from_slice(&crc.to_le_bytes());
    };
    rig.patch(".intake-0", other);
    let slot = rig.open();
    let found = recover(&RealFs, &slot, None).unwrap();
    assert!(found.rings.is_empty());
    let report = &found.report;
    assert_eq!((report.rings_lost, report.entries_lost), (1, 4));
    assert_eq!(report.bytes_lost, 4 * 128);
    assert_eq!(rig.names(), [".lost-0"]);
    let again = recover(&RealFs, &slot, None).unwrap();
    assert_eq!(again.report, super::IntakeReport::default(), "told once");
}

#[test]
fn damaged_entries_are_kept_in_a_copy_and_those_before_them_are_delivered() {
    let rig = Rig::new();
    let (_store, mut writer, _reader) = rig.ring();
    for n in 0..4 {
        put(&mut writer, n, 50);
    }
    rig.patch(".intake-0", |bytes| bytes[FRONT_BYTES + 2 * 128 + 40] ^= 1);
    let slot = rig.open();
    let found = recover(&RealFs, &slot, None).unwrap();
    assert_eq!(found.report.recovered, 2);
    assert_eq!((found.report.rings_lost, found.report.bytes_lost), (1, 256));
    assert_eq!(rig.names(), [".intake-0", ".intake-id", ".lost-0"]);
}

#[test]
fn a_ring_that_is_listed_and_gone_is_counted_once() {
    let rig = Rig::new();
    let (_store, mut writer, _reader) = rig.ring();
    put(&mut writer, 1, 50);
    RealFs.unlink(&rig.slot().join(".intake-0")).unwrap();
    let slot = rig.open();
    let found = recover(&RealFs, &slot, None).unwrap();
    assert_eq!(
        (found.report.rings_lost, found.report.bytes_lost),
        (1, 4096)
    );
    let again = recover(&RealFs, &slot, None).unwrap();
    assert_eq!(again.report.rings_lost, 0);
    assert!(rig.names().is_empty());
}

#[test]
fn files_that_are_no_rings_are_kept_aside() {
    let size = (FRONT_BYTES + CAPACITY) as u64;
    let front = FileHeader {
        shard: 0,
        number: 5,
        capacity: CAPACITY as u64,
        id: [1; 16],
        boot: "b".repeat(36),
    };
    let mut bytes = front.to_bytes().to_vec();
    bytes.resize(FRONT_BYTES, 0);
    assert_eq!(FileHeader::parse(&bytes, size), Ok(front.clone()));
    assert_eq!(FileHeader::parse(&bytes, size + 1), Err(BadHeader::Size));
    assert_eq!(
        FileHeader::parse(&bytes[..100], size),
        Err(BadHeader::Short)
    );
    let mut cursors = |head: u64, tail: u64| {
        bytes[128..136].copy_from_slice(&head.to_le_bytes());
        bytes[256..264].copy_from_slice(&tail.to_le_bytes());
        front.cursors(&bytes).map(|c| (c.head, c.tail))
    };
    assert_eq!(cursors(32, 4128), Ok((32, 4128)));
    for (head, tail) in [(64, 32), (0, 4128), (1, 33), (u64::MAX - 31, u64::MAX - 31)] {
        assert_eq!(
            cursors(head, tail),
            Err(BadHeader::Cursors),
            "{head} {tail}"
        );
    }
    let rig = Rig::new();
    let slot = rig.open();
    std::fs::write(rig.slot().join(".intake-0"), b"something else").unwrap();
    std::fs::write(rig.slot().join(".intake-7"), vec![0; 8192]).unwrap();
    let found = recover(&RealFs, &slot, None).unwrap();
    assert_eq!(found.report.rings_lost, 2);
    assert_eq!(rig.names(), [".lost-0", ".lost-1"]);
}

#[test]
fn the_intake_of_a_slot_that_was_set_aside_comes_to_the_new_one() {
    let rig = Rig::new();
    let (_store, mut writer, _reader) = rig.ring();
    put(&mut writer, 1, 50);
    let aside = rig.dir.path().join("sf/s.unreplayable-0");
    RealFs.rename(&rig.slot(), &aside).unwrap();
    let slot = rig.open();
    assert_eq!(rig.names(), [".intake-0", ".intake-id"]);
    let found = recover(&RealFs, &slot, None).unwrap();
    assert_eq!(found.report.recovered, 1);
    let sf_dir = rig.dir.path().join("sf");
    rescue(&RealFs, &sf_dir, "s", &slot.dir).unwrap();
    let left = RealFs.open(&aside.join(".intake-id"), OpenMode::Read);
    assert!(left.is_err(), "nothing is left there");
}
