//! Symbols that rows used last, by a hash of the first and last bytes of their texts: what a row
//! repeats is answered without a hash of all of the text and a probe of the table.

/// Places of the cache, a power of two; those in use are all of it that is touched.
const PLACES: usize = 1024;
/// Longest text whose ends are all of it.
const ENDS_BYTES: u32 = 16;

/// The symbols seen last.
#[derive(Debug)]
pub(super) struct Cache(Box<[Seen; PLACES]>);

impl Default for Cache {
    fn default() -> Self {
        let places = vec![Seen::default(); PLACES].into_boxed_slice();
        Self(places.try_into().expect("as many places"))
    }
}

impl Cache {
    /// The id of the text with these ends if it was noted among these uses, and is no longer than
    /// its ends.
    #[inline]
    pub(super) fn noted(&self, ends: Ends, uses: u64) -> Option<u32> {
        let seen = &self.0[ends.place()];
        let is_it = seen.uses == uses && seen.ends() == ends && ends.bytes <= ENDS_BYTES;
        is_it.then_some(seen.id)
    }

    /// An id that the text with these ends may have: the table has to be asked.
    #[inline]
    pub(super) fn guess(&self, ends: Ends) -> u32 {
        self.0[ends.place()].id
    }

    /// Notes the id of the text with these ends, which is used.
    #[inline]
    pub(super) fn note(&mut self, ends: Ends, uses: u64, id: u32) {
        let Ends { first, last, bytes } = ends;
        self.0[ends.place()] = Seen {
            first,
            last,
            bytes,
            id,
            uses,
        };
    }
}

/// A symbol seen before. Any may stand anywhere, also one of a table before: it counts as it is
/// only among the uses in which it was noted, else the table decides.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    // The ends one by one: so a place has 32 bytes.
    first: u64,
    last: u64,
    bytes: u32,
    id: u32,
    uses: u64,
}

impl Seen {
    #[inline]
    fn ends(&self) -> Ends {
        let Self {
            first, last, bytes, ..
        } = *self;
        Ends { first, last, bytes }
    }
}

/// Length, first and last bytes of a text: all of it up to [`ENDS_BYTES`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Ends {
    first: u64,
    last: u64,
    bytes: u32,
}

impl Ends {
    /// Those of a text.
    #[inline]
    pub(super) fn of(text: &[u8]) -> Self {
        let (first, last) = match (text.first_chunk::<8>(), text.last_chunk::<8>()) {
            (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
            _ => short_ends(text),
        };
        // Longer than a symbol may be: not a length that one has.
        let bytes = u32::try_from(text.len()).unwrap_or(u32::MAX);
        Self { first, last, bytes }
    }

    /// Where in the cache.
    #[inline]
    fn place(self) -> usize {
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let mixed = self.first ^ self.last.rotate_left(29) ^ u64::from(self.bytes);
        // The upper bits depend on all of the lower ones.
        let mixed = mixed.wrapping_mul(FACTOR);
        usize::try_from(mixed >> 54).expect("10 bits") % PLACES
    }
}

/// The ends of a text of less than 8 bytes.
#[inline]
fn short_ends(text: &[u8]) -> (u64, u64) {
    if let (Some(first), Some(last)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        let word = |bytes: &[u8; 4]| u64::from(u32::from_le_bytes(*bytes));
        return (word(first), word(last));
    }
    let byte = |at: usize| u64::from(text.get(at).copied().unwrap_or(0));
    (byte(0) | byte(1) << 8 | byte(2) << 16, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_that_rows_alternate_between_have_places_of_their_own() {
        let mut places: Vec<usize> = (0..64)
            .map(|n| Ends::of(format!("SYM{n:04}").as_bytes()).place())
            .collect();
        places.sort_unstable();
        places.dedup();
        assert!(places.len() > 56, "{} places for 64 symbols", places.len());
    }
}
