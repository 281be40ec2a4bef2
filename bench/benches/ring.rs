//! The intake ring: entries of a quote and of a batch of 1,000 quotes, in one thread and between
//! two.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use forebay::internals::ring;

const CAPACITY: usize = 1 << 20;

fn same_thread(c: &mut Criterion) {
    let mut group = c.benchmark_group("ring");
    for bytes in [64usize, 44 << 10] {
        let (mut writer, mut reader) = ring::ring(CAPACITY);
        let payload = vec![7u8; bytes];
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(
            format!("reserve, copy, commit, peek, release {bytes} B"),
            |b| {
                b.iter(|| {
                    writer
                        .reserve(bytes)
                        .expect("empty")
                        .copy_from_slice(&payload);
                    writer.commit();
                    black_box(reader.peek().expect("committed").len());
                    reader.release();
                });
            },
        );
    }
    group.finish();
}

fn between_threads(c: &mut Criterion) {
    let (mut writer, mut reader) = ring::ring(CAPACITY);
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let consumer = std::thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            if reader.peek().is_some() {
                reader.release();
            } else {
                std::hint::spin_loop();
            }
        }
    });
    let mut group = c.benchmark_group("ring");
    group.throughput(Throughput::Elements(1));
    group.bench_function("hand over 64 B to a spinning reader", |b| {
        b.iter(|| {
            loop {
                if let Some(entry) = writer.reserve(64) {
                    entry[..8].copy_from_slice(&1u64.to_le_bytes());
                    break;
                }
                std::hint::spin_loop();
            }
            writer.commit();
        });
    });
    group.finish();
    stop.store(true, Ordering::Relaxed);
    consumer.join().expect("the reader ends");
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = same_thread, between_threads
}
criterion_main!(benches);
