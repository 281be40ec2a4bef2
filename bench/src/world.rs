//! A shard in a world in which everything succeeds at once, with its producers: what benches and
//! instruction counts drive, in one thread, without kernel and network.

use forebay::Producer;
use forebay::internals::InstantLoop;
use tempfile::TempDir;

/// A connected shard and its producers. Segments are large: no rotation in a short measurement.
#[derive(Debug)]
pub struct World {
    /// The shard, turned by the caller.
    pub shard: InstantLoop,
    /// At least one.
    pub producers: Vec<Producer>,
    _dir: TempDir,
}

impl World {
    /// A shard with so many producers, in a directory that goes with it.
    ///
    /// # Panics
    /// When the slot cannot be opened there.
    pub fn new(producers: usize) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let connect = format!(
            "ws::addr=127.0.0.1:1;sf_dir={};sf_max_segment_bytes=64m;sf_max_total_bytes=1g;",
            dir.path().display()
        );
        let shard = InstantLoop::open(&connect).expect("a slot");
        let producer = |_| shard.producer().expect("memory for a ring");
        let producers = (0..producers).map(producer).collect();
        Self {
            shard,
            producers,
            _dir: dir,
        }
    }

    /// The first producer.
    pub fn producer(&mut self) -> &mut Producer {
        &mut self.producers[0]
    }

    /// Publishes what the producers have buffered and turns the shard until it is acknowledged.
    ///
    /// # Panics
    /// When a ring has no room.
    pub fn publish(&mut self) {
        for producer in &mut self.producers {
            producer.try_flush().expect("the ring has room");
        }
        self.shard.turn();
    }
}
