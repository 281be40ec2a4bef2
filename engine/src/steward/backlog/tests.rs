use std::path::PathBuf;

use super::*;
use crate::fsn::{Fsn, Generation};
use crate::io::sys::{EventFd, RealFs};
use crate::io::{Fs, OpenMode, Removal};
use crate::steward::Incarnation;

struct Rig {
    backlog: Backlog,
    incarnation: Incarnation,
    _dir: tempfile::TempDir,
}

impl Rig {
    fn new(high_water_bytes: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let lock = RealFs.open(&dir.path().join(".lock"), OpenMode::Create);
        let gate = Arc::new(Gate::new(EventFd::new().unwrap()));
        Self {
            backlog: Backlog::new(gate, high_water_bytes),
            incarnation: Incarnation::new(lock.unwrap()),
            _dir: dir,
        }
    }

    fn remove(&self, name: &str) -> Option<Change> {
        let request = Request::Remove {
            dir: PathBuf::from("/slot"),
            files: vec![Doomed {
                name: name.to_owned(),
                bytes: 100,
            }],
            incarnation: self.incarnation.clone(),
        };
        self.backlog.submit(request).expect("room")
    }

    fn memory(&self) {
        let request = Request::Memory { bytes: 1 };
        self.backlog.submit(request).expect("room");
    }

    fn open(&self, key: u64) {
        let path = PathBuf::from("/slot/sf-initial.sfa");
        let request = Request::Open { path, key };
        self.backlog.submit(request).expect("room");
    }

    fn spare(&self, generation: u64) {
        let request = Request::MakeSpare {
            dir: PathBuf::from("/slot"),
            generation: Generation(generation),
            bytes: 65_536,
            next: Fsn(0),
            fill: false,
            keep_free: 0,
            incarnation: self.incarnation.clone(),
        };
        self.backlog.submit(request).expect("room");
    }
}

/// What a task is, for comparing.
fn what(task: Option<Task>) -> String {
    let Some(Task { request, begun, .. }) = task else {
        return "nothing".to_owned();
    };
    let again = if begun { " again" } else { "" };
    match request {
        Request::MakeSpare { generation, .. } => format!("spare {}{again}", generation.0),
        Request::Remove { files, .. } => {
            let names: Vec<_> = files.into_iter().map(|file| file.name).collect();
            format!("remove {}{again}", names.join("+"))
        }
        other => format!("{other:?}"),
    }
}

fn done() -> Reply {
    Reply::Removed(Removal::default())
}

#[test]
fn what_a_dead_worker_had_in_hand_comes_first_and_is_marked() {
    let rig = Rig::new(u64::MAX);
    let (backlog, worker) = (&rig.backlog, rig.backlog.hire());
    rig.spare(1);
    rig.remove("a");
    assert_eq!(what(backlog.take(worker)), "spare 1");
    backlog.ended(worker);
    let next = backlog.hire();
    assert_eq!(what(backlog.take(next)), "spare 1 again");
    assert!(backlog.reply().is_none());
    backlog.finish(next, done());
    assert!(backlog.reply().is_some() && backlog.reply().is_none());
    assert_eq!(what(backlog.take(next)), "remove a");
}

#[test]
fn an_earlier_worker_is_not_heard() {
    let rig = Rig::new(u64::MAX);
    let (backlog, early) = (&rig.backlog, rig.backlog.hire());
    rig.remove("a");
    assert_eq!(what(backlog.take(early)), "remove a");
    assert!(!backlog.wait_for_end(Duration::ZERO), "it is alive");
    backlog.finish(early, done());
    assert!(backlog.reply().is_none());
    assert_eq!(what(backlog.take(early)), "nothing");
    backlog.ended(early);
    assert_eq!(
        what(backlog.take_over()),
        "nothing",
        "it stays with whoever hangs"
    );
}

#[test]
fn behind_the_high_water_mark_removals_go_first_and_together() {
    let rig = Rig::new(250);
    let (backlog, worker) = (&rig.backlog, rig.backlog.hire());
    rig.spare(1);
    assert_eq!(rig.remove("a"), None);
    rig.spare(2);
    assert_eq!(rig.remove("b"), None);
    assert_eq!(rig.remove("c"), Some(Change::HighWater));
    assert_eq!(what(backlog.take(worker)), "remove a+b+c");
    assert_eq!(backlog.finish(worker, done()), Some(Change::Relaxed));
    assert_eq!(what(backlog.take(worker)), "spare 1");
}

