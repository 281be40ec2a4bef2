//! Which shard a table or a key belongs to: a fixed function of its name, so that a table stays on
//! its shard from one start to the next (docs/producer.md, "Several shards").
//!
//! FNV-1a of 64 bits over the UTF-8 bytes, ASCII letters in lower case (the server's table names
//! have no case); the finalizer of `MurmurHash3`; the upper 32 bits times the number of shards,
//! divided by 2^32.

/// The shard of `name` among `shards`.
pub(crate) fn shard_of(name: &str, shards: usize) -> usize {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let fnv = name.bytes().fold(OFFSET, |hash, byte| {
        (hash ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(PRIME)
    });
    let mixed = (fnv ^ (fnv >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    let upper = (mixed ^ (mixed >> 33)) >> 32;
    usize::try_from((upper * shards as u64) >> 32).expect("below the number of shards")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// These very numbers are what makes a restart find its tables where they were: they never
    /// change.
    #[test]
    fn the_shard_of_a_table_is_pinned() {
        let names = ["trades", "quotes", "book", "t0", "t1", "t2", "t3", "größe"];
        let of = |shards| names.map(|name| shard_of(name, shards));
        assert_eq!(of(1), [0; 8]);
        assert_eq!(of(2), [1, 1, 0, 1, 0, 0, 0, 0]);
        assert_eq!(of(8), [5, 7, 1, 7, 2, 2, 3, 1]);
    }

    #[test]
    fn the_case_of_a_table_does_not_matter() {
        assert_eq!(shard_of("Trades", 64), shard_of("tRADES", 64));
    }

    #[test]
    fn similar_names_spread_evenly() {
        for shards in [2, 3, 8, 64] {
            let mut counts = vec![0; shards];
            for n in 0..1000 * shards {
                counts[shard_of(&format!("table_{n}"), shards)] += 1;
            }
            assert!(counts.iter().all(|n| (850..1150).contains(n)), "{counts:?}");
        }
    }
}
