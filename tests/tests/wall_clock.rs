//! Field report wall-clock-step: nothing waits by the wall clock.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::path::Path;

use forebay::internals::sim::{run_power_cuts, run_with_wall_steps};

/// Outages with their pauses, strikes, periodic syncs, keep-alives, power cuts and closes: every
/// count and the virtual time are the same whether the wall clock is right or is set back and ahead
/// by an hour every 7 ms. Only the stamps in files differ, which nobody reads.
#[test]
fn wall_clock_step() {
    for seed in 0..40 {
        let (right, stepped) = (run_power_cuts(seed), run_with_wall_steps(seed));
        assert_eq!(right, stepped, "seed {seed}");
        assert!(right.frames > 0);
    }
}

/// The wall clock is asked for stamps in segment headers and in files of refused rows, nowhere else:
/// what the simulation does not run (producers' and callers' waits) has no way to it either.
#[test]
fn the_wall_clock_is_only_asked_for_stamps() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/src");
    let asks = ["wall_micros", "SystemTime", "CLOCK_REALTIME"];
    let mut users = Vec::new();
    let mut left = vec![root.clone()];
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else if asks
                .iter()
                .any(|ask| std::fs::read_to_string(&path).unwrap().contains(ask))
            {
                let name = path.strip_prefix(&root).unwrap();
                users.push(name.to_str().unwrap().to_owned());
            }
        }
    }
    // The seam itself, and other implementations of it.
    users.retain(|name| !name.starts_with("io/") && !name.contains("tests/"));
    users.sort_unstable();
    let stamps = ["slot/fresh.rs", "slot/spare.rs", "steward/keep.rs"];
    let injected = "engine/failed_open.rs";
    assert_eq!(users, [&[injected], &stamps[..]].concat());
}
