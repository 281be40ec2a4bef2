//! Checksums and copies on one core.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::limits::figures::float;
use crate::limits::noise;

/// How long one is measured.
const LENGTH: Duration = Duration::from_millis(100);

/// GB/s of CRC-32C over `bytes` again and again.
pub(super) fn crc(bytes: usize) -> f64 {
    let data = data(bytes);
    gb_per_second(bytes, || {
        black_box(crc32c::crc32c(black_box(&data)));
    })
}

/// GB/s of copying `bytes` from one place to another, again and again.
pub(super) fn copy(bytes: usize) -> f64 {
    let from = data(bytes);
    let mut to = vec![1; bytes];
    gb_per_second(bytes, || {
        black_box(&mut to).copy_from_slice(black_box(&from));
    })
}

fn data(bytes: usize) -> Vec<u8> {
    noise().flat_map(u64::to_le_bytes).take(bytes).collect()
}

fn gb_per_second(bytes: usize, mut work: impl FnMut()) -> f64 {
    work();
    let (began, mut times) = (Instant::now(), 0);
    while began.elapsed() < LENGTH {
        work();
        times += 1;
    }
    float(times * bytes as u64) / began.elapsed().as_secs_f64() / 1e9
}
