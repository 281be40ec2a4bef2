//! What a real kernel and a real ext4 leave of a slot when the power goes: an engine runs on a disk
//! that keeps every write and flush in their order (`block::Recorder`), then the disk of every
//! flush, and of random moments with any part of the unflushed writes, is mounted, opened by the
//! engine, and delivered.
//!
//! Needs root, /dev/fuse and loop devices. `FOREBAY_SCALE=n` multiplies the random moments,
//! `FOREBAY_SEED=n` chooses others.

mod recording;
mod replay;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use forebay_tests::seeds::number;

use recording::{Recording, Script};
use replay::{Bench, Chance, Cut, spread};

const SCRIPTS: [Script; 5] = [
    Script {
        name: "memory, stable waited for now and then",
        keys: "",
        rows: 250,
        force_every: 40,
        server: false,
    },
    Script {
        name: "periodic",
        keys: "sf_durability=periodic;sf_sync_interval_millis=5;",
        rows: 250,
        force_every: 0,
        server: false,
    },
    Script {
        name: "flush",
        keys: "sf_durability=flush;",
        rows: 200,
        force_every: 0,
        server: false,
    },
    Script {
        name: "append",
        keys: "sf_durability=append;",
        rows: 80,
        force_every: 0,
        server: false,
    },
    Script {
        name: "flush, with a server: segments are trimmed",
        keys: "sf_durability=flush;sf_max_total_bytes=256k;",
        rows: 250,
        force_every: 0,
        server: true,
    },
];

/// Images of flush points, and of random moments; with `FOREBAY_SCALE` every flush point and 500
/// moments times that.
fn limits() -> (usize, usize) {
    number("FOREBAY_SCALE").map_or((300, 200), |scale| {
        let scale = usize::try_from(scale).expect("a number");
        (usize::MAX, 500 * scale)
    })
}

#[test]
#[ignore = "needs root, /dev/fuse and loop devices"]
fn no_stable_frame_is_lost_and_none_invented_whatever_the_disk_made_of_unflushed_writes() {
    if let Some(reason) = forebay_tests::block::missing() {
        println!("skipped: {reason}");
        return;
    }
    let (flushes, subsets) = limits();
    let (flushes, subsets) = (flushes / SCRIPTS.len(), subsets / SCRIPTS.len());
    let seed = number("FOREBAY_SEED").unwrap_or(1);
    let (began, mut images) = (Instant::now(), 0);
    for (number, script) in SCRIPTS.iter().enumerate() {
        let recording = Recording::of(script);
        let mut chance = Chance((seed << 8 | number as u64) * 2 + 1);
        let cuts = cuts(&recording, flushes, subsets, &mut chance);
        let writes = recording.log.len() - recording.flush_points().len();
        let (mut delivered, mut promised) = (0, 0);
        let mut bench = Bench::new(recording.base.len());
        for cut in &cuts {
            let verdict = catch_unwind(AssertUnwindSafe(|| bench.judge(&recording, *cut)));
            let verdict =
                verdict.unwrap_or_else(|_| panic!("{}: {cut:?}, seed {seed}", script.name));
            delivered += verdict.delivered;
            promised += verdict.promised;
        }
        images += cuts.len();
        println!(
            "{}: {writes} writes, {} flushes; {} images, {delivered} rows delivered, {promised} of \
             them promised",
            script.name,
            recording.flush_points().len(),
            cuts.len()
        );
        assert!(promised > 0, "nothing was promised: nothing is shown");
    }
    let seconds = began.elapsed().as_secs_f64();
    println!("{images} images in {seconds:.1} s");
}

fn cuts(recording: &Recording, flushes: usize, subsets: usize, chance: &mut Chance) -> Vec<Cut> {
    let points = spread(&recording.flush_points(), flushes);
    let mut cuts: Vec<_> = points.into_iter().map(Cut::Flush).collect();
    for _ in 0..subsets {
        let position = 1 + chance.below(recording.log.len());
        cuts.push(Cut::Subset(position, chance.below(usize::MAX) as u64));
    }
    cuts
}
