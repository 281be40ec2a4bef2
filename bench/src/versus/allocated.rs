//! Requests for memory by a frame's way through producer and shard, in one thread without kernel
//! and network: what is left is theirs, and neither the executor's timers nor a rotation.

use std::error::Error;

use forebay_loadgen::allocations;
use forebay_loadgen::feed::{Feed, Way};
use forebay_loadgen::quotes::Quotes;

use super::figures::Figures;
use super::job::FIRST_NS;
use crate::limits::figures::float;
use crate::world::World;

/// Buffers grow in these.
const WARM_FRAMES: u64 = 100;
const FRAMES: u64 = 1_000;

/// Counts by frame. 1,000 frames of 1,000 rows fit in one segment.
pub(super) fn measure(way: Way, batch: u64) -> Result<Figures, Box<dyn Error>> {
    if !allocations::is_counting() {
        return Err("this program has no counting allocator".into());
    }
    let quotes = Quotes::new(FIRST_NS);
    let mut world = World::new(1);
    let mut feed = Feed::new(&quotes, way, 1, world.producer())?;
    let mut before = 0;
    for frame in 0..WARM_FRAMES + FRAMES {
        if frame == WARM_FRAMES {
            before = allocations::all();
        }
        feed.fill(world.producer(), frame, frame * batch, batch)?;
        if feed.is_columnar() {
            feed.publish_chunk(world.producer(), frame, frame * batch)?;
            world.shard.turn();
        } else {
            world.publish();
        }
    }
    let asked = allocations::all() - before;
    let mut figures = Figures::default();
    figures.set("allocs_frame", float(asked) / float(FRAMES));
    figures.set("acked_frames", float(world.shard.stats().frames_acked));
    Ok(figures)
}
