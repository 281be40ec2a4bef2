//! Scripted runs about acknowledgements that are ahead of the disk: frames that the server
//! confirmed before they were written, and a watermark file that claims frames which do not exist
//! (as an official client can leave it). In both cases frame numbers are given out again after the
//! restart, and no row that gets one of them may be taken for acked.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use super::Summary;
use super::disk::Keep;
use super::ledger::Ledger;
use super::life::{Life, Step};
use super::random::{Rng, mix};
use super::run::SLOT;
use super::scenario::healthy;
use super::server::SharedLedger;
use super::world::{Crash, SimIo};
use crate::config::Config;
use crate::engine::{hand_back, open_slot};
use crate::slot::DualFile;
use crate::slot::record::Kind;

/// A wait that takes longer than this in virtual nanoseconds has failed.
const WAIT_MAX: u64 = 60_000_000_000;
/// Long enough for everything that is going to happen to happen.
const SETTLE: u64 = 200_000_000;

/// The server acknowledges frames while no segment is written; the process is killed and nothing of
/// its writes in flight survives. Reopened twice, with new frames in between. Panics
/// where a promise is broken.
pub fn acked_ahead_of_the_disk(seed: u64) -> Summary {
    let mut script = Script::new(seed);
    script.open();
    let early = script.publish_until_written();
    script.settle();
    script.world.hold_segments(true);
    let ahead = script.author(6);
    script.settle();
    script.account(ahead, |account| {
        assert!(account.acked > 0, "the server acknowledged nothing");
        assert_eq!(
            account.written, 0,
            "nothing can be written while the disk is held"
        );
    });
    script.kill();
    let opened = script.open();
    assert_eq!(
        opened.next,
        u64::from(early),
        "exactly what was written is there"
    );
    assert!(opened.acked <= opened.next, "{opened:?}");
    let recorded = opened.watermark + 1;
    assert!(
        recorded <= i64::from(early),
        "min(acked, written) is recorded: {opened:?}"
    );
    assert_eq!(opened.refused, None);
    script.append_twice(&opened)
}

/// The watermark file holds a number at or beyond the next frame's. Reopened twice, with new frames
/// in between. Panics where a promise is broken.
pub fn watermark_file_ahead(seed: u64) -> Summary {
    let mut script = Script::new(seed);
    script.open();
    let acked = script.publish_until_written();
    script.settle();
    script.world.net.take_server_down();
    let stored = script.publish_until_written();
    script.kill();
    let next = i64::from(acked + stored);
    let claims = [next, next + 1, next + i64::from(stored), next + 1000];
    let claim = claims[script.rng.index(claims.len())];
    script.forge_watermark(claim);
    let opened = script.open();
    assert_eq!(opened.refused, Some(claim));
    assert_eq!(
        opened.next,
        u64::from(acked + stored),
        "every frame is there"
    );
    assert!(
        opened.acked <= u64::from(acked),
        "the claim counts for nothing: {opened:?}"
    );
    assert!(
        opened.watermark < next,
        "a corrected record is on disk: {opened:?}"
    );
    script.append_twice(&opened)
}

/// What an opening found.
#[derive(Debug)]
struct Opened {
    next: u64,
    acked: u64,
    /// Value of the watermark record on disk, and the value that was refused and corrected.
    watermark: i64,
    refused: Option<i64>,
}

struct Script {
    rng: Rng,
    config: Config,
    world: SimIo,
    ledger: SharedLedger,
    life: Option<Life>,
    summary: Summary,
}

