//! The world of a shard: disk, steward, network and clock behind the seam, and its crashes.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use super::clock::SimClock;
use super::disk::{Keep, SimDisk, SimFs};
use super::fate::Fate;
use super::net::{Net, NetManners};
use super::random::Rng;
use super::server::SharedLedger;
use super::steward::SimSteward;
#[cfg(test)]
use super::storage::Outcome;
use super::storage::{DiskManners, Operations};
use crate::io::{Clock, Dialed, DiskOp, Done, Reply, Request, Steward, Storage, Token, Transport};

/// How a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Crash {
    /// It is killed; this much survives of each write in flight.
    Kill(Keep),
    /// The machine loses power.
    PowerCut,
}

/// How a world behaves.
#[derive(Debug, Clone)]
pub(crate) struct Manners {
    pub(crate) disk: DiskManners,
    /// Reservations of new files that find the disk full, of 100.
    pub(crate) full_percent: u64,
    pub(crate) net: NetManners,
}

/// The simulated world. It outlives the processes that run on it, one after the other.
#[derive(Debug)]
pub(crate) struct SimIo {
    pub(crate) clock: SimClock,
    pub(crate) disk: SimDisk,
    pub(crate) net: Net,
    /// What becomes of the process that runs now.
    pub(crate) fate: Fate,
    manners: Manners,
    rng: Rng,
    operations: Operations,
    steward: SimSteward,
    /// The shard's call that will panic, counted from now on.
    panic_in: Option<u64>,
}

/// What the shard panics with when a run wants it to.
pub(crate) struct Injected;

impl SimIo {
    /// A new world with an empty disk.
    pub(crate) fn new(seed: u64, manners: Manners, ledger: &SharedLedger) -> Self {
        let mut rng = Rng::new(seed);
        let (clock, disk) = (SimClock::new(), SimDisk::new());
        let net_manners = manners.net.clone();
        let net = Net::new(
            clock.clone(),
            rng.fork(),
            net_manners,
            SharedLedger::clone(ledger),
        );
        let fate = Fate::default();
        let operations = Operations::new(
            disk.clone(),
            clock.clone(),
            fate.clone(),
            rng.fork(),
            manners.disk.clone(),
        );
        let fs = disk.fs(&clock).bound_to(&fate);
        let steward = SimSteward::new(fs, clock.clone(), fate.clone(), rng.fork());
        Self {
            clock,
            disk,
            net,
            fate,
            manners,
            rng,
            operations,
            steward,
            panic_in: None,
        }
    }

    /// The shard's next call but `calls` panics; `None` takes that back.
    pub(crate) fn panic_in(&mut self, calls: Option<u64>) {
        self.panic_in = calls;
    }

    /// The shard calls.
    fn pass(&mut self) {
        match self.panic_in {
            Some(0) => {
                self.panic_in = None;
                // Without the hook: nobody wants to read hundreds of them.
                std::panic::resume_unwind(Box::new(Injected));
            }
            Some(calls) => self.panic_in = Some(calls - 1),
            None => {}
        }
    }

    /// The shard panicked and another one takes its place: everything in flight comes to its end,
    /// and nobody hears of it. The steward may do some of what it was asked for.
    pub(crate) fn begin_again(&mut self) {
        self.net.hang_up();
        self.operations.finish_all();
        self.steward.begin_again();
    }

    /// File calls of the process that runs now, for opening and closing.
    pub(crate) fn fs(&self) -> SimFs {
        self.disk.fs(&self.clock).bound_to(&self.fate)
    }

    /// The process ends; another may start. Its shard must not turn again.
    pub(crate) fn crash(&mut self, crash: Crash) {
        self.steward.abandon();
        self.net.hang_up();
        let in_flight = self.operations.abandon();
        match crash {
            Crash::Kill(keep) => self.disk.kill(&in_flight, keep, &mut self.rng),
            Crash::PowerCut => self.disk.power_cut(&in_flight, &mut self.rng),
        }
        self.start();
    }

    /// The process ends in order: the steward finishes, nothing is in flight.
    pub(crate) fn settle(&mut self) {
        assert!(
            self.operations.is_idle(),
            "the shard ended with operations in flight"
        );
        self.steward.finish();
    }

    /// Other manners for the processes that start from now on, and for the network at once.
    pub(crate) fn behave(&mut self, manners: Manners) {
        self.net.behave(manners.net.clone());
        self.manners = manners;
    }

