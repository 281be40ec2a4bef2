//! What a shard does with a frame, piece by piece: symbols, copy and CRC, mask, acknowledgements.
//! The pieces together are the bench `append`.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use forebay::internals::hot::{Sent, Symbols, frame_crc};
use forebay_wire::ws::mask;

/// A frame of a row, of 1,000 quotes, and of the most that a turn takes at once.
const SIZES: [usize; 3] = [64, 42 << 10, 256 << 10];

fn crc_and_copy(c: &mut Criterion) {
    let mut group = c.benchmark_group("crc and copy");
    for bytes in SIZES {
        let from = vec![0x5a_u8; bytes];
        let mut to = vec![0_u8; bytes];
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(format!("{bytes} B"), |b| {
            b.iter(|| {
                to.copy_from_slice(black_box(&from));
                black_box(frame_crc(&to))
            });
        });
    }
    group.finish();
}

fn masks(c: &mut Criterion) {
    let mut group = c.benchmark_group("mask");
    for bytes in SIZES {
        let from = vec![0x5a_u8; bytes];
        let mut to = vec![0_u8; bytes];
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(format!("while copying, {bytes} B"), |b| {
            b.iter(|| mask::copy(&mut to, black_box(&from), [1, 2, 3, 4], 3));
        });
        group.bench_function(format!("in place, {bytes} B"), |b| {
            b.iter(|| mask::apply(black_box(&mut to), [1, 2, 3, 4], 3));
        });
    }
    group.finish();
}

fn dictionary(c: &mut Criterion) {
    let mut group = c.benchmark_group("dictionary");
    for count in [64_u32, 100_000] {
        let names: Vec<String> = (0..count).map(|index| format!("SYM{index:06}")).collect();
        let mut symbols = Symbols::default();
        for name in &names {
            symbols.id(name).expect("room for it");
        }
        // Not in their order: neighbours in the table are none in memory.
        let mut place = 0;
        group.throughput(Throughput::Elements(1));
        group.bench_function(format!("a known symbol of {count}"), |b| {
            b.iter(|| {
                place = (place + 40_503) % names.len();
                black_box(symbols.id(&names[place]))
            });
        });
    }
    group.bench_function("64 new symbols", |b| {
        let names: Vec<String> = (0..64).map(|index| format!("SYM{index:06}")).collect();
        b.iter(|| {
            let mut symbols = Symbols::default();
            for name in &names {
                black_box(symbols.id(name));
            }
        });
    });
    group.finish();
}

fn window(c: &mut Criterion) {
    let mut group = c.benchmark_group("window");
    group.throughput(Throughput::Elements(1));
    for catch_up in [0, 1_000] {
        let mut sent = Sent::new(7, catch_up);
        let mut seq = i64::try_from(catch_up).expect("small");
        group.bench_function(format!("a frame and its OK, {catch_up} catch-ups"), |b| {
            b.iter(|| {
                sent.frame();
                let confirmed = sent.confirmed(seq);
                seq += 1;
                black_box(confirmed)
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = crc_and_copy, masks, dictionary, window
}
criterion_main!(benches);
