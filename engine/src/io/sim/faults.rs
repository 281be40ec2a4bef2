//! Every operation of the journal fails, by every error that a disk gives: the journal is repaired
//! from memory, and every accepted frame is delivered and stable again.

use super::disk::Keep;
use super::reports::{MILLI, Rig};
use super::run::SLOT;
use super::storage::Outcome;
use super::world::Crash;
use crate::io::Token;
use crate::observe::Stats;
use crate::shard::token;

/// Operations that a run in `flush` with rotations and trims goes through.
const OPERATIONS: [Token; 15] = [
    token::DICTIONARY,
    token::SEGMENT,
    token::SYNC_DICTIONARY,
    token::SYNC_SEGMENT,
    token::HEADER,
    token::SYNC_OLD,
    token::SYNC_NEW,
    token::MANIFEST,
    token::SYNC_MANIFEST,
    token::TRIM_DICTIONARY,
    token::TRIM_WATERMARK,
    token::TRIM_SYNC_WATERMARK,
    token::TRIM_MANIFEST,
    token::TRIM_SYNC_MANIFEST,
    token::WATERMARK,
];

/// Batches that fill a few segments.
const BATCHES: u32 = 400;

fn mode_of(token: Token) -> &'static str {
    match token {
        // In `flush` the dictionary is durable before a trim needs it.
        token::TRIM_DICTIONARY => "memory",
        _ => "flush",
    }
}

/// Publishes all batches, waits until they are acked and stable and the last trims are done.
fn go_through(rig: &mut Rig) -> Stats {
    rig.publish(BATCHES);
    rig.run_until("all acked", |account| account.acked == BATCHES);
    rig.life().gate.stable_waiters(1);
    rig.run_until("all stable", |account| account.stable == BATCHES);
    rig.run(500 * MILLI);
    rig.life().gate.counters.stats()
}

#[test]
fn a_failed_operation_of_any_kind_is_repaired_and_every_frame_is_stable_again() {
    for token in OPERATIONS {
        for errno in [libc::EIO, libc::EROFS, libc::EDQUOT, libc::ENOSPC] {
            let full = matches!(errno, libc::EDQUOT | libc::ENOSPC);
            let mut rig = Rig::new(mode_of(token), true);
            rig.run(50 * MILLI);
            rig.world.plan(token, Outcome::Fails(errno));
            let stats = go_through(&mut rig);
            // A full disk under the dictionary is waited for, not repaired.
            let waits = full && token == token::DICTIONARY;
            assert_eq!(stats.repairs, u64::from(!waits), "{token:?}, {errno}");
            assert!(rig.life().gate.terminal().is_none(), "{token:?}, {errno}");
            rig.deliver();
        }
    }
}

#[test]
fn what_a_repair_wrote_survives_a_power_cut() {
    for token in OPERATIONS {
        let mut rig = Rig::new(mode_of(token), false);
        rig.run(50 * MILLI);
        rig.world.plan(token, Outcome::Fails(libc::EIO));
        // Without a server nothing is trimmed, those operations do not come, and the journal fills.
        rig.publish(BATCHES);
        rig.life().gate.stable_waiters(1);
        rig.run(5_000 * MILLI);
        let stats = rig.life().gate.counters.stats();
        assert!(stats.segments_written > 2, "{token:?}: {stats:?}");
        assert_eq!(stats.frames_stable, stats.frames_published, "{token:?}");
        rig.crash(Crash::PowerCut);
        assert_eq!(rig.open().0, stats.frames_published, "{token:?}");
        rig.deliver();
    }
}

