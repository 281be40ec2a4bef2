//! Field reports about the order of writes, fdatasyncs and what is said of them, each a script on
//! the simulated disk that does one thing wrong at a planned moment. Named after the report's id.

use std::cell::RefCell;
use std::rc::Rc;

use super::fate::Event;
use super::ledger::{Account, Ledger};
use super::life::{Life, Step};
use super::random::Rng;
use super::run::SLOT;
use super::scenario::healthy;
use super::server::SharedLedger;
use super::storage::Outcome;
use super::world::{Crash, SimIo};
use crate::config::Config;
use crate::engine::{hand_back, open_slot};
use crate::io::Token;
use crate::io::sim::disk::Keep;
use crate::shard::{Remains, token};

const MILLI: u64 = 1_000_000;
/// A wait that takes longer than this in virtual nanoseconds has failed.
const WAIT_MAX: u64 = 60_000 * MILLI;

struct Rig {
    config: Config,
    world: SimIo,
    ledger: SharedLedger,
    life: Option<Life>,
    author: u32,
}

impl Rig {
    /// An open slot in a mode, with a server or without.
    fn new(mode: &str, server: bool) -> Self {
        let text = format!(
            "ws::addr=127.0.0.1:9000;sf_dir=/sf;sender_id=sim;sf_max_segment_bytes=64k;\
             sf_max_total_bytes=1m;initial_connect_retry=async;spin_micros=5;sf_durability={mode};"
        );
        let config = Config::parse(&text).unwrap_or_else(|error| panic!("{error}"));
        let ledger = Rc::new(RefCell::new(Ledger::of_batches(
            7,
            super::rows::Batch::lean,
        )));
        let world = SimIo::new(7, healthy(), &ledger);
        let mut rig = Self {
            config,
            world,
            ledger,
            life: None,
            author: 0,
        };
        if !server {
            rig.world.net.take_server_down();
        }
        rig.open();
        rig
    }

    /// Opens the slot; the next frame's number, and the first's that was not acked.
    fn open(&mut self) -> (u64, u64) {
        self.world.start();
        self.world.fate.decide(None, true);
        let handover = open_slot(&self.world.fs(), &self.config);
        let handover = handover.expect("the slot opens").expect("a directory");
        let found = (handover.slot.next.0, handover.slot.acked.0);
        let life = Life::start(&self.config, handover, &self.ledger, Rng::new(7));
        self.life = Some(life.expect("the shard starts"));
        found
    }

    fn life(&mut self) -> &mut Life {
        self.life.as_mut().expect("a process runs")
    }

    /// A producer that publishes `batches` batches as fast as it can.
    fn publish(&mut self, batches: u32) {
        let life = self.life.as_mut().expect("a process runs");
        self.author = life.add_author(&self.config, batches, 2_000);
    }

    fn account<T>(&self, look: impl FnOnce(&Account) -> T) -> T {
        look(self.ledger.borrow_mut().account(self.author))
    }

    fn step(&mut self) -> Step {
        let life = self.life.as_mut().expect("a process runs");
        life.step(&mut self.world)
    }

    fn run(&mut self, nanos: u64) {
        let until = self.world.clock.now() + nanos;
        while self.world.clock.now() < until {
            assert_eq!(self.step(), Step::Alive, "the shard ended by itself");
        }
    }

    fn run_until(&mut self, what: &str, is_so: impl Fn(&Account) -> bool) {
        let limit = self.world.clock.now() + WAIT_MAX;
        while !self.account(&is_so) {
            assert_eq!(self.step(), Step::Alive, "the shard ended by itself");
            assert!(self.world.clock.now() < limit, "never: {what}");
        }
    }

    fn crash(&mut self, crash: Crash) {
        self.life().silence();
        let mut ledger = self.ledger.borrow_mut();
        match crash {
            Crash::Kill(_) => ledger.killed(),
            Crash::PowerCut => ledger.powerless(),
        }
        drop(ledger);
        self.world.crash(crash);
        self.life = None;
    }

    /// Ends in order, waiting up to `wait` for the server.
    fn close(&mut self, wait: u64) -> Remains {
        let deadline = self.world.clock.now() + wait;
        self.life().gate.close(deadline);
        self.life().silence();
        let limit = deadline + WAIT_MAX;
        while self.step() == Step::Alive {
            assert!(self.world.clock.now() < limit, "close hangs");
        }
        let life = self.life.take().expect("a process runs");
        self.ledger.borrow_mut().killed();
        life.finish(&mut self.world)
    }

