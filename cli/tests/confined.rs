//! The tool where little is allowed: without io_uring, on a read-only mount.

#![allow(clippy::unwrap_used, reason = "a panic here is a failed test")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::{contents, corpus, slot_of};

const COMMANDS: [&[&str]; 4] = [&["verify"], &["inspect"], &["dump"], &["dump", "--rows"]];

fn slot(root: &Path) -> PathBuf {
    let (_scratch, slots) = corpus();
    let slot = slots
        .iter()
        .find(|slot| slot.name.starts_with("rust-row/d_partly_acked"));
    slot_of(root, "slot", &contents(&slot.unwrap().dir))
}

#[test]
#[ignore = "needs python3 for a seccomp filter"]
fn it_works_where_io_uring_is_forbidden() {
    let root = tempfile::tempdir().unwrap();
    let slot = slot(root.path());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/scripts/without_io_uring.py");
    for args in COMMANDS {
        let output = Command::new("python3")
            .arg(&script)
            .args(["1", env!("CARGO_BIN_EXE_forebay")])
            .args(args)
            .arg(&slot)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*text), (Some(0), ""), "{args:?}");
        assert!(!output.stdout.is_empty(), "{args:?}");
    }
}

/// A read-only view of a directory; unmounted on drop.
struct ReadOnly(tempfile::TempDir);

impl ReadOnly {
    fn of(dir: &Path) -> Self {
        let view = Self(tempfile::tempdir().unwrap());
        mount(&["--bind".as_ref(), dir, view.0.path()]);
        mount(&["-o".as_ref(), "remount,bind,ro".as_ref(), view.0.path()]);
        view
    }
}

fn mount(args: &[&Path]) {
    let status = Command::new("mount").args(args).status().unwrap();
    assert!(status.success(), "mount {args:?}");
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        // A view that stays mounted harms nothing.
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
#[ignore = "needs root to mount a directory read-only"]
fn it_works_on_a_read_only_mount() {
    let root = tempfile::tempdir().unwrap();
    slot(root.path());
    let view = ReadOnly::of(root.path());
    let slot = view.0.path().join("slot");
    assert!(
        std::fs::write(slot.join("x"), b"").is_err(),
        "not read-only"
    );
    for args in COMMANDS {
        let output = Command::new(env!("CARGO_BIN_EXE_forebay"))
            .args(args)
            .arg(&slot)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*text), (Some(0), ""), "{args:?}");
    }
}