/// The chunk that failed is nowhere but in memory, and no other one follows before the repair.
#[test]
fn a_dictionary_chunk_that_could_not_be_written_is_written_by_the_repair() {
    let mut rig = Rig::new("flush", false);
    rig.run(50 * MILLI);
    rig.world.plan(token::DICTIONARY, Outcome::Fails(libc::EIO));
    rig.publish(1);
    rig.run_until("stable", |account| account.stable == 1);
    assert_eq!(rig.life().gate.counters.stats().repairs, 1);
    rig.publish(100);
    rig.run_until("stable", |account| account.stable == 100);
    rig.crash(Crash::PowerCut);
    assert_eq!(rig.open().0, 101);
    rig.deliver();
}

/// The process dies in the middle of a repair, at every call of it.
#[test]
fn a_death_within_a_repair_loses_no_stable_frame() {
    for seed in 0..40 {
        let mut rig = Rig::new("flush", false);
        rig.world.reseed(seed);
        rig.publish(20);
        rig.run_until("stable", |account| account.stable == 20);
        rig.world
            .plan(token::SYNC_SEGMENT, Outcome::Fails(libc::EIO));
        rig.publish(20);
        // The repair is asked for within a turn or two, and takes up to eight milliseconds.
        rig.run_until("published", |account| account.published > 0);
        rig.run(MILLI * (1 + seed % 4));
        let cut = if seed % 2 == 0 {
            Crash::PowerCut
        } else {
            Crash::Kill(Keep::Random)
        };
        rig.crash(cut);
        let (next, _) = rig.open();
        assert!((20..=40).contains(&next), "seed {seed}: {next}");
        rig.deliver();
    }
}

#[test]
fn passing_errors_are_tried_again_without_a_repair() {
    for token in OPERATIONS {
        for errno in [libc::EINTR, libc::EAGAIN, libc::ECANCELED] {
            let mut rig = Rig::new(mode_of(token), true);
            rig.run(50 * MILLI);
            for _ in 0..3 {
                rig.world.plan(token, Outcome::Fails(errno));
            }
            let stats = go_through(&mut rig);
            let seen = (stats.disk_retries, stats.repairs, stats.disk_errors);
            assert_eq!(seen, (3, 0, 0), "{token:?}, {errno}");
            rig.deliver();
        }
    }
}

/// Field report `readonly-remount`: every write fails by EROFS, also those of a repair; then the
/// filesystem is writable again.
#[test]
fn readonly_remount() {
    let mut rig = Rig::new("flush", true);
    rig.run(50 * MILLI);
    rig.publish(10);
    rig.run_until("stable", |account| account.stable == 10);
    for token in OPERATIONS {
        rig.world.plan(token, Outcome::Fails(libc::EROFS));
    }
    rig.world.disk.break_calls(Some(libc::EROFS));
    rig.publish(10);
    // What is in memory is delivered all the same; nothing is called written.
    rig.run(2_000 * MILLI);
    assert!(rig.account(|account| account.published) > 0);
    assert_eq!(rig.account(|account| account.written), 0);
    let cause = rig.life().gate.disk_failure().expect("it is told");
    assert!(cause.contains("os error 30"), "{cause}");
    let stats = rig.life().gate.counters.stats();
    assert_eq!(stats.fsn_acked, stats.fsn_next, "delivered from memory");
    let next = stats.fsn_next;
    rig.world.disk.break_calls(None);
    rig.run_until("stable again", |account| account.stable == 10);
    let stats = rig.life().gate.counters.stats();
    assert!(stats.fsn_next >= next, "numbers go on");
    assert_eq!(rig.life().gate.disk_failure(), None);
    rig.deliver();
}

/// The bad file stays under its name, for whoever wants to look.
#[test]
fn a_bad_file_is_kept_beside_the_new_one() {
    let mut rig = Rig::new("flush", false);
    rig.world
        .plan(token::SYNC_SEGMENT, Outcome::Fails(libc::EIO));
    rig.publish(5);
    rig.run_until("stable", |account| account.stable == 5);
    let names = rig.world.names(SLOT.as_ref());
    let bad = names.iter().filter(|name| name.ends_with(".sfa.bad-1"));
    assert_eq!(bad.count(), 1, "{names:?}");
    rig.deliver();
}
