//! Doing what is asked: blocking file calls, on the steward's thread, or on whoever does its work.

use std::io;
use std::path::Path;

use super::incarnation::Incarnation;
use super::{keep, lookup, rebuild};
use crate::error::Error;
use crate::io::{Between, Doomed, File, Fs, OpenMode, Region, Removal, Reply, Request, SpareFile};
use crate::slot;
use crate::slot::{OpenedSlot, Renewal, names};

/// Does what is asked; `between` is called between the pieces of a spare that is filled, and ends
/// it by an error, and between two files that are removed. `begun`: it was begun before by somebody
/// who died, so what it makes may be there in part, and what it removes may be gone.
pub(crate) fn perform(fs: &dyn Fs, request: Request, begun: bool, between: Between<'_>) -> Reply {
    match request {
        Request::MakeSpare { .. } => Reply::Spare(make_spare(fs, request, begun, between)),
        Request::Memory { bytes } => Reply::Memory(memory(bytes, between)),
        Request::Remove {
            dir,
            files,
            incarnation,
        } => Reply::Removed(remove(fs, &dir, files, &incarnation, between)),
        Request::Rebuild(what) => Reply::Rebuilt(rebuild::rebuild(fs, &what)),
        Request::Open { path, key } => Reply::Opened {
            key,
            answer: open_segment(fs, &path),
        },
        Request::Keep {
            dir,
            rejected,
            limit,
        } => Reply::Kept(keep::keep(fs, &dir, &rejected, limit)),
        Request::Close { file } => {
            drop(file);
            Reply::Closed
        }
        Request::RemoveRing(ring) => {
            if let Err(error) = ring.remove() {
                // It is empty: the next start finds it so and removes it.
                tracing::warn!(%error, "FB-R020 a ring of the intake could not be removed");
            }
            Reply::Closed
        }
        Request::Renew {
            renewal,
            incarnation,
        } => Reply::Renewed(renew(fs, *renewal, &incarnation)),
        Request::Resolve(asked) => Reply::Resolved(lookup::perform(&asked, &lookup::system())),
    }
}

fn make_spare(
    fs: &dyn Fs,
    request: Request,
    begun: bool,
    between: Between<'_>,
) -> io::Result<SpareFile> {
    let Request::MakeSpare {
        dir,
        generation,
        bytes,
        next,
        fill,
        keep_free,
        incarnation,
    } = request
    else {
        unreachable!("the caller looked");
    };
    let _entered = incarnation.enter().ok_or_else(released)?;
    if begun {
        // Generations are given out once, so this file can only be ours.
        let _ = fs.unlink(&dir.join(names::segment(generation)));
    }
    if keep_free > 0 {
        let free = fs.free_bytes(&dir)?;
        if free < keep_free.saturating_add(bytes) {
            let reason = format!(
                "{free} bytes are free: a segment of {bytes} would leave less than \
                 sf_min_free_bytes ({keep_free})"
            );
            return Err(io::Error::new(io::ErrorKind::StorageFull, reason));
        }
    }
    let fill = fill.then_some(between);
    slot::make_spare(fs, &dir, generation, bytes, next, fill)
}

fn memory(bytes: usize, between: Between<'_>) -> io::Result<Region> {
    let mut region = Region::new(bytes)?;
    region.populate(between)?;
    Ok(region)
}

/// For reading: through the page cache if that holds it, as it does where another client left the
/// slot a moment ago, else around it (docs/decisions/0007).
fn open_segment(fs: &dyn Fs, path: &Path) -> io::Result<File> {
    let buffered = fs.open(path, OpenMode::Read)?;
    // The middle stands for the whole.
    let middle = fs.bytes(&buffered)? / 2;
    if fs.is_cached(&buffered, middle) {
        return Ok(buffered);
    }
    fs.open(path, OpenMode::ReadDirect)
}

/// The answer to a request that could not be done.
pub(super) fn failed(request: Request, error: io::Error) -> Reply {
    match request {
        Request::MakeSpare { .. } => Reply::Spare(Err(error)),
        Request::Memory { .. } => Reply::Memory(Err(error)),
        Request::Remove { files, .. } => Reply::Removed(Removal {
            left: files,
            error: Some(error),
            ..Removal::default()
        }),
        Request::Rebuild(_) => Reply::Rebuilt(Err(error)),
        Request::Open { key, .. } => Reply::Opened {
            key,
            answer: Err(error),
        },
        Request::Keep { .. } => Reply::Kept(Err(error)),
        Request::Close { .. } | Request::RemoveRing(_) => Reply::Closed,
        Request::Renew { renewal, .. } => {
            Reply::Renewed(Err(Error::disk("renew", &renewal.dir, 0, error)))
        }
        Request::Resolve(asked) => Reply::Resolved(lookup::failed(asked, &error)),
    }
}