    /// A process starts: nothing of an earlier one is left.
    pub(crate) fn start(&mut self) {
        self.fate = Fate::default();
        let fs = self.fs().full(self.manners.full_percent);
        let (clock, fate) = (self.clock.clone(), self.fate.clone());
        self.steward = SimSteward::new(fs, clock, fate, self.rng.fork());
        let manners = self.manners.disk.clone();
        self.operations = Operations::new(
            self.disk.clone(),
            self.clock.clone(),
            self.fate.clone(),
            self.rng.fork(),
            manners,
        );
    }

    /// Chance starts anew: what survives a crash follows from `seed` alone.
    pub(crate) fn reseed(&mut self, seed: u64) {
        self.rng = Rng::new(seed);
        self.steward.reseed(self.rng.fork());
        self.net.reseed(self.rng.fork());
    }

    /// How the disk of the present process behaves.
    pub(crate) fn disk_manners(&self) -> &DiskManners {
        &self.manners.disk
    }

    /// Whether a write of more than a block is in flight.
    pub(crate) fn is_writing(&self) -> bool {
        self.operations.is_writing()
    }

    /// Dictionary chunks written.
    pub(crate) fn dictionary_writes(&self) -> u64 {
        self.operations.odd_writes()
    }

    /// Reads of the disk by the shard.
    pub(crate) fn reads(&self) -> u64 {
        self.operations.reads()
    }

    /// Stops (or lets go on) the writes of segments; the other files go on.
    pub(crate) fn hold_segments(&mut self, held: bool) {
        self.operations.hold(held);
    }

    /// What becomes of the next operation of this kind, of the one after it, and so on.
    #[cfg(test)]
    pub(crate) fn plan(&mut self, token: Token, outcome: Outcome) {
        self.operations.plan(token, outcome);
    }

    /// The disk has (or has no) room for more of the dictionary.
    pub(crate) fn fill_dictionary(&mut self, full: bool) {
        self.operations.fill_dictionary(full);
    }

    /// Lets time pass to `until`, or to the first thing that wakes a parked shard: a completed
    /// operation, an answer of the steward, bytes or the end of the connection.
    pub(crate) fn sleep(&mut self, until: u64) {
        loop {
            let visible = self.operations.next_at().min(self.steward.next_at());
            let visible = visible.min(self.net.next_visible()).min(until);
            let hidden = self.net.next_hidden();
            self.clock.advance_to(visible.min(hidden));
            self.net.pump();
            if visible <= hidden {
                return;
            }
        }
    }

    /// Names in a directory.
    pub(crate) fn names(&self, dir: &Path) -> Vec<String> {
        self.disk.names(dir)
    }

    /// A drained close leaves the lock files, and the copies of torn tails and bad files, which are
    /// for people.
    pub(crate) fn assert_drained(&self, slot: &Path) {
        let mut names = self.names(slot);
        names.sort();
        names.retain(|name| !name.contains(".torn-") && !name.contains(".bad-"));
        assert_eq!(names, [".lock", ".lock.pid"], "a drained slot is empty");
    }
}

impl Storage for SimIo {
    fn submit(&mut self, token: Token, op: DiskOp) -> Result<(), DiskOp> {
        self.pass();
        self.operations.submit(token, op)
    }

    fn kick(&mut self) {
        self.pass();
        self.operations.kick();
    }

    fn complete(&mut self) -> Option<Done> {
        self.pass();
        self.operations.complete()
    }
}

impl Steward for SimIo {
    fn request(&mut self, request: Request) -> Result<(), Request> {
        self.pass();
        self.steward.request(request)
    }

    fn reply(&mut self) -> Option<Reply> {
        self.pass();
        self.steward.reply()
    }
}

impl Transport for SimIo {
    fn dial(&mut self, _: SocketAddr, _: Option<&str>) -> io::Result<()> {
        self.pass();
        self.net.dial();
        Ok(())
    }

    fn dialed(&mut self) -> Dialed {
        self.pass();
        match self.net.dialed() {
            None => Dialed::Connecting,
            Some(Ok(())) => Dialed::Ready,
            Some(Err(error)) => Dialed::Failed(error),
        }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pass();
        self.net.send(bytes)
    }

    fn recv(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.pass();
        self.net.recv(bytes)
    }

    fn hang_up(&mut self) {
        self.pass();
        self.net.hang_up();
    }
}

impl Clock for SimIo {
    fn now(&self) -> u64 {
        self.clock.now()
    }

    fn random(&mut self) -> u64 {
        self.rng.next()
    }
}
