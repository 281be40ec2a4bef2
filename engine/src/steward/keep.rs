//! Keeping what the server refused: one file per table of a frame, self-contained, readable by
//! people (first line) and machines.
//!
//! | part | content |
//! |---|---|
//! | first line | JSON: `table`, `rows`, `fsn`, `sender_id`, `server`, `reason`, `time_micros`, `bytes` |
//! | then `bytes` bytes | a QWP message with this table alone, its delta with all its symbols from id 0 |
//!
//! The name follows from frame and table, so a crash between keeping and trimming ends with the
//! same file written twice.

use std::io;
use std::io::Write as _;
use std::path::Path;

use forebay_wire::ndjson::append_text;

use crate::delivery::letter::Letter;
use crate::io::{EntryKind, Fs};
use crate::slot::whole;

/// A refused table on its way into a file.
#[derive(Debug, Clone)]
pub(crate) struct Rejected {
    /// Table and message.
    pub letter: Letter,
    /// Frame number.
    pub fsn: u64,
    /// Number of the table in the frame.
    pub index: usize,
    /// Slot.
    pub sender_id: String,
    /// `host:port` of the server that refused.
    pub server: String,
    /// Its text.
    pub reason: String,
}

/// What names of such files end with.
const SUFFIX: &str = ".rejected";

/// Writes the file into `dir`, which holds at most `limit` bytes of them afterwards.
pub(super) fn keep(fs: &dyn Fs, dir: &Path, rejected: &Rejected, limit: u64) -> io::Result<()> {
    match fs.create_dir(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let Rejected {
        sender_id,
        fsn,
        index,
        ..
    } = rejected;
    let name = format!("{sender_id}-{fsn:016x}-{index:05}{SUFFIX}");
    let bytes = contents(rejected, fs.wall_micros());
    let entries = fs.entries(dir)?;
    let others = entries.iter().filter(|entry| {
        entry.kind == EntryKind::File && entry.name.ends_with(SUFFIX) && entry.name != name
    });
    let total = others.map(|entry| entry.bytes).sum::<u64>() + bytes.len() as u64;
    if total > limit {
        return Err(io::Error::new(
            io::ErrorKind::StorageFull,
            format!("{total} bytes of refused rows would exceed rejected_max_bytes ({limit})"),
        ));
    }
    whole::write(fs, dir, &name, &bytes).map(drop)
}

fn contents(rejected: &Rejected, time_micros: u64) -> Vec<u8> {
    let Letter {
        table,
        rows,
        message,
    } = &rejected.letter;
    let mut out = Vec::with_capacity(message.len() + 512);
    let mut text = |key: &str, value: &str| {
        out.extend_from_slice(if key == "table" { b"{\"" } else { b",\"" });
        out.extend_from_slice(key.as_bytes());
        out.extend_from_slice(b"\":");
        append_text(&mut out, value);
    };
    text("table", table);
    text("sender_id", &rejected.sender_id);
    text("server", &rejected.server);
    text("reason", &rejected.reason);
    let (fsn, bytes) = (rejected.fsn, message.len());
    writeln!(
        out,
        ",\"rows\":{rows},\"fsn\":{fsn},\"time_micros\":{time_micros},\"bytes\":{bytes}}}"
    )
    .expect("a Vec takes all of it");
    out.extend_from_slice(message);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::sys::RealFs;

    fn rejected(fsn: u64) -> Rejected {
        Rejected {
            letter: Letter {
                table: "a \"b\"".to_owned(),
                rows: 3,
                message: b"QWP1...".to_vec(),
            },
            fsn,
            index: 1,
            sender_id: "me".to_owned(),
            server: "h:1".to_owned(),
            reason: "no\nway".to_owned(),
        }
    }

    #[test]
    fn a_file_says_what_it_holds_and_the_directory_is_bounded() {
        let scratch = tempfile::tempdir().expect("a directory");
        let dir = scratch.path().join("rejected");
        keep(&RealFs, &dir, &rejected(7), 1000).expect("room");
        keep(&RealFs, &dir, &rejected(7), 1000).expect("the same again");
        let name = "me-0000000000000007-00001.rejected";
        let bytes = std::fs::read(dir.join(name)).expect("the file");
        let text = String::from_utf8(bytes).expect("text here");
        let (line, message) = text.split_once('\n').expect("two parts");
        assert!(
            line.starts_with(r#"{"table":"a \"b\"","sender_id":"me","server":"h:1","reason":"no\nway","rows":3,"fsn":7,"time_micros":"#),
            "{line}"
        );
        assert!(line.ends_with(r#","bytes":7}"#), "{line}");
        assert_eq!(message, "QWP1...");
        let error = keep(&RealFs, &dir, &rejected(8), 250).expect_err("full");
        assert!(error.to_string().contains("rejected_max_bytes"), "{error}");
        assert_eq!(std::fs::read_dir(&dir).expect("listed").count(), 1);
    }
}
