//! How much a test does and from which seed on (`FOREBAY_SCALE`, `FOREBAY_SEED`); running the
//! simulator over many seeds, and saying how a failure is repeated.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use forebay::internals::sim::Summary;

/// A number from the environment. Panics if it is something else.
pub fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable}={text} is not a number")),
    )
}

/// `FOREBAY_SCALE`: the factor by which a test does more than usual.
#[must_use]
pub fn scale() -> u64 {
    number("FOREBAY_SCALE").unwrap_or(1)
}

/// Runs `seeds` seeds times `FOREBAY_SCALE`, or `FOREBAY_SEED` alone; the first failure ends it and
/// says how to repeat it. `None` when one seed was asked for: its counts prove nothing about the
/// others.
pub fn sweep(
    (file, test): (&str, &str),
    seeds: u64,
    run: impl Fn(u64) -> Summary,
) -> Option<Summary> {
    let one = number("FOREBAY_SEED");
    let seeds = match one {
        Some(seed) => seed..seed + 1,
        None => 0..seeds * scale(),
    };
    let start = Instant::now();
    let mut total = Summary::default();
    for seed in seeds {
        total += catch_unwind(AssertUnwindSafe(|| run(seed))).unwrap_or_else(|_| {
            panic!(
                "seed {seed} failed; repeat it with\n  FOREBAY_SEED={seed} cargo test \
                 -p forebay-tests --test {file} {test}"
            )
        });
    }
    println!("{test}: {total}, in {:.1} s", start.elapsed().as_secs_f64());
    one.is_none().then_some(total)
}
