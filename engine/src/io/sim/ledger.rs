//! The oracle: what was published, what was promised, and what arrived.

use std::collections::VecDeque;

use super::rows::{Batch, Row};

/// Tables that the server counts transactions of: producers take turns.
pub(crate) const STORE_TABLES: [&str; 2] = ["even", "odd"];

/// A producer's batches, numbered from 0.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// Life of the process it belongs to.
    life: u32,
    /// Batches accepted.
    pub(crate) published: u32,
    /// Batches that receipts called written, stable, acked.
    pub(crate) written: u32,
    pub(crate) stable: u32,
    pub(crate) acked: u32,
    /// As before, durable; only where durable acknowledgements are asked for.
    pub(crate) durable: u32,
    /// Batches that must arrive although the process died, and although the power went.
    survives_kill: u32,
    survives_power_cut: u32,
    /// The shard panicked: of the confirmed batches up to the second number those from the first one
    /// on are in frames that are confirmed anew, one after the other.
    again: (u32, u32),
    /// Its batches are in a slot that was damaged beyond repair.
    is_set_aside: bool,
    /// How often each batch arrived.
    arrivals: Vec<u32>,
    /// The server's transaction of its first arrival.
    txns: Vec<i64>,
}

impl Account {
    /// Batches confirmed by the server, whatever became of them here.
    fn confirmed(&self, durable: bool) -> u32 {
        if durable { self.durable } else { self.acked }
    }

    /// Batches that are never sent again: what was confirmed and not written when the shard panicked
    /// had no other copy than the entries that its successor took.
    fn settled(&self, durable: bool) -> u32 {
        let (from, to) = self.again;
        match self.confirmed(durable) {
            confirmed if confirmed > to => confirmed,
            confirmed => confirmed.min(from),
        }
    }
}

/// What the server has committed, and what of it would survive its loss.
#[derive(Debug, Default)]
struct Store {
    committed: [i64; 2],
    durable: [i64; 2],
    /// When which table is durable up to which transaction.
    uploads: VecDeque<(u64, usize, i64)>,
}

/// All accounts of a run. They outlive every crash.
#[derive(Debug)]
pub(crate) struct Ledger {
    seed: u64,
    /// What a batch holds, given the seed, its producer and its number.
    batches: fn(u64, u32, u32) -> Batch,
    life: u32,
    /// The present process is gone: its receipts were counted.
    is_over: bool,
    accounts: Vec<Account>,
    /// Batches that arrived, repeats included.
    pub(crate) arrivals: u64,
    /// Repeats among them.
    pub(crate) repeats: u64,
    /// Durable acknowledgements are asked for: until one came, the server may lose a batch.
    pub(crate) is_durable: bool,
    store: Store,
    /// Arrivals that the server lost again.
    pub(crate) lost_by_server: u64,
}

/// What a connection may bring: batches in order, none twice, none acked before it began.
#[derive(Debug, Default)]
pub(crate) struct ConnectionView {
    life: u32,
    acked: Vec<u32>,
    next: Vec<u32>,
}

impl Ledger {
    pub(crate) fn new(seed: u64) -> Self {
        Self::of_batches(seed, Batch::of)
    }

    /// An oracle for batches of another kind than the usual.
    pub(crate) fn of_batches(seed: u64, batches: fn(u64, u32, u32) -> Batch) -> Self {
        Self {
            seed,
            batches,
            life: 0,
            is_over: false,
            accounts: Vec::new(),
            arrivals: 0,
            repeats: 0,
            is_durable: false,
            store: Store::default(),
            lost_by_server: 0,
        }
    }

    /// A batch of a producer.
    pub(crate) fn batch(&self, producer: u32, number: u32) -> Batch {
        (self.batches)(self.seed, producer, number)
    }

    /// A new producer of the present process.
    pub(crate) fn open(&mut self) -> u32 {
        self.accounts.push(Account {
            life: self.life,
            ..Account::default()
        });
        u32::try_from(self.accounts.len() - 1).expect("few producers")
    }

    /// Batches published by all producers.
    pub(crate) fn published(&self) -> u64 {
        self.accounts
            .iter()
            .map(|account| u64::from(account.published))
            .sum()
    }

    /// The account of a producer.
    pub(crate) fn account(&mut self, producer: u32) -> &mut Account {
        &mut self.accounts[producer as usize]
    }

    /// A connection begins.
    pub(crate) fn connected(&self) -> ConnectionView {
        let durable = self.is_durable;
        let confirmed = |a: &Account| a.settled(durable);
        let acked = self.accounts.iter().map(confirmed).collect();
        ConnectionView {
            life: self.life,
            acked,
            next: vec![0; self.accounts.len()],
        }
    }