#[test]
fn after_the_fall_back_all_removals_come_at_once_before_the_rest() {
    let rig = Rig::new(u64::MAX);
    let (backlog, worker) = (&rig.backlog, rig.backlog.hire());
    rig.spare(1);
    rig.remove("a");
    rig.remove("b");
    assert_eq!(what(backlog.take(worker)), "spare 1");
    backlog.ended(worker);
    assert!(!backlog.is_pending());
    backlog.fall_back();
    assert!(backlog.is_pending(), "the shard must not sleep over it");
    assert_eq!(what(backlog.take_over()), "remove a+b");
    assert_eq!(what(backlog.take_over()), "spare 1 again");
    assert!(!backlog.is_pending());
}

#[test]
fn a_stop_drops_what_is_ahead_of_need_and_ends_the_worker_when_the_rest_is_done() {
    let rig = Rig::new(u64::MAX);
    let (backlog, worker) = (&rig.backlog, rig.backlog.hire());
    rig.spare(1);
    rig.memory();
    rig.remove("a");
    backlog.stop();
    assert_eq!(what(backlog.take(worker)), "remove a");
    backlog.finish(worker, done());
    assert_eq!(what(backlog.take(worker)), "nothing");
    backlog.ended(worker);
    assert!(backlog.wait_for_end(Duration::ZERO));
}

#[test]
fn a_full_list_gives_the_request_back() {
    let rig = Rig::new(u64::MAX);
    for generation in 0..QUEUE as u64 {
        rig.spare(generation);
    }
    let file = RealFs.open(std::path::Path::new("/dev/null"), OpenMode::Read);
    let request = Request::Close {
        file: file.unwrap(),
    };
    assert!(rig.backlog.submit(request).is_err());
}

#[test]
fn a_spare_in_hand_lets_everything_else_pass() {
    let rig = Rig::new(u64::MAX);
    let (backlog, worker) = (&rig.backlog, rig.backlog.hire());
    rig.spare(1);
    assert_eq!(what(backlog.take(worker)), "spare 1");
    rig.spare(2);
    rig.memory();
    rig.remove("a");
    assert_eq!(what(backlog.take_short(worker)), "remove a");
    assert_eq!(what(backlog.take_short(worker)), "nothing");
    // It dies within the removal: both were begun.
    backlog.ended(worker);
    let next = backlog.hire();
    assert_eq!(what(backlog.take(next)), "spare 1 again");
    assert_eq!(what(backlog.take_short(next)), "remove a again");
    backlog.finish(next, done());
    backlog.finish(next, done());
    assert_eq!(what(backlog.take(next)), "spare 2");
}

#[test]
fn a_file_to_be_read_is_opened_before_all_else_and_between_two_removals() {
    let rig = Rig::new(u64::MAX);
    let (backlog, worker) = (&rig.backlog, rig.backlog.hire());
    rig.spare(1);
    rig.remove("a");
    rig.open(7);
    assert!(what(backlog.take(worker)).contains("key: 7"));
    backlog.finish(worker, done());
    assert_eq!(what(backlog.take(worker)), "spare 1");
    backlog.finish(worker, done());
    assert_eq!(what(backlog.take(worker)), "remove a");
    assert_eq!(what(backlog.take_file(worker)), "nothing");
    rig.open(8);
    rig.remove("b");
    assert!(what(backlog.take_file(worker)).contains("key: 8"));
    assert_eq!(what(backlog.take_file(worker)), "nothing");
    // Both were in hand; the removal goes on after the death of who had them.
    backlog.ended(worker);
    let next = backlog.hire();
    assert!(what(backlog.take(next)).contains("key: 8"));
    assert_eq!(what(backlog.take(next)), "remove a again");
}

#[test]
fn a_file_that_was_read_is_closed_before_the_next_is_opened_and_before_a_removal() {
    let rig = Rig::new(u64::MAX);
    let (backlog, worker) = (&rig.backlog, rig.backlog.hire());
    rig.remove("a");
    rig.open(7);
    let file = RealFs.open(std::path::Path::new("/dev/null"), OpenMode::Read);
    let file = file.unwrap();
    backlog.submit(Request::Close { file }).expect("room");
    rig.open(8);
    assert!(what(backlog.take(worker)).contains("key: 7"));
    backlog.finish(worker, done());
    assert!(what(backlog.take(worker)).contains("Close"));
    backlog.finish(worker, done());
    assert!(what(backlog.take(worker)).contains("key: 8"));
    backlog.finish(worker, done());
    assert_eq!(what(backlog.take(worker)), "remove a");
}
