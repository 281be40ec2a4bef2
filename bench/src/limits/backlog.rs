//! A backlog: frames that nobody confirmed, written by either client.

use std::error::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use forebay::{Engine, TimestampNanos};
use questdb::ingress::Sender;

/// Who wrote a slot, and who opens it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Client {
    Ours,
    Official,
}

impl Client {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Official => "official",
        }
    }
}

/// What the frames of a backlog look like: one row each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// Bytes of frames to write, about.
    pub(super) bytes: u64,
    /// Bytes of a segment file.
    pub(super) segment_bytes: u64,
    /// Two numbers a row instead of a text of 1 to 32 KiB.
    pub(super) narrow: bool,
}

impl Shape {
    /// Length of the text of row `number`: 1, 2, 4, 8, 16, 32 KiB in turn.
    fn text_bytes(self, number: u64) -> usize {
        if self.narrow { 0 } else { 1024 << (number % 6) }
    }

    /// About what a row takes on disk.
    fn row_bytes(self, number: u64) -> u64 {
        self.text_bytes(number) as u64 + 70
    }
}

/// The connect string for the slot in `dir`.
pub(super) fn conf(client: Client, dir: &Path, shape: Shape, address: &str) -> String {
    let ours = match client {
        Client::Ours => "pin=off;",
        Client::Official => "",
    };
    format!(
        "ws::addr={address};sf_dir={};sender_id=bench;sf_max_segment_bytes={};\
         sf_max_total_bytes={};initial_connect_retry=async;close_flush_timeout_millis=0;{ours}",
        dir.display(),
        shape.segment_bytes,
        shape.bytes * 3 / 2 + 8 * shape.segment_bytes,
    )
}

/// Writes a backlog into `dir` and syncs it; answers the number of frames.
pub(super) fn write(client: Client, dir: &Path, shape: Shape) -> Result<u64, Box<dyn Error>> {
    let conf = conf(client, dir, shape, "127.0.0.1:1");
    let text = "x".repeat(32 * 1024);
    let frames = match client {
        Client::Ours => ours(&conf, shape, &text)?,
        Client::Official => official(&conf, shape, &text)?,
    };
    let synced = Command::new("sync").arg("-f").arg(dir).status()?;
    if !synced.success() {
        return Err("sync -f failed".into());
    }
    Ok(frames)
}

fn ours(conf: &str, shape: Shape, text: &str) -> Result<u64, Box<dyn Error>> {
    let engine = Engine::connect(conf)?;
    let mut producer = engine.producer()?;
    let (mut bytes, mut number) = (0, 0);
    while bytes < shape.bytes {
        let row = producer.table("t")?;
        row.column_i64("n", i64::try_from(number)?)?;
        if !shape.narrow {
            row.column_str("v", &text[..shape.text_bytes(number)])?;
        }
        producer.at(TimestampNanos(i64::try_from(number)? + 1))?;
        producer.publish()?;
        bytes += shape.row_bytes(number);
        number += 1;
    }
    producer.flush()?;
    drop(producer);
    match engine.close() {
        Ok(()) | Err(forebay::Error::NotDrained { .. }) => Ok(number),
        Err(error) => Err(error.into()),
    }
}

fn official(conf: &str, shape: Shape, text: &str) -> Result<u64, Box<dyn Error>> {
    let mut sender = Sender::from_conf(conf)?;
    let mut buffer = sender.new_buffer();
    let (mut bytes, mut number) = (0, 0);
    while bytes < shape.bytes {
        buffer.table("t")?;
        buffer.column_i64("n", i64::try_from(number)?)?;
        if !shape.narrow {
            buffer.column_str("v", &text[..shape.text_bytes(number)])?;
        }
        let at = questdb::ingress::TimestampNanos::new(i64::try_from(number)? + 1);
        buffer.at(at)?;
        sender.flush(&mut buffer)?;
        bytes += shape.row_bytes(number);
        number += 1;
    }
    Ok(number)
}

/// The segment files of the slot in `dir`, in the order of their names.
pub(super) fn segments(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir.join("bench"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "sfa") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Brings the slot into the page cache, or out of it.
pub(super) fn cache(dir: &Path, warm: bool) -> Result<(), Box<dyn Error>> {
    let files = segments(dir)?;
    if warm {
        for file in files {
            std::io::copy(&mut std::fs::File::open(file)?, &mut std::io::sink())?;
        }
        return Ok(());
    }
    // `dd iflag=nocache count=0` is posix_fadvise(DONTNEED) of the whole file.
    let script = "for f; do dd if=\"$f\" iflag=nocache count=0 status=none || exit 1; done";
    let mut arguments: Vec<OsString> = vec!["-c".into(), script.into(), "sh".into()];
    arguments.extend(files.into_iter().map(PathBuf::into_os_string));
    if !Command::new("sh").args(arguments).status()?.success() {
        return Err("dropping the page cache failed".into());
    }
    Ok(())
}
