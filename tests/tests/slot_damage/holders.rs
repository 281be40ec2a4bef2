//! Who else may hold a slot, what stands in its place, and who may read it.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use forebay::Error;

use crate::slots::{Rig, name, publish};
use crate::{ALL, numbers};

#[test]
fn a_node_js_owner_is_respected_and_how_to_clear_it_is_told() {
    let rig = Rig::four_segments();
    let owner = rig.slot().join(".lock.owner");
    fs::create_dir(&owner).unwrap();
    fs::write(owner.join("pid"), "4711").unwrap();
    let error = rig.assert_refused();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains(".lock.owner") && text.contains("Node.js"),
        "{text}"
    );
    assert!(text.contains("remove"), "{text}");
    assert!(!rig.slot().join(".lock").exists(), "not even locked");
    assert_eq!(fs::read(owner.join("pid")).unwrap(), b"4711");
    fs::remove_dir_all(&owner).unwrap();
    assert_eq!(rig.drain(), numbers(ALL));
}

#[test]
fn a_holder_without_a_pid_is_unknown() {
    let rig = Rig::four_segments();
    let lock = fs::File::create(rig.slot().join(".lock")).unwrap();
    lock.try_lock().unwrap();
    for text in ["", "\n", "no number\n", "-3\n"] {
        rig.put(".lock.pid", text.as_bytes());
        let error = rig.assert_refused();
        let Error::Locked {
            holder,
            waited_millis,
            slot,
        } = &error
        else {
            panic!("{error}");
        };
        assert_eq!(
            (holder.as_str(), slot),
            ("unknown", &rig.slot()),
            "{text:?}"
        );
        assert!(*waited_millis >= 50, "lock_retry_millis: {waited_millis}");
        assert!(error.is_retryable());
    }
    drop(lock);
    assert_eq!(rig.drain(), numbers(ALL));
}

/// Moves a file or directory away and puts a link to it in its place; answers where it is now.
fn replace_by_link(rig: &Rig, path: &Path) -> std::path::PathBuf {
    let file = path.file_name().unwrap();
    let outside = rig.sf_dir().parent().unwrap().join("outside");
    fs::create_dir_all(&outside).unwrap();
    let outside = outside.join(file);
    if path.exists() {
        fs::rename(path, &outside).unwrap();
    } else {
        fs::write(&outside, b"").unwrap();
    }
    symlink(&outside, path).unwrap();
    outside
}

#[test]
fn no_link_in_the_place_of_a_file_is_followed() {
    for file in [".lock", ".ack-watermark", ".symbol-dict"] {
        let rig = Rig::four_segments();
        let path = rig.slot().join(file);
        let outside = replace_by_link(&rig, &path);
        let before = (fs::read(&outside).unwrap(), rig.files());
        let error = rig.connect().expect_err(file);
        assert!(matches!(error, Error::Disk { .. }), "{file}: {error}");
        assert!(path.is_symlink(), "{file}");
        assert_eq!(fs::read(&outside).unwrap(), before.0, "{file}");
        for generation in 0..4 {
            let segment = name(generation);
            assert_eq!(rig.files()[&segment], before.1[&segment], "{file}");
        }
        assert!(!rig.aside().exists(), "{file}");
        // What was in its place comes back, and nothing is missing.
        fs::remove_file(&path).unwrap();
        fs::rename(&outside, &path).unwrap();
        assert_eq!(rig.drain(), numbers(ALL), "{file}");
    }
}

#[test]
fn a_link_in_the_place_of_a_segment_or_of_the_manifest_is_no_such_file() {
    for file in [&name(0), &name(2), &name(3), "sf-manifest.bin"] {
        let rig = Rig::four_segments();
        let outside = replace_by_link(&rig, &rig.slot().join(file));
        let before = fs::read(&outside).unwrap();
        rig.assert_set_aside();
        assert!(rig.aside().join(file).is_symlink(), "{file}");
        assert_eq!(fs::read(&outside).unwrap(), before, "{file}");
    }
}

#[test]
fn a_link_in_the_place_of_the_slot_is_refused() {
    let rig = Rig::four_segments();
    let outside = replace_by_link(&rig, &rig.slot());
    let before = crate::slots::files(&outside);
    let error = rig.connect().expect_err("not a directory");
    assert!(matches!(error, Error::Disk { .. }), "{error}");
    assert_eq!(crate::slots::files(&outside), before);
    assert!(!outside.join(".lock").exists());
    fs::remove_file(rig.slot()).unwrap();
    fs::rename(&outside, rig.slot()).unwrap();
    assert_eq!(rig.drain(), numbers(ALL));
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Every file below, itself included, is its owner's alone.
fn assert_private(dir: &Path) {
    assert_eq!(mode(dir), 0o700, "{}", dir.display());
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            assert_private(&path);
        } else {
            assert_eq!(mode(&path), 0o600, "{}", path.display());
        }
    }
}

#[test]
fn everything_that_is_made_is_readable_by_its_owner_alone() {
    let rig = Rig::empty();
    fs::remove_dir_all(rig.sf_dir()).unwrap();
    let engine = rig.connect().unwrap();
    publish(&engine, 0);
    assert_private(&rig.sf_dir());
    drop(engine);
    // A torn tail and a slot set aside, with their copies and locks.
    rig.patch(&name(0), |bytes| bytes[2000] = 1);
    drop(rig.connect().unwrap());
    assert!(rig.files().keys().any(|name| name.contains(".torn-")));
    rig.remove("sf-manifest.bin");
    let engine = rig.connect().unwrap();
    assert!(engine.set_aside().is_some());
    publish(&engine, 0);
    assert!(rig.sf_dir().join(".slot-locks").exists());
    assert_private(&rig.sf_dir());
}

#[test]
fn what_somebody_else_made_keeps_its_mode() {
    let rig = Rig::four_segments();
    let wide = Permissions::from_mode(0o644);
    for file in [&name(1), ".symbol-dict", "sf-manifest.bin"] {
        fs::set_permissions(rig.slot().join(file), wide.clone()).unwrap();
    }
    drop(rig.connect().unwrap());
    for file in [&name(1), ".symbol-dict", "sf-manifest.bin"] {
        assert_eq!(mode(&rig.slot().join(file)), 0o644, "{file}");
    }
}
