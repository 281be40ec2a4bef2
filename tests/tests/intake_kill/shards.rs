//! Rings that a killed process left, and another number of shards at the next start.

use std::path::Path;

use super::rig::{Rig, names};
use super::{SEED, forebay, seeds};

/// More tables than shards, so that most of them change shards with the number.
const TABLES: u64 = 7;

fn rig(seed: u64) -> Rig {
    Rig::of_tables(seed, "", TABLES)
}

/// The number of shards of the starts from now on.
fn with_shards(rig: &mut Rig, shards: u64) -> &mut Rig {
    rig.more = format!("shards={shards};");
    rig
}

/// Slots that hold segments or rings, and their files. A process that was killed while it removed a
/// drained slot's files may leave the manifest and others, until a start with that slot.
fn filled(rig: &Rig) -> Vec<(String, Vec<String>)> {
    let slots = names(&rig.sf_dir()).into_iter();
    let slots = slots.filter(|slot| !slot.starts_with('.'));
    let found = slots.map(|slot| {
        let found = names(&rig.sf_dir().join(&slot));
        (slot, found)
    });
    let is_ring = |name: &str| {
        let number = name.strip_prefix(".intake-");
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let is_segment = |name: &str| Path::new(name).extension().is_some_and(|end| end == "sfa");
    let holds = |name: &String| is_segment(name) || is_ring(name);
    found.filter(|(_, found)| found.iter().any(holds)).collect()
}

/// Batches that wait in rings, of all slots.
fn waiting(rig: &Rig) -> u64 {
    let slots = names(&rig.sf_dir()).into_iter();
    let of_slot = |slot: String| {
        let slot = rig.sf_dir().join(slot);
        let (status, text) = forebay(&["inspect", "--json", &slot.display().to_string()]);
        assert_eq!(status, 0, "{text}");
        let found: serde_json::Value = serde_json::from_str(&text).unwrap();
        let rings = found["intake"].as_array().cloned().unwrap_or_default();
        let batches = rings.iter().map(|ring| ring["batches"].as_u64().unwrap());
        batches.sum::<u64>()
    };
    slots
        .filter(|slot| !slot.starts_with('.'))
        .map(of_slot)
        .sum()
}

/// Kills a writer with each number of shards in turn, without a server; then one starts with the
/// last number and delivers.
fn kills(seed: u64, shards: &[u64]) -> u64 {
    let mut rig = rig(seed);
    let (last, before) = shards.split_last().expect("some numbers");
    for number in before {
        with_shards(&mut rig, *number).kill_writer();
    }
    let left = waiting(&rig);
    let _sink = rig.sink();
    with_shards(&mut rig, *last).drain();
    assert_eq!(filled(&rig), Vec::new());
    let arrived = rig.account();
    println!(
        "FOREBAY_SEED={seed}, shards {shards:?}: {} batches flushed, {} arrived, {left} of them \
         out of rings",
        rig.flushed(),
        arrived.rows,
    );
    assert_eq!(arrived.doubled, 0, "nothing was sent before");
    left
}

#[test]
fn rings_left_by_one_shard_are_delivered_by_three() {
    for seed in seeds() {
        kills(seed, &[1, 3]);
    }
}

#[test]
fn rings_left_by_three_shards_are_delivered_by_one() {
    for seed in seeds() {
        kills(seed, &[3, 1]);
    }
}

#[test]
fn rings_left_by_two_shards_are_delivered_by_three() {
    for seed in seeds() {
        kills(seed, &[2, 3]);
    }
}

#[test]
fn rings_left_by_ever_other_numbers_of_shards_keep_the_order_of_every_table() {
    for seed in seeds() {
        let left = kills(seed, &[1, 3, 2, 2, 1, 3]);
        assert!(left > 0, "the last kill left nothing in the rings");
    }
}

/// The next process dies as well, in the middle of delivering what the earlier ones left.
#[test]
fn kills_while_the_rings_of_other_shards_are_delivered_lose_nothing() {
    for seed in seeds() {
        let mut rig = rig(seed);
        let _sink = rig.sink();
        for number in [1, 3, 2, 1, 3] {
            with_shards(&mut rig, number).kill_writer();
            for _ in 0..2 {
                rig.kill_opening();
            }
        }
        with_shards(&mut rig, 2).drain();
        assert_eq!(filled(&rig), Vec::new());
        let arrived = rig.account();
        println!(
            "FOREBAY_SEED={seed}: 15 kills, server up: {} batches flushed, {} doubled",
            rig.flushed(),
            arrived.doubled
        );
    }
}

/// The number grew while the rings of the first life were never delivered, and shrinks again.
#[test]
fn rings_that_wait_through_starts_without_a_server_stay_in_order() {
    let mut rig = rig(SEED);
    for number in [3, 1] {
        with_shards(&mut rig, number).kill_writer();
        for other in [2, 1, 3] {
            with_shards(&mut rig, other).kill_opening();
        }
    }
    let _sink = rig.sink();
    with_shards(&mut rig, 1).drain();
    assert_eq!(filled(&rig), Vec::new());
    assert_eq!(rig.account().doubled, 0);
}
