//! Threads of an engine: names, cores, signals, what an idle one costs. The caller's thread stays
//! as it was.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay::{Engine, Error};

mod producing;
use producing::{free_address, scratch, serve, until};

/// The threads of the process are looked at: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn line(status: &Path, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(status).ok()?;
    let found = text.lines().find_map(|line| line.strip_prefix(key))?;
    Some(found.trim().to_owned())
}

fn allowed_here() -> String {
    line(Path::new("/proc/thread-self/status"), "Cpus_allowed_list:").unwrap()
}

/// The last core that this thread may use, and how many there are: `Cpus_allowed_list` names those
/// too that are offline.
fn last_core() -> (String, usize) {
    let cores = core_affinity::get_core_ids().unwrap();
    (cores.last().unwrap().id.to_string(), cores.len())
}

/// What stands behind `key` in the status of every thread of an engine, by thread name.
fn threads(key: &str) -> BTreeMap<String, String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let told = tasks.filter_map(|task| {
        let dir = task.ok()?.path();
        let name = line(&dir.join("status"), "Name:")?;
        let told = line(&dir.join("status"), key)?;
        name.starts_with("forebay-").then_some((name, told))
    });
    told.collect()
}

fn connect(keys: &str) -> Result<Engine, Error> {
    Engine::connect(&format!(
        "ws::addr=127.0.0.1:1;initial_connect_retry=async;close_flush_timeout_millis=0;{keys}"
    ))
}

#[test]
fn shards_are_pinned_each_to_its_core_and_the_caller_stays_free() {
    let _alone = alone();
    let (free, (last, cores_here)) = (allowed_here(), last_core());
    let engine = connect("shards=2;").unwrap();
    let cores = threads("Cpus_allowed_list:");
    assert_eq!(cores["forebay-s0"], last);
    assert_eq!(cores["forebay-s1"] != last, cores_here > 1, "{cores:?}");
    for (name, core) in cores
        .iter()
        .filter(|(name, _)| !name.starts_with("forebay-s"))
    {
        assert_eq!(*core, free, "{name}");
    }
    assert_eq!(allowed_here(), free, "the caller");
    // A second engine of the process is pinned alike, and lives beside the first.
    let second = connect("cores=auto;").unwrap();
    assert_eq!(threads("Cpus_allowed_list:")["forebay-s0"], last);
    second.close().unwrap();
    engine.close().unwrap();
    until("the threads have ended", || threads("Name:").is_empty());
    assert_eq!(allowed_here(), free, "the caller, afterwards");
}

#[test]
fn cores_are_as_listed_or_left_to_the_scheduler() {
    let _alone = alone();
    let (free, (last, _)) = (allowed_here(), last_core());
    for off in ["cores=off;", "pin=off;"] {
        let engine = connect(off).unwrap();
        assert_eq!(threads("Cpus_allowed_list:")["forebay-s0"], free, "{off}");
        engine.close().unwrap();
    }
    let engine = connect(&format!("shards=auto;cores={last};")).unwrap();
    assert_eq!(engine.status().shards.len(), 1);
    assert_eq!(threads("Cpus_allowed_list:")["forebay-s0"], last);
    engine.close().unwrap();
}

/// Field report `cpuset-noncontiguous`: a core that the kernel refuses is an error that names it,
/// what was asked for and what is allowed; nothing is left running.
#[test]
fn cpuset_noncontiguous_a_refused_core_names_both_sets() {
    let _alone = alone();
    let dir = scratch();
    let keys = format!(
        "shards=2;cores={},4000;sf_dir={}/sf;",
        last_core().0,
        dir.path().display()
    );
    let error = connect(&keys).expect_err("there is no such core");
    let text = error.to_string();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    for part in ["core 4000", "asked for", "allowed", "cores="] {
        assert!(text.contains(part), "{part}: {text}");
    }
    until("the threads have ended", || threads("Name:").is_empty());
    let free = keys.replace(",4000", "").replace("shards=2", "shards=1");
    connect(&free).unwrap().close().unwrap();
}

