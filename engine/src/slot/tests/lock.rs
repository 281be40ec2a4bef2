//! Locks that the filesystem does not give. Those that somebody has: `tests/tests/slot_lock.rs`.

use super::disk::Disk;
use super::rig::*;
use crate::error::Error;
use crate::slot::open;

/// Field report `locks-not-supported`: it is the filesystem that is told of, not a holder, and
/// nothing in the slot is touched.
#[test]
fn locks_not_supported() {
    let codes = [
        libc::ENOLCK,
        libc::EBADF,
        libc::EOPNOTSUPP,
        libc::ENOSYS,
        libc::EINVAL,
    ];
    for code in codes {
        let disk = four_segments();
        let before = disk.files(SLOT);
        disk.refuse_locks(&[code]);
        let error = open(&disk, &options()).expect_err("without a lock");
        assert!(matches!(error, Error::Unsupported { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("cannot lock files"), "{text}");
        assert!(text.contains("filesystem (test)"), "{text}");
        assert!(
            !text.contains("holder") && !text.contains("is locked"),
            "{text}"
        );
        assert_eq!(disk.files(SLOT), before, "{text}");
        assert_eq!(
            reopen(&disk).next.0,
            16,
            "it opens where locks are there again"
        );
    }
}

#[test]
fn a_lock_call_that_a_signal_interrupts_is_made_again() {
    let disk = four_segments();
    disk.refuse_locks(&[libc::EINTR; 3]);
    assert_eq!(reopen(&disk).next.0, 16);
    // Another failure may pass: it stays an error of the disk.
    let disk = Disk::new();
    disk.refuse_locks(&[libc::EIO]);
    let error = open(&disk, &options()).expect_err("no lock");
    assert!(matches!(error, Error::Disk { op: "lock", .. }), "{error:?}");
    assert!(error.is_retryable());
}
