//! The way of a batch through producer and shard without kernel and network: rows, encoding, ring,
//! assembly with CRC, masking, acknowledgement. A counting allocator first shows that a frame
//! costs no allocation in steady state, on either side.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use forebay::Producer;
use forebay_bench::world::World;
use forebay_loadgen::allocations::{self, Counting};
use forebay_loadgen::quotes::Quotes;

const BATCH: u64 = 1000;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn rows(producer: &mut Producer, quotes: &Quotes, from: u64) {
    for number in from..from + BATCH {
        quotes.put(producer, number).expect("a legal row");
    }
}

/// A world that has seen some frames, and what fills them.
fn started() -> (World, Quotes) {
    let (mut world, quotes) = (World::new(1), Quotes::new(1_700_000_000_000_000_000));
    for _ in 0..100 {
        frame(&mut world, &quotes);
    }
    (world, quotes)
}

fn frame(world: &mut World, quotes: &Quotes) {
    rows(world.producer(), quotes, 0);
    world.publish();
}

/// Frames within one segment allocate nothing; a rotation may (file names, a spare).
fn no_allocations() {
    let (mut world, quotes) = started();
    let (before, published) = (allocations::all(), world.shard.stats());
    for _ in 0..1000 {
        frame(&mut world, &quotes);
    }
    let count = allocations::all() - before;
    let stats = world.shard.stats();
    println!(
        "allocations: {count} in {} frames ({} acked, {} segments begun)",
        stats.frames_published - published.frames_published,
        stats.frames_acked - published.frames_acked,
        stats.segments_written - published.segments_written
    );
    assert_eq!(count, 0, "steady state allocates nothing per frame");
}

fn append(c: &mut Criterion) {
    no_allocations();
    let mut group = c.benchmark_group("append");
    group.throughput(Throughput::Elements(BATCH));
    let (mut world, quotes) = started();
    group.bench_function("rows of a 1,000-row batch (row API)", |b| {
        b.iter_custom(|count| {
            let mut spent = Duration::ZERO;
            for _ in 0..count {
                let start = Instant::now();
                rows(black_box(world.producer()), &quotes, 0);
                spent += start.elapsed();
                // Publishing is the only way to empty the buffer; it is not measured here.
                world.publish();
            }
            spent
        });
    });
    let (mut world, quotes) = started();
    group.bench_function("rows, publish, one turn of the shard", |b| {
        b.iter(|| frame(&mut world, &quotes));
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = append
}
criterion_main!(benches);