/// Unlinks in order, as long as the slot is the one that was meant. A file that is not there is
/// one that is gone.
fn remove(
    fs: &dyn Fs,
    dir: &Path,
    files: Vec<Doomed>,
    incarnation: &Incarnation,
    between: Between<'_>,
) -> Removal {
    let mut removal = Removal::default();
    for doomed in files {
        // What has begun is finished, whoever stops.
        let _ = between();
        let outcome = match incarnation.enter() {
            Some(_entered) => fs.unlink(&dir.join(&doomed.name)),
            None => Err(released()),
        };
        match outcome {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                removal.error.get_or_insert(error);
                removal.left.push(doomed);
            }
            _ => removal.freed += doomed.bytes,
        }
    }
    if removal.freed > 0
        && let Err(error) = fs.sync_dir(dir)
    {
        // They are gone; after a power cut some may be back, and the next recovery drops them.
        removal.error.get_or_insert(error);
    }
    removal
}

fn renew(
    fs: &dyn Fs,
    renewal: Renewal,
    incarnation: &Incarnation,
) -> Result<Box<OpenedSlot>, Error> {
    let Some(_entered) = incarnation.enter() else {
        return Err(Error::disk("renew", &renewal.dir, 0, released()));
    };
    slot::renew(fs, renewal).map(Box::new)
}

