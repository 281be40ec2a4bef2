//! `forebay inspect` for people.

use std::io::{self, Write};

use comfy_table::{CellAlignment, Table, presets};
use forebay::internals::slot::{DictionaryHeader, Record, SegmentFile};

use super::{Leftover, place, record_keys, roles};
use crate::error::Failure;
use crate::paper::{self, tame};
use crate::slot::dual::{DualFile, Form};
use crate::slot::lock::Lock;
use crate::slot::verdict::Verdict;
use crate::slot::{SegmentEntry, Slot};

/// Writes all of it.
pub(super) fn write(
    slot: &Slot,
    lock: &Lock,
    leftovers: &[Leftover],
    out: &mut impl Write,
) -> Result<(), Failure> {
    let mut write = || -> io::Result<()> {
        let path = slot.dir.path().display().to_string();
        line(out, "slot", &path)?;
        line(out, "verdict", &verdict(&slot.verdict))?;
        line(out, "unacked", &unacked(&slot.verdict))?;
        line(out, "lock", &lock_text(lock))?;
        line(out, "manifest", &dual(slot.manifest.as_ref(), true))?;
        line(out, "watermark", &dual(slot.watermark.as_ref(), false))?;
        line(out, "dictionary", &dictionary(slot))?;
        for note in &slot.notes {
            line(out, "note", note)?;
        }
        for leftover in leftovers {
            line(out, "leftover", &leftover_text(leftover))?;
        }
        if !slot.segments.is_empty() {
            writeln!(out, "{}", segments(slot))?;
        }
        Ok(())
    };
    write().map_err(Failure::Output)
}

fn line(out: &mut impl Write, key: &str, value: &str) -> io::Result<()> {
    writeln!(out, "{key:<11} {}", tame(value))
}

fn verdict(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Sound(_) => "sound".to_owned(),
        Verdict::Damaged {
            path,
            offset,
            reason,
        } => format!("damaged: {}: {reason}", place(path, *offset)),
        Verdict::Unknown { reason } => format!("cannot say: {reason}"),
    }
}

fn unacked(verdict: &Verdict) -> String {
    let Verdict::Sound(chain) = verdict else {
        return "unknown".to_owned();
    };
    let frames = chain.next.saturating_sub(chain.unacked);
    if frames == 0 {
        return format!("none, next frame {}", chain.next);
    }
    let age = chain.oldest_created_micros.and_then(paper::age);
    let age = age.map_or_else(String::new, |age| {
        format!(", oldest segment {} s old", age.as_secs())
    });
    format!(
        "{frames} frames, {} (frames {}..{}){age}",
        paper::bytes(chain.unacked_bytes),
        chain.unacked,
        chain.next
    )
}

fn lock_text(lock: &Lock) -> String {
    let pid_file = lock.pid_file.as_deref().unwrap_or("absent");
    match (lock.held, lock.holder) {
        (true, Some(pid)) => format!("held by process {pid} (.lock.pid: {pid_file})"),
        (true, None) => format!("held (.lock.pid: {pid_file})"),
        (false, _) => format!("free (.lock.pid: {pid_file})"),
    }
}

fn dual(file: Option<&DualFile>, manifest: bool) -> String {
    let Some(file) = file else {
        return "absent".to_owned();
    };
    let [lower, upper] = file.records;
    let record = |record: Option<Record>| {
        record.map_or_else(|| "none".to_owned(), |record| record_text(record, manifest))
    };
    let form = match file.form {
        Form::Present => String::new(),
        form => format!(" [{}, {} bytes]", form.name(), file.bytes),
    };
    format!(
        "{} (records: {}; {}){form}",
        record(file.current),
        record(lower),
        record(upper)
    )
}

fn record_text(record: Record, manifest: bool) -> String {
    let (first, second) = record_keys(manifest);
    let second = second.map_or_else(String::new, |key| format!(" {key} {}", record.second));
    format!("#{} {first} {}{second}", record.generation, record.first)
}

fn dictionary(slot: &Slot) -> String {
    let Some(file) = &slot.dictionary else {
        return "absent".to_owned();
    };
    match file.header {
        DictionaryHeader::Known => format!(
            "{} symbols in {} chunks, {}, {} bytes torn",
            file.entries,
            file.chunks.len(),
            paper::bytes(file.bytes),
            file.bytes.saturating_sub(file.end)
        ),
        DictionaryHeader::Version(version) => format!("version {version}, not read"),
        DictionaryHeader::Unknown => format!("{} bytes that are no dictionary", file.bytes),
    }
}

fn leftover_text(leftover: &Leftover) -> String {
    let Leftover {
        name,
        kind,
        bytes,
        reason,
    } = leftover;
    let reason = reason
        .as_ref()
        .map_or_else(String::new, |r| format!(": {r}"));
    format!("{name} ({kind}, {bytes} bytes){reason}")
}

fn segments(slot: &Slot) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header([
        "file",
        "role",
        "base",
        "frames",
        "size",
        "end of data",
        "torn bytes",
    ]);
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for (entry, role) in slot.segments.iter().zip(roles(slot)) {
        table.add_row(row(entry, role));
    }
    table
}

fn row(entry: &SegmentEntry, role: &str) -> Vec<String> {
    let mut row = vec![tame(&entry.name), role.to_owned()];
    match &entry.found {
        SegmentFile::Segment(segment) => {
            let torn = segment
                .residue()
                .map_or(0, |_| entry.bytes.saturating_sub(segment.end()));
            let numbers = [
                segment.base(),
                segment.frames(),
                entry.bytes,
                segment.end(),
                torn,
            ];
            row.extend(numbers.map(|number| number.to_string()));
        }
        SegmentFile::Blank | SegmentFile::Bad(_) => {
            row.extend(["-", "-"].map(str::to_owned));
            row.push(entry.bytes.to_string());
        }
    }
    row
}
