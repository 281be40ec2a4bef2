//! A file of the simulated disk: what the page cache holds, what the platter holds, and the
//! changes in between.

use super::super::random::Rng;
use super::Keep;

/// What a disk writes at once: a sector is old or new, never a mixture.
const SECTOR: usize = 512;

/// A completed change that no fdatasync covers yet.
#[derive(Debug, Clone)]
struct Change {
    number: u64,
    offset: usize,
    bytes: Vec<u8>,
    /// Length of the file afterwards.
    len: usize,
}

/// Invariant: `now` is `durable` with all of `dirty` applied in order.
#[derive(Debug, Clone, Default)]
pub(super) struct Inode {
    now: Vec<u8>,
    durable: Vec<u8>,
    dirty: Vec<Change>,
    changes: u64,
}

impl Inode {
    /// Contents as every process sees them.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.now
    }

    /// Number of the last change: a sync submitted now covers it.
    pub(super) fn last_change(&self) -> u64 {
        self.changes
    }

    /// A completed write.
    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        let len = self.now.len().max(offset + bytes.len());
        self.change(offset, bytes.to_vec(), len);
    }

    /// A write of which only a part arrived.
    pub(super) fn write_part(&mut self, offset: usize, bytes: &[u8], keep: Keep, rng: &mut Rng) {
        let prefix = rng.index(bytes.len() + 1);
        let shape = if keep == Keep::Nothing {
            0
        } else {
            rng.below(4)
        };
        for (from, to) in sectors(offset, bytes.len()) {
            let kept = match shape {
                0 => false,
                1 => true,
                2 => from - offset < prefix,
                _ => rng.percent(50),
            };
            if kept {
                self.write(from, &bytes[from - offset..to - offset]);
            }
        }
    }

    /// Cuts or extends the file.
    pub(super) fn set_len(&mut self, len: usize) {
        let cut = self.now.len().saturating_sub(len);
        // What is cut off reads as zeros if the file grows again.
        self.change(len, vec![0; cut], len);
    }

    fn change(&mut self, offset: usize, bytes: Vec<u8>, len: usize) {
        self.changes += 1;
        let change = Change {
            number: self.changes,
            offset,
            bytes,
            len,
        };
        change.apply(&mut self.now);
        self.now.resize(len, 0);
        self.dirty.push(change);
    }

    /// An fdatasync that was submitted when change `number` was the last.
    pub(super) fn sync(&mut self, number: u64) {
        let covered = self.dirty.partition_point(|change| change.number <= number);
        for change in self.dirty.drain(..covered) {
            change.apply(&mut self.durable);
            self.durable.resize(change.len, 0);
        }
    }

    /// The power is gone: every sector keeps one of the versions since the last sync, and the
    /// length one of the lengths.
    pub(super) fn power_cut(&mut self, rng: &mut Rng) {
        let percent = [0, 100, 20, 50, 80][rng.index(5)];
        let mut len = self.durable.len();
        for change in &self.dirty {
            if rng.percent(percent) {
                len = change.len;
            }
        }
        let mut image = self.durable.clone();
        let end = self
            .dirty
            .iter()
            .map(|change| change.offset + change.bytes.len())
            .max();
        image.resize(image.len().max(end.unwrap_or(0)).max(len), 0);
        for (from, to) in sectors(0, end.unwrap_or(0)) {
            let writers: Vec<_> = self
                .dirty
                .iter()
                .filter(|change| change.touches(from, to))
                .collect();
            // Each version contains the ones before it.
            let versions = if rng.percent(percent) {
                match writers.len() {
                    0 => 0,
                    all if rng.percent(60) => all,
                    all => 1 + rng.index(all),
                }
            } else {
                0
            };
            for change in &writers[..versions] {
                change.apply_within(&mut image, from, to);
            }
        }
        image.resize(len, 0);
        self.now.clone_from(&image);
        self.durable = image;
        self.dirty.clear();
    }
}

impl Change {
    fn touches(&self, from: usize, to: usize) -> bool {
        self.offset < to && from < self.offset + self.bytes.len()
    }

    fn apply(&self, image: &mut Vec<u8>) {
        let end = self.offset + self.bytes.len();
        if image.len() < end {
            image.resize(end, 0);
        }
        image[self.offset..end].copy_from_slice(&self.bytes);
    }

    fn apply_within(&self, image: &mut [u8], from: usize, to: usize) {
        let (from, to) = (
            from.max(self.offset),
            to.min(self.offset + self.bytes.len()),
        );
        image[from..to].copy_from_slice(&self.bytes[from - self.offset..to - self.offset]);
    }
}

/// The range cut at sector borders.
fn sectors(offset: usize, len: usize) -> impl Iterator<Item = (usize, usize)> {
    let end = offset + len;
    let mut at = offset;
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let from = at;
            at = (from - from % SECTOR + SECTOR).min(end);
            (from, at)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_cut_keeps_what_was_synced_and_whole_sectors_of_the_rest() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let mut inode = Inode::default();
            inode.write(0, &[1; 4096]);
            inode.sync(inode.last_change());
            inode.write(1024, &[2; 1024]);
            inode.write(1024, &[3; 2048]);
            inode.power_cut(&mut rng);
            let bytes = inode.bytes();
            assert_eq!(bytes.len(), 4096);
            for (index, sector) in bytes.chunks(SECTOR).enumerate() {
                let allowed: &[u8] = match index {
                    2 | 3 => &[1, 2, 3],
                    4 | 5 => &[1, 3],
                    _ => &[1],
                };
                assert!(
                    sector.iter().all(|byte| *byte == sector[0]),
                    "seed {seed}: torn sector"
                );
                assert!(
                    allowed.contains(&sector[0]),
                    "seed {seed}: sector {index}: {}",
                    sector[0]
                );
            }
        }
    }

    #[test]
    fn a_sync_covers_only_what_had_completed_when_it_was_submitted() {
        let mut inode = Inode::default();
        inode.write(0, b"old");
        let submitted = inode.last_change();
        inode.write(0, b"new");
        inode.sync(submitted);
        assert_eq!(
            (inode.bytes(), inode.durable.as_slice()),
            (&b"new"[..], &b"old"[..])
        );
        inode.sync(inode.last_change());
        assert_eq!(inode.durable, b"new");
    }
}
