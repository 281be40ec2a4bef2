//! The same on a real directory: modes, locks across descriptors, links, direct I/O.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use super::rig::{frame, message};
use crate::error::Error;
use crate::fsn::Fsn;
use crate::io::sys::RealFs;
use crate::io::{Fs, OpenMode};
use crate::slot::{Drained, OpenedSlot, RecoveryProgress, SlotOptions, close_drained, open};

fn options(root: &Path) -> SlotOptions {
    SlotOptions {
        sf_dir: root.join("sf"),
        sender_id: "id".to_owned(),
        segment_bytes: 64 * 1024,
        total_bytes: 1 << 20,
        prefill: false,
        lock_retry: Duration::from_millis(10),
        progress: RecoveryProgress::new(),
    }
}

fn append(slot: &mut OpenedSlot, payload: &[u8]) {
    let bytes = frame(payload);
    let active = slot.segments.last_mut().unwrap();
    let file = RealFs
        .open(&slot.dir.join(&active.name), OpenMode::ReadWrite)
        .unwrap();
    RealFs.write_at(&file, &bytes, active.end).unwrap();
    active.end += bytes.len() as u64;
    active.frames += 1;
    slot.next = slot.next.plus(1);
}

#[test]
fn a_slot_lives_through_kill_recovery_and_drained_close() {
    let root = tempfile::tempdir().unwrap();
    let options = options(root.path());
    let mut slot = open(&RealFs, &options).unwrap();
    append(&mut slot, &message(0, &["a"], 100));
    append(&mut slot, &message(1, &["b"], 5000));
    drop(slot);
    let mut slot = open(&RealFs, &options).unwrap();
    assert_eq!(
        (slot.acked, slot.next, slot.dictionary.len()),
        (Fsn(0), Fsn(2), 2)
    );
    let names: Vec<String> = slot
        .segments
        .iter()
        .chain(&slot.spares)
        .map(|s| s.name.clone())
        .collect();
    let drained = Drained {
        dir: &slot.dir,
        manifest: &mut slot.manifest,
        watermark: &mut slot.watermark,
        segments: &names,
        active_base: Fsn(0),
        acked: slot.next,
    };
    close_drained(&RealFs, drained).unwrap();
    let mut left: Vec<String> = RealFs
        .entries(&slot.dir)
        .unwrap()
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    left.sort();
    assert_eq!(left, [".lock", ".lock.pid"]);
    drop(slot);
    assert!(open(&RealFs, &options).unwrap().report.fresh);
}

#[test]
fn two_engines_of_one_process_exclude_each_other() {
    let root = tempfile::tempdir().unwrap();
    let options = options(root.path());
    let held = open(&RealFs, &options).unwrap();
    match open(&RealFs, &options) {
        Err(Error::Locked {
            holder,
            waited_millis,
            ..
        }) => {
            assert_eq!(holder, std::process::id().to_string());
            assert!(waited_millis >= 10);
        }
        other => panic!("{other:?}"),
    }
    RealFs.unlock(&held.lock).unwrap();
    open(&RealFs, &options).unwrap();
}

#[test]
fn directories_and_files_are_private() {
    let root = tempfile::tempdir().unwrap();
    let slot = open(&RealFs, &options(root.path())).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(&slot.dir), mode(&root.path().join("sf"))),
        (0o700, 0o700)
    );
    for entry in RealFs.entries(&slot.dir).unwrap() {
        assert_eq!(mode(&slot.dir.join(&entry.name)), 0o600, "{}", entry.name);
    }
}

#[test]
fn links_named_like_parts_of_a_slot_are_not_followed() {
    let root = tempfile::tempdir().unwrap();
    let options = options(root.path());
    let dir = open(&RealFs, &options).unwrap().dir;
    std::os::unix::fs::symlink("/nowhere", dir.join("sf-00000000000000ff.sfa")).unwrap();
    assert_eq!(open(&RealFs, &options).unwrap().next, Fsn(0));
    assert!(dir.join("sf-00000000000000ff.sfa").is_symlink());
    std::fs::remove_file(dir.join(".lock")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", dir.join(".lock")).unwrap();
    assert!(matches!(
        open(&RealFs, &options),
        Err(Error::Disk { op: "open", .. })
    ));
}

#[test]
fn a_link_in_place_of_a_slot_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let options = options(root.path());
    drop(open(&RealFs, &options).unwrap());
    std::fs::rename(root.path().join("sf/id"), root.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("../elsewhere", root.path().join("sf/id")).unwrap();
    let error = open(&RealFs, &options).unwrap_err();
    assert!(
        matches!(&error, Error::Disk { source, .. }
        if source.raw_os_error() == Some(libc::ENOTDIR)),
        "{error}"
    );
}

#[test]
fn a_slot_that_is_set_aside_is_private_and_both_locks_work_on_real_files() {
    let root = tempfile::tempdir().unwrap();
    let options = options(root.path());
    let mut slot = open(&RealFs, &options).unwrap();
    append(&mut slot, &message(0, &["a"], 100));
    let manifest = slot.dir.join("sf-manifest.bin");
    drop(slot);
    std::fs::remove_file(manifest).unwrap();
    let slot = open(&RealFs, &options).unwrap();
    let told = slot.report.set_aside.as_ref().unwrap();
    assert_eq!(told.path, root.path().join("sf/id.unreplayable-0"));
    assert_eq!((told.fsns, told.frames), (Some((0, 1)), 1));
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let locks = root.path().join("sf/.slot-locks");
    assert_eq!(mode(&locks), 0o700);
    for file in [locks.join("id.lock"), told.path.join(".failed")] {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    let logical = RealFs
        .open(&locks.join("id.lock"), OpenMode::ReadWrite)
        .unwrap();
    assert!(RealFs.try_lock(&logical).unwrap(), "free again");
    assert!(matches!(open(&RealFs, &options), Err(Error::Locked { .. })));
}

#[test]
fn a_reserved_file_has_its_name_when_it_is_complete_or_not_at_all() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("new");
    RealFs.create_reserved(&path, 8192, b"start", None).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!((&bytes[..5], bytes.len()), (&b"start"[..], 8192));
    assert!(bytes[5..].iter().all(|byte| *byte == 0));
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = RealFs
        .create_reserved(&path, 4096, b"other", None)
        .unwrap_err();
    assert_eq!(again.kind(), std::io::ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "untouched");
    let huge = root.path().join("huge");
    RealFs
        .create_reserved(&huge, 1 << 62, b"", None)
        .unwrap_err();
    assert!(!huge.exists());
}