    /// What was submitted and completed of these operations, in order.
    fn trace(&self, tokens: &[Token]) -> Vec<Event> {
        let wanted = |event: &Event| match event {
            Event::Submit(token) | Event::Complete(token) => tokens.contains(token),
            _ => false,
        };
        self.world.fate.trace().into_iter().filter(wanted).collect()
    }

    /// A server that is well, and everything is delivered.
    fn deliver(mut self) {
        self.world.behave(healthy());
        let remains = self.close(WAIT_MAX);
        assert_eq!((remains.frames, &remains.poisoned), (0, &None));
        hand_back(&self.world.fs(), remains).expect("closes");
        self.ledger.borrow().check_settled();
    }
}

/// Submitted and completed, one after the other.
fn in_turn(tokens: &[Token]) -> Vec<Event> {
    let both = |token: &Token| [Event::Submit(*token), Event::Complete(*token)];
    tokens.iter().flat_map(both).collect()
}

const COMMIT: [Token; 4] = [
    token::DICTIONARY,
    token::SEGMENT,
    token::SYNC_DICTIONARY,
    token::SYNC_SEGMENT,
];

/// Not a report, but what those about syncs rest on: the bracket of a commit that brings symbols.
#[test]
fn a_commit_writes_and_syncs_the_dictionary_before_the_segment() {
    let mut rig = Rig::new("flush", false);
    rig.publish(1);
    rig.run_until("stable", |account| account.stable == 1);
    assert_eq!(rig.trace(&COMMIT), in_turn(&COMMIT));
}

/// All that is published within this time goes with one commit.
const GATHERED: &str = "flush;commit_window_micros=10000;commit_window_bytes=1g";

/// A write that moves less than asked for is finished from the block that holds its end before
/// anything is reported; one that moves nothing is an error.
#[test]
fn short_write() {
    for moved in [512, 4096, 4097, 8192, 8703] {
        let mut rig = Rig::new(GATHERED, false);
        rig.world.plan(token::SEGMENT, Outcome::Short(moved));
        rig.world.plan(token::SEGMENT, Outcome::Late(200 * MILLI));
        rig.publish(8);
        rig.run(100 * MILLI);
        assert_eq!(rig.account(|a| (a.published, a.written)), (8, 0), "{moved}");
        rig.run_until("stable", |account| account.stable == 8);
        rig.crash(Crash::PowerCut);
        assert_eq!(rig.open().0, 8, "after {moved} bytes");
        rig.deliver();
    }
}

#[test]
fn short_write_of_nothing_is_an_error_and_no_hang() {
    for moves in [[0; 9], [512; 9]] {
        let mut rig = Rig::new(GATHERED, false);
        for moved in moves {
            rig.world.plan(token::SEGMENT, Outcome::Short(moved));
        }
        rig.publish(8);
        rig.run(500 * MILLI);
        let poisoned = rig.close(0).poisoned;
        let cause = poisoned.expect("the journal is poisoned");
        assert!(cause.contains("segment write"), "{cause}");
        assert_eq!(rig.account(|account| account.written), 0);
    }
}

/// The fdatasync waits for the rest of a short write, however long that takes.
#[test]
fn sync_overtakes_write() {
    let mut rig = Rig::new(
        "periodic;sf_sync_interval_millis=20;commit_window_micros=10000;commit_window_bytes=1g",
        false,
    );
    rig.world.plan(token::SEGMENT, Outcome::Short(4096));
    rig.world.plan(token::SEGMENT, Outcome::Late(200 * MILLI));
    rig.publish(4);
    rig.run(150 * MILLI);
    assert_eq!(
        rig.account(|a| (a.published, a.written, a.stable)),
        (4, 0, 0)
    );
    assert_eq!(rig.trace(&[token::SYNC_SEGMENT]), [], "nothing to sync yet");
    rig.run_until("stable", |account| account.stable == 4);
    let order = [token::SEGMENT, token::SEGMENT, token::SYNC_SEGMENT];
    let seen = rig.trace(&[token::SEGMENT, token::SYNC_SEGMENT]);
    assert_eq!(seen[..6], in_turn(&order));
    rig.crash(Crash::PowerCut);
    assert_eq!(rig.open().0, 4);
    rig.deliver();
}

