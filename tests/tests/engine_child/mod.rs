//! A process with an engine, told what to do line by line (`tests/src/bin/engine_client.rs`), and
//! an eye on the disk that it uses.

#![allow(
    dead_code,
    reason = "each test file compiles this module and uses its part of it"
)]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Limit of every wait.
pub(crate) const PATIENCE: Duration = Duration::from_mins(3);

/// The process; killed when dropped.
pub(crate) struct EngineChild {
    child: Child,
    lines: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// What the engine says of itself.
#[derive(Debug)]
pub(crate) struct State {
    counters: HashMap<String, u64>,
    pub(crate) reasons: String,
}

impl State {
    pub(crate) fn get(&self, name: &str) -> u64 {
        *self
            .counters
            .get(name)
            .unwrap_or_else(|| panic!("{name} is not there"))
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.get("ready") == 1
    }
}

impl EngineChild {
    /// Starts it with these variables; `connect` is opened.
    pub(crate) fn open(connect: &str, variables: &[(&str, &str)]) -> Self {
        let mut child = Self::start(variables);
        assert_eq!(child.ask(&format!("open {connect}")), "open");
        child
    }

    /// Starts it with these variables.
    pub(crate) fn start(variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_engine_client"));
        command.envs(variables.iter().copied());
        Self::spawn(command)
    }

    /// Starts it by a command that execs what stands behind its own arguments.
    pub(crate) fn wrapped(wrapper: &[&str]) -> Self {
        let (program, arguments) = wrapper.split_first().unwrap();
        let mut command = Command::new(program);
        command.args(arguments);
        command.arg(env!("CARGO_BIN_EXE_engine_client"));
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self {
            child,
            lines,
            answers,
        }
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a line, waits for the answer.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        writeln!(self.lines, "{line}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }

    /// Begins to publish rows of this size, one a batch.
    pub(crate) fn publish(&mut self, batches: u64, bytes: usize) {
        assert_eq!(
            self.ask(&format!("publish {batches} {bytes}")),
            "publishing"
        );
    }

    pub(crate) fn state(&mut self) -> State {
        let answer = self.ask("status");
        let (counters, reasons) = answer.split_once(" reasons=").unwrap_or_else(|| {
            panic!("no status: {answer}");
        });
        let counters = counters.split(' ').map(|pair| {
            let (name, value) = pair.split_once('=').unwrap();
            (name.to_owned(), value.parse().unwrap())
        });
        State {
            counters: counters.collect(),
            reasons: reasons.to_owned(),
        }
    }

    /// Looks until `done` holds.
    pub(crate) fn wait_until(&mut self, what: &str, done: impl Fn(&State) -> bool) -> State {
        let start = Instant::now();
        loop {
            let state = self.state();
            if done(&state) {
                return state;
            }
            let late = start.elapsed() > PATIENCE;
            assert!(!late, "{what}: not in time, {state:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for EngineChild {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Looks at a slot's segments and dictionary until it is dropped or asked.
pub(crate) struct DiskWatch {
    most: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl DiskWatch {
    pub(crate) fn on(slot: PathBuf) -> Self {
        let (most, over) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (seen, end) = (Arc::clone(&most), Arc::clone(&over));
        let thread = std::thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                seen.fetch_max(used_bytes(&slot), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        Self {
            most,
            over,
            thread: Some(thread),
        }
    }

    /// The most that was in use at once.
    pub(crate) fn most(mut self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        self.most.load(Ordering::Relaxed)
    }
}

impl Drop for DiskWatch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Bytes reserved for segments and dictionary.
pub(crate) fn used_bytes(slot: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(slot) else {
        return 0;
    };
    let counted = entries.flatten().filter(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.ends_with(".sfa") || name == ".symbol-dict"
    });
    // A file may go between listing and looking.
    counted
        .filter_map(|entry| entry.metadata().ok())
        .map(|meta| meta.blocks() * 512)
        .sum()
}

/// Names of a slot's segments, sorted.
pub(crate) fn segments(slot: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(slot).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let segment = |name: &String| Path::new(name).extension().is_some_and(|end| end == "sfa");
    let mut names: Vec<_> = names.filter(segment).collect();
    names.sort();
    names
}
