//! A message from header to last cell, as a server reads it; the same bytes as a server's answer;
//! and recovery's look at a frame's symbols against the decoder's.
#![no_main]

use forebay::internals::slot::{Frame, Symbols};
use forebay_fuzz::flags;
use forebay_wire::decode::{DecodeError, Message, Mode, Table};
use forebay_wire::dict::ConnectionDict;
use forebay_wire::header::HEADER_LEN;
use forebay_wire::ndjson::Rows;
use forebay_wire::response::{
    self, Response, write_durable_ack, write_error, write_local_durable_ack, write_ok,
};
use libfuzzer_sys::fuzz_target;

/// A block without columns has rows at no cost: only so many are written as text.
const ROWS_SHOWN_MAX: usize = 1000;

fn check_table(table: &Table<'_>, bytes: &[u8], dict: &ConnectionDict) {
    assert_eq!(table.definitions().count(), table.column_count());
    assert_eq!(table.columns().count(), table.column_count());
    for column in table.columns() {
        let column = column.expect("the block was checked when it was handed out");
        assert!(column.offset + column.byte_len <= bytes.len());
        assert_eq!(column.values.len(), column.nulls.present());
        assert_eq!(column.cells().count(), table.row_count());
        // No value and no NULL takes less than a bit.
        assert!(
            table.row_count() <= 8 * column.byte_len,
            "{} rows",
            table.row_count()
        );
    }
    let mut rows = Rows::new(table, dict).expect("as above");
    let mut out = Vec::new();
    let mut shown = 0;
    while shown < ROWS_SHOWN_MAX && rows.append_next(&mut out) {
        shown += 1;
    }
    assert_eq!(shown, table.row_count().min(ROWS_SHOWN_MAX));
    assert!(std::str::from_utf8(&out).is_ok());
}

/// Reads everything there is; the number of blocks and of rows.
fn walk(bytes: &[u8], mode: Mode) -> Result<(usize, usize), DecodeError> {
    let message = Message::parse(bytes, mode)?;
    let mut dict = ConnectionDict::new();
    if let Some(delta) = message.delta() {
        assert_eq!(delta.iter().count() as u64, delta.count());
        if dict.apply(&delta).is_ok() {
            assert_eq!(dict.len() as u64, delta.start() + delta.count());
        }
    }
    let (mut blocks, mut rows) = (0, 0);
    let mut end = HEADER_LEN;
    for table in message.tables() {
        let table = table?;
        assert!(end <= table.offset() && table.offset() < bytes.len());
        end = table.offset() + 1;
        check_table(&table, bytes, &dict);
        blocks += 1;
        rows += table.row_count();
    }
    assert_eq!(blocks, usize::from(message.header().table_count));
    let within = message
        .tables_within(dict.len() as u64)
        .filter(Result::is_ok)
        .count();
    assert!(within <= blocks);
    Ok((blocks, rows))
}

fn check_message(bytes: &[u8]) {
    let [genuine, strict] = [Mode::Genuine, Mode::Strict].map(|mode| walk(bytes, mode));
    for error in [&genuine, &strict]
        .into_iter()
        .filter_map(|result| result.as_ref().err())
    {
        assert!(
            error.offset <= bytes.len(),
            "{error} in {} bytes",
            bytes.len()
        );
        assert!(!error.to_string().is_empty());
    }
    if strict.is_ok() {
        assert_eq!(genuine, strict);
    }
    check_recovery(bytes);
}

/// Recovery calls a frame deliverable over an empty dictionary only if its symbols start at 0.
fn check_recovery(bytes: &[u8]) {
    let mut coverage = Symbols::default().cover(0);
    let payload_len = u32::try_from(bytes.len()).expect("inputs are small");
    let frame = Frame {
        fsn: 0,
        offset: 24,
        payload_len,
        payload: bytes,
    };
    coverage.frame("fuzz", &frame);
    let misfit = coverage.misfit(true);
    let Ok(message) = Message::parse(bytes, Mode::Genuine) else {
        return;
    };
    let covered = message.delta().is_none_or(|delta| delta.start() == 0);
    assert!(covered || misfit.is_some());
    assert!(!covered || misfit.is_none(), "{misfit:?}");
}

/// An answer that is read is written again to the same bytes.
fn check_answer(bytes: &[u8]) {
    let mut out = Vec::new();
    for local_tier in [false, true] {
        out.clear();
        match response::parse_with(bytes, local_tier) {
            Ok(Response::Ok { seq, tables }) => write_ok(&mut out, seq, &tables),
            Ok(Response::DurableAck { tables }) => write_durable_ack(&mut out, &tables),
            Ok(Response::LocalDurableAck { tables }) => write_local_durable_ack(&mut out, &tables),
            Ok(Response::Error {
                status,
                seq,
                message,
            }) => {
                write_error(&mut out, status, seq, message);
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                continue;
            }
        }
        assert_eq!(out, bytes);
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((flags, bytes)) = flags(data) else {
        return;
    };
    if flags & 2 != 0 {
        check_answer(bytes);
        return;
    }
    let mut bytes = bytes.to_vec();
    let payload = bytes.len().saturating_sub(HEADER_LEN);
    if flags & 1 != 0
        && let (Some(field), Ok(payload)) = (bytes.get_mut(8..12), u32::try_from(payload))
    {
        field.copy_from_slice(&payload.to_le_bytes());
    }
    check_message(&bytes);
});
