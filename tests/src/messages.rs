//! A whole message as the corpus describes it: one line of `expected.json`.

use forebay_wire::decode::{
    Column, Message, Mode, SymbolIds, Table, TimestampEncoding, Timestamps, Values,
};
use forebay_wire::dict::ConnectionDict;
use forebay_wire::header::Flags;
use serde_json::{Map, Value, json};

use crate::cells::column_cells;

/// Decodes a message of a connection and describes it. Its symbols enter `dict`.
pub fn describe(bytes: &[u8], mode: Mode, dict: &mut ConnectionDict) -> Result<Value, String> {
    let message = Message::parse(bytes, mode).map_err(|e| e.to_string())?;
    let flags = message.header().flags;
    let mut out = Map::new();
    out.insert("bytes".into(), json!(bytes.len()));
    out.insert("flags".into(), json!(flags.bits()));
    out.insert(
        "defer_commit".into(),
        json!(flags.contains(Flags::DEFER_COMMIT)),
    );
    out.insert("gorilla".into(), json!(flags.contains(Flags::GORILLA)));
    out.insert(
        "delta_dict".into(),
        json!(flags.contains(Flags::DELTA_SYMBOL_DICT)),
    );
    if let Some(delta) = message.delta() {
        if delta.start() < dict.len() as u64 {
            out.insert("dict_known_before".into(), json!(dict.len()));
        }
        dict.apply(&delta).map_err(|e| e.to_string())?;
        out.insert("delta_start".into(), json!(delta.start()));
        out.insert("delta".into(), delta.iter().collect());
    }
    let mut tables = Vec::new();
    for table in message.tables_within(dict.len() as u64) {
        tables.push(describe_table(&table.map_err(|e| e.to_string())?, dict)?);
    }
    out.insert("tables".into(), Value::Array(tables));
    Ok(Value::Object(out))
}

fn describe_table(table: &Table<'_>, dict: &ConnectionDict) -> Result<Value, String> {
    let mut columns = Vec::new();
    let mut rows = vec![Vec::new(); table.row_count()];
    for column in table.columns() {
        let column = column.map_err(|e| e.to_string())?;
        columns.push(describe_column(&column));
        let symbol = |id| symbol_text(&column, dict, id);
        let cells = column_cells(&column, &symbol)
            .map_err(|e| format!("table {:?} column {:?}: {e}", table.name(), column.name))?;
        if cells.len() != rows.len() {
            return Err(format!(
                "column {:?} has {} cells",
                column.name,
                cells.len()
            ));
        }
        for (row, cell) in rows.iter_mut().zip(cells) {
            row.push(cell);
        }
    }
    Ok(json!({
        "name": table.name(), "row_count": table.row_count(), "columns": columns, "rows": rows,
    }))
}

fn symbol_text(column: &Column<'_>, dict: &ConnectionDict, id: u64) -> Option<String> {
    let Values::Symbol(ids) = column.values else {
        return None;
    };
    match ids.local() {
        Some(local) => local.get(id).map(str::to_owned),
        None => dict.get(id).map(str::to_owned),
    }
}

fn describe_column(column: &Column<'_>) -> Value {
    let mut out = Map::new();
    let mut notes = Vec::new();
    let mode = if column.nulls.has_bitmap() {
        "bitmap"
    } else {
        "flag0"
    };
    out.insert("name".into(), json!(column.name));
    out.insert("type".into(), json!(column.ty.name()));
    out.insert("null_mode".into(), json!(mode));
    out.insert("bytes".into(), json!(column.byte_len));
    if column.nulls.has_bitmap() && column.nulls.count() == 0 {
        notes.push("bitmap mode without any null");
    }
    match &column.values {
        Values::Symbol(ids) => describe_symbols(ids, &mut out),
        Values::Timestamp(times) | Values::TimestampNanos(times) => {
            describe_timestamps(times, &mut out);
        }
        Values::Geohash(hashes) => {
            out.insert("precision".into(), json!(hashes.precision()));
        }
        Values::Decimal(decimals) => {
            out.insert("scale".into(), json!(decimals.scale()));
        }
        _ => {}
    }
    if !notes.is_empty() {
        out.insert("notes".into(), json!(notes));
    }
    Value::Object(out)
}

fn describe_symbols(ids: &SymbolIds<'_>, out: &mut Map<String, Value>) {
    let range: Vec<u64> = ids
        .iter()
        .min()
        .into_iter()
        .chain(ids.iter().max())
        .collect();
    out.insert("ids".into(), json!(range));
    if let Some(local) = ids.local() {
        out.insert("own_dictionary".into(), json!(local.len()));
    }
}

fn describe_timestamps(times: &Timestamps<'_>, out: &mut Map<String, Value>) {
    let text = match times.encoding() {
        TimestampEncoding::Unmarked => "plain, no encoding byte",
        TimestampEncoding::Plain => "plain",
        TimestampEncoding::Gorilla => "gorilla",
    };
    out.insert("ts_encoding".into(), json!(text));
    if times.encoding() == TimestampEncoding::Gorilla {
        out.insert("dod_buckets".into(), dod_buckets(times));
    }
}

/// How many values fall into each bucket, by the width that their change needs.
fn dod_buckets(times: &Timestamps<'_>) -> Value {
    let values: Vec<i64> = times.iter().collect();
    let mut counts = [0; 5];
    for window in values.windows(3) {
        let [a, b, c] = [window[0], window[1], window[2]];
        let change = c.wrapping_sub(b).wrapping_sub(b.wrapping_sub(a));
        counts[match change {
            0 => 0,
            -64..=63 => 1,
            -256..=255 => 2,
            -2048..=2047 => 3,
            _ => 4,
        }] += 1;
    }
    let [zero, seven, nine, twelve, wide] = counts;
    json!({ "0": zero, "7": seven, "9": nine, "12": twelve, "32": wide })
}
