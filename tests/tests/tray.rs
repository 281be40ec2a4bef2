//! Rows of a table with columns of fixed size gather on a tray before they go into its columns, or
//! from there into the ring, and all others go into the columns at once. Nobody can tell: a random
//! script does the same to a producer that has a tray and to one that has none, call by call and byte
//! by byte.
//!
//! `timestamp_past_max` makes the second one: such a producer looks at every row by itself.

use std::net::Ipv4Addr;

use forebay::{Chunk, ColumnId, ColumnType, Error, Nulls, Producer, Symbol, TableId};
use forebay::{TimestampMicros, TimestampNanos};
use forebay_tests::encode::Client;
use forebay_tests::seeds;

const NOW: i64 = 1_700_000_000_000_000_000;
/// Columns of a row, in their order, and one with a name that is no longer compared at a glance.
const COLUMNS: [(&str, ColumnType); 14] = [
    ("sym", ColumnType::Symbol),
    ("flag", ColumnType::Boolean),
    ("i8", ColumnType::Byte),
    ("i16", ColumnType::Short),
    ("i32", ColumnType::Int),
    ("i64", ColumnType::Long),
    ("f32", ColumnType::Float),
    ("bid_price", ColumnType::Double),
    ("char", ColumnType::Char),
    ("day", ColumnType::Date),
    ("micros", ColumnType::Timestamp),
    ("nanos", ColumnType::TimestampNanos),
    ("address", ColumnType::Ipv4),
    ("a name of more than sixteen bytes", ColumnType::Symbol),
];
/// Tables: two with cells, one with a text; and two that nothing is prepared of.
const TABLES: [&str; 5] = ["one", "other", "text", "small", "smaller"];
/// Those of which everything is prepared.
const PREPARED: usize = 3;
const TEXTS: [&str; 6] = [
    "",
    "B",
    "sell",
    "SYM0001",
    "SYM0002",
    "a symbol of more than sixteen",
];

/// One call.
#[derive(Debug, Clone, Copy)]
enum Call {
    Table(usize),
    Row(usize),
    /// Column, value, whether there is one.
    Set(usize, u64, bool),
    Put(usize, usize, u64),
    /// A DOUBLE under this name.
    New(usize),
    Text,
    NoName,
    Nanos(i64),
    Micros(i64),
    Now,
    Discard,
    Clear,
    Prepare(usize),
    /// A chunk of so many rows of a table.
    Chunk(usize, usize),
    Flush,
}

/// A producer and its handles.
struct Side {
    client: Client,
    tables: Vec<(TableId, Vec<ColumnId>)>,
    symbols: Vec<Symbol>,
}

impl Side {
    fn new(keys: &str) -> Self {
        let connect = format!("ws::addr=127.0.0.1:1;at_now=server;{keys}");
        let mut client = Client::open(&connect).expect("a client in memory");
        let producer = client.producer();
        let tables = TABLES[..PREPARED].iter().map(|table| {
            let id = producer.prepare(table).expect("a table");
            let column = |(name, ty)| producer.prepare_column(id, name, ty).expect("a column");
            (id, COLUMNS.map(column).to_vec())
        });
        let tables = tables.collect();
        let symbols = TEXTS.map(|text| producer.intern(text).expect("a symbol"));
        Self {
            client,
            tables,
            symbols: symbols.to_vec(),
        }
    }

    /// What the call says, and what the producer then holds.
    fn call(&mut self, call: Call) -> (Result<(), String>, usize, usize) {
        let outcome = self.outcome(call).map_err(|error| error.to_string());
        let producer = self.client.producer();
        (outcome, producer.rows(), producer.buffered_bytes())
    }

    fn outcome(&mut self, call: Call) -> Result<(), Error> {
        let row = self.client.producer();
        match call {
            Call::Table(table) => row.table(TABLES[table]).map(drop),
            Call::Row(table) => row.row(self.tables[table].0).map(drop),
            Call::Set(column, value, is_value) => set(row, column, is_value.then_some(value)),
            Call::Put(table, column, value) => {
                let id = self.tables[table].1[column];
                put(row, id, COLUMNS[column].1, value, &self.symbols)
            }
            Call::New(name) => row.column_f64(&format!("new{name}"), 1.5).map(drop),
            Call::Text => row.column_str("words", "some text").map(drop),
            Call::NoName => row.column_f64("", 1.0).map(drop),
            Call::Nanos(value) => row.at(TimestampNanos(value)),
            Call::Micros(value) => row.at(TimestampMicros(value)),
            Call::Now => row.at_now(),
            Call::Discard => {
                row.discard_row();
                Ok(())
            }
            Call::Clear => {
                row.clear();
                Ok(())
            }
            Call::Prepare(name) => {
                let (name, table) = (format!("new{name}"), self.tables[0].0);
                row.prepare_column(table, &name, ColumnType::Double)
                    .map(drop)
            }
            Call::Chunk(table, rows) => chunk(row, TABLES[table], rows),
            Call::Flush => row.try_flush(),
        }
    }
}

