//! Field reports that need a control group: what an idle engine waits for, and a quota of cores.

use std::time::{Duration, Instant};

use forebay_loadgen::sink::{Sink, SinkConfig};
use forebay_tests::again;

use super::cgroup::{Cgroup, WINDOW};
use super::engine_child::EngineChild;
use super::{line, loadgen, log, offline};

/// The process of the test below.
#[test]
#[ignore = "the child of the test below"]
fn child_under_a_quota() {
    let members = std::env::var("FIELD_CPU_MEMBERS").unwrap();
    let started = || {
        log::captured(|| {
            let dir = loadgen::scratch();
            let engine = forebay::Engine::connect(&offline(dir.path(), "shards=auto;")).unwrap();
            println!("{} shards", engine.status().shards.len());
            engine.close().unwrap();
        })
    };
    let cores = std::thread::available_parallelism().unwrap();
    let free = started();
    assert!(free.contains(&format!("usable={cores} ")), "{free}");
    std::fs::write(members, std::process::id().to_string()).unwrap();
    let confined = started();
    assert!(confined.contains("usable=1 "), "{confined}");
    assert!(confined.contains("shards=1 "), "{confined}");
    again::came_to_its_end();
}

/// A quota of one core counts as one core, whatever the process may run on: `shards=auto` is half
/// of what the start says is usable.
#[test]
fn quota_without_cpuset_is_counted_by_auto() {
    let Some(group) = Cgroup::with_quota(1) else {
        println!("not measured: no cgroup with a quota can be made here");
        return;
    };
    let members = group.members();
    let variables = [("FIELD_CPU_MEMBERS", members.to_str().unwrap())];
    again::with("groups::child_under_a_quota", &variables);
}

/// Numbers of the system calls in which the threads of that name sleep; -1 is none.
fn sleeping_in(process: u32, name: &str) -> Vec<i64> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let told = tasks.filter_map(|task| {
        let dir = task.ok()?.path();
        line(&dir.join("status"), "Name:").filter(|found| found == name)?;
        let call = std::fs::read_to_string(dir.join("syscall")).ok()?;
        call.split_whitespace().next()?.parse().ok()
    });
    told.collect()
}

/// The other half of `idle-iowait` (the first, CPU time, is in `affinity.rs`): idle shards, with
/// their connections open and polled, sleep in `ppoll`, where the kernel sees nobody wait for a
/// disk, as it would in `io_uring_enter` with a request open. The best of some windows counts:
/// whatever else the machine does takes pages away now and then.
#[test]
fn idle_iowait_an_idle_shard_waits_for_no_disk() {
    let sink = Sink::start(SinkConfig::default()).unwrap();
    let dir = loadgen::scratch();
    let connect = offline(dir.path(), "shards=2;route_by=producer;")
        .replace("127.0.0.1:1;", &format!("{};", sink.addr()));
    let mut engine = EngineChild::open(&connect, &[]);
    for _ in 0..2 {
        engine.publish(10, 100);
        assert_eq!(engine.ask("published"), "published");
    }
    engine.wait_until("delivered", |state| state.get("frames_acked") >= 20);
    let group = Cgroup::watching(engine.id());
    let waited = || group.as_ref().map(Cgroup::waited);
    let mut seen = Vec::new();
    for _ in 0..6 {
        let (before, start) = (waited(), Instant::now());
        let mut calls = [Vec::new(), Vec::new()];
        while start.elapsed() < WINDOW {
            std::thread::sleep(Duration::from_millis(10));
            for (calls, name) in calls.iter_mut().zip(["forebay-s0", "forebay-s1"]) {
                calls.extend(sleeping_in(engine.id(), name));
            }
        }
        let window = start.elapsed();
        let share = |calls: &[i64], call: i64| {
            calls.iter().filter(|seen| **seen == call).count() * 100 / calls.len().max(1)
        };
        // Another thread of that name is the executor's, for calls that block: it waits for work.
        let asleep = calls.iter().all(|calls| {
            share(calls, libc::SYS_ppoll) >= 40 && share(calls, libc::SYS_io_uring_enter) <= 4
        });
        let waited = waited()
            .zip(before)
            .map(|(after, before)| after.saturating_sub(before));
        if asleep && waited.is_none_or(|waited| waited < window / 10) {
            println!("idle for {window:?}: waited for disks {waited:?}");
            break;
        }
        let calls = calls.map(|calls| (share(&calls, libc::SYS_ppoll), calls.len()));
        seen.push(format!("{calls:?} {waited:?}"));
        assert!(seen.len() < 6, "percent in ppoll, sights, waited: {seen:?}");
    }
    if let Some(group) = &group {
        // It would be seen: a process that does wait for a disk.
        let before = group.waited();
        let file = dir.path().join("waits");
        let file = file.display();
        group.run(&format!(
            "dd if=/dev/zero of='{file}' bs=4k count=400 oflag=direct,dsync status=none"
        ));
        std::thread::sleep(WINDOW);
        assert!(group.waited() > before, "the instrument sees waits");
    }
    assert_eq!(engine.ask("close"), "closed");
    drop(engine);
    sink.stop();
}
