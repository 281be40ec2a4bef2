//! Acknowledgements ahead of the disk: frame numbers are given out again after the restart, and no
//! row that gets one of them is taken for acknowledged. On the simulated disk, where "the write
//! never completed" can be arranged.

use forebay::internals::sim::{Summary, acked_ahead_of_the_disk, watermark_file_ahead};

/// Each seed has other batch sizes and counts, and another moment.
const SEEDS: u64 = 50;

fn sweep(test: &str, run: fn(u64) -> Summary) -> Summary {
    let mut total = Summary::default();
    for seed in 0..SEEDS {
        total += run(seed);
    }
    println!("{test}: {total}");
    total
}

#[test]
fn frames_acked_before_they_were_written_do_not_swallow_their_successors() {
    let total = sweep("acked ahead of the disk", acked_ahead_of_the_disk);
    assert_eq!(total.kills, 2 * SEEDS);
    assert!(
        total.arrivals >= total.frames,
        "{} of {}",
        total.arrivals,
        total.frames
    );
}

#[test]
fn a_watermark_file_beyond_the_next_frame_does_not_swallow_new_frames() {
    let total = sweep("watermark file ahead", watermark_file_ahead);
    assert_eq!(total.kills, 2 * SEEDS);
    assert!(
        total.repeats > 0,
        "frames whose acknowledgement was forgotten are sent again"
    );
}
