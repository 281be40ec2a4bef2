//! What a row costs an application thread, beside the official client: building a batch of 1,000
//! L1 quotes by name and with prepared handles, and handing a chunk of columns over whole.
//!
//! The official client encodes when it flushes, so its figure is a part of its cost only.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use forebay::internals::InstantLoop;
use forebay::{Chunk, ColumnId, ColumnType, Nulls, Producer, Symbol, TableId, TimestampNanos};
use questdb::ingress::{Buffer, ColumnName, TableName};

const BATCH: usize = 1000;
const FIRST_NS: i64 = 1_700_000_000_000_000_000;

/// The rows as columns, made before the clock starts.
struct Columns {
    names: Vec<String>,
    name: Vec<u32>,
    side: Vec<u32>,
    bid: Vec<f64>,
    ask: Vec<f64>,
    bid_size: Vec<i64>,
    ask_size: Vec<i64>,
    at: Vec<i64>,
}

impl Columns {
    fn new() -> Self {
        let (mut name, mut side, mut at) = (Vec::new(), Vec::new(), Vec::new());
        let (mut bid, mut ask) = (Vec::new(), Vec::new());
        let (mut bid_size, mut ask_size) = (Vec::new(), Vec::new());
        let mut stamp = FIRST_NS;
        for row in 0..BATCH {
            let small = u32::try_from(row).expect("small");
            name.push(small * 37 % 64);
            side.push(small % 3 % 2);
            bid.push(100.0 + f64::from(small));
            ask.push(100.01 + f64::from(small));
            bid_size.push(i64::from(small) + 100);
            ask_size.push(i64::from(small) + 200);
            at.push(stamp);
            stamp += 1000;
        }
        Self {
            names: (0..64).map(|index| format!("SYM{index:04}")).collect(),
            name,
            side,
            bid,
            ask,
            bid_size,
            ask_size,
            at,
        }
    }
}

/// Handles of the prepared path.
struct Handles {
    table: TableId,
    symbol: ColumnId,
    side: ColumnId,
    bid: ColumnId,
    ask: ColumnId,
    bid_size: ColumnId,
    ask_size: ColumnId,
    names: Vec<Symbol>,
    sides: [Symbol; 2],
}

impl Handles {
    fn new(producer: &mut Producer, columns: &Columns) -> Self {
        let table = producer.prepare("quotes").expect("a table");
        let mut column = |name, ty| producer.prepare_column(table, name, ty).expect("a column");
        let (symbol, side) = (
            column("symbol", ColumnType::Symbol),
            column("side", ColumnType::Symbol),
        );
        let (bid, ask) = (
            column("bid", ColumnType::Double),
            column("ask", ColumnType::Double),
        );
        let (bid_size, ask_size) = (
            column("bid_size", ColumnType::Long),
            column("ask_size", ColumnType::Long),
        );
        let mut intern = |text: &str| producer.intern(text).expect("a symbol");
        Self {
            table,
            symbol,
            side,
            bid,
            ask,
            bid_size,
            ask_size,
            names: columns.names.iter().map(|name| intern(name)).collect(),
            sides: ["B", "S"].map(&mut intern),
        }
    }
}

struct World {
    shard: InstantLoop,
    producer: Producer,
    _dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let connect = format!(
            "ws::addr=127.0.0.1:1;sf_dir={};sf_max_segment_bytes=64m;sf_max_total_bytes=1g;",
            dir.path().display()
        );
        let shard = InstantLoop::open(&connect).expect("open");
        let producer = shard.producer().expect("memory for a ring");
        Self {
            shard,
            producer,
            _dir: dir,
        }
    }

    /// Times `fill` alone; the batch is then published, which is the only way to empty it.
    fn time(&mut self, count: u64, mut fill: impl FnMut(&mut Producer)) -> Duration {
        let mut spent = Duration::ZERO;
        for _ in 0..count {
            let start = Instant::now();
            fill(black_box(&mut self.producer));
            spent += start.elapsed();
            self.producer.try_publish().expect("room");
            self.shard.turn();
        }
        spent
    }
}

fn by_name(producer: &mut Producer, columns: &Columns) {
    for row in 0..BATCH {
        let put = |producer: &mut Producer| {
            producer
                .table("quotes")?
                .symbol("symbol", &columns.names[columns.name[row] as usize])?
                .symbol("side", if columns.side[row] == 0 { "B" } else { "S" })?
                .column_f64("bid", columns.bid[row])?
                .column_f64("ask", columns.ask[row])?
                .column_i64("bid_size", columns.bid_size[row])?
                .column_i64("ask_size", columns.ask_size[row])?
                .at(TimestampNanos(columns.at[row]))
        };
        put(producer).expect("a legal row");
    }
}

fn prepared(producer: &mut Producer, columns: &Columns, handles: &Handles) {
    for row in 0..BATCH {
        let put = |producer: &mut Producer| {
            producer
                .row(handles.table)?
                .put_symbol(handles.symbol, handles.names[columns.name[row] as usize])?
                .put_symbol(handles.side, handles.sides[columns.side[row] as usize])?
                .put_f64(handles.bid, columns.bid[row])?
                .put_f64(handles.ask, columns.ask[row])?
                .put_i64(handles.bid_size, columns.bid_size[row])?
                .put_i64(handles.ask_size, columns.ask_size[row])?
                .at(TimestampNanos(columns.at[row]))
        };
        put(producer).expect("a legal row");
    }
}

