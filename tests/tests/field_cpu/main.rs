//! Field reports about cores, limits and kernel workers, each named after its id: engines in
//! processes with limits of their own, looked at from outside. Others of the area are in
//! `affinity.rs` and `start_errors.rs`.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forebay_loadgen::sink::{Sink, SinkConfig};

use engine_child::EngineChild;

mod cgroup;
#[path = "../engine_child/mod.rs"]
mod engine_child;
mod groups;
#[path = "../loadgen/mod.rs"]
mod loadgen;
#[path = "../log/mod.rs"]
mod log;

/// A connect string for slots below `dir`; nobody listens at its address.
fn offline(dir: &Path, more: &str) -> String {
    format!(
        "ws::addr=127.0.0.1:1;sf_dir={};sender_id=cpu;sf_max_segment_bytes=64k;\
         initial_connect_retry=async;close_flush_timeout_millis=0;{more}",
        dir.join("sf").display()
    )
}

/// What stands behind `key` in a `status` of `/proc`.
fn line(status: &Path, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(status).ok()?;
    let found = text.lines().find_map(|line| line.strip_prefix(key))?;
    Some(found.trim().to_owned())
}

/// The allowed cores of every thread of a process whose name begins so, with its name.
fn cores_of(process: u32, name: &str) -> Vec<(String, String)> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let told = tasks.filter_map(|task| {
        let status: PathBuf = task.ok()?.path().join("status");
        let found = line(&status, "Name:").filter(|found| found.starts_with(name))?;
        Some((found, line(&status, "Cpus_allowed_list:")?))
    });
    told.collect()
}

fn own_cores() -> String {
    line(Path::new("/proc/thread-self/status"), "Cpus_allowed_list:").unwrap()
}

/// First and last core that this thread may use: `Cpus_allowed_list` names those too that are
/// offline.
fn first_and_last() -> (String, String) {
    let cores = core_affinity::get_core_ids().unwrap();
    let [first, .., last] = cores.as_slice() else {
        let only = cores[0].id.to_string();
        return (only.clone(), only);
    };
    (first.id.to_string(), last.id.to_string())
}

/// Major and minor number of the kernel that runs.
fn kernel() -> (u32, u32) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release
        .split(['.', '-'])
        .map_while(|n| n.parse::<u32>().ok());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

/// A process that may lock `kib` KiB of memory and not more, root or not.
fn with_locked_memory(kib: u32) -> EngineChild {
    let script = format!("ulimit -l {kib} && exec \"$@\"");
    let mut wrapper = vec!["sh", "-c", &script, "sh"];
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    if is_root {
        // Whoever has this capability is bound by no limit.
        wrapper.splice(0..0, ["setpriv", "--bounding-set=-ipc_lock"]);
    }
    EngineChild::wrapped(&wrapper)
}

/// What a refusal says: the limit, the need, and for how many shards.
fn assert_refused(refused: &str, shards: &str, bytes: &str) {
    for part in [
        &format!("starting {shards} shards"),
        &format!("{bytes} bytes"),
        "ulimit -l",
    ] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
}

/// Below 512 KiB the executor refuses: said before anything is touched.
#[test]
fn memlock_small_is_refused_before_anything_is_touched() {
    for shards in ["1", "2", "8"] {
        let dir = loadgen::scratch();
        let connect = offline(dir.path(), &format!("shards={shards};pin=off;"));
        let mut child = with_locked_memory(64);
        let refused = child.ask(&format!("open {connect}"));
        assert_refused(&refused, shards, "65536");
        assert!(refused.contains("at least 524288"), "{refused}");
        assert!(!dir.path().join("sf").exists(), "nothing is touched");
        assert_eq!(cores_of(child.id(), "forebay-"), [], "no thread is left");
    }
}

/// With 512 KiB a few shards run, the buffers of their executors not registered (the engine's own
/// never are); with too many none does, where the kernel counts rings (since Linux 6.14).
#[test]
fn memlock_small_leaves_no_half_started_engine() {
    let sink = Sink::start(SinkConfig::default()).unwrap();
    // Before they are counted no number of shards is too many.
    let rings_are_counted = kernel() >= (6, 14);
    if !rings_are_counted {
        println!("Linux {:?}: rings do not count as locked memory", kernel());
    }
    let mut delivered = 0;
    for shards in ["1", "2", "8"] {
        let dir = loadgen::scratch();
        let connect = offline(dir.path(), &format!("shards={shards};pin=off;"))
            .replace("127.0.0.1:1;", &format!("{};", sink.addr()))
            .replace("timeout_millis=0", "timeout_millis=30000");
        let mut child = with_locked_memory(512);
        let said = child.ask(&format!("open {connect}"));
        println!("{shards} shards, 512 KiB: {said}");
        // The limit holds for all processes of a user, those of other tests included: only what is
        // refused for certain is asserted to be.
        let is_too_many = rings_are_counted && shards == "8";
        assert!(!is_too_many || said != "open", "640 KiB at least");
        if said != "open" {
            let told = said.contains("Cannot allocate memory") || said.contains("start");
            assert!(told, "{said}");
            if !said.contains("error: setting up io_uring") {
                assert_refused(&said, shards, "524288");
            }
            loadgen::wait_for("end of the last shard's thread", || {
                cores_of(child.id(), "forebay-s").is_empty().then_some(())
            });
            continue;
        }
        let names = cores_of(child.id(), "forebay-s");
        let is_shard = |(name, _): &&(String, String)| name.len() == "forebay-s0".len();
        let running = names.iter().filter(is_shard).count();
        assert_eq!(running.to_string(), shards, "{names:?}");
        child.publish(20, 4_000);
        assert_eq!(child.ask("published"), "published");
        assert_eq!(child.ask("close"), "closed");
        delivered += 20;
    }
    assert_eq!(sink.stop().rows, delivered);
}

