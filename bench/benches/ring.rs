//! The intake ring: entries of a quote and of a batch of 1,000 quotes, in one thread and between
//! two; in memory, and in a file, where entries carry a CRC and are stamped.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use forebay::internals::ring::{self, Reader, Writer};

const CAPACITY: usize = 1 << 20;

/// Where rings are: in memory, on tmpfs, in the file system of the build.
fn rings() -> Vec<(&'static str, (Writer, Reader))> {
    let file = |dir: &Path| {
        let path = dir.join(format!("forebay-bench-ring-{}", std::process::id()));
        let ring = ring::file_ring(&path, CAPACITY).expect("a file for a ring");
        std::fs::remove_file(path).expect("it was just made");
        ring
    };
    let build = Path::new(env!("CARGO_TARGET_TMPDIR"));
    vec![
        ("memory", ring::ring(CAPACITY).expect("memory for a ring")),
        ("tmpfs", file(Path::new("/dev/shm"))),
        ("disk", file(build)),
    ]
}

fn same_thread(c: &mut Criterion) {
    let mut group = c.benchmark_group("ring");
    for bytes in [64usize, 128, 44 << 10] {
        for (place, (mut writer, mut reader)) in rings() {
            let payload = vec![7u8; bytes];
            group.throughput(Throughput::Bytes(bytes as u64));
            group.bench_function(
                format!("reserve, copy, commit, peek, release {bytes} B, {place}"),
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
    }
    group.finish();
}

fn between_threads(c: &mut Criterion) {
    let mut group = c.benchmark_group("ring");
    for (place, (mut writer, mut reader)) in rings() {
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
        group.throughput(Throughput::Elements(1));
        group.bench_function(
            format!("hand over 128 B to a spinning reader, {place}"),
            |b| {
                b.iter(|| {
                    loop {
                        if let Some(entry) = writer.reserve(128) {
                            entry[..8].copy_from_slice(&1u64.to_le_bytes());
                            break;
                        }
                        std::hint::spin_loop();
                    }
                    writer.commit();
                });
            },
        );
        stop.store(true, Ordering::Relaxed);
        consumer.join().expect("the reader ends");
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = same_thread, between_threads
}
criterion_main!(benches);
