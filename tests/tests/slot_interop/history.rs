//! Random histories of one slot: turns of both clients, servers that come and go, kills.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use forebay_tests::seeds;

use crate::client::Side;
use crate::rig::{Counts, End, Rig, Rows, Server, Turn};
use crate::{KIB, OURS, THEIRS};

const HISTORIES: u64 = 100;
const SEED: u64 = 0x0051_075E_ED00;
/// Most turns before the last one, which drains.
const TURNS_MAX: u64 = 4;
/// Histories at a time: most of their time is waiting for the disk.
const AT_A_TIME: usize = 4;

/// Plays all histories; a failure names its seed.
pub(crate) fn play_all() -> Counts {
    let first = seeds::number("FOREBAY_SEED").unwrap_or(SEED);
    let count = HISTORIES * seeds::scale();
    let (next, total) = (AtomicU64::new(0), Mutex::new(Counts::default()));
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return;
                    }
                    let seed = first.wrapping_add(index);
                    let counts = play(seed);
                    *total.lock().expect("no history failed") += counts;
                }
            });
        }
    });
    total.into_inner().expect("no history failed")
}

fn play(seed: u64) -> Counts {
    let named = NamedSeed(seed);
    let mut random = Random(seed);
    let mut rig = Rig::new();
    let mut side = random.side();
    // Where their segments are tiny, every frame must fit one.
    let tiny = random.below(2) == 0;
    for _ in 0..=random.below(TURNS_MAX) {
        let turn = random.turn(side, tiny);
        named.note(&turn);
        rig.play(&turn);
        // Mostly in turns, at times the same client again.
        if random.below(5) > 0 {
            side = side.other();
        }
    }
    let segment_bytes = random.segment_bytes(side, tiny);
    rig.drain(side, segment_bytes);
    rig.counts
}

/// Prints how to repeat a history that panicked.
struct NamedSeed(u64);

impl NamedSeed {
    fn note(&self, turn: &Turn) {
        if std::env::var_os("FOREBAY_SEED").is_some() {
            println!("{}: {turn:?}", self.0);
        }
    }
}

impl Drop for NamedSeed {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("repeat with FOREBAY_SEED={}", self.0);
        }
    }
}

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn side(&mut self) -> Side {
        if self.below(2) == 0 {
            Side::Ours
        } else {
            Side::Official
        }
    }

    fn segment_bytes(&mut self, side: Side, tiny: bool) -> u64 {
        let sizes = match side {
            Side::Ours => &OURS[..],
            Side::Official if tiny => &THEIRS[..],
            Side::Official => &THEIRS[1..],
        };
        let index = usize::try_from(self.below(sizes.len() as u64)).expect("small");
        sizes[index]
    }

    fn rows(&mut self, tiny: bool) -> Rows {
        let most = if tiny { 4_800 } else { 60 * KIB };
        Rows {
            count: [0, 1, self.below(8), self.below(25)]
                [usize::try_from(self.below(4)).expect("4")],
            text_bytes: [0, 30, self.below(1000), most][usize::try_from(self.below(4)).expect("4")],
            symbols: [0, 3, 1000][usize::try_from(self.below(3)).expect("3")],
        }
    }

    fn turn(&mut self, side: Side, tiny: bool) -> Turn {
        let end = match self.below(8) {
            0 | 1 => End::Leave,
            2 | 3 => End::Kill,
            4 => End::KillOpening(Duration::from_micros(self.below(60_000))),
            5 => End::KillLeaving(Duration::from_micros(self.below(20_000))),
            _ => End::KillAfter(Duration::from_micros(self.below(20_000))),
        };
        Turn {
            side,
            segment_bytes: self.segment_bytes(side, tiny),
            server: match self.below(5) {
                0 | 1 => Server::Down,
                2 | 3 => Server::First,
                _ => Server::Up,
            },
            first: self.rows(tiny),
            second: self.rows(tiny),
            end,
        }
    }
}
