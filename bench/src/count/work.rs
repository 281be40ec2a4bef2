//! What is counted: rows and chunks on the producer's side, turns on the shard's.

use forebay::{Chunk, Nulls, Symbol};

use super::{ROUNDS, region};
use crate::quotes::{self, BATCH, Columns, Handles};
use crate::world::World;

/// Frames of one row that each producer has in its ring when the turns begin.
const SMALL_FRAMES: usize = 64;
/// Turns in which all of it is taken, written, sent and acknowledged.
const TURNS: usize = 4;
/// Rounds before the counted ones: buffers have grown then, symbols are known.
const WARM_ROUNDS: usize = 20;

/// One figure.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Its key in the budget.
    pub name: &'static str,
    /// What the instructions are divided by.
    pub unit: &'static str,
    /// How many of those a round has.
    pub units: usize,
    /// Does it, given the units, [`ROUNDS`] of them in the region.
    pub(super) run: fn(usize),
}

/// All figures, in the order in which they are counted.
pub fn cases() -> impl Iterator<Item = Case> {
    let case = |name, unit, units, run| Case {
        name,
        unit,
        units,
        run,
    };
    let all: [Case; 12] = [
        case("row by name", "row", BATCH, by_name),
        case("prepared row", "row", BATCH, prepared),
        case("hand-over of 1,000 rows", "row", BATCH, hand_over),
        case("one prepared row and its hand-over", "row", 1, one_row),
        case("one row by name and its hand-over", "row", 1, one_by_name),
        case("chunk with codes", "row", BATCH, codes),
        case("chunk with symbol handles", "row", BATCH, handles),
        case(
            "turns, frames of 1,000 rows, 1 producer",
            "row",
            BATCH,
            |_| {
                turns(1, BATCH, 1);
            },
        ),
        case(
            "turns, frames of 1,000 rows, 8 producers",
            "row",
            8 * BATCH,
            |_| {
                turns(8, BATCH, 1);
            },
        ),
        case(
            "turns, frames of a row, 1 producer",
            "frame",
            SMALL_FRAMES,
            |_| {
                turns(1, 1, SMALL_FRAMES);
            },
        ),
        case(
            "turns, frames of a row, 8 producers",
            "frame",
            8 * SMALL_FRAMES,
            |_| {
                turns(8, 1, SMALL_FRAMES);
            },
        ),
        case("idle turn", "turn", TURNS, |_| turns(1, 1, 0)),
    ];
    all.into_iter()
}

/// Rounds of a world with one producer; `fill` may wrap what counts in the region it is given.
fn rounds(mut round: impl FnMut(&mut World, &mut dyn FnMut(&mut dyn FnMut()))) {
    let mut world = World::new(1);
    for _ in 0..WARM_ROUNDS {
        round(&mut world, &mut |work| work());
        world.publish();
    }
    for _ in 0..ROUNDS {
        round(&mut world, &mut |work| region(work));
        world.publish();
    }
}

fn by_name(rows: usize) {
    let columns = Columns::new();
    rounds(|world, count| count(&mut || quotes::by_name(world.producer(), &columns, rows)));
}

fn prepared(rows: usize) {
    let columns = Columns::new();
    let mut known = None;
    rounds(|world, count| {
        let producer = world.producer();
        let handles = known.get_or_insert_with(|| Handles::new(producer, &columns));
        count(&mut || quotes::prepared(producer, &columns, handles, rows));
    });
}

fn hand_over(rows: usize) {
    let columns = Columns::new();
    rounds(|world, count| {
        quotes::by_name(world.producer(), &columns, rows);
        count(&mut || world.producer().try_flush().expect("room"));
    });
}

fn one_row(rows: usize) {
    let columns = Columns::new();
    let mut known = None;
    rounds(|world, count| {
        let producer = world.producer();
        let handles = known.get_or_insert_with(|| Handles::new(producer, &columns));
        count(&mut || {
            quotes::prepared(producer, &columns, handles, rows);
            producer.try_flush().expect("room");
        });
    });
}

fn one_by_name(rows: usize) {
    let columns = Columns::new();
    rounds(|world, count| {
        let producer = world.producer();
        count(&mut || {
            quotes::by_name(producer, &columns, rows);
            producer.try_flush().expect("room");
        });
    });
}

fn codes(_: usize) {
    let columns = Columns::new();
    let names: Vec<&str> = columns.names.iter().map(String::as_str).collect();
    rounds(|world, count| {
        count(&mut || {
            let chunk = quotes::chunk(&columns, &names).expect("a legal chunk");
            world.producer().try_publish_chunk(&chunk).expect("room");
        });
    });
}

fn handles(_: usize) {
    let columns = Columns::new();
    let mut known = None;
    rounds(|world, count| {
        let (name, side) = known.get_or_insert_with(|| {
            let handles = Handles::new(world.producer(), &columns);
            let symbols = |codes: &[u32], of: &[Symbol]| -> Vec<Symbol> {
                codes.iter().map(|code| of[*code as usize]).collect()
            };
            (
                symbols(&columns.name, &handles.names),
                symbols(&columns.side, &handles.sides),
            )
        });
        count(&mut || {
            let mut chunk = Chunk::new(quotes::TABLE);
            let filled = chunk
                .symbols("symbol", name, Nulls::NONE)
                .and_then(|chunk| chunk.symbols("side", side, Nulls::NONE))
                .and_then(|chunk| quotes::numbers(chunk, &columns));
            filled.expect("a legal chunk");
            world.producer().try_publish_chunk(&chunk).expect("room");
        });
    });
}

/// Turns of a shard whose producers have so many frames of so many rows each in their rings.
fn turns(producers: usize, rows: usize, frames: usize) {
    let columns = Columns::new();
    let mut world = World::new(producers);
    for round in 0..WARM_ROUNDS + ROUNDS {
        for producer in &mut world.producers {
            for _ in 0..frames {
                quotes::by_name(producer, &columns, rows);
                producer.try_flush().expect("room");
            }
        }
        let before = world.shard.stats();
        let mut turns = || (0..TURNS).for_each(|_| world.shard.turn());
        if round < WARM_ROUNDS {
            turns();
            continue;
        }
        region(&mut turns);
        let stats = world.shard.stats();
        let acked = stats.frames_acked - before.frames_acked;
        assert_eq!(acked, (producers * frames) as u64, "all of it is done");
        assert_eq!(stats.segments_written, before.segments_written);
    }
}
