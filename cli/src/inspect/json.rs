//! The object of `forebay inspect --json`. Its keys are listed in docs/cli.md and are kept.

use std::io::{self, Write};

use forebay::internals::slot::{DictionaryHeader, Record, SegmentFile};
use serde_json::{Map, Value, json};

use super::{Leftover, record_keys, roles};
use crate::error::Failure;
use crate::paper;
use crate::slot::dual::DualFile;
use crate::slot::intake::RingEntry;
use crate::slot::lock::Lock;
use crate::slot::verdict::Verdict;
use crate::slot::{DictionaryEntry, SegmentEntry, Slot};

/// Writes the object and a newline.
pub(super) fn write(
    slot: &Slot,
    lock: &Lock,
    leftovers: &[Leftover],
    symbols: Option<Vec<String>>,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let mut all = Map::new();
    let mut put = |key: &str, value: Value| {
        all.insert(key.to_owned(), value);
    };
    put("slot", json!(slot.dir.path().to_string_lossy()));
    put("verdict", verdict(&slot.verdict));
    put("unacked", unacked(&slot.verdict));
    put("lock", lock_value(lock));
    put("files", files(slot));
    let segments = slot.segments.iter().zip(roles(slot));
    let segments = segments.map(|(entry, role)| segment(entry, role));
    put("segments", segments.collect());
    put("manifest", dual(slot.manifest.as_ref(), true));
    put("ack_watermark", dual(slot.watermark.as_ref(), false));
    put("symbol_dict", dictionary(slot.dictionary.as_ref(), symbols));
    put("intake", slot.intake.iter().map(ring).collect());
    put("leftovers", leftovers.iter().map(leftover).collect());
    put("notes", json!(slot.notes));
    let write = || -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, &Value::Object(all))?;
        out.write_all(b"\n")
    };
    write().map_err(Failure::Output)
}

fn verdict(verdict: &Verdict) -> Value {
    match verdict {
        Verdict::Sound(_) => json!({ "state": "sound" }),
        Verdict::Damaged {
            path,
            offset,
            reason,
        } => json!({
            "state": "damaged",
            "file": path.file_name().unwrap_or_default().to_string_lossy(),
            "offset": offset,
            "reason": reason,
        }),
        Verdict::Unknown { reason } => json!({ "state": "unknown", "reason": reason }),
    }
}

/// Null where the chain is not known.
fn unacked(verdict: &Verdict) -> Value {
    let Verdict::Sound(chain) = verdict else {
        return Value::Null;
    };
    let age = chain.oldest_created_micros.and_then(paper::age);
    json!({
        "first_fsn": chain.unacked,
        "next_fsn": chain.next,
        "frames": chain.next.saturating_sub(chain.unacked),
        "bytes": chain.unacked_bytes,
        "oldest_created_micros": chain.oldest_created_micros,
        "oldest_age_seconds": age.map(|age| age.as_secs()),
    })
}

fn lock_value(lock: &Lock) -> Value {
    json!({ "held": lock.held, "holder": lock.holder, "pid_file": lock.pid_file })
}

fn files(slot: &Slot) -> Value {
    let bytes = |entry: &crate::slot::dir::Entry| (entry.name.clone(), json!(entry.bytes));
    let regular = |entry: &&crate::slot::dir::Entry| entry.kind == crate::slot::dir::Kind::File;
    Value::Object(slot.entries.iter().filter(regular).map(bytes).collect())
}

fn segment(entry: &SegmentEntry, role: &str) -> Value {
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| {
        out.insert(key.to_owned(), value);
    };
    put("file", json!(entry.name));
    put("role", json!(role));
    put("file_bytes", json!(entry.bytes));
    match &entry.found {
        SegmentFile::Segment(segment) => {
            let torn = segment.residue().is_some();
            put("magic", json!("SF01"));
            put("version", json!(1));
            put("flags", json!(u8::from(segment.manifest_required())));
            put("reserved", json!(0));
            put("base_fsn", json!(segment.base()));
            put("frame_count", json!(segment.frames()));
            put("created_micros", json!(segment.created_micros()));
            put("used_bytes", json!(segment.end()));
            put("tail", json!(if torn { "torn" } else { "zero" }));
            let behind = entry.bytes.saturating_sub(segment.end());
            put("torn_bytes", json!(if torn { behind } else { 0 }));
        }
        SegmentFile::Blank => put("error", json!("nothing but zeros")),
        SegmentFile::Bad(bad) => put("error", json!(bad.to_string())),
    }
    Value::Object(out)
}

fn dual(file: Option<&DualFile>, manifest: bool) -> Value {
    let Some(file) = file else {
        return Value::Null;
    };
    let record = |record: Option<Record>| record.map(|record| record_value(record, manifest));
    json!({
        "file_bytes": file.bytes,
        "form": file.form.name(),
        "records": file.records.map(record),
        "current": record(file.current),
    })
}

fn record_value(record: Record, manifest: bool) -> Value {
    let (first, second) = record_keys(manifest);
    let mut out = Map::new();
    out.insert("generation".to_owned(), json!(record.generation));
    out.insert(first.to_owned(), json!(record.first));
    if let Some(second) = second {
        out.insert(second.to_owned(), json!(record.second));
    }
    Value::Object(out)
}

fn dictionary(file: Option<&DictionaryEntry>, symbols: Option<Vec<String>>) -> Value {
    let Some(file) = file else {
        return Value::Null;
    };
    let version = match file.header {
        DictionaryHeader::Known => Some(1),
        DictionaryHeader::Version(version) => Some(version),
        DictionaryHeader::Unknown => None,
    };
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| {
        out.insert(key.to_owned(), value);
    };
    put("magic", json!(version.map(|_| "SYD1")));
    put("version", json!(version));
    put("file_bytes", json!(file.bytes));
    put("entries", json!(file.entries));
    put("chunk_count", json!(file.chunks.len()));
    let behind = file.bytes.saturating_sub(file.end);
    put("bytes_after_last_chunk", json!(behind));
    if let Some(symbols) = symbols {
        put("chunks", json!(file.chunks));
        put("symbols", Value::from(symbols));
    }
    Value::Object(out)
}

fn ring(entry: &RingEntry) -> Value {
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| {
        out.insert(key.to_owned(), value);
    };
    put("file", json!(entry.name));
    match &entry.found {
        Ok(ring) => {
            put("shard", json!(ring.shard));
            put("capacity_bytes", json!(ring.capacity));
            put("head", json!(ring.head));
            put("tail", json!(ring.tail));
            put("batches", json!(ring.batches));
            put("rows", json!(ring.rows));
            put("taken", json!(ring.taken));
            put("damaged_at", json!(ring.damaged_at));
            put("boot", json!(ring.boot));
            put("same_boot", json!(entry.same_boot));
        }
        Err(reason) => put("error", json!(reason)),
    }
    Value::Object(out)
}

fn leftover(leftover: &Leftover) -> Value {
    json!({
        "name": leftover.name,
        "kind": leftover.kind,
        "bytes": leftover.bytes,
        "reason": leftover.reason,
    })
}
