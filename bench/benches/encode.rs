//! What a row costs an application thread, beside the official client: building a batch of 1,000
//! L1 quotes by name and with prepared handles, and handing a chunk of columns over whole.
//!
//! The official client encodes when it flushes, so its figure is a part of its cost only.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use forebay::{Chunk, Nulls, Producer, Symbol};
use forebay_bench::quotes::{self, BATCH, Columns, Handles};
use forebay_bench::world::World;
use questdb::ingress::{Buffer, ColumnName, TableName};

/// Times `fill` alone; the batch is then published, which is the only way to empty it.
fn time(world: &mut World, count: u64, mut fill: impl FnMut(&mut Producer)) -> Duration {
    let mut spent = Duration::ZERO;
    for _ in 0..count {
        let start = Instant::now();
        fill(black_box(world.producer()));
        spent += start.elapsed();
        world.publish();
    }
    spent
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
    let mut world = World::new(1);
    group.bench_function(BenchmarkId::new("rows by name", "forebay"), |b| {
        b.iter_custom(|count| {
            time(&mut world, count, |producer| {
                quotes::by_name(producer, &columns, BATCH);
            })
        });
    });
    let mut world = World::new(1);
    let handles = Handles::new(world.producer(), &columns);
    group.bench_function(BenchmarkId::new("prepared rows", "forebay"), |b| {
        b.iter_custom(|count| {
            time(&mut world, count, |producer| {
                quotes::prepared(producer, &columns, &handles, BATCH);
            })
        });
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
    let mut world = World::new(1);
    group.bench_function("codes and dictionaries", |b| {
        b.iter_custom(|count| {
            let mut spent = Duration::ZERO;
            for _ in 0..count {
                let start = Instant::now();
                let chunk = quotes::chunk(&columns, &names).expect("a legal chunk");
                world.producer().try_publish_chunk(&chunk).expect("room");
                spent += start.elapsed();
                world.shard.turn();
            }
            spent
        });
    });
    let mut world = World::new(1);
    let handles = Handles::new(world.producer(), &columns);
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
                    .and_then(|chunk| quotes::numbers(chunk, &columns));
                filled.expect("a legal chunk");
                world.producer().try_publish_chunk(&chunk).expect("room");
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
