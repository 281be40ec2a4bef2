//! Producers as fast as they can, each with a thread of its own, into one engine: now one of them,
//! now several, with the same rows in all.
//!
//! All turns of a form are taken by the same engine, server and producers, one soon after the other.
//! A turn takes a tenth of a second; what a machine that others use too gives and takes for seconds,
//! it gives to both sides.

use std::error::Error;
use std::path::Path;
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

use forebay::{Engine, Producer, Stage};
use forebay_loadgen::sink::{Sink, SinkConfig};

use crate::limits::figures::float;
use crate::quotes::{self, Columns, Handles};

const PATIENCE: Duration = Duration::from_mins(1);

/// Where the journal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Journal {
    /// In memory: no disk whose speed drifts.
    Memory,
    /// In files, and so are the rings.
    Files,
}

/// What does not change from turn to turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Crowd {
    /// Rows of a turn, of all producers together.
    pub(super) rows: u64,
    pub(super) batch: u64,
    pub(super) journal: Journal,
    pub(super) shards: u64,
}

/// One turn: how many of the producers take part.
type Turn = Option<u64>;

/// When a producer began, had everything accepted, had everything acked.
type Times = [Instant; 3];

/// What the threads share.
struct Stand {
    columns: Columns,
    /// Everybody meets here before a turn and after it.
    meet: Barrier,
    turn: Mutex<Turn>,
    times: Mutex<Vec<Result<Times, String>>>,
}

impl Crowd {
    /// Takes these turns (numbers of producers), after one for nobody. Rows per second of each until
    /// everything was accepted and until the server had confirmed it.
    pub(super) fn take(
        self,
        shard_core: usize,
        dir: &Path,
        turns: &[u64],
    ) -> Result<Vec<[f64; 2]>, Box<dyn Error>> {
        let sink = Sink::start(SinkConfig::default())?;
        let engine = Engine::connect(&self.connect_string(&sink, shard_core, dir))?;
        let most = turns.iter().copied().max().unwrap_or(1);
        let threads = usize::try_from(most)?;
        let stand = Stand {
            columns: Columns::new(),
            meet: Barrier::new(threads + 1),
            turn: Mutex::new(None),
            times: Mutex::default(),
        };
        let rates = std::thread::scope(|scope| {
            for index in 0..most {
                let producer = engine.producer();
                let stand = &stand;
                scope.spawn(move || self.stand_by(producer, index, stand));
            }
            // With all of them first: their rings are warm then.
            let all = [most, 1].into_iter().chain(turns.iter().copied());
            let rates: Result<Vec<_>, _> = all.map(|count| self.measure(count, &stand)).collect();
            *lock(&stand.turn) = None;
            stand.meet.wait();
            rates
        })?;
        engine.close()?;
        sink.stop();
        Ok(rates[2..].to_vec())
    }

    fn connect_string(self, sink: &Sink, shard_core: usize, dir: &Path) -> String {
        let journal = match self.journal {
            Journal::Memory => "sf_max_total_bytes=512m;".to_owned(),
            Journal::Files => format!("sf_dir={};sf_max_segment_bytes=64m;", dir.display()),
        };
        let shards = match self.shards {
            0 | 1 => format!("cores={shard_core};"),
            count => format!("shards={count};route_by=producer;"),
        };
        format!(
            "ws::addr={};{journal}{shards}initial_connect_retry=sync;\
             close_flush_timeout_millis=60000;",
            sink.addr()
        )
    }

    /// Has one turn taken.
    fn measure(self, producers: u64, stand: &Stand) -> Result<[f64; 2], Box<dyn Error>> {
        *lock(&stand.turn) = Some(producers);
        stand.meet.wait();
        stand.meet.wait();
        let times: Result<Vec<Times>, String> = lock(&stand.times).drain(..).collect();
        let times = times?;
        let of = |at: usize| times.iter().map(move |times| times[at]);
        let began = of(0).min().ok_or("nobody took part")?;
        let rows = float(self.batches(producers) * producers * self.batch);
        let rate =
            |end: Option<Instant>| end.map_or(f64::NAN, |end| rows / (end - began).as_secs_f64());
        Ok([rate(of(1).max()), rate(of(2).max())])
    }

    fn batches(self, producers: u64) -> u64 {
        (self.rows / self.batch / producers).max(1)
    }

    /// The life of a producer's thread. Whoever failed must not keep the others waiting.
    fn stand_by(self, producer: Result<Producer, forebay::Error>, index: u64, stand: &Stand) {
        let mut ready = producer.map(|mut producer| {
            let handles = Handles::new(&mut producer, &stand.columns);
            (producer, handles)
        });
        loop {
            stand.meet.wait();
            let Some(producers) = *lock(&stand.turn) else {
                return;
            };
            if index < producers {
                let times = match &mut ready {
                    Ok((producer, handles)) => {
                        let batches = self.batches(producers);
                        let times = self.publish(producer, handles, &stand.columns, batches);
                        times.map_err(|error| error.to_string())
                    }
                    Err(error) => Err(error.to_string()),
                };
                lock(&stand.times).push(times);
            }
            stand.meet.wait();
        }
    }

    fn publish(
        self,
        producer: &mut Producer,
        handles: &Handles,
        columns: &Columns,
        batches: u64,
    ) -> Result<Times, forebay::Error> {
        let rows = usize::try_from(self.batch).unwrap_or(1);
        let began = Instant::now();
        for _ in 0..batches {
            quotes::prepared(producer, columns, handles, rows);
            producer.publish()?;
        }
        let accepted = Instant::now();
        // An empty publish answers for everything before.
        producer.publish()?.wait(Stage::Acked, PATIENCE)?;
        Ok([began, accepted, Instant::now()])
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
