//! Doing what is asked: blocking file calls, on the steward's thread, or on whoever does its work.

use std::io;
use std::path::Path;

use super::incarnation::Incarnation;
use super::{keep, lookup};
use crate::io::{Doomed, Fs, OpenMode, Removal, Reply, Request};
use crate::slot;
use crate::slot::names;

/// Does what is asked. `begun`: it was begun before by somebody who died, so what it makes may be
/// there in part, and what it removes may be gone.
pub(crate) fn perform(fs: &dyn Fs, request: Request, begun: bool) -> Reply {
    match request {
        Request::MakeSpare {
            dir,
            generation,
            bytes,
            next,
            incarnation,
        } => {
            let Some(_entered) = incarnation.enter() else {
                return Reply::Spare(Err(released()));
            };
            if begun {
                // Generations are given out once, so this file can only be ours.
                let _ = fs.unlink(&dir.join(names::segment(generation)));
            }
            Reply::Spare(slot::make_spare(fs, &dir, generation, bytes, next))
        }
        Request::Remove {
            dir,
            files,
            incarnation,
        } => Reply::Removed(remove(fs, &dir, files, &incarnation)),
        Request::Open { path, key } => Reply::Opened {
            key,
            answer: fs.open(&path, OpenMode::Direct),
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
        Request::Resolve(asked) => Reply::Resolved(lookup::perform(&asked, &lookup::system())),
    }
}

/// The answer to a request that could not be done.
pub(super) fn failed(request: Request, error: io::Error) -> Reply {
    match request {
        Request::MakeSpare { .. } => Reply::Spare(Err(error)),
        Request::Remove { files, .. } => Reply::Removed(Removal {
            left: files,
            error: Some(error),
            ..Removal::default()
        }),
        Request::Open { key, .. } => Reply::Opened {
            key,
            answer: Err(error),
        },
        Request::Keep { .. } => Reply::Kept(Err(error)),
        Request::Close { .. } => Reply::Closed,
        Request::Resolve(asked) => Reply::Resolved(lookup::failed(asked, &error)),
    }
}

/// Unlinks in order, as long as the slot is the one that was meant. A file that is not there is
/// one that is gone.
fn remove(fs: &dyn Fs, dir: &Path, files: Vec<Doomed>, incarnation: &Incarnation) -> Removal {
    let mut removal = Removal::default();
    for doomed in files {
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

fn released() -> io::Error {
    io::Error::other("the slot has been released: nothing of it is touched")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fsn::{Fsn, Generation};
    use crate::io::sys::RealFs;

    fn slot() -> (tempfile::TempDir, Incarnation) {
        let dir = tempfile::tempdir().unwrap();
        let lock = RealFs.open(&dir.path().join(".lock"), OpenMode::Create);
        (dir, Incarnation::new(lock.unwrap()))
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
            let removal = removed(perform(&RealFs, request.clone(), begun));
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
        let removal = removed(perform(&RealFs, request, false));
        assert_eq!(removal.freed, 10);
        assert_eq!(removal.left.len(), 1);
        assert_eq!(removal.left[0].name, "a.sfa");
        assert!(removal.error.is_some());
    }

    #[test]
    fn requests_of_a_released_slot_touch_no_file_of_its_next_owner() {
        let (dir, incarnation) = slot();
        let stale_removal = remove_request(dir.path(), &["sf-0000000000000001.sfa"], &incarnation);
        let stale_spare = Request::MakeSpare {
            dir: dir.path().to_path_buf(),
            generation: Generation(1),
            bytes: 65_536,
            next: Fsn(0),
            incarnation: incarnation.clone(),
        };
        incarnation.release(&RealFs).unwrap();
        let newer = dir.path().join("sf-0000000000000001.sfa");
        std::fs::write(&newer, "of the next owner").unwrap();
        let removal = removed(perform(&RealFs, stale_removal, true));
        assert_eq!((removal.freed, removal.left.len()), (0, 1));
        let reply = perform(&RealFs, stale_spare, true);
        assert!(matches!(reply, Reply::Spare(Err(_))), "{reply:?}");
        let bytes = std::fs::read(&newer).unwrap();
        assert_eq!(bytes, b"of the next owner");
    }

    #[test]
    fn a_spare_that_was_begun_before_is_made_again() {
        let (dir, incarnation) = slot();
        let request = Request::MakeSpare {
            dir: dir.path().to_path_buf(),
            generation: Generation(1),
            bytes: 65_536,
            next: Fsn(0),
            incarnation,
        };
        std::fs::write(dir.path().join("sf-0000000000000001.sfa"), "half").unwrap();
        let reply = perform(&RealFs, request.clone(), false);
        assert!(matches!(reply, Reply::Spare(Err(_))), "{reply:?}");
        let reply = perform(&RealFs, request, true);
        assert!(matches!(reply, Reply::Spare(Ok(_))), "{reply:?}");
    }
}