/// The wire may be ahead of the disk; nothing that is said, recorded or removed is.
#[test]
fn visible_before_written() {
    let mut rig = Rig::new("memory", true);
    rig.run(50 * MILLI);
    rig.world.plan(token::SEGMENT, Outcome::Late(500 * MILLI));
    rig.publish(4);
    rig.run(300 * MILLI);
    let seen = rig.account(|a| (a.acked, a.written, a.stable));
    assert_eq!(seen, (4, 0, 0), "acked, and not written");
    assert_eq!(rig.trace(&[token::WATERMARK, token::TRIM_MANIFEST]), []);
    // A close that everything is acked for waits for the write all the same.
    let remains = rig.close(WAIT_MAX);
    assert_eq!(rig.account(|a| (a.acked, a.written)), (4, 4));
    assert_eq!((remains.frames, &remains.poisoned), (0, &None));
    hand_back(&rig.world.fs(), remains).expect("closes");
    rig.world.assert_drained(SLOT.as_ref());
}

#[test]
fn visible_before_written_and_the_write_fails() {
    let mut rig = Rig::new("memory", true);
    rig.run(50 * MILLI);
    let failed = Outcome::Fails(libc::EIO);
    rig.world.plan(token::SEGMENT, failed);
    rig.publish(4);
    rig.run(300 * MILLI);
    let published = rig.account(|a| a.published);
    rig.publish(4);
    rig.run(100 * MILLI);
    assert_eq!(rig.account(|a| a.published), 0, "no number is used again");
    rig.author = 0;
    assert_eq!(rig.account(|a| (a.published, a.written)), (published, 0));
    assert_eq!(rig.trace(&[token::WATERMARK, token::TRIM_MANIFEST]), []);
    rig.crash(Crash::Kill(Keep::Nothing));
    let (next, acked) = rig.open();
    assert_eq!((next, acked), (0, 0), "the slot claims nothing");
}

/// Batches that come while a write is in flight wait for it: what is written is a prefix, and a
/// kill leaves nothing behind a hole.
#[test]
fn out_of_order_completions() {
    for keep in [Keep::Nothing, Keep::Random] {
        let mut rig = Rig::new("flush", false);
        rig.publish(4);
        rig.run_until("stable", |account| account.stable == 4);
        rig.world.plan(token::SEGMENT, Outcome::Late(500 * MILLI));
        rig.publish(8);
        rig.run(100 * MILLI);
        assert_eq!(rig.account(|a| (a.published, a.written)), (8, 0));
        let writes = rig.trace(&[token::SEGMENT]);
        assert_eq!(
            writes.len() % 2,
            1,
            "one write in flight, no other beside it"
        );
        rig.crash(Crash::Kill(keep));
        let (next, _) = rig.open();
        assert!((4..=12).contains(&next), "{next}");
        assert!(keep != Keep::Nothing || next == 4, "{next}");
        // The oracle refuses a batch that arrives behind a hole.
        rig.deliver();
    }
}

/// After a failed fdatasync `close` removes nothing, says why, and the next start recovers.
#[test]
fn close_after_failed_sync() {
    for server in [false, true] {
        let mut rig = Rig::new("periodic;sf_sync_interval_millis=100000", server);
        rig.run(50 * MILLI);
        rig.publish(5);
        rig.run_until("written", |account| account.written == 5);
        rig.run(50 * MILLI);
        assert_eq!(rig.account(|a| a.acked), if server { 5 } else { 0 });
        let before = rig.world.names(SLOT.as_ref());
        let failed = Outcome::Fails(libc::EIO);
        rig.world.plan(token::SYNC_SEGMENT, failed);
        let remains = rig.close(100 * MILLI);
        let cause = remains.poisoned.clone().expect("the sync failed");
        assert!(cause.contains("fdatasync of the segment"), "{cause}");
        assert_eq!(rig.account(|account| account.stable), 0);
        hand_back(&rig.world.fs(), remains).expect("the lock is given back");
        assert_eq!(rig.world.names(SLOT.as_ref()), before);
        assert_eq!(rig.open().0, 5, "the next start finds all of it");
        rig.deliver();
    }
}
