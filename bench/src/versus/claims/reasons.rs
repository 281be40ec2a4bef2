//! Why a line may miss its target: what profiles said, in a sentence each.
//!
//! A line that misses it is printed with its sentence. Lines that were never seen to lose have none.

/// By the beginning of the line's name; the longest that fits counts.
const REASONS: &[(&str, &str)] = &[
    (
        "flush of 1,000 rows at 500/s",
        "both sides copy 42 KB of built columns and return, so the median is a copy for both; theirs \
         meets new pages from p99 on",
    ),
    (
        "CPU in all",
        "the shard pays for the copy into the socket, the CRC and the hand-over of the pages to the \
         disk in its own thread; the kernel's writeback does the last of these for the page cache \
         on nobody's account",
    ),
    (
        "to acked, chunks",
        "the disk bounds direct writes, while the page cache takes what fits in memory",
    ),
];

/// The sentence for a line.
pub(super) fn of(name: &str) -> Option<&'static str> {
    let fitting = REASONS.iter().filter(|(begin, _)| name.starts_with(begin));
    let best = fitting.max_by_key(|(begin, _)| begin.len());
    best.map(|(_, reason)| *reason)
}

#[cfg(test)]
mod tests {
    use super::super::CLAIMS;
    use super::REASONS;

    #[test]
    fn every_reason_has_its_line() {
        for (begin, _) in REASONS {
            let has = CLAIMS.iter().any(|claim| claim.name.starts_with(begin));
            assert!(has, "{begin}");
        }
    }
}