    /// A message arrived at the server with all its rows, which will be durable at `durable_at`.
    /// Returns the table and transaction that it is stored as.
    pub(crate) fn arrived(
        &mut self,
        view: &mut ConnectionView,
        (producer, number): (u32, u32),
        rows: &[Row],
        durable_at: u64,
    ) -> (usize, i64) {
        let published = self
            .accounts
            .get(producer as usize)
            .map_or(0, |a| a.published);
        assert!(
            number < published,
            "batch {number} of producer {producer} was never published"
        );
        self.batch(producer, number).check(rows);
        let index = producer as usize;
        if view.next.len() <= index {
            view.next.resize(index + 1, 0);
        }
        let next = view.next[index];
        assert!(
            number >= next,
            "producer {producer}: batch {number} after {}",
            next - 1
        );
        view.next[index] = number + 1;
        let account = &mut self.accounts[index];
        assert!(!account.is_set_aside, "a frame of a damaged slot arrived");
        if account.life == view.life && view.life == self.life {
            let acked = view.acked.get(index).copied().unwrap_or(0);
            assert!(
                number >= acked,
                "producer {producer}: batch {number} was acked long ago"
            );
        }
        self.arrivals += 1;
        let number = number as usize;
        let table = index % STORE_TABLES.len();
        self.store.committed[table] += 1;
        let txn = self.store.committed[table];
        self.store.uploads.push_back((durable_at, table, txn));
        if account.arrivals.len() <= number {
            account.arrivals.resize(number + 1, 0);
            account.txns.resize(number + 1, 0);
            account.arrivals[number] = 1;
            account.txns[number] = txn;
        } else if account.arrivals[number] == 0 {
            panic!("producer {producer}: batch {number} arrives behind a later one");
        } else {
            account.arrivals[number] += 1;
            self.repeats += 1;
        }
        (table, txn)
    }

    /// What is durable at the server by now, per table.
    pub(crate) fn durable_until(&mut self, now: u64) -> [i64; 2] {
        let store = &mut self.store;
        while let Some((_, table, txn)) = store.uploads.pop_front_if(|(at, ..)| *at <= now) {
            store.durable[table] = store.durable[table].max(txn);
        }
        store.durable
    }

    /// The server is lost and another takes over with what was durable.
    pub(crate) fn server_lost(&mut self) {
        let store = &mut self.store;
        store.committed = store.durable;
        store.uploads.clear();
        for (producer, account) in self.accounts.iter_mut().enumerate() {
            let kept = store.durable[producer % STORE_TABLES.len()];
            let count = account.txns.partition_point(|txn| *txn <= kept);
            assert!(
                account.durable as usize <= count,
                "producer {producer}: {} durable, {count} kept",
                account.durable
            );
            self.lost_by_server += (account.txns.len() - count) as u64;
            account.txns.truncate(count);
            account.arrivals.truncate(count);
        }
    }

    /// Every batch that a receipt calls acked must have arrived.
    pub(crate) fn check_acked(&self, producer: u32) {
        let account = &self.accounts[producer as usize];
        let confirmed = account.confirmed(self.is_durable);
        let arrived = account.arrivals.iter().take(confirmed as usize);
        let arrived = arrived.filter(|count| **count > 0).count();
        assert_eq!(
            arrived, confirmed as usize,
            "producer {producer}: acked, but not all there"
        );
    }

    /// The process died, or another that was opening its slot.
    pub(crate) fn killed(&mut self) {
        let life = self.life;
        let over = std::mem::replace(&mut self.is_over, true);
        for account in self
            .accounts
            .iter_mut()
            .filter(|account| !over && account.life == life)
        {
            account.survives_kill = account.written;
            account.survives_power_cut = account.stable;
        }
    }

    /// The process closed; `complete`: everything accepted must be written.
    pub(crate) fn closed(&mut self, complete: bool) {
        let life = self.life;
        for account in self
            .accounts
            .iter()
            .filter(|account| complete && account.life == life)
        {
            let (published, written) = (account.published, account.written);
            assert_eq!(
                written, published,
                "closed with accepted batches left behind"
            );
        }
        self.killed();
    }

    /// The power went, perhaps while a killed process's slot was being opened.
    pub(crate) fn powerless(&mut self) {
        self.killed();
        for account in &mut self.accounts {
            account.survives_kill = account.survives_power_cut;
        }
    }

    /// The slot was damaged beyond repair: nothing of it may arrive any more.
    pub(crate) fn set_aside(&mut self) {
        for account in &mut self.accounts {
            account.survives_kill = 0;
            account.survives_power_cut = 0;
            account.is_set_aside = true;
        }
    }

    /// The shard of the present process panicked, and another one took its place.
    pub(crate) fn revived(&mut self) {
        let (life, durable) = (self.life, self.is_durable);
        for account in self.accounts.iter_mut().filter(|a| a.life == life) {
            let settled = account.settled(durable);
            account.again = (settled.min(account.written), account.confirmed(durable));
        }
    }

    /// The slot is open again: opening syncs whatever it found.
    pub(crate) fn opened(&mut self) {
        self.life += 1;
        self.is_over = false;
        for account in &mut self.accounts {
            account.survives_power_cut = account.survives_kill;
        }
    }

    /// Everything promised has arrived; of the present process, everything published.
    pub(crate) fn check_settled(&self) {
        for (producer, account) in self.accounts.iter().enumerate() {
            let promised = if account.life == self.life {
                account.published
            } else {
                account.survives_kill
            };
            for number in 0..promised {
                let arrivals = account.arrivals.get(number as usize).copied().unwrap_or(0);
                assert!(
                    arrivals > 0,
                    "producer {producer} of life {}: batch {number} of {promised} promised is lost \
                     (published {}, written {}, stable {}, acked {})",
                    account.life,
                    account.published,
                    account.written,
                    account.stable,
                    account.acked,
                );
            }
        }
    }
}
