//! Models of a producer and a shard.

use std::sync::Arc;

use forebay_loom::{Door, ring_over};
use loom::thread;

/// Two entries fit this ring beside each other, three do not.
const CAPACITY: usize = 128;

fn hand_over(entries: u64, sealed: bool, at_once: bool) {
    let (mut writer, mut reader) = ring_over(CAPACITY, sealed);
    let producer = thread::spawn(move || {
        let mut n = 0;
        while n < entries {
            let Some(entry) = writer.reserve(8) else {
                thread::yield_now();
                continue;
            };
            entry.copy_from_slice(&n.to_le_bytes());
            n += 1;
            if at_once
                && n < entries
                && let Some(entry) = writer.reserve_next(8)
            {
                entry.copy_from_slice(&n.to_le_bytes());
                n += 1;
            }
            writer.commit();
        }
    });
    for n in 0..entries {
        loop {
            if let Some(entry) = reader.peek() {
                assert_eq!(entry, n.to_le_bytes());
                break;
            }
            thread::yield_now();
        }
        reader.release();
    }
    producer.join().expect("the producer ends");
    assert!(reader.is_empty());
}

#[test]
fn entries_are_handed_over_whole_and_their_room_is_used_again() {
    loom::model(|| hand_over(3, false, false));
}

#[test]
fn entries_committed_together_are_handed_over_whole() {
    loom::model(|| hand_over(3, false, true));
}

#[test]
fn sealed_entries_are_handed_over_whole() {
    loom::model(|| hand_over(3, true, false));
}

#[test]
fn entries_that_are_put_are_handed_over_whole() {
    loom::model(|| {
        let (mut writer, mut reader) = ring_over(CAPACITY, true);
        let producer = thread::spawn(move || {
            for n in 0..3_u64 {
                while !writer.put(&n.to_le_bytes()) {
                    thread::yield_now();
                }
                writer.commit();
            }
        });
        for n in 0..3_u64 {
            while reader.peek().is_none() {
                thread::yield_now();
            }
            assert_eq!(reader.peek(), Some(&n.to_le_bytes()[..]));
            reader.release();
        }
        producer.join().expect("the producer ends");
    });
}

/// The shard parks, looks once more, and sleeps; the producer publishes and knocks. Without the
/// fences, or with the last look before the announcement, a model hangs, which loom reports.
#[test]
fn a_parked_shard_is_woken_by_whoever_publishes() {
    loom::model(|| {
        let (mut writer, mut reader) = ring_over(CAPACITY, false);
        let door = Arc::new(Door::new());
        let producer = {
            let door = Arc::clone(&door);
            thread::spawn(move || {
                for n in 0..2_u64 {
                    let entry = writer.reserve(8).expect("both fit");
                    entry.copy_from_slice(&n.to_le_bytes());
                    writer.commit();
                    door.knock();
                }
            })
        };
        let mut taken = 0;
        while taken < 2 {
            if reader.peek().is_some() {
                reader.release();
                taken += 1;
                continue;
            }
            door.park();
            if reader.is_empty() {
                door.sleep();
            }
            door.unpark();
        }
        producer.join().expect("the producer ends");
    });
}

/// Two producers knock at once: the shard is not lost between them. Up to two preemptions: all
/// interleavings of three threads take too long.
#[test]
fn two_producers_wake_one_shard() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let door = Arc::new(Door::new());
        let rings: Vec<_> = (0..2).map(|_| ring_over(CAPACITY, false)).collect();
        let (writers, mut readers): (Vec<_>, Vec<_>) = rings.into_iter().unzip();
        let producers: Vec<_> = writers
            .into_iter()
            .map(|mut writer| {
                let door = Arc::clone(&door);
                thread::spawn(move || {
                    writer.reserve(8).expect("it fits").fill(1);
                    writer.commit();
                    door.knock();
                })
            })
            .collect();
        let mut taken = 0;
        while taken < 2 {
            let before = taken;
            for reader in &mut readers {
                if reader.peek().is_some() {
                    reader.release();
                    taken += 1;
                }
            }
            if taken > before {
                continue;
            }
            door.park();
            if readers.iter().all(forebay_loom::Reader::is_empty) {
                door.sleep();
            }
            door.unpark();
        }
        for producer in producers {
            producer.join().expect("it ends");
        }
    });
}
