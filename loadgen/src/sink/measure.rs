//! Figures of the sink: `cargo test --release -p forebay-loadgen sink::measure -- --ignored
//! --nocapture --test-threads=1`. The message is 1,000 L1 quotes, 44 bytes a row.

use std::io::Write;
use std::time::{Duration, Instant};

use forebay_wire::server::{Session, SessionConfig};
use forebay_wire::ws::{self, Opcode};

use super::apply::Applier;
use super::server::Shared;
use super::test_client::{Client, quotes};
use super::{Depth, Sink, SinkConfig};
use crate::cpu;

const ROWS: u32 = 1000;
const SYMBOLS: [&str; 7] = ["AAPL", "MSFT", "NVDA", "B", "S", "AMZN", "TSLA"];

/// Data frames as a sender writes them; the first of a connection brings the symbols.
fn frames(messages: u32, rows: u32, new: &[&str]) -> Vec<u8> {
    let known = (SYMBOLS.len() - new.len()) as u64;
    let mut bytes = Vec::new();
    for _ in 0..messages {
        let key = [0x85, 0xED, 0x68, 0x8E];
        ws::append_client_frame(&mut bytes, Opcode::Binary, &quotes(rows, known, new), key);
    }
    bytes
}

/// Median time in nanoseconds for a message, from the bytes in the receive buffer to the OK,
/// without any socket.
fn in_memory(depth: Depth, rows: u32, burst: u32) -> f64 {
    const ROUNDS: u32 = 3000;
    let shared = Shared::new(
        SinkConfig {
            depth,
            ..SinkConfig::default()
        },
        None,
    );
    let mut session = Session::new(SessionConfig {
        recv_buffer_bytes_at_start: 512 * 1024,
        ..SessionConfig::default()
    });
    let (mut applier, mut out) = (Applier::new(&shared), Vec::new());
    session.on_bytes(&frames(1, rows, &SYMBOLS), &mut applier, &mut out);
    let bytes = frames(burst, rows, &[]);
    let mut spent = Vec::new();
    for _ in 0..ROUNDS {
        session.spare()[..bytes.len()].copy_from_slice(&bytes);
        out.clear();
        let start = Instant::now();
        session.received(bytes.len(), &mut applier, &mut out);
        spent.push(start.elapsed());
    }
    drop(applier);
    assert_eq!(
        shared.counters.read().rows,
        u64::from((ROUNDS * burst + 1) * rows)
    );
    spent.sort_unstable();
    spent[spent.len() / 2].as_secs_f64() * 1e9 / f64::from(burst)
}

/// Rows a second over loopback, and CPU time a row of the sink's thread, kernel included.
fn over_loopback(config: SinkConfig) -> (f64, f64) {
    const BURSTS: u32 = 2000;
    let sink = Sink::start(config).unwrap();
    let mut client = Client::connect(sink.addr());
    let (mut writer, burst) = (client.writer(), frames(4, ROWS, &[]));
    writer.write_all(&frames(1, ROWS, &SYMBOLS)).unwrap();
    let start = Instant::now();
    let sender = std::thread::spawn(move || {
        for _ in 0..BURSTS {
            writer.write_all(&burst).unwrap();
        }
    });
    client.wait_ok(i64::from(BURSTS * 4));
    let wall = start.elapsed();
    sender.join().unwrap();
    let cpu_ns = cpu::sum_ns(&cpu::threads(), "sink-0").unwrap();
    let rows = f64::from(BURSTS) * 4.0 * f64::from(ROWS);
    (
        rows / wall.as_secs_f64(),
        Duration::from_nanos(cpu_ns).as_secs_f64() * 1e9 / rows,
    )
}

#[test]
#[ignore = "measures; run alone and in release"]
fn count_costs_at_most_12_ns_a_row_and_decode_passes_15_m_rows_a_second() {
    for depth in [Depth::Count, Depth::Decode] {
        let ns = in_memory(depth, ROWS, 4) / f64::from(ROWS);
        println!(
            "{depth:?} in memory: {ns:.2} ns/row, {:.1} M rows/s on a core",
            1e3 / ns
        );
        assert!(
            ns <= if depth == Depth::Count {
                12.0
            } else {
                1e3 / 15.0
            }
        );
    }
    println!(
        "Count in memory: {:.0} ns for a message of one row",
        in_memory(Depth::Count, 1, 64)
    );
    for read_kib in [64, 128, 256, 512, 1024] {
        for depth in [Depth::Count, Depth::Decode] {
            let read_bytes = read_kib * 1024;
            let config = SinkConfig {
                depth,
                read_bytes,
                ..SinkConfig::default()
            };
            let (rate, ns) = over_loopback(config);
            println!(
                "{depth:?} over loopback, {read_kib} KiB reads: {:.1} M rows/s, \
                 {ns:.2} ns CPU/row in the sink",
                rate / 1e6
            );
        }
    }
}
