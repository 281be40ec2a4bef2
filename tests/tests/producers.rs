//! Many producers, several shards (field report `concurrent-producers`): every number arrives
//! exactly once or is refused to its caller, and the rows of a table keep their order, while
//! producers flush, come and go, and the engine closes under them.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use forebay::{Engine, Error, Producer, TimestampNanos};
use forebay_loadgen::sink::{Depth, Sink, SinkConfig, Watch};
use forebay_wire::decode::Cell;

mod producing;
use producing::{PATIENCE, connect, free_address, scratch, until};

const THREADS: u64 = 8;
const BATCHES: u64 = 100_000;

type Arrived = Arc<Mutex<BTreeMap<String, Vec<u64>>>>;

/// A server that notes the numbers of every table in the order of their arrival.
fn serve(address: std::net::SocketAddr, arrived: &Arrived) -> Sink {
    let arrived = Arc::clone(arrived);
    let watch = Watch::new(move |block| {
        let columns = block.columns().map(|column| column.expect("a column"));
        let numbers = columns.filter(|column| column.name == "n").flat_map(|n| {
            let number = |cell| match cell {
                Some(Cell::Integer(n)) => u64::try_from(n).unwrap(),
                other => panic!("{other:?}"),
            };
            n.cells().map(number).collect::<Vec<_>>()
        });
        let mut arrived = arrived.lock().unwrap();
        let name = block.name().to_owned();
        arrived.entry(name).or_default().extend(numbers);
    });
    let config = SinkConfig {
        listen: address,
        depth: Depth::Decode,
        watch: Some(watch),
        ..SinkConfig::default()
    };
    Sink::start(config).unwrap()
}

fn table(thread: u64, number: u64) -> String {
    format!("p{thread}_{}", number % 3)
}

fn fill(producer: &mut Producer, thread: u64, number: u64) {
    let row = producer.table(&table(thread, number)).unwrap();
    let symbol = format!("S{}", number % 13);
    row.symbol("sym", &symbol).unwrap();
    row.column_i64("n", i64::try_from(number).unwrap()).unwrap();
    row.at(TimestampNanos(i64::try_from(number).unwrap() + 1))
        .unwrap();
}

/// Publishes numbered batches, some of several tables, until they are all accepted or the engine
/// closes; the numbers that were refused then.
fn produce(mut producer: Producer, thread: u64, next: impl Fn(Producer) -> Producer) -> Vec<u64> {
    let mut chance = thread * 7919 + 1;
    let mut buffered = Vec::new();
    for number in 0..BATCHES {
        chance = chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        fill(&mut producer, thread, number);
        buffered.push(number);
        let outcome = match chance >> 59 {
            0..4 => continue,
            4 => producer.flush(),
            5 => producer.publish().map(drop),
            _ => producer.try_flush(),
        };
        match outcome {
            Ok(()) => buffered.clear(),
            // All of it stays in the buffer.
            Err(Error::Backpressure { rows_accepted, .. }) => {
                assert_eq!(rows_accepted, 0, "all or nothing");
                assert_eq!(producer.rows(), buffered.len());
            }
            // What a flush has published is on its way, though its wait was cut short.
            Err(Error::Closed) if producer.rows() == 0 => return Vec::new(),
            Err(Error::Closed) => return buffered,
            Err(error) => panic!("{error}"),
        }
        if (chance >> 40) % 4096 == 7 && buffered.is_empty() {
            producer = next(producer);
        }
    }
    match producer.publish() {
        Ok(_) => Vec::new(),
        Err(_) => buffered,
    }
}

fn start(address: std::net::SocketAddr, dir: &std::path::Path) -> Engine {
    let engine = connect(
        address,
        &format!(
            "sf_dir={}/sf;shards=2;intake_ring_bytes=64k;sf_max_total_bytes=1g;",
            dir.display()
        ),
    );
    assert_eq!(engine.status().shards.len(), 2);
    engine
}

#[test]
fn concurrent_producers_into_two_shards_lose_and_double_nothing() {
    let (dir, address) = (scratch(), free_address());
    let arrived = Arrived::default();
    let sink = serve(address, &arrived);
    let engine = start(address, dir.path());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let engine = &engine;
            scope.spawn(move || {
                // The rows of a producer that was dropped go before those of its successor.
                let again = |producer: Producer| {
                    drop(producer);
                    engine.producer().unwrap()
                };
                let refused = produce(engine.producer().unwrap(), thread, again);
                assert!(refused.is_empty(), "there is room in the end");
            });
        }
    });
    engine.wait_acked(4 * PATIENCE).expect("delivered");
    let shards = engine.status().shards;
    assert!(shards.iter().all(|shard| shard.symbols == 13), "{shards:?}");
    let rows: u64 = engine.tables().iter().map(|table| table.acked).sum();
    assert_eq!(rows, THREADS * BATCHES);
    engine.close().expect("drained");
    sink.stop();
    let arrived = arrived.lock().unwrap();
    for thread in 0..THREADS {
        for first in 0..3 {
            let numbers = &arrived[&table(thread, first)];
            let expected: Vec<u64> = (first..BATCHES).step_by(3).collect();
            assert!(*numbers == expected, "in order, once: {thread} {first}");
        }
    }
}

#[test]
fn a_close_under_running_producers_answers_for_every_number() {
    let (dir, address) = (scratch(), free_address());
    let arrived = Arrived::default();
    let sink = serve(address, &arrived);
    let engine = start(address, dir.path());
    let done = AtomicU64::new(0);
    let producers: Vec<_> = (0..THREADS).map(|_| engine.producer().unwrap()).collect();
    let refused: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..)
            .zip(producers)
            .map(|(thread, producer)| {
                let done = &done;
                let count = move |producer| {
                    done.fetch_add(1, Ordering::Relaxed);
                    producer
                };
                scope.spawn(move || produce(producer, thread, count))
            })
            .collect();
        until("all are at work", || done.load(Ordering::Relaxed) > 20);
        engine.close().expect("drained");
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    sink.stop();
    let arrived = arrived.lock().unwrap();
    let mut stopped = 0;
    for (thread, refused) in (0..).zip(refused) {
        let tables = (0..3).filter_map(|first| arrived.get(&table(thread, first)));
        assert!(
            tables
                .clone()
                .all(|numbers| numbers.is_sorted_by(|a, b| a < b))
        );
        let arrived: BTreeSet<u64> = tables.flatten().copied().collect();
        let last = refused.last().or(arrived.last()).copied().unwrap_or(0);
        stopped += u64::from(last + 1 < BATCHES);
        let refused: BTreeSet<u64> = refused.into_iter().collect();
        let all: BTreeSet<u64> = arrived.union(&refused).copied().collect();
        assert_eq!(all.len() as u64, last + 1, "no number without an answer");
        // A batch that the close overtook may have been delivered besides; never a part of it.
        let both = arrived.intersection(&refused).count();
        assert!(both == 0 || both == refused.len(), "{both}");
    }
    assert!(stopped > 0, "the close came under way");
}