fn chunk(producer: &mut Producer, table: &str, rows: usize) -> Result<(), Error> {
    let values: Vec<i64> = (NOW..).take(rows).collect();
    let codes = vec![0; rows];
    let mut chunk = Chunk::new(table);
    chunk
        .symbol_codes("sym", &codes, &["SYM0001"], Nulls::NONE)?
        .i64("i64", &values, Nulls::NONE)?
        .at_nanos(&values)?;
    producer.try_publish_chunk(&chunk).map(drop)
}

fn text(value: u64) -> &'static str {
    TEXTS[place(value, TEXTS.len())]
}

fn place(value: u64, count: usize) -> usize {
    usize::try_from(value % count as u64).expect("small")
}

/// By name; `None` by the form with `Option`.
fn set(row: &mut Producer, column: usize, value: Option<u64>) -> Result<(), Error> {
    let (name, ty) = COLUMNS[column];
    let bytes = value.map(u64::to_le_bytes);
    let set = match ty {
        ColumnType::Symbol => row.symbol_opt(name, value.map(text)),
        ColumnType::Boolean => row.column_bool_opt(name, value.map(|value| value % 2 == 1)),
        ColumnType::Byte => row.column_i8_opt(name, bytes.map(|b| i8::from_le_bytes([b[0]]))),
        ColumnType::Short => {
            row.column_i16_opt(name, bytes.map(|b| i16::from_le_bytes([b[0], b[1]])))
        }
        ColumnType::Char => {
            row.column_char_opt(name, bytes.map(|b| u16::from_le_bytes([b[0], b[1]])))
        }
        ColumnType::Int => row.column_i32_opt(name, bytes.map(|b| word(b).cast_signed())),
        ColumnType::Float => row.column_f32_opt(name, bytes.map(|b| f32::from_bits(word(b)))),
        ColumnType::Ipv4 => row.column_ipv4_opt(name, bytes.map(|b| Ipv4Addr::from(word(b)))),
        ColumnType::Long => row.column_i64_opt(name, value.map(u64::cast_signed)),
        ColumnType::Double => row.column_f64_opt(name, value.map(f64::from_bits)),
        ColumnType::Date => row.column_date_opt(name, value.map(u64::cast_signed)),
        ColumnType::Timestamp => row.column_ts_micros_opt(name, value.map(u64::cast_signed)),
        _ => row.column_ts_nanos_opt(name, value.map(u64::cast_signed)),
    };
    set.map(drop)
}

fn word([a, b, c, d, ..]: [u8; 8]) -> u32 {
    u32::from_le_bytes([a, b, c, d])
}

/// By handle, as the type `ty`, which may not be the column's.
fn put(
    row: &mut Producer,
    id: ColumnId,
    ty: ColumnType,
    value: u64,
    symbols: &[Symbol],
) -> Result<(), Error> {
    let bytes = value.to_le_bytes();
    let put = match ty {
        ColumnType::Symbol => row.put_symbol(id, symbols[place(value, symbols.len())]),
        ColumnType::Boolean => row.put_bool(id, value % 2 == 1),
        ColumnType::Byte => row.put_i8(id, i8::from_le_bytes([bytes[0]])),
        ColumnType::Short => row.put_i16(id, i16::from_le_bytes([bytes[0], bytes[1]])),
        ColumnType::Char => row.put_char(id, u16::from_le_bytes([bytes[0], bytes[1]])),
        ColumnType::Int => row.put_i32(id, word(bytes).cast_signed()),
        ColumnType::Float => row.put_f32(id, f32::from_bits(word(bytes))),
        ColumnType::Ipv4 => row.put_ipv4(id, word(bytes)),
        ColumnType::Double => row.put_f64(id, f64::from_bits(value)),
        _ => row.put_i64(id, value.cast_signed()),
    };
    put.map(drop)
}

