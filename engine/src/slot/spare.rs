//! Making a segment file (slot-format.md sections 2.5 and 7): reserve, header, sync, directory
//! sync. Blocks are really reserved, so a full disk is an error here and never on the append path.

use std::io;
use std::path::Path;

use super::names;
use super::segment::SegmentHeader;
use crate::error::Error;
use crate::fsn::{Fsn, Generation};
use crate::io::sys::filesystem_type;
use crate::io::{Between, Fs, OpenMode, SpareFile};

/// Makes the empty segment `generation` of `bytes`, given the next FSN: reserved, with `zeros`
/// written over with zeros, header written and synced, directory synced. A file that could not be
/// finished is removed.
///
/// The provisional base in its header is the FSN after `next`. An active segment may have base
/// `next`; a spare with the same base would stand in, empty, for an active file that was lost with
/// its frames, and recovery could not tell.
///
/// When the filesystem cannot reserve blocks, [`is_preallocation_unsupported`] tells.
pub(crate) fn make_spare(
    fs: &dyn Fs,
    dir: &Path,
    generation: Generation,
    bytes: u64,
    next: Fsn,
    zeros: Option<Between<'_>>,
) -> io::Result<SpareFile> {
    let header = SegmentHeader {
        manifest_required: true,
        base: provisional_base(next),
        created_micros: fs.wall_micros(),
    };
    create(fs, dir, generation, bytes, header, zeros)
}

/// The base of a spare that is made when `next` is the next FSN.
pub(crate) fn provisional_base(next: Fsn) -> Fsn {
    Fsn(next.0.saturating_add(1).min(i64::MAX.unsigned_abs()))
}

/// Makes an empty segment with this header. Its name must not appear before the header is there:
/// the official client takes a blank `*.sfa` for a damaged segment, and refuses the slot when the
/// active segment is empty beside it.
pub(crate) fn create(
    fs: &dyn Fs,
    dir: &Path,
    generation: Generation,
    bytes: u64,
    header: SegmentHeader,
    zeros: Option<Between<'_>>,
) -> io::Result<SpareFile> {
    let name = names::segment(generation);
    let path = dir.join(&name);
    fs.create_reserved(&path, bytes, &header.to_bytes(), zeros)?;
    let finish = || {
        fs.sync_dir(dir)?;
        fs.open(&path, OpenMode::Direct)
    };
    match finish() {
        Ok(file) => Ok(SpareFile {
            name,
            generation,
            file,
            bytes,
            created_micros: header.created_micros,
        }),
        Err(error) => {
            // Whatever remains is an empty segment: the next recovery removes it.
            let _ = fs.unlink(&path);
            Err(error)
        }
    }
}

/// Whether making a segment failed because the filesystem cannot reserve blocks.
pub(crate) fn is_preallocation_unsupported(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS))
}

/// The error of this crate for a segment that could not be made or reserved.
pub(crate) fn segment_error(op: &'static str, path: &Path, source: io::Error) -> Error {
    let reason = |source: &io::Error| match filesystem_type(path) {
        Some(kind) => format!("{source}, on {kind}"),
        None => source.to_string(),
    };
    if is_preallocation_unsupported(&source) {
        return Error::Unsupported {
            what: format!("reserving blocks for {}", path.display()),
            reason: reason(&source),
            remedy: "Put sf_dir on a filesystem with fallocate (ext4, xfs, btrfs, tmpfs); there \
                     is no fall-back to sparse files",
        };
    }
    // Nothing else in making or opening a segment is an invalid argument.
    if source.raw_os_error() == Some(libc::EINVAL) {
        return Error::Unsupported {
            what: format!("direct I/O (O_DIRECT) on {}", path.display()),
            reason: reason(&source),
            remedy: "Put sf_dir on a filesystem with direct I/O (ext4, xfs, btrfs)",
        };
    }
    Error::disk(op, path, 0, source)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Field report: the filesystem refuses direct I/O when a segment is opened.
    #[test]
    fn dio_unsupported() {
        let source = io::Error::from_raw_os_error(libc::EINVAL);
        let error = segment_error("create", Path::new("/proc/a/sf-0.sfa"), source);
        let text = error.to_string();
        assert!(matches!(error, Error::Unsupported { .. }), "{text}");
        for part in ["O_DIRECT", "/proc/a/sf-0.sfa", "on proc", "ext4"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