impl Script {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(mix(&[seed, 99]));
        let text = "ws::addr=127.0.0.1:9000;sf_dir=/sf;sender_id=sim;sf_max_segment_bytes=64k;\
                    sf_max_total_bytes=1m;initial_connect_retry=async;spin_micros=5;";
        let config = Config::parse(text).unwrap_or_else(|error| panic!("{error}"));
        let ledger = Rc::new(RefCell::new(Ledger::new(seed)));
        let world = SimIo::new(rng.next(), healthy(), &ledger);
        let summary = Summary {
            seeds: 1,
            ..Summary::default()
        };
        Self {
            rng,
            config,
            world,
            ledger,
            life: None,
            summary,
        }
    }

    fn open(&mut self) -> Opened {
        self.world.start();
        let handover = open_slot(&self.world.fs(), &self.config)
            .unwrap_or_else(|error| panic!("the slot does not open: {error}"))
            .expect("there is a directory");
        let opened = Opened {
            next: handover.slot.next.0,
            acked: handover.slot.acked.0,
            watermark: handover.slot.watermark.first,
            refused: handover.slot.report.watermark_refused,
        };
        let rng = self.rng.fork();
        let life = Life::start(&self.config, handover, &self.ledger, rng)
            .unwrap_or_else(|error| panic!("the shard does not start: {error}"));
        self.life = Some(life);
        self.summary.lives += 1;
        opened
    }

    fn life(&mut self) -> &mut Life {
        self.life.as_mut().expect("a process runs")
    }

    fn account<T>(&self, author: u32, look: impl FnOnce(&super::ledger::Account) -> T) -> T {
        look(self.ledger.borrow_mut().account(author))
    }

    /// A producer with up to `most` batches to publish.
    fn author(&mut self, most: u64) -> u32 {
        let batches = u32::try_from(self.rng.between(1, most)).expect("small");
        let life = self.life.as_mut().expect("a process runs");
        life.add_author(&self.config, batches, 100_000)
    }

    /// Publishes a few batches and waits until they are written.
    fn publish_until_written(&mut self) -> u32 {
        let author = self.author(30);
        let limit = self.world.clock.now() + WAIT_MAX;
        loop {
            self.step();
            let (published, written) = self.account(author, |a| (a.published, a.written));
            if self.life().is_silent() && written == published {
                return published;
            }
            assert!(
                self.world.clock.now() < limit,
                "{written} of {published} batches written"
            );
        }
    }

    fn step(&mut self) {
        let life = self.life.as_mut().expect("a process runs");
        assert_eq!(
            life.step(&mut self.world),
            Step::Alive,
            "the shard ended by itself"
        );
    }

    /// Lets everything happen that is going to.
    fn settle(&mut self) {
        let until = self.world.clock.now() + SETTLE;
        while self.world.clock.now() < until {
            self.step();
        }
    }

    fn kill(&mut self) {
        self.life().silence();
        self.ledger.borrow_mut().killed();
        self.world.crash(Crash::Kill(Keep::Nothing));
        self.summary.kills += 1;
        self.life = None;
    }

    fn forge_watermark(&mut self, claim: i64) {
        let fs = self.world.fs();
        let path = Path::new(SLOT).join(".ack-watermark");
        let forged = DualFile::open(&fs, &path, Kind::Watermark)
            .and_then(|(mut watermark, _)| watermark.write(&fs, claim, 0));
        forged.unwrap_or_else(|error| panic!("{error}"));
    }

    /// New frames without a server, a kill, new frames with it, and everything arrives.
    fn append_twice(mut self, before: &Opened) -> Summary {
        self.world.net.take_server_down();
        let appended = self.publish_until_written();
        self.kill();
        let opened = self.open();
        assert_eq!(
            opened.next,
            before.next + u64::from(appended),
            "no new frame is lost"
        );
        assert!(
            opened.acked <= before.next,
            "no new frame is taken for acked: {opened:?}"
        );
        self.world.behave(healthy());
        self.publish_until_written();
        let mut life = self.life.take().expect("a process runs");
        life.gate.close(self.world.clock.now() + WAIT_MAX);
        while life.step(&mut self.world) == Step::Alive {}
        self.summary.frames = self.ledger.borrow().published();
        let fs = self.world.fs();
        let remains = life.finish(&mut self.world);
        assert_eq!(remains.frames, 0, "frames without acknowledgement");
        hand_back(&fs, remains).unwrap_or_else(|error| panic!("close: {error}"));
        let ledger = self.ledger.borrow();
        ledger.check_settled();
        self.summary.arrivals = ledger.arrivals;
        self.summary.repeats = ledger.repeats;
        self.summary
    }
}
