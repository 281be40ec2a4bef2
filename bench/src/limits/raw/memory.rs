//! Memory for direct I/O, of the same kind as the engine's: huge pages where there are any, of
//! which a device takes more at once than of ordinary ones.

use crate::limits::noise;

pub(super) const BLOCK: usize = 4096;
const HUGE: usize = 2 << 20;

/// Memory that begins where a huge page can.
pub(in crate::limits) struct Aligned {
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl Aligned {
    /// `bytes` of zeros or of noise.
    pub(in crate::limits) fn new(bytes: usize, random: bool) -> Self {
        // Zeroed memory of the allocator is not touched yet: what is advised here comes before.
        let mut memory = vec![0u8; bytes.next_multiple_of(HUGE) + HUGE];
        let start = memory.as_ptr().align_offset(HUGE);
        let place = memory[start..].as_mut_ptr();
        // SAFETY: whole pages of a vector that lives on; the advice changes no content.
        let _ = unsafe {
            let length = bytes.next_multiple_of(HUGE);
            libc::madvise(place.cast(), length, libc::MADV_HUGEPAGE)
        };
        for (chunk, x) in memory[start..start + bytes].chunks_mut(8).zip(noise()) {
            let x = if random { x } else { 0 };
            chunk.copy_from_slice(&x.to_le_bytes()[..chunk.len()]);
        }
        Self {
            memory,
            start,
            bytes,
        }
    }

    pub(in crate::limits) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.bytes]
    }
}