fn chunk<'a>(columns: &'a Columns, names: &'a [&'a str]) -> Result<Chunk<'a>, forebay::Error> {
    let mut chunk = Chunk::new("quotes");
    chunk
        .symbol_codes("symbol", &columns.name, names, Nulls::NONE)?
        .symbol_codes("side", &columns.side, &["B", "S"], Nulls::NONE)?;
    numbers(&mut chunk, columns)?;
    Ok(chunk)
}

fn numbers<'a>(chunk: &mut Chunk<'a>, columns: &'a Columns) -> Result<(), forebay::Error> {
    chunk
        .f64("bid", &columns.bid, Nulls::NONE)?
        .f64("ask", &columns.ask, Nulls::NONE)?
        .i64("bid_size", &columns.bid_size, Nulls::NONE)?
        .i64("ask_size", &columns.ask_size, Nulls::NONE)?
        .at_nanos(&columns.at)?;
    Ok(())
}

fn official(buffer: &mut Buffer, columns: &Columns) -> questdb::Result<()> {
    let name = ColumnName::new;
    let (symbol, side, bid) = (name("symbol")?, name("side")?, name("bid")?);
    let (ask, bid_size, ask_size) = (name("ask")?, name("bid_size")?, name("ask_size")?);
    let table = TableName::new("quotes")?;
    for row in 0..BATCH {
        buffer
            .table(table)?
            .symbol(symbol, columns.names[columns.name[row] as usize].as_str())?
            .symbol(side, if columns.side[row] == 0 { "B" } else { "S" })?
            .column_f64(bid, columns.bid[row])?
            .column_f64(ask, columns.ask[row])?
            .column_i64(bid_size, columns.bid_size[row])?
            .column_i64(ask_size, columns.ask_size[row])?
            .at(questdb::ingress::TimestampNanos::new(columns.at[row]))?;
    }
    Ok(())
}

fn rows(c: &mut Criterion) {
    let columns = Columns::new();
    let mut group = c.benchmark_group("encode");
    group.throughput(Throughput::Elements(BATCH as u64));
    let mut world = World::new();
    group.bench_function(BenchmarkId::new("rows by name", "forebay"), |b| {
        b.iter_custom(|count| world.time(count, |producer| by_name(producer, &columns)));
    });
    let mut world = World::new();
    let handles = Handles::new(&mut world.producer, &columns);
    group.bench_function(BenchmarkId::new("prepared rows", "forebay"), |b| {
        b.iter_custom(|count| world.time(count, |producer| prepared(producer, &columns, &handles)));
    });
    let mut buffer = questdb_buffer();
    group.bench_function(BenchmarkId::new("rows by name", "questdb-rs"), |b| {
        b.iter_custom(|count| {
            let mut spent = Duration::ZERO;
            for _ in 0..count {
                let start = Instant::now();
                official(black_box(&mut buffer), &columns).expect("a legal row");
                spent += start.elapsed();
                buffer.clear();
            }
            spent
        });
    });
    group.finish();
}

fn questdb_buffer() -> Buffer {
    Buffer::new_qwp_ws()
}

fn chunks(c: &mut Criterion) {
    let columns = Columns::new();
    let names: Vec<&str> = columns.names.iter().map(String::as_str).collect();
    let mut group = c.benchmark_group("chunk to the ring");
    group.throughput(Throughput::Elements(BATCH as u64));
    let mut world = World::new();
    group.bench_function("codes and dictionaries", |b| {
        b.iter_custom(|count| {
            let mut spent = Duration::ZERO;
            for _ in 0..count {
                let start = Instant::now();
                let chunk = chunk(&columns, &names).expect("a legal chunk");
                world.producer.try_publish_chunk(&chunk).expect("room");
                spent += start.elapsed();
                world.shard.turn();
            }
            spent
        });
    });
    let mut world = World::new();
    let handles = Handles::new(&mut world.producer, &columns);
    let symbols = |codes: &[u32], of: &[Symbol]| -> Vec<Symbol> {
        codes.iter().map(|code| of[*code as usize]).collect()
    };
    let name = symbols(&columns.name, &handles.names);
    let side = symbols(&columns.side, &handles.sides);
    group.bench_function("symbol handles", |b| {
        b.iter_custom(|count| {
            let mut spent = Duration::ZERO;
            for _ in 0..count {
                let start = Instant::now();
                let mut chunk = Chunk::new("quotes");
                let filled = chunk
                    .symbols("symbol", &name, Nulls::NONE)
                    .and_then(|chunk| chunk.symbols("side", &side, Nulls::NONE))
                    .and_then(|chunk| numbers(chunk, &columns));
                filled.expect("a legal chunk");
                world.producer.try_publish_chunk(&chunk).expect("room");
                spent += start.elapsed();
                world.shard.turn();
            }
            spent
        });
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = rows, chunks
}
criterion_main!(benches);
