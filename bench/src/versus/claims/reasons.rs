//! Why a line may miss its target: what profiles said, in a sentence each.
//!
//! A line that misses it is printed with its sentence. Lines that were never seen to lose have none.

/// By the beginning of the line's name; the longest that fits counts.
const REASONS: &[(&str, &str)] = &[
    (
        "flush of a row at 50,000/s",
        "building, summing and handing over a row are 1,500 instructions (forebay-count), 0.09 to 0.15 us \
         beside a shard alone (limits handoff); runs are of two kinds, p50 0.16 and 0.28 to 0.37 us, \
         as a cache line takes 50 or 200 to 250 ns from core to core (limits machine), and the call \
         fetches one; from p99.9 on a call meets the scheduler: \
         producer, shard and server never sleep on two cores",
    ),
    (
        "flush of 1,000 rows at 500/s",
        "both sides copy 42 KB of built columns and return, so the median is a copy for both; theirs \
         meets new pages from p99 on",
    ),
    (
        "building and flushing 1,000 rows",
        "from the intended start: a quarter to a third is the flush, in which waking the parked shard takes \
         7 us; the rows are built with the caches that 2 ms of others' work have left, at 40 to 60 ns \
         each where a loop takes 24",
    ),
    (
        "CPU in all",
        "perf, chunks: up to half of the shard is send (the kernel's copy and TCP, on loopback with \
         the receiver's part of it), 15 % the pages of two segments' memory, cleared once a \
         process, 12 % CRC-32C, masks and assembly; the kernel's writeback, which stands for the \
         disk part on the other side, is on nobody's account",
    ),
    (
        "CPU of the producer, chunks",
        "perf: 54 % encoding and copying columns, 27 % CRC-32C of the entry, 9 % symbols, 8 % making the \
         times; the same work takes 7 ns a row where the ring stays in the producer's caches (bench \
         encode): here each line of it comes back from the shard's core, 50 or 200 ns away",
    ),
    (
        "to acked, chunks",
        "shard and server share a core, 18 ns and 11 to 13 ns a row, half of the former and most of the \
         latter the kernel's loopback: some 33 M rows/s at most; the raw loop writes alone, and the \
         official client's threads spread over both cores",
    ),
    (
        "drain 1 GiB after opening it, cold",
        "the shard waits for its reads and both cores are half idle: four pieces of 1 MiB come at 1.2 to \
         1.4 GB/s, as fast as a direct read of the same files alone; opening gets 2.3 with two threads \
         and pieces of 4 MiB",
    ),
    (
        "drain 1 GiB after opening it, in the page cache",
        "perf: shard and kernel worker, which has its core alone, are busy for 0.52 and 0.22 s a GiB: the \
         worker copies out of the page cache, 0.39 s of the shard's are the send over loopback",
    ),
    (
        "frames of one row, OKs coalesced",
        "three threads share two cores: on a quiet machine the producer takes 440 ns of a core a \
         frame and the shard 260, little of it in the kernel (a send carries 160 frames)",
    ),
    (
        "open and drain",
        "every byte is read twice, once to check it, at 2.3 GB/s, and once to send it, at the rate of the \
         next line",
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
