//! What kind of filesystem a path is on.

use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::path::Path;

use super::fs::c_path;
use super::{check, retry};

/// A kind of filesystem by its magic number (`statfs`, linux/magic.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Filesystem(u32);

/// Known kinds: number, name, and whether other hosts may write to it.
const KINDS: [(u32, &str, bool); 18] = [
    (0xEF53, "ext4", false),
    (0x5846_5342, "xfs", false),
    (0x9123_683E, "btrfs", false),
    (0x0102_1994, "tmpfs", false),
    (0x794C_7630, "overlayfs", false),
    (0x2FC1_2FC1, "zfs", false),
    (0xF2F5_2010, "f2fs", false),
    (0x6573_5546, "fuse", false),
    (0x6969, "nfs", true),
    (0x517B, "smb", true),
    (0xFF53_4D42, "cifs", true),
    (0xFE53_4D42, "smb2", true),
    (0x0102_1997, "9p", true),
    (0x00C3_6400, "ceph", true),
    (0x5346_414F, "afs", true),
    (0x0BD0_0BD0, "lustre", true),
    (0x7461_636F, "ocfs2", true),
    (0x0116_1970, "gfs2", true),
];

/// The kind of the filesystem that `path` is on.
pub(crate) fn filesystem(path: &Path) -> io::Result<Filesystem> {
    let path = c_path(path)?;
    let mut found = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: `path` ends in a zero byte, and `found` is memory for the structure that is written.
    retry(|| check(unsafe { libc::statfs(path.as_ptr(), found.as_mut_ptr()) }))?;
    // SAFETY: the call above succeeded, so it has filled the structure.
    let found = unsafe { found.assume_init() };
    // The kernel's numbers have 32 bits; the field is as wide as a word and may be signed.
    let number = u32::try_from(found.f_type & 0xFFFF_FFFF);
    Ok(Filesystem(number.unwrap_or(u32::MAX)))
}

impl Filesystem {
    /// The kind with this number.
    #[cfg(test)]
    pub(crate) fn of(number: u32) -> Self {
        Self(number)
    }

    /// Whether its files live on another host, as far as the kind tells: locks may then be local to
    /// each host, or may not be there at all.
    pub(crate) fn is_network(self) -> bool {
        KINDS
            .iter()
            .any(|(number, _, network)| *number == self.0 && *network)
    }
}

impl fmt::Display for Filesystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match KINDS.iter().find(|(number, ..)| *number == self.0) {
            Some((_, name, _)) => f.write_str(name),
            None => write!(f, "type {:#x}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_names_and_a_missing_path_none() {
        let own = filesystem(Path::new("/proc")).unwrap();
        assert_eq!(
            (own.to_string().as_str(), own.is_network()),
            ("type 0x9fa0", false)
        );
        let names = [0x6969, 0xEF53, 0xFF53_4D42].map(|number| Filesystem(number).to_string());
        assert_eq!(names, ["nfs", "ext4", "cifs"]);
        let network = [0x6969, 0xEF53, 0xFF53_4D42, 7].map(|n| Filesystem(n).is_network());
        assert_eq!(network, [true, false, true, false]);
        let error = filesystem(Path::new("/no/such/place")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
