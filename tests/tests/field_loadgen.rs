//! Field reports about what load tools measure, each test named after its report. (The range of
//! the histograms is tested beside them: `histogram_range` in `loadgen/src/report/tests.rs`.)

mod loadgen;

use std::process::{Command, Stdio};
use std::time::Duration;

use loadgen::{Running, binary, scratch, wait_for};

/// A batch of one row is due every 100 us, for three seconds.
const RATE: u64 = 10_000;
const ROWS: u64 = 3 * RATE;
/// How long the process is stopped: a tenth of the run.
const STALL: Duration = Duration::from_millis(300);

/// The load tool measured from the actual start: a stall counted once and percentiles looked fine.
///
/// The whole process is stopped for a tenth of its run. The batches that were due meanwhile say
/// so, each with its own wait; the calls themselves were fast, and stand beside that.
#[test]
fn omitted_stalls() {
    let dir = scratch();
    let json = dir.path().join("run.json");
    let (rows, rate) = (ROWS.to_string(), RATE.to_string());
    let mut run = Running::start(
        Command::new(binary())
            .args(["run", "--rows", &rows, "--batch", "1", "--rate", &rate])
            .arg("--json")
            .arg(&json)
            .arg("--dir")
            .arg(dir.path())
            .stdout(Stdio::null()),
    );
    // Its producer runs: it has a thread of that name.
    let tasks = format!("/proc/{}/task", run.id());
    wait_for("a producing thread", || {
        let threads = std::fs::read_dir(&tasks).ok()?;
        let mut names = threads.flatten().map(|task| task.path().join("comm"));
        names.find(|comm| {
            std::fs::read_to_string(comm).is_ok_and(|name| name.starts_with("producer"))
        })
    });
    std::thread::sleep(Duration::from_millis(500));
    run.signal("STOP");
    // A thread that runs on another core stops a moment after the signal was sent.
    wait_for("all threads stopped", || {
        let mut threads = std::fs::read_dir(&tasks).ok()?.flatten();
        threads
            .all(|task| {
                let stat = std::fs::read_to_string(task.path().join("stat"));
                stat.is_ok_and(|stat| stat.contains(") T "))
            })
            .then_some(())
    });
    // The first batch that is due then may be due a period after the stop.
    std::thread::sleep(STALL + Duration::from_secs(1) / u32::try_from(RATE).expect("small"));
    run.signal("CONT");
    assert!(run.finish("the end of the run").success());

    let text = std::fs::read_to_string(&json).expect("the report");
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let of = |key: &str, what: &str| report[key][what].as_u64().expect("a number");
    println!(
        "from the intended start {}, the call alone {}",
        report["publish_ns"], report["publish_service_ns"]
    );
    let stall = u64::try_from(STALL.as_nanos()).expect("small");
    assert_eq!(of("publish_ns", "count"), ROWS);
    assert_eq!(
        of("publish_service_ns", "count"),
        ROWS,
        "one sample for each, none made up"
    );
    assert!(of("publish_ns", "max") >= stall);
    assert!(
        of("publish_ns", "p99") >= stall * 85 / 100,
        "a tenth of the batches waited"
    );
    assert!(
        of("publish_service_ns", "p99") < stall / 10,
        "the calls did not"
    );
}
