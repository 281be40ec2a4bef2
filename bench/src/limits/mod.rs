//! `forebay-bench limits`: what the machine can do, beside what the engine does with it.

mod backlog;
pub mod durable;
pub(crate) mod figures;
pub mod handoff;
mod json;
pub mod machine;
mod opening;
mod raw;
pub(crate) mod raw_read;
pub mod recovery;
pub(crate) mod table;

/// The same numbers each time, which no disk can make smaller: xorshift64.
fn noise() -> impl Iterator<Item = u64> {
    let step = |x: &u64| {
        let x = x ^ (x << 13);
        let x = x ^ (x >> 7);
        Some(x ^ (x << 17))
    };
    std::iter::successors(Some(0x9E37_79B9_7F4A_7C15), step).skip(1)
}