#[test]
fn threads_have_names_and_no_signals() {
    let _alone = alone();
    let engine = connect("shards=2;").unwrap();
    let wanted = [
        "forebay-s0",
        "forebay-s1",
        "forebay-stw",
        "forebay-dns",
        "forebay-ntf",
    ];
    until("all are up", || {
        let there = threads("Name:");
        wanted.iter().all(|name| there.contains_key(*name))
    });
    let application = [1, 2, 3, 10, 12, 13, 14, 15, 17];
    let mut seen = BTreeMap::new();
    let start = std::time::Instant::now();
    // A thread that has just been started may not be there yet.
    let blocked = |mask: &String| {
        let mask = u64::from_str_radix(mask, 16).unwrap();
        application
            .iter()
            .all(|signal| mask >> (signal - 1) & 1 == 1)
    };
    while seen.is_empty() || !seen.values().all(blocked) {
        assert!(start.elapsed() < producing::PATIENCE, "{seen:?}");
        seen = threads("SigBlk:");
    }
    engine.close().unwrap();
}

/// CPU time of the threads of the engine so far, by name.
fn cpu_of_threads() -> BTreeMap<String, Duration> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let told = tasks.filter_map(|task| {
        let dir = task.ok()?.path();
        let name = line(&dir.join("status"), "Name:")?;
        let stat = std::fs::read_to_string(dir.join("schedstat")).ok()?;
        let nanos = stat.split(' ').next()?.parse().ok()?;
        let ours = name.starts_with("forebay-");
        ours.then_some((name, Duration::from_nanos(nanos)))
    });
    // A thread that one of them starts may have its name.
    told.fold(BTreeMap::new(), |mut all, (name, cpu)| {
        *all.entry(name).or_default() += cpu;
        all
    })
}

/// Field report `idle-iowait`, the CPU half: an engine without work sleeps. No shard takes a
/// hundredth of a core, nor do all threads of the engine together.
#[test]
fn idle_iowait_an_idle_engine_sleeps() {
    const WINDOW: Duration = Duration::from_secs(2);
    let _alone = alone();
    let (dir, address) = (scratch(), free_address());
    let sink = serve(&dir.path().join("store"), address);
    let engine = Engine::connect(&format!(
        "ws::addr={address};sf_dir={}/sf;initial_connect_retry=sync;shards=2;",
        dir.path().display()
    ))
    .unwrap();
    // Spares are made at first. Then whatever else the machine does takes caches away now and
    // then: the least of several windows is what the engine takes of its own accord.
    std::thread::sleep(Duration::from_millis(500));
    let mut windows = Vec::new();
    for _ in 0..4 {
        let before = cpu_of_threads();
        std::thread::sleep(WINDOW);
        let after = cpu_of_threads();
        let used = after.iter().map(|(name, cpu)| {
            let before = before.get(name).copied().unwrap_or_default();
            (name.clone(), cpu.saturating_sub(before))
        });
        windows.push(used.collect::<BTreeMap<_, _>>());
    }
    let least = |name: &str| windows.iter().map(|window| window[name]).min().unwrap();
    let all = windows.iter().map(|window| window.values().sum());
    let all: Duration = all.min().unwrap();
    let shards = ["forebay-s0", "forebay-s1"].map(|name| (name, least(name)));
    println!("idle for {WINDOW:?}, CPU time: {shards:?}, all threads {all:?}");
    for (name, used) in shards {
        assert!(used > Duration::ZERO, "{name} looks around now and then");
        assert!(used < WINDOW / 100, "{name}: {used:?} of {WINDOW:?}");
    }
    assert!(all < WINDOW / 100, "all threads: {all:?} of {WINDOW:?}");
    engine.close().unwrap();
    sink.stop();
}
