//! A damaged slot: where its bytes are, whatever happens, and how often somebody was told.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::{Event, Level};

use crate::io::sim::disk::SimDisk;
use crate::io::sim::ear::{Ear, field};
use crate::io::sim::fate::Fate;
use crate::io::sim::run::SLOT;
use crate::slot::names;
use crate::slot::segment::HEADER_BYTES;

/// The line that tells of a slot that is set aside.
const TOLD: &str = "FB-R011 DATA_LOSS";
/// Files that every opener writes.
const LOCKS: [&str; 2] = [".lock", ".lock.pid"];
const MANIFEST: &str = "sf-manifest.bin";

/// The files of a slot after the damage.
#[derive(Debug)]
pub(super) struct Keepsake {
    files: BTreeMap<String, Vec<u8>>,
    told: Arc<AtomicU64>,
}

impl Keepsake {
    /// Damages the slot, which nobody holds, beyond repair; how, `kind` says.
    pub(super) fn damage(disk: &SimDisk, kind: u64) -> Self {
        let slot = Path::new(SLOT);
        let files = disk.files(slot);
        let first = usize::try_from(HEADER_BYTES).expect("small");
        // A spare that the steward has only created is empty.
        let has_frames = |bytes: &Vec<u8>| bytes.iter().skip(first).any(|byte| *byte != 0);
        let segments = files.iter().filter(|(name, _)| names::is_segment(name));
        let segments: Vec<_> = segments.filter(|(_, bytes)| has_frames(bytes)).collect();
        assert!(segments.len() > 2, "head, middle, active");
        let (head, bytes) = segments[0];
        let mut bytes = bytes.clone();
        match kind % 4 {
            0 => {
                bytes[first + 20] ^= 0x10;
                disk.damage(slot, head, Some(&bytes));
            }
            1 => disk.damage(slot, segments[1].0, None),
            2 => disk.damage(slot, MANIFEST, Some(&[7; 8192])),
            _ => {
                bytes[0] = b'X';
                disk.damage(slot, head, Some(&bytes));
            }
        }
        let mut files = disk.files(slot);
        files.retain(|name, _| !LOCKS.contains(&name.as_str()));
        Self {
            files,
            told: Arc::default(),
        }
    }

    /// Every byte is in the slot, or beside it with the reason, and nowhere twice; answers whether
    /// it is beside it.
    pub(super) fn check(&self, disk: &SimDisk) -> bool {
        let slot = Path::new(SLOT);
        let parent = slot.parent().expect("has one");
        let own = slot.file_name().and_then(|name| name.to_str());
        let own = own.expect("a name of UTF-8");
        let names = disk.names(parent);
        let names = names.into_iter().filter(|name| name.starts_with(own));
        let dirs: Vec<PathBuf> = names.map(|name| parent.join(name)).collect();
        let holds = |dir: &&PathBuf| {
            let found = disk.files(dir);
            let mut kept = self.files.iter();
            kept.all(|(name, bytes)| found.get(name) == Some(bytes))
        };
        let holders: Vec<&PathBuf> = dirs.iter().filter(holds).collect();
        let [holder] = holders[..] else {
            panic!("the damaged slot is in {holders:?} of {dirs:?}");
        };
        assert!(dirs.len() <= 2, "set aside more than once: {dirs:?}");
        if holder == slot {
            return false;
        }
        assert_eq!(*holder, parent.join(format!("{own}.unreplayable-0")));
        let reason = disk.files(holder).remove(".failed");
        assert!(!reason.unwrap_or_default().is_empty(), "no reason is given");
        true
    }

    /// Counts how often the process with this fate tells of the damage while it does `work`.
    pub(super) fn listen<T>(&self, fate: &Fate, work: impl FnOnce() -> T) -> T {
        let (told, fate) = (Arc::clone(&self.told), fate.clone());
        let hear = move |event: &Event<'_>| {
            let is_it = field(event, "message").is_some_and(|line| line.starts_with(TOLD));
            if is_it && !fate.is_dead() {
                told.fetch_add(1, Ordering::Relaxed);
            }
        };
        let level = Level::ERROR;
        tracing::subscriber::with_default(Ear { level, hear }, work)
    }

    /// How often somebody was told, all processes together.
    pub(super) fn told(&self) -> u64 {
        self.told.load(Ordering::Relaxed)
    }
}