/// What becomes of a request that comes too late.
pub(super) fn released() -> io::Error {
    io::Error::other("the slot has been released: nothing of it is touched")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fsn::{Fsn, Generation};
    use crate::io::sys::RealFs;

    #[expect(clippy::unnecessary_wraps, reason = "the shape of Between")]
    fn go_on() -> io::Result<()> {
        Ok(())
    }

    fn slot() -> (tempfile::TempDir, Incarnation) {
        let dir = tempfile::tempdir().unwrap();
        let lock = RealFs.open(&dir.path().join(".lock"), OpenMode::Create);
        (dir, Incarnation::new(lock.unwrap()))
    }

    /// Asks for a spare of `bytes`, filled or not, that leaves `keep_free` bytes.
    fn spare_request(
        dir: &Path,
        generation: u64,
        (bytes, fill, keep_free): (u64, bool, u64),
        incarnation: &Incarnation,
    ) -> Request {
        Request::MakeSpare {
            dir: dir.to_path_buf(),
            generation: Generation(generation),
            bytes,
            next: Fsn(0),
            fill,
            keep_free,
            incarnation: incarnation.clone(),
        }
    }

    fn remove_request(dir: &Path, names: &[&str], incarnation: &Incarnation) -> Request {
        let files = names.iter().map(|name| Doomed {
            name: (*name).to_owned(),
            bytes: 10,
        });
        Request::Remove {
            dir: dir.to_path_buf(),
            files: files.collect(),
            incarnation: incarnation.clone(),
        }
    }

    fn removed(reply: Reply) -> Removal {
        let Reply::Removed(removal) = reply else {
            panic!("{reply:?}");
        };
        removal
    }

    #[test]
    fn removing_twice_frees_the_same_bytes_and_is_no_error() {
        let (dir, incarnation) = slot();
        for name in ["a.sfa", "b.sfa"] {
            std::fs::write(dir.path().join(name), "x").unwrap();
        }
        let request = remove_request(dir.path(), &["a.sfa", "b.sfa"], &incarnation);
        for begun in [false, true] {
            let removal = removed(perform(&RealFs, request.clone(), begun, &mut go_on));
            assert_eq!(removal.freed, 20);
            assert!(removal.left.is_empty() && removal.error.is_none());
        }
        assert!(!dir.path().join("a.sfa").exists());
    }

    #[test]
    fn what_cannot_be_removed_is_named_and_not_counted_as_free() {
        let (dir, incarnation) = slot();
        std::fs::create_dir(dir.path().join("a.sfa")).unwrap();
        std::fs::write(dir.path().join("b.sfa"), "x").unwrap();
        let request = remove_request(dir.path(), &["a.sfa", "b.sfa"], &incarnation);
        let removal = removed(perform(&RealFs, request, false, &mut go_on));
        assert_eq!(removal.freed, 10);
        assert_eq!(removal.left.len(), 1);
        assert_eq!(removal.left[0].name, "a.sfa");
        assert!(removal.error.is_some());
    }

    #[test]
    fn requests_of_a_released_slot_touch_no_file_of_its_next_owner() {
        let (dir, incarnation) = slot();
        let stale_removal = remove_request(dir.path(), &["sf-0000000000000001.sfa"], &incarnation);
        let stale_spare = spare_request(dir.path(), 1, (65_536, false, 0), &incarnation);
        incarnation.release(&RealFs).unwrap();
        let newer = dir.path().join("sf-0000000000000001.sfa");
        std::fs::write(&newer, "of the next owner").unwrap();
        let removal = removed(perform(&RealFs, stale_removal, true, &mut go_on));
        assert_eq!((removal.freed, removal.left.len()), (0, 1));
        let reply = perform(&RealFs, stale_spare, true, &mut go_on);
        assert!(matches!(reply, Reply::Spare(Err(_))), "{reply:?}");
        let bytes = std::fs::read(&newer).unwrap();
        assert_eq!(bytes, b"of the next owner");
    }

    #[test]
    fn a_spare_that_was_begun_before_is_made_again() {
        let (dir, incarnation) = slot();
        let request = spare_request(dir.path(), 1, (65_536, false, 0), &incarnation);
        std::fs::write(dir.path().join("sf-0000000000000001.sfa"), "half").unwrap();
        let reply = perform(&RealFs, request.clone(), false, &mut go_on);
        assert!(matches!(reply, Reply::Spare(Err(_))), "{reply:?}");
        let reply = perform(&RealFs, request, true, &mut go_on);
        assert!(matches!(reply, Reply::Spare(Ok(_))), "{reply:?}");
    }

    #[test]
    fn a_filled_spare_is_written_from_end_to_end_and_yields_between_pieces() {
        let (dir, incarnation) = slot();
        let mut pieces = 0;
        let request =
            |generation| spare_request(dir.path(), generation, (3 << 20, true, 0), &incarnation);
        let reply = perform(&RealFs, request(1), false, &mut || {
            pieces += 1;
            Ok(())
        });
        assert!(matches!(reply, Reply::Spare(Ok(_))), "{reply:?}");
        assert_eq!(pieces, 3);
        let bytes = std::fs::read(dir.path().join("sf-0000000000000001.sfa")).unwrap();
        assert_eq!(bytes.len(), 3 << 20);
        assert_eq!(&bytes[..4], b"SF01");
        assert!(bytes[24..].iter().all(|byte| *byte == 0));
        let reply = perform(&RealFs, request(2), false, &mut || {
            Err(io::ErrorKind::Interrupted.into())
        });
        assert!(matches!(reply, Reply::Spare(Err(_))), "{reply:?}");
        assert!(!dir.path().join("sf-0000000000000002.sfa").exists());
    }

    #[test]
    fn memory_comes_whole_or_not_at_all() {
        let request = || Request::Memory {
            bytes: 2 * crate::io::HUGE,
        };
        let Reply::Memory(Ok(region)) = perform(&RealFs, request(), false, &mut go_on) else {
            panic!("no memory");
        };
        assert_eq!(region.bytes(), 2 * crate::io::HUGE);
        let mut stop = || Err(io::ErrorKind::Interrupted.into());
        let reply = perform(&RealFs, request(), false, &mut stop);
        assert!(matches!(reply, Reply::Memory(Err(_))), "{reply:?}");
    }

    #[test]
    fn no_spare_is_made_that_would_leave_too_little_free() {
        let (dir, incarnation) = slot();
        let request =
            |keep_free| spare_request(dir.path(), 1, (65_536, false, keep_free), &incarnation);
        let reply = perform(&RealFs, request(1 << 60), false, &mut go_on);
        let Reply::Spare(Err(error)) = reply else {
            panic!("{reply:?}");
        };
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().contains("sf_min_free_bytes"), "{error}");
        let reply = perform(&RealFs, request(1), false, &mut go_on);
        assert!(matches!(reply, Reply::Spare(Ok(_))), "{reply:?}");
    }
}
