//! Names inside a slot directory (slot-format.md sections 1 and 2.5).
//!
//! A segment is recognised by the suffix `.sfa` and its header; the name only gives the allocation
//! order. So nothing that is not a segment may ever be given a name that ends in `.sfa`.

use crate::fsn::Generation;

/// Held under `flock` while a slot is open; never removed.
pub(crate) const LOCK: &str = ".lock";
/// Decimal process id of the last holder; informational only.
pub(crate) const LOCK_PID: &str = ".lock.pid";
/// Directory that a Node.js owner keeps while it holds the slot.
pub(crate) const LOCK_OWNER: &str = ".lock.owner";
/// Which segments form the chain.
pub(crate) const MANIFEST: &str = "sf-manifest.bin";
/// Cumulative acknowledged FSN.
pub(crate) const WATERMARK: &str = ".ack-watermark";
/// Symbol id to string.
pub(crate) const DICTIONARY: &str = ".symbol-dict";
/// Which machine the slot was opened on last.
pub(crate) const SLOT_ID: &str = ".slot-id";
/// For how many shards the slot's frames were journaled.
pub(crate) const ERAS: &str = ".shards";
/// Why nobody is to drain the slot by itself. In a slot's own directory it means nothing.
pub(crate) const FAILED: &str = ".failed";
/// Why the drainer of the slot could not reach its end the last time; decides nothing.
pub(crate) const LAST_ERROR: &str = ".last_error";
/// Directory beside the slots with a lock for each: renaming a slot does not carry it along.
pub(crate) const SLOT_LOCKS: &str = ".slot-locks";
/// Which rings of the intake belong to the slot, and where they are.
pub(crate) const INTAKE_ID: &str = ".intake-id";
/// Begins the name of a ring of the intake; its number follows.
pub(crate) const INTAKE: &str = ".intake-";
/// Begins the name of a ring whose entries cannot be delivered; a number follows.
pub(crate) const LOST: &str = ".lost-";
/// Name under which one official client makes its first segment.
const INITIAL: &str = "sf-initial.sfa";

const SUFFIX: &str = ".sfa";
const SET_ASIDE_SUFFIX: &str = ".corrupt";
const TEMPORARY_SUFFIX: &str = ".forebay-tmp";

/// Name of the segment with this generation.
pub(crate) fn segment(generation: Generation) -> String {
    format!("sf-{:016x}{SUFFIX}", generation.0)
}

/// Name under which recovery keeps a file that it cannot use.
pub(crate) fn set_aside(name: &str) -> String {
    format!("{name}{SET_ASIDE_SUFFIX}")
}

/// The `n`th copy of bytes that recovery takes out of a file; `what` says why.
pub(crate) fn copy(name: &str, what: &str, n: u32) -> String {
    format!("{name}.{what}-{n}")
}

/// Name under which a file is prepared before it is renamed to `name`. Nobody else uses it.
pub(crate) fn temporary(name: &str) -> String {
    format!("{name}{TEMPORARY_SUFFIX}")
}

/// Whether [`temporary`] gives such names.
pub(crate) fn is_temporary(name: &str) -> bool {
    name.ends_with(TEMPORARY_SUFFIX)
}

/// The number behind `prefix` in the name of a ring of the intake.
pub(crate) fn intake_number(name: &str, prefix: &str) -> Option<u64> {
    let digits = name.strip_prefix(prefix)?;
    let canonical = digits == "0" || !digits.starts_with(['0', '+']);
    digits.parse().ok().filter(|_| canonical)
}

/// The `n`th damaged slot of a sender.
pub(crate) fn unreplayable(sender_id: &str, n: u32) -> String {
    format!("{sender_id}.unreplayable-{n}")
}

/// Whether a directory beside the slots is one that was set aside, by whomever.
pub(crate) fn is_unreplayable(name: &str) -> bool {
    name.contains(".unreplayable-")
}

/// Whether a sender may have this name: every client allows these characters only, so neither
/// hidden directories nor slots that were set aside nor copies with a suffix are meant.
pub(crate) fn is_sender_id(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    !name.is_empty() && name.bytes().all(allowed)
}

/// Whether a file of this name may be a segment.
pub(crate) fn is_segment(name: &str) -> bool {
    name.ends_with(SUFFIX)
}

/// Whether this engine or an official client gives such a name to a segment.
pub(crate) fn is_canonical_segment(name: &str) -> bool {
    name == INITIAL || segment_generation(name).is_some()
}

/// The generation in a segment's name.
pub(crate) fn segment_generation(name: &str) -> Option<Generation> {
    let digits = name.strip_prefix("sf-")?.strip_suffix(SUFFIX)?;
    let lowercase_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    if digits.len() != 16 || !digits.bytes().all(lowercase_hex) {
        return None;
    }
    u64::from_str_radix(digits, 16).ok().map(Generation)
}

/// The generation that a name keeps from being given out again: that of a segment or of one that
/// was set aside.
pub(crate) fn used_generation(name: &str) -> Option<Generation> {
    segment_generation(name.strip_suffix(SET_ASIDE_SUFFIX).unwrap_or(name))
}

/// Sort key of clean-up: `sf-initial.sfa`, then by generation, then all others by name.
pub(crate) fn removal_order(name: &str) -> (u8, Generation, &str) {
    match segment_generation(name) {
        _ if name == INITIAL => (0, Generation(0), name),
        Some(generation) => (1, generation, name),
        None => (2, Generation(0), name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_round_trip_as_sixteen_lowercase_digits() {
        for (generation, name) in [
            (0, "sf-0000000000000000.sfa"),
            (0x1a, "sf-000000000000001a.sfa"),
            (u64::MAX, "sf-ffffffffffffffff.sfa"),
        ] {
            assert_eq!(segment(Generation(generation)), name);
            assert_eq!(segment_generation(name), Some(Generation(generation)));
            assert_eq!(
                used_generation(&set_aside(name)),
                Some(Generation(generation))
            );
            assert_eq!(segment_generation(&set_aside(name)), None);
        }
    }

    #[test]
    fn other_names_carry_no_generation() {
        for name in [
            "sf-1.sfa",
            "sf-000000000000000G.sfa",
            "sf-000000000000000A.sfa",
            "sf-+00000000000000a.sfa",
            "sf-initial.sfa",
            "sf-manifest.bin",
            ".sfa",
        ] {
            assert_eq!(segment_generation(name), None, "{name}");
        }
        assert!(is_canonical_segment("sf-initial.sfa") && !is_canonical_segment("sf-1.sfa"));
        assert!(is_segment("zz.sfa") && !is_segment("zz.sfa.corrupt"));
    }

    #[test]
    fn clean_up_goes_from_the_oldest_to_the_newest() {
        let mut names = [
            "zz.sfa",
            "sf-0000000000000010.sfa",
            "sf-0000000000000002.sfa",
            "sf-initial.sfa",
        ];
        names.sort_by_key(|name| removal_order(name));
        assert_eq!(
            names,
            [
                "sf-initial.sfa",
                "sf-0000000000000002.sfa",
                "sf-0000000000000010.sfa",
                "zz.sfa"
            ]
        );
    }
}
