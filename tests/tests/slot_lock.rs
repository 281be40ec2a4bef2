//! The lock of a slot between processes: only the kernel's lock decides.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use forebay::{Engine, Error};

mod loadgen;

use loadgen::Running;

/// How long the holder is stopped: nothing in the lock knows about time.
const PAUSE: Duration = Duration::from_secs(2);

fn conf(dir: &Path) -> String {
    format!(
        "ws::addr=127.0.0.1:1;sf_dir={};sf_max_segment_bytes=64k;pin=off;lock_retry_millis=50;\
         initial_connect_retry=async;close_flush_timeout_millis=0;",
        dir.join("sf").display()
    )
}

/// Field report `stale-lock-pid-reuse`.
#[test]
fn stale_lock_pid_reuse() {
    let dir = loadgen::scratch();
    let conf = conf(dir.path());
    let _ = Engine::connect(&conf).unwrap().close();
    let pid_file = dir.path().join("sf/default/.lock.pid");
    let own = std::process::id().to_string();
    let parent = std::os::unix::process::parent_id().to_string();
    for text in [
        own.as_str(),
        "1",
        &parent,
        "",
        "garbage \u{1b}[2J",
        "-7\n",
        "99999999999999999999",
    ] {
        std::fs::write(&pid_file, text).unwrap();
        let engine = Engine::connect(&conf).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        let _ = engine.close();
        assert_eq!(
            std::fs::read_to_string(&pid_file).unwrap(),
            format!("{own}\n")
        );
    }
}

/// Another process that holds the slot; killed on drop.
struct Holder {
    process: Running,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Holder {
    fn start(conf: &str) -> Self {
        let mut process = Running::start(
            Command::new(env!("CARGO_BIN_EXE_slot_client"))
                .args(["ours", conf])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped()),
        );
        let orders = process.0.stdin.take();
        let answers = BufReader::new(process.0.stdout.take().unwrap());
        let mut holder = Self {
            process,
            orders,
            answers,
        };
        assert_eq!(holder.answer(), "open");
        holder
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn publish(&mut self, first: u64, count: u64) {
        let order = format!("rows {first} {count} 10 3\n");
        self.orders
            .as_mut()
            .unwrap()
            .write_all(order.as_bytes())
            .unwrap();
        let last = format!("accepted {}", first + count - 1);
        while self.answer() != last {}
    }
}

/// Field report `paused-holder`.
#[test]
fn paused_holder() {
    let dir = loadgen::scratch();
    let conf = conf(dir.path());
    let mut holder = Holder::start(&conf);
    holder.publish(0, 100);
    holder.process.signal("STOP");
    let stopped = Instant::now();
    while stopped.elapsed() < PAUSE {
        let start = Instant::now();
        let error = Engine::connect(&conf).expect_err("held");
        assert!(
            start.elapsed() < Duration::from_millis(500),
            "{:?}",
            start.elapsed()
        );
        let Error::Locked { holder: pid, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(*pid, holder.process.id().to_string());
    }
    holder.process.signal("CONT");
    holder.publish(100, 100);
    drop(holder.orders.take());
    assert_eq!(holder.answer(), "left");
    assert!(holder.process.0.wait().unwrap().success());
    let engine = Engine::connect(&conf).unwrap();
    assert_eq!(engine.stats().frames_recovered, 200, "intact");
    let _ = engine.close();
}
