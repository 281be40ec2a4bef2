//! One measurement, in a process of its own so that its peak memory is that of one opening.

use std::error::Error;
use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use forebay::{Engine, RecoveryProgress};
use forebay_loadgen::sink::{Sink, SinkConfig};
use questdb::ingress::Sender;

use super::backlog::{Client, Shape, conf, segments};
use super::figures::nanos;
use super::raw_read;

/// What a child measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// Opening, as an application does.
    Open(Client),
    /// Reading the files of this client's slot.
    Raw(Client),
    /// Opening by this engine, and then until a server in this process confirmed everything.
    Drain,
}

/// What it says.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Measured {
    /// The whole.
    pub(super) nanos: u64,
    /// Of this the scan, where it is known.
    pub(super) scan_nanos: u64,
    /// Bytes of files read in that time.
    pub(super) bytes: u64,
    /// Highest resident memory of the process.
    pub(super) peak_kib: u64,
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            nanos,
            scan_nanos,
            bytes,
            peak_kib,
        } = self;
        write!(f, "{nanos} {scan_nanos} {bytes} {peak_kib}")
    }
}

impl Measured {
    fn parse(line: &str) -> Option<Self> {
        let mut numbers = line.split_whitespace().map(|word| word.parse().ok());
        let mut next = || numbers.next().flatten();
        Some(Self {
            nanos: next()?,
            scan_nanos: next()?,
            bytes: next()?,
            peak_kib: next()?,
        })
    }
}

/// Starts this program again to measure.
pub(super) fn in_a_child(what: What, dir: &Path, shape: Shape) -> Result<Measured, Box<dyn Error>> {
    let what = match what {
        What::Open(Client::Ours) => "open-ours",
        What::Open(Client::Official) => "open-official",
        What::Raw(Client::Ours) => "raw-ours",
        What::Raw(Client::Official) => "raw-official",
        What::Drain => "drain",
    };
    let output = Command::new(std::env::current_exe()?)
        .args(["limits", "recovery-child", what])
        .arg(dir)
        .arg(shape.bytes.to_string())
        .arg(shape.segment_bytes.to_string())
        .stderr(Stdio::inherit())
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    Measured::parse(&said)
        .filter(|_| output.status.success())
        .ok_or_else(|| format!("{what}: {} {said}", output.status).into())
}

/// What the child does.
pub(super) fn measure(what: &str, dir: &Path, shape: Shape) -> Result<Measured, Box<dyn Error>> {
    let nowhere = "127.0.0.1:1";
    let mut measured = match what {
        "open-ours" => {
            let conf = conf(Client::Ours, dir, shape, nowhere);
            let progress = RecoveryProgress::new();
            let start = Instant::now();
            let engine = Engine::builder(&conf).watch_recovery(&progress).connect()?;
            let measured = Measured {
                nanos: nanos(start.elapsed()),
                scan_nanos: progress.scan_nanos(),
                bytes: progress.bytes_scanned(),
                peak_kib: peak_kib()?,
            };
            // Its backlog stays.
            let _ = engine.close();
            return Ok(measured);
        }
        "open-official" => {
            let conf = conf(Client::Official, dir, shape, nowhere);
            let start = Instant::now();
            let sender = Sender::from_conf(conf)?;
            let nanos = nanos(start.elapsed());
            let peak_kib = peak_kib()?;
            drop(sender);
            return Ok(Measured {
                nanos,
                peak_kib,
                ..Measured::default()
            });
        }
        "raw-ours" | "raw-official" => {
            let files = segments(dir)?;
            let start = Instant::now();
            let bytes = raw_read::read(&files)?;
            Measured {
                nanos: nanos(start.elapsed()),
                bytes,
                ..Measured::default()
            }
        }
        "drain" => {
            let sink = Sink::start(SinkConfig::default())?;
            let conf = conf(Client::Ours, dir, shape, &sink.addr().to_string());
            let start = Instant::now();
            let engine = Engine::connect(&conf)?;
            engine.wait_acked(Duration::from_mins(5))?;
            let nanos = nanos(start.elapsed());
            let stats = engine.stats();
            engine.close()?;
            Measured {
                nanos,
                scan_nanos: stats.recovery_nanos,
                bytes: stats.recovery_bytes,
                ..Measured::default()
            }
        }
        other => return Err(format!("nothing is called {other}").into()),
    };
    measured.peak_kib = peak_kib()?;
    Ok(measured)
}

fn peak_kib() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    Ok(kib.ok_or("no VmHWM in /proc/self/status")?.parse()?)
}
