//! The real shard, slot and producer code on a simulated disk, network and clock: processes are
//! killed and the power is cut at random moments, recovery included, and what was promised is
//! delivered all the same.
//!
//! `FOREBAY_SCALE=n` multiplies the seeds; `FOREBAY_SEED=n` runs that one alone. What exactly is
//! checked is described at `engine/src/io/sim`.

use forebay::internals::sim::{Summary, run_faults, run_kills, run_panics, run_power_cuts};
use forebay_tests::seeds::sweep;

/// Kills, and power cuts, with a seed each.
const SEEDS: u64 = 500;
const SEEDS_WITH_FAULTS: u64 = 60;
const SEEDS_WITH_PANICS: u64 = 200;

/// The runs were hard enough: they went through everything that can break.
fn assert_crossed(total: &Summary) {
    let per_seed = |count: u64| count / total.seeds;
    assert!(per_seed(total.frames) >= 100, "{} frames", total.frames);
    assert!(
        per_seed(total.rotations) >= 10,
        "{} rotations",
        total.rotations
    );
    assert!(per_seed(total.trims) >= 10, "{} trims", total.trims);
    assert!(
        per_seed(total.dictionary_writes) >= 10,
        "{} writes",
        total.dictionary_writes
    );
    assert!(
        per_seed(total.recovered) >= 20,
        "{} frames recovered",
        total.recovered
    );
    assert!(
        per_seed(total.repeats) >= 10,
        "{} frames arrived again",
        total.repeats
    );
    assert!(
        per_seed(total.times_full) >= 1,
        "full {} times",
        total.times_full
    );
    assert!(
        total.kills + total.power_cuts >= 2 * total.seeds,
        "{} kills",
        total.kills
    );
    assert!(
        per_seed(total.epochs) >= 2,
        "{} dictionary epochs",
        total.epochs
    );
    for (what, count) in [
        ("symbols refused", total.symbols_refused),
        ("torn tails", total.torn_tails),
        ("interrupted openings", total.opens_interrupted),
        ("reads for replay", total.disk_reads),
        ("replays on a new connection", total.replays),
        ("durable acknowledgements", total.durable_acks),
        ("frames that the server lost", total.lost_by_server),
    ] {
        assert!(count * 20 >= total.seeds, "{what}: only {count}");
    }
    assert!(
        total.epochs_interrupted * 50 >= total.seeds,
        "{} epochs interrupted",
        total.epochs_interrupted
    );
    let (vanished, dropped) = (total.vanished, total.half_open_drops);
    assert!(
        dropped * 50 >= total.seeds,
        "of {vanished} links that vanished {dropped} were given up by the sender"
    );
}

#[test]
fn what_was_written_is_delivered_after_any_kill() {
    let test = "what_was_written_is_delivered_after_any_kill";
    if let Some(total) = sweep(("sim_smoke", test), SEEDS, run_kills) {
        assert_crossed(&total);
    }
}

#[test]
fn what_was_stable_is_delivered_after_any_power_cut() {
    let test = "what_was_stable_is_delivered_after_any_power_cut";
    if let Some(total) = sweep(("sim_smoke", test), SEEDS, run_power_cuts) {
        assert_crossed(&total);
        assert!(
            total.power_cuts >= total.seeds,
            "{} power cuts",
            total.power_cuts
        );
    }
}

#[test]
fn promises_hold_on_a_disk_that_is_full_short_or_failing() {
    let test = "promises_hold_on_a_disk_that_is_full_short_or_failing";
    if let Some(total) = sweep(("sim_smoke", test), SEEDS_WITH_FAULTS, run_faults) {
        assert!(
            total.disk_errors >= total.seeds,
            "{} failures",
            total.disk_errors
        );
    }
}

/// A shard panics at any call that it makes, its successor goes on from the disk under the lock that
/// was kept; now and then the process dies over that, or has a disk that fails.
#[test]
fn what_was_accepted_is_delivered_over_panics_of_the_shard() {
    let test = "what_was_accepted_is_delivered_over_panics_of_the_shard";
    if let Some(total) = sweep(("sim_smoke", test), SEEDS_WITH_PANICS, run_panics) {
        let (revivals, seeds) = (total.revivals, total.seeds);
        assert!(revivals >= 5 * seeds, "{revivals} revivals");
        assert!(total.power_cuts + total.kills >= seeds, "{total}");
        for (what, count) in [
            ("given up with a broken journal", total.given_up),
            ("killed while it began again", total.revivals_interrupted),
            ("frames that arrived again", total.repeats),
        ] {
            assert!(count * 20 >= seeds, "{what}: only {count}");
        }
    }
}

#[test]
fn a_seed_does_the_same_twice() {
    for seed in 0..5 {
        assert_eq!(run_panics(seed), run_panics(seed), "seed {seed}");
        assert_eq!(run_kills(seed), run_kills(seed), "seed {seed}");
        assert_eq!(run_power_cuts(seed), run_power_cuts(seed), "seed {seed}");
    }
}
