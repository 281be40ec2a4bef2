//! Claim: slots of this engine and of the official Rust client are the same slots. What one leaves,
//! dead or alive, the other delivers: exactly the unacked frames, in order, with their symbols; and
//! both may append to one slot in turns.
//!
//! `FOREBAY_SEED=n` sets the first history, `FOREBAY_SCALE=n` plays n times as many.

mod client;
mod history;
mod rig;

use std::time::Duration;

use client::Side;
use rig::{Counts, End, Rig, Rows, Server, Turn};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
/// Segment sizes of this engine's turns and of the official client's.
const OURS: [u64; 3] = [64 * KIB, MIB, 4 * MIB];
const THEIRS: [u64; 4] = [5_001, 64 * KIB, MIB, 4 * MIB];

/// How a slot is left for the other client.
fn ways_to_leave(side: Side, segment_bytes: u64) -> Vec<Turn> {
    let turn = |server, first, second, end| Turn {
        side,
        segment_bytes,
        server,
        first,
        second,
        end,
    };
    let rows = |count, text_bytes, symbols| Rows {
        count,
        text_bytes,
        symbols,
    };
    let none = Rows::default();
    // Three frames fill most of a segment: seven need three segments.
    let third = (segment_bytes * 3 / 10).min(300 * KIB);
    let many = 3 * segment_bytes / third;
    vec![
        turn(Server::Down, none, none, End::Leave),
        turn(Server::Down, none, none, End::Kill),
        turn(Server::Down, rows(5, 10, 0), none, End::Kill),
        turn(Server::Down, rows(5, 10, 0), none, End::Leave),
        turn(Server::Down, rows(many, third, 2), none, End::Kill),
        turn(Server::Down, rows(9, 100, 9), rows(9, 0, 20), End::Kill),
        turn(Server::First, rows(6, 20, 4), rows(5, 20, 40), End::Leave),
        turn(Server::First, rows(6, 20, 4), rows(5, 20, 40), End::Kill),
        turn(
            Server::First,
            rows(many, third, 5),
            rows(4, third, 40),
            End::Kill,
        ),
        turn(Server::Up, rows(6, 20, 4), none, End::Kill),
        turn(
            Server::Up,
            rows(6, 20, 4),
            rows(200, 50, 40),
            End::KillAfter(Duration::from_millis(3)),
        ),
    ]
}

fn hand_over(side: Side, sizes: &[u64]) -> Counts {
    let mut counts = Counts::default();
    for segment_bytes in sizes {
        for turn in ways_to_leave(side, *segment_bytes) {
            println!("{turn:?}");
            let mut rig = Rig::new();
            rig.play(&turn);
            rig.drain(side.other(), *segment_bytes);
            counts += rig.counts;
        }
    }
    counts
}

#[test]
fn the_official_client_delivers_what_we_leave() {
    let counts = hand_over(Side::Ours, &OURS);
    println!("ours, drained by the official client: {counts:?}");
    assert!(counts.segments_most >= 3, "{counts:?}");
}

#[test]
fn we_deliver_what_the_official_client_leaves() {
    let counts = hand_over(Side::Official, &THEIRS);
    println!("the official client's, drained by ours: {counts:?}");
    assert!(counts.segments_most >= 3, "{counts:?}");
}

#[test]
fn an_empty_segment_of_theirs_that_is_too_small_for_our_frames_is_passed_over() {
    let mut counts = Counts::default();
    for (theirs, ours, text_bytes) in [
        (5_001, 64 * KIB, 4_500),
        (5_001, 64 * KIB, 40 * KIB),
        (1_000, 64 * KIB, 10),
        (64 * KIB, 4 * MIB, 300 * KIB),
    ] {
        for end in [
            End::Kill,
            End::KillAfter(Duration::from_millis(4)),
            End::Leave,
        ] {
            let mut rig = Rig::new();
            let rows = |count| Rows {
                count,
                text_bytes,
                symbols: 3,
            };
            let turn = |side, segment_bytes, first, second, end| Turn {
                side,
                segment_bytes,
                server: Server::Down,
                first,
                second,
                end,
            };
            let none = Rows::default();
            rig.play(&turn(Side::Official, theirs, none, none, End::Kill));
            rig.play(&turn(Side::Ours, ours, none, rows(3), end));
            // Small ones: ours may have been killed before it passed the segment over, and the
            // official client cannot ("active segment filled before any frame was appended").
            let small = Rows {
                text_bytes: 10,
                ..rows(2)
            };
            rig.play(&turn(Side::Official, ours, small, none, End::Kill));
            rig.play(&turn(Side::Ours, ours, rows(2), none, end));
            rig.drain(Side::Official, ours);
            counts += rig.counts;
        }
    }
    println!("empty segments: {counts:?}");
}

#[test]
fn both_append_to_one_chain_in_turns() {
    let mut counts = Counts::default();
    for (theirs, ours) in [(5_001, 64 * KIB), (64 * KIB, MIB), (4 * MIB, 4 * MIB)] {
        for (first, end) in [
            (Side::Ours, End::Leave),
            (Side::Official, End::Kill),
            (Side::Ours, End::Kill),
        ] {
            let mut rig = Rig::new();
            let mut side = first;
            for turn in 0..3 {
                rig.play(&Turn {
                    side,
                    segment_bytes: if side == Side::Ours { ours } else { theirs },
                    server: Server::Down,
                    first: Rows {
                        count: 7,
                        text_bytes: theirs.min(16 * KIB) / 5,
                        symbols: 2 + turn,
                    },
                    second: Rows::default(),
                    end,
                });
                side = side.other();
            }
            assert_eq!(rig.pending.len(), 21, "nothing was sent meanwhile");
            // The other one than appended last.
            rig.drain(side, if side == Side::Ours { ours } else { theirs });
            counts += rig.counts;
        }
    }
    println!("three turns: {counts:?}");
    assert!(counts.segments_most >= 3, "{counts:?}");
}

#[test]
fn the_official_client_goes_on_with_a_later_dictionary_epoch_of_ours() {
    let mut counts = Counts::default();
    for segment_bytes in OURS {
        for end in [End::Leave, End::Kill] {
            let rows = |count, symbols| Rows {
                count,
                text_bytes: 20,
                symbols,
            };
            let turn = |side, server, first, second| Turn {
                side,
                segment_bytes,
                server,
                first,
                second,
                end,
            };
            // Drained by it, or after it appended to the slot with symbols of its own.
            for theirs in [0, 5] {
                let mut rig = Rig::with_epochs();
                let (first, second) = (rows(6, 4), rows(5, 40));
                rig.play(&turn(Side::Ours, Server::First, first, second));
                assert_eq!(rig.pending.len(), 5);
                let theirs = rows(theirs, 9);
                let none = Rows::default();
                rig.play(&turn(Side::Official, Server::Down, theirs, none));
                rig.drain(Side::Official, segment_bytes);
                counts += rig.counts;
            }
        }
    }
    println!("later epochs: {counts:?}");
    assert!(counts.later_epochs >= 12, "{counts:?}");
}

#[test]
fn histories_of_mixed_turns_lose_nothing_and_repeat_nothing() {
    let counts = history::play_all();
    println!("histories: {counts:?}");
    assert!(counts.kills > 0 && counts.handed_over > 0, "{counts:?}");
}