/// Random calls that mostly make rows.
struct Script {
    state: u64,
    table: usize,
    /// One row in so many is not of the table of the row before.
    run: u64,
    is_sparse: bool,
    calls: Vec<Call>,
}

impl Script {
    fn new(seed: u64) -> Self {
        Self {
            state: seed,
            table: 0,
            run: 1,
            is_sparse: false,
            calls: Vec::new(),
        }
    }

    /// The next number (splitmix64).
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.next().is_multiple_of(count)
    }

    fn below(&mut self, count: usize) -> usize {
        place(self.next(), count)
    }

    /// The calls of one row, and what comes between rows.
    fn row(&mut self) -> &[Call] {
        self.calls.clear();
        if self.one_in(self.run) {
            self.table = self.below(PREPARED);
            self.run = [1, 6, 60, 60][self.below(4)];
            self.is_sparse = self.one_in(3);
        }
        let table = self.table;
        let (is_named, is_mixed) = (self.one_in(2), self.one_in(8));
        let begin = if is_named { Call::Table } else { Call::Row };
        self.calls.push(begin(table));
        let is_sparse = self.is_sparse;
        let mut columns: Vec<usize> = (0..COLUMNS.len()).collect();
        if self.one_in(5) {
            columns.rotate_left(table * 3 + 2);
        }
        for column in columns {
            if is_sparse && self.one_in(3) {
                continue;
            }
            let value = self.next();
            let is_value = !is_sparse || !self.one_in(4);
            let call = if is_named == (is_mixed && self.one_in(2)) {
                Call::Put(table, column, value)
            } else {
                Call::Set(column, value, is_value)
            };
            self.calls.push(call);
            if self.one_in(400) {
                self.disturb();
            }
        }
        if table == 2 {
            self.calls.push(Call::Text);
        }
        let at = NOW + i64::try_from(self.below(1_000_000)).expect("small");
        let is_now = self.one_in(30);
        self.calls
            .push(if is_now { Call::Now } else { Call::Nanos(at) });
        if self.one_in(80) {
            self.calls.push(Call::Clear);
        }
        if self.one_in(60) {
            let name = self.below(40);
            self.calls.push(Call::Prepare(name));
        }
        &self.calls
    }

    /// Something that a row does not need.
    fn disturb(&mut self) {
        let (column, other, value) = (self.below(14), self.below(3), self.next());
        let call = match self.below(12) {
            0 => Call::Table(other),
            1 => Call::Row(other),
            2 => Call::Set(column, value, true),
            3 => Call::Put(self.table, column, value),
            4 => Call::Put(other, column, value),
            5 => Call::New(column),
            6 => Call::Text,
            7 => Call::NoName,
            8 => Call::Nanos(-1),
            9 => Call::Micros(NOW / 1000),
            10 => Call::Discard,
            _ => Call::Flush,
        };
        self.calls.push(call);
    }
}

/// Batches of a few rows, most of them of one table, whose columns grow in number.
struct Small {
    script: Script,
    /// Table of this stretch, and how many of the columns its rows set.
    table: usize,
    columns: usize,
    /// One row in so many lacks a value, or is refused.
    oddity: u64,
    calls: Vec<Call>,
}

impl Small {
    fn stretch(&mut self) {
        self.table = 1 + self.script.below(TABLES.len() - 1);
        self.columns = (self.columns + self.script.below(3)).min(COLUMNS.len());
        self.oddity = [8, 60, 1_000, 1_000][self.script.below(4)];
    }

    fn row(&mut self) -> &[Call] {
        self.calls.clear();
        let table = self.table;
        let is_prepared = table < PREPARED;
        let begin = if is_prepared { Call::Row } else { Call::Table };
        self.calls.push(begin(table));
        let columns = if is_prepared {
            COLUMNS.len()
        } else {
            self.columns
        };
        let odd = self
            .script
            .one_in(self.oddity)
            .then(|| self.script.below(7));
        for column in 0..columns {
            let value = self.script.next();
            if column + 1 == columns && odd == Some(0) {
                continue;
            }
            let is_value = column > 0 || odd != Some(1);
            let set = Call::Set(column, value, is_value);
            let put = Call::Put(table, column, value);
            self.calls.push(if is_prepared { put } else { set });
            if column == 0 && odd == Some(2) {
                self.calls.push(set);
            }
        }
        if table == 2 {
            self.calls.push(Call::Text);
        }
        self.calls.push(match odd {
            Some(3) => Call::Nanos(-1),
            Some(4) => Call::Now,
            Some(5) => Call::Discard,
            _ => Call::Nanos(NOW + i64::try_from(self.script.below(1_000)).expect("small")),
        });
        &self.calls
    }

