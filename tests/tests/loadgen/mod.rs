//! The binary `forebay-loadgen` as child processes: one is the server, others replay into it.
//!
//! Children are killed by their process id when their handle is dropped, so a failed test leaves
//! none behind. Every wait has a limit.

#![allow(
    dead_code,
    reason = "each test file compiles this module and uses its part of it"
)]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// Limit of every wait for another process.
pub(crate) const PATIENCE: Duration = Duration::from_mins(3);
/// Pause between two looks at something that another process changes.
const LOOK: Duration = Duration::from_millis(1);

/// The file of real data called `name`.
pub(crate) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("data")
        .join(name)
}

/// A new directory on the disk of the build, removed on drop.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// The program: the same as `forebay-loadgen`, built with this package's tests.
pub(crate) fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_loadgen_under_test"))
}

/// A child process; killed on drop.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    /// SIGKILL; false if it had ended by itself before.
    pub(crate) fn kill(&mut self) -> bool {
        let alive = self.0.try_wait().unwrap().is_none();
        self.0.kill().unwrap();
        self.0.wait().unwrap();
        alive
    }

    /// SIGTERM.
    pub(crate) fn terminate(&self) {
        self.signal("TERM");
    }

    /// A signal by its name; the standard library can send SIGKILL only.
    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.0.id());
        assert!(
            Command::new("sh")
                .args(["-c", &kill])
                .status()
                .unwrap()
                .success()
        );
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// Waits for its end.
    pub(crate) fn finish(&mut self, what: &str) -> ExitStatus {
        wait_for(what, || self.0.try_wait().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already: then there is nothing to kill.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Looks until `look` gives something, and panics when that takes too long.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "no {what} within {PATIENCE:?}");
        std::thread::sleep(LOOK);
    }
}

/// A `forebay-loadgen sink` that decodes strictly and stores rows as text.
pub(crate) struct SinkProcess {
    pub(crate) addr: SocketAddr,
    _process: Running,
}

impl SinkProcess {
    /// Starts it on `listen`; port 0 lets the kernel choose.
    pub(crate) fn start(listen: &str, store: &Path) -> Self {
        let mut process = Running::start(
            Command::new(binary())
                .args([
                    "sink", "--listen", listen, "--decode", "--strict", "--store",
                ])
                .arg(store)
                .stdout(Stdio::piped()),
        );
        let stdout = process.0.stdout.take().unwrap();
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let addr = line
            .strip_prefix("listening ")
            .and_then(|addr| addr.trim().parse().ok());
        let addr = addr.unwrap_or_else(|| panic!("the sink said {line:?}"));
        Self {
            addr,
            _process: process,
        }
    }
}

/// One of the two files of real data, with what each column has to become.
pub(crate) struct Market {
    pub(crate) file: &'static str,
    pub(crate) symbols: &'static str,
    pub(crate) rows: usize,
    /// Columns that are not integers in some row.
    doubles: &'static [&'static str],
}

pub(crate) const BTC: Market = Market {
    file: "btc_trades.csv",
    symbols: "symbol,side",
    rows: 5_882,
    doubles: &["price", "amount"],
};

pub(crate) const NASDAQ: Market = Market {
    file: "nasdaq_trades.csv",
    symbols: "id,exchange",
    rows: 14_842,
    doubles: &["price", "changePercent", "dayVolume", "change"],
};

impl Market {
    /// `forebay-loadgen replay` of this file to table `trades`.
    pub(crate) fn replay(&self, conf: &str) -> Command {
        let mut command = Command::new(binary());
        command.arg("replay").arg(data(self.file));
        command.args(["--table", "trades", "--symbols", self.symbols]);
        command.args(["--timestamp", "timestamp", "--conf", conf]);
        command
    }

    /// Every row as the sink has to store it: its cells as `"name":value`, sorted.
    ///
    /// Derived from the file without the code under test. Neither file has a comma or a quote
    /// inside a cell.
    pub(crate) fn expected(&self) -> Vec<Vec<String>> {
        let text = std::fs::read_to_string(data(self.file)).unwrap();
        let mut lines = text
            .lines()
            .map(|line| line.split(',').map(|cell| cell.trim_matches('"')));
        let header: Vec<&str> = lines.next().unwrap().collect();
        let rows: Vec<Vec<String>> = lines
            .map(|cells| {
                let named = header.iter().zip(cells);
                sorted(named.map(|(name, cell)| format!("\"{name}\":{}", self.value(name, cell))))
            })
            .collect();
        assert_eq!(rows.len(), self.rows);
        rows
    }

    fn value(&self, name: &str, cell: &str) -> String {
        if self.symbols.split(',').any(|symbol| symbol == name) {
            format!("\"{cell}\"")
        } else if name == "timestamp" {
            micros(cell).to_string()
        } else if self.doubles.contains(&name) {
            format!("{:?}", cell.parse::<f64>().unwrap())
        } else {
            cell.parse::<i64>().unwrap().to_string()
        }
    }
}

/// The rows that the sink stored for table `trades`, in the order of its file, cells sorted.
pub(crate) fn stored(store: &Path) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(store.join("trades.ndjson")).unwrap_or_default();
    text.lines()
        .map(|line| {
            let cells = line
                .strip_prefix('{')
                .and_then(|line| line.strip_suffix('}'));
            sorted(
                cells
                    .unwrap_or_else(|| panic!("{line:?}"))
                    .split(',')
                    .map(str::to_owned),
            )
        })
        .collect()
}

fn sorted(cells: impl Iterator<Item = String>) -> Vec<String> {
    let mut cells: Vec<String> = cells.collect();
    cells.sort();
    cells
}

/// Microseconds since the epoch; both files lie within one hour.
fn micros(text: &str) -> i64 {
    const HOUR_SECONDS: i64 = 1_693_929_600;
    let rest = text
        .strip_prefix("2023-09-05T16:")
        .and_then(|rest| rest.strip_suffix('Z'));
    let rest = rest.unwrap_or_else(|| panic!("{text:?}"));
    let number = |from: usize, to: usize| rest[from..to].parse::<i64>().unwrap();
    assert_eq!(
        (rest.len(), &rest[2..3], &rest[5..6]),
        (12, ":", "."),
        "{text:?}"
    );
    (HOUR_SECONDS + number(0, 2) * 60 + number(3, 5)) * 1_000_000 + number(6, 12)
}

/// What the process said on stderr, for messages of failed tests.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
