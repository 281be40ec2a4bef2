//! Symbols that rows used last, by a hash of the first and last bytes of their texts: what a row
//! repeats is answered without a hash of all of the text and a probe of the table.

use crate::producer::ends::Ends;

/// Places of the cache, a power of two; those in use are all of it that is touched.
const PLACES: usize = 1024;
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
        let seen = &self.0[place(ends)];
        let is_it = seen.uses == uses && seen.ends() == ends && ends.are_all();
        is_it.then_some(seen.id)
    }

    /// An id that the text with these ends may have: the table has to be asked.
    #[inline]
    pub(super) fn guess(&self, ends: Ends) -> u32 {
        self.0[place(ends)].id
    }

    /// Notes the id of the text with these ends, which is used.
    #[inline]
    pub(super) fn note(&mut self, ends: Ends, uses: u64, id: u32) {
        let Ends { first, last, bytes } = ends;
        self.0[place(ends)] = Seen {
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

/// Where in the cache.
#[inline]
fn place(ends: Ends) -> usize {
    usize::try_from(ends.mixed() >> 54).expect("10 bits") % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_that_rows_alternate_between_have_places_of_their_own() {
        let mut places: Vec<usize> = (0..64)
            .map(|n| place(Ends::of(format!("SYM{n:04}").as_bytes())))
            .collect();
        places.sort_unstable();
        places.dedup();
        assert!(places.len() > 56, "{} places for 64 symbols", places.len());
    }
}