    fn batch(&mut self, rows: usize, call: &mut impl FnMut(Call)) {
        for _ in 0..rows {
            for each in self.row() {
                call(*each);
            }
        }
        if self.script.one_in(20) {
            call(Call::Chunk(self.table, 1 + self.script.below(3)));
        }
        if self.script.one_in(200) {
            call(Call::Clear);
        }
        call(Call::Flush);
    }
}

/// Batches and refused calls.
fn play_small(seed: u64) -> (usize, usize) {
    let mut small = Small {
        script: Script::new(seed),
        table: 1,
        columns: 1,
        oddity: 1,
        calls: Vec::new(),
    };
    let (mut with, mut without) = (
        Side::new(""),
        Side::new("timestamp_past_max=9000000000000;"),
    );
    let (mut batches, mut refused) = (0, 0);
    for _ in 0..12 {
        small.stretch();
        let rows = 1 + small.script.below(40);
        let is_steady = !small.script.one_in(3);
        for _ in 0..24 {
            let rows = match is_steady {
                true if rows > 20 => 1,
                true => rows,
                false => 1 + small.script.below(40),
            };
            small.batch(rows, &mut |call| {
                let outcome = with.call(call);
                assert_eq!(outcome, without.call(call), "seed {seed}, {call:?}");
                refused += usize::from(outcome.0.is_err());
            });
            batches += 1;
        }
        let sent = [&mut with, &mut without].map(|side| side.client.sent());
        assert!(sent[0] == sent[1], "seed {seed}: the messages differ");
        assert!(sent[0].len() >= 12, "{} messages", sent[0].len());
    }
    (batches, refused)
}

fn play(seed: u64) -> (usize, usize) {
    let mut script = Script::new(seed);
    let (mut with, mut without) = (
        Side::new(""),
        Side::new("timestamp_past_max=9000000000000;"),
    );
    // Of some seeds the first table has more columns than a tray takes.
    for name in 0..place(seed, 4) * 17 {
        let prepared = [&mut with, &mut without].map(|side| side.call(Call::Prepare(name)));
        assert_eq!(prepared[0], (Ok(()), 0, 0));
    }
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..12 {
        for _ in 0..script.below(90) {
            for call in script.row() {
                let outcome = with.call(*call);
                assert_eq!(outcome, without.call(*call), "seed {seed}, {call:?}");
                refused += usize::from(outcome.0.is_err());
            }
        }
        taken += with.client.producer().rows();
        let sent = [&mut with, &mut without].map(|side| {
            side.client.producer().discard_row();
            side.client.producer().try_flush().expect("room");
            side.client.sent()
        });
        assert!(sent[0] == sent[1], "seed {seed}: the messages differ");
    }
    (taken, refused)
}

#[test]
fn rows_on_the_tray_are_the_rows_of_the_table() {
    let seeds = match seeds::number("FOREBAY_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..20 * seeds::scale(),
    };
    let (mut taken, mut refused) = (0, 0);
    for seed in seeds.clone() {
        let counts = play(seed);
        taken += counts.0;
        refused += counts.1;
    }
    println!("{taken} rows, {refused} calls refused");
    if seeds.end - seeds.start > 1 {
        assert!(taken > 2_000 && refused > 500, "{taken} {refused}");
    }
}

#[test]
fn small_batches_are_the_same_from_the_tray_and_from_the_columns() {
    let seeds = match seeds::number("FOREBAY_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..20 * seeds::scale(),
    };
    let (mut batches, mut refused) = (0, 0);
    for seed in seeds.clone() {
        let counts = play_small(seed);
        batches += counts.0;
        refused += counts.1;
    }
    println!("{batches} batches, {refused} calls refused");
    if seeds.end - seeds.start > 1 {
        assert!(batches > 5_000 && refused > 100, "{batches} {refused}");
    }
}
