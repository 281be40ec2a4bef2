//! An intake entry: one batch, self-contained, as it lies in the ring.
//!
//! ```text
//! accepted_ns u64 | rows u32 | tables u16 | symbol_table u16
//! symbols u32 | symbol_bytes u32 | runs u32 | block_bytes u32
//! symbols:  { local id u32 | length u32 | text }   the symbols that the batch uses
//! runs:     { offset in blocks u32 | cells u32 }   where symbol cells are
//! blocks:   table blocks as on the wire, but symbol cells are local ids of 4 bytes
//! ```
//!
//! The shard alone knows the slot's symbol ids; it turns local ids into global ones while it
//! copies the blocks into the journal. All integers are little-endian.

/// Bytes before the symbol section.
pub(crate) const HEADER_BYTES: usize = 32;
/// Bytes of a symbol before its text.
pub(crate) const SYMBOL_HEAD_BYTES: usize = 8;
/// Bytes of a run.
pub(crate) const RUN_BYTES: usize = 8;

/// A producer holds that many symbols at most.
const LOCAL_IDS_MAX: u32 = 1_000_000;

/// The fixed part of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryHeader {
    /// Monotonic time of acceptance.
    pub(crate) accepted_ns: u64,
    /// Rows in all tables.
    pub(crate) rows: u32,
    /// Table blocks.
    pub(crate) tables: u16,
    /// Which of the producer's tables of symbols the local ids are of. With another number than
    /// the entry before, no local id means what it did.
    pub(crate) symbol_table: u16,
    /// Symbols listed.
    pub(crate) symbols: u32,
    /// Bytes of the symbol section.
    pub(crate) symbol_bytes: u32,
    /// Runs listed.
    pub(crate) runs: u32,
    /// Bytes of the blocks.
    pub(crate) block_bytes: u32,
}

impl EntryHeader {
    /// Bytes of the whole entry.
    pub(crate) fn entry_bytes(&self) -> usize {
        HEADER_BYTES
            + self.symbol_bytes as usize
            + self.runs as usize * RUN_BYTES
            + self.block_bytes as usize
    }

    /// Largest message the entry can become, whatever ids its symbols get: cells only shrink.
    pub(crate) fn message_bytes_max(&self) -> usize {
        const HEADER_AND_TWO_VARINTS: usize = 12 + 20;
        HEADER_AND_TWO_VARINTS + self.symbol_bytes as usize + self.block_bytes as usize
    }

    /// Writes the header to the first [`HEADER_BYTES`] of `out`.
    #[inline]
    pub(crate) fn write(&self, out: &mut [u8]) {
        let words = [
            self.rows,
            u32::from(self.tables) | u32::from(self.symbol_table) << 16,
            self.symbols,
            self.symbol_bytes,
            self.runs,
            self.block_bytes,
        ];
        let (places, _) = out[..HEADER_BYTES].as_chunks_mut();
        places[0] = self.accepted_ns.to_le_bytes();
        for (place, pair) in places[1..].iter_mut().zip(words.as_chunks::<2>().0) {
            let word = u64::from(pair[0]) | u64::from(pair[1]) << 32;
            *place = word.to_le_bytes();
        }
    }
}

/// A parsed entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    /// The fixed part.
    pub(crate) header: EntryHeader,
    symbols: &'a [u8],
    runs: &'a [u8],
    /// Table blocks with local ids.
    pub(crate) blocks: &'a [u8],
}

/// Two numbers side by side.
#[inline]
fn pair(bytes: [u8; 8]) -> (u32, u32) {
    let both = u64::from_le_bytes(bytes);
    let half = |word: u64| u32::try_from(word & 0xFFFF_FFFF).unwrap_or_default(); // always fits
    (half(both), half(both >> 32))
}

impl<'a> Entry<'a> {
    /// Splits an entry; `None` if its lengths do not add up.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (fixed, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let ([accepted, first, second, third], _) = fixed.as_chunks::<8>() else {
            return None;
        };
        let (rows, tables) = pair(*first);
        let (symbols, symbol_bytes) = pair(*second);
        let (runs, block_bytes) = pair(*third);
        let [t0, t1, s0, s1] = tables.to_le_bytes();
        let header = EntryHeader {
            accepted_ns: u64::from_le_bytes(*accepted),
            rows,
            tables: u16::from_le_bytes([t0, t1]),
            symbol_table: u16::from_le_bytes([s0, s1]),
            symbols,
            symbol_bytes,
            runs,
            block_bytes,
        };
        if header.entry_bytes() != bytes.len() {
            return None;
        }
        let (symbols, rest) = rest.split_at_checked(header.symbol_bytes as usize)?;
        let (runs, blocks) = rest.split_at_checked(header.runs as usize * RUN_BYTES)?;
        Some(Self {
            header,
            symbols,
            runs,
            blocks,
        })
    }

    /// The symbols used, as (local id, text, which should be UTF-8). Ends early at a malformed one.
    pub(crate) fn symbols(&self) -> impl Iterator<Item = (u32, &'a [u8])> {
        let mut rest = self.symbols;
        std::iter::from_fn(move || {
            let (head, behind) = rest.split_first_chunk::<SYMBOL_HEAD_BYTES>()?;
            let (local, bytes) = pair(*head);
            let (text, behind) = behind.split_at_checked(bytes as usize)?;
            rest = behind;
            Some((local, text))
        })
    }

    /// Whether everything in it that gives a place or a number is possible. Entries that another
    /// process left are looked at first; those of this one are right.
    pub(crate) fn is_sound(&self) -> bool {
        let symbols = self.header.symbols as usize;
        let possible = |(local, text): (u32, &[u8])| {
            local < LOCAL_IDS_MAX && std::str::from_utf8(text).is_ok()
        };
        let known = self.symbols().all(possible);
        let mut from = 0;
        let runs = self.runs().all(|(offset, cells)| {
            let begins = from;
            from = offset.saturating_add(4 * cells);
            begins <= offset && from <= self.blocks.len()
        });
        known && runs && self.symbols().count() == symbols
    }

    /// Runs of symbol cells in the blocks, as (offset, cells).
    pub(crate) fn runs(&self) -> impl Iterator<Item = (usize, usize)> + 'a {
        let (runs, _) = self.runs.as_chunks::<RUN_BYTES>();
        runs.iter().map(|run| {
            let (offset, cells) = pair(*run);
            (offset as usize, cells as usize)
        })
    }
}