/// Two processes with default settings choose the same core, as documented; an offset or no
/// pinning is one key, and the choice is logged.
#[test]
fn quota_without_cpuset_pinning_is_told_offset_or_switched_off() {
    let (first, last) = first_and_last();
    let dirs = [loadgen::scratch(), loadgen::scratch()];
    for (keys, expected) in [
        (["", ""], [&last, &last]),
        ([&format!("cores={first};"), ""], [&first, &last]),
        (["cores=off;", "pin=off;"], [&own_cores(), &own_cores()]),
    ] {
        let mut engines = Vec::new();
        for (dir, more) in dirs.iter().zip(keys) {
            engines.push(EngineChild::open(&offline(dir.path(), more), &[]));
        }
        for (engine, expected) in engines.iter().zip(expected) {
            let threads = cores_of(engine.id(), "forebay-s0");
            // Another one is of the shard's executor, for calls that block.
            let shard = threads.iter().find(|(name, _)| name == "forebay-s0");
            assert_eq!(shard.unwrap().1, *expected, "{keys:?}");
        }
        for mut engine in engines {
            assert_eq!(engine.ask("close"), "closed");
        }
    }
    for (keys, told) in [("", last.as_str()), ("cores=off;", "any")] {
        let lines = log::captured(|| {
            let connect = offline(dirs[0].path(), keys);
            let engine = forebay::Engine::connect(&connect).unwrap();
            engine.close().unwrap();
        });
        let line = lines.lines().find(|line| line.contains("FB-C011"));
        let line = line.unwrap_or_else(|| panic!("no line in {lines}"));
        assert!(line.contains(&format!("cores=\"{told}\"")), "{line}");
    }
}

/// The cores of the ring's workers of this process, once it has some: it writes and syncs, which
/// the kernel does not do on the shard's thread.
fn workers(mut engine: EngineChild, dir: &Path, more: &str) -> Vec<String> {
    let connect = offline(dir, &format!("sf_durability=flush;{more}"));
    assert_eq!(engine.ask(&format!("open {connect}")), "open");
    let start = Instant::now();
    loop {
        engine.publish(10, 4_000);
        assert_eq!(engine.ask("published"), "published");
        let workers = cores_of(engine.id(), "iou-wrk");
        if !workers.is_empty() {
            return workers.into_iter().map(|(_, cores)| cores).collect();
        }
        assert!(start.elapsed() < engine_child::PATIENCE, "no workers");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Workers stay where their shard may run: since Linux 6.2 on its core if it is pinned, else on the
/// process's. Before they have the whole cpuset (decision 0005).
#[test]
fn kernel_workers_roam_no_further_than_their_shard() {
    if kernel() < (6, 2) {
        println!("Linux {:?}: they have the whole cpuset", kernel());
        return;
    }
    let ((first, last), own) = (first_and_last(), own_cores());
    let on = |cores| EngineChild::wrapped(&["taskset", "-c", cores]);
    let confined = || on(&first);
    // Up to Linux 6.11 workers of a process that nobody has set any cores for get every possible
    // one.
    let free = || on(&own);
    for (engine, keys, expected) in [
        (confined(), "", &first),
        (confined(), "cores=off;", &first),
        (free(), "", &last),
        (free(), "cores=off;", &own),
    ] {
        let dir = loadgen::scratch();
        for cores in workers(engine, dir.path(), keys) {
            assert_eq!(cores, *expected, "{keys}");
        }
    }
}

/// No page is taken from the pool that limits hold for (`nr_hugepages`, the hugetlb cgroup): large
/// memory only asks for transparent ones, and does without where the process gets none.
#[test]
fn hugepage_limits_concern_no_memory_of_the_engine() {
    for small_pages in [false, true] {
        let dir = loadgen::scratch();
        let mut engine = EngineChild::start(&[]);
        if small_pages {
            assert_eq!(engine.ask("small_pages"), "small_pages");
        }
        // Segments of 8 MiB: memory that huge pages would fit in.
        let connect = offline(dir.path(), "intake_ring_bytes=4m;")
            .replace("sf_max_segment_bytes=64k", "sf_max_segment_bytes=8m");
        assert_eq!(engine.ask(&format!("open {connect}")), "open");
        engine.publish(40, 500_000);
        assert_eq!(engine.ask("published"), "published");
        let process = PathBuf::from(format!("/proc/{}", engine.id()));
        let reserved = line(&process.join("status"), "HugetlbPages:");
        assert!(reserved.is_none_or(|told| told == "0 kB"), "no such page");
        let maps = std::fs::read_to_string(process.join("smaps")).unwrap();
        let flagged = |flag: &str| {
            let mut flags = maps
                .lines()
                .filter_map(|line| line.strip_prefix("VmFlags:"));
            flags.any(|flags| flags.split_whitespace().any(|told| told == flag))
        };
        assert!(!flagged("ht"), "no mapping of the pool");
        let has_transparent = Path::new("/sys/kernel/mm/transparent_hugepage").exists();
        assert_eq!(
            flagged("hg"),
            has_transparent,
            "transparent ones are asked for"
        );
    }
}
