//! Which messages may be acknowledged, and which tables an OK names (protocol.md 10.3).
//!
//! All positions are counts: `processed == 3` means that messages 0, 1 and 2 are done. The
//! invariant is `acked <= settled <= processed <= received`.
//!
//! Example: messages 0 and 1 commit, 2 is deferred, 3 commits. After 2: received 3, processed 2.
//! After 3: processed 4, and the OK for it carries sequence number 3.
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::collections::VecDeque;
use std::sync::Arc;

use super::handler::{Commits, TableCommit};

/// A table's commit by the message that made `processed` reach `through`.
#[derive(Debug)]
struct Commit {
    through: u64,
    table: Arc<str>,
    seq_txn: i64,
}

#[derive(Debug)]
pub(super) struct Ledger {
    received: u64,
    processed: u64,
    settled: u64,
    acked: u64,
    allowed: u64,
    group_open: bool,
    unreported: VecDeque<Commit>,
    due: Vec<TableCommit>,
}

impl Ledger {
    /// Without `auto_ack`, nothing may be acknowledged until [`Ledger::allow`] says so.
    pub(super) fn new(auto_ack: bool) -> Self {
        Self {
            received: 0,
            processed: 0,
            settled: 0,
            acked: 0,
            allowed: if auto_ack { u64::MAX } else { 0 },
            group_open: false,
            unreported: VecDeque::new(),
            due: Vec::new(),
        }
    }

    /// Gives the next message its sequence number.
    pub(super) fn receive(&mut self) -> u64 {
        let seq = self.received;
        self.received = seq.saturating_add(1);
        seq
    }

    pub(super) fn received(&self) -> u64 {
        self.received
    }

    pub(super) fn acked(&self) -> u64 {
        self.acked
    }

    /// Messages that are done and not acknowledged.
    pub(super) fn unacked(&self) -> u64 {
        self.processed.saturating_sub(self.acked)
    }

    /// Whether [`Ledger::settle`] would move anything.
    pub(super) fn has_unsettled(&self) -> bool {
        self.processed > self.settled
    }

    /// The newest message is committed and nothing before it waits. True if that closed a group.
    pub(super) fn commit(&mut self, commits: &mut Commits) -> bool {
        self.note(commits);
        self.processed = self.received;
        std::mem::take(&mut self.group_open)
    }

    /// The newest message waits for a commit. Tables that it committed early are still named
    /// once an OK passes it.
    pub(super) fn defer(&mut self, commits: &mut Commits) {
        self.note(commits);
        self.group_open = true;
    }

    /// The newest message changes nothing by itself, so it is done unless a group is open.
    pub(super) fn pass(&mut self) {
        if !self.group_open {
            self.processed = self.received;
        }
    }

    fn note(&mut self, commits: &mut Commits) {
        let through = self.received;
        let noted = commits.tables.drain(..);
        self.unreported.extend(noted.map(|(table, seq_txn)| Commit {
            through,
            table,
            seq_txn,
        }));
    }

    /// Everything processed is as lasting as an OK promises.
    pub(super) fn settle(&mut self) {
        self.settled = self.processed;
    }

    /// Lets OKs be sent up to and including message `seq`.
    pub(super) fn allow(&mut self, seq: u64) {
        self.allowed = self.allowed.max(seq.saturating_add(1));
    }

    /// The sequence number of the OK that is due, with the tables to name; `None` when nothing
    /// is. At most the first `limit` messages are covered. The OK counts as sent.
    pub(super) fn take_ok(&mut self, limit: u64) -> Option<(u64, &[TableCommit])> {
        let through = self.settled.min(self.allowed).min(limit);
        if through <= self.acked {
            return None;
        }
        self.acked = through;
        self.due.clear();
        while let Some(commit) = self
            .unreported
            .pop_front_if(|commit| commit.through <= through)
        {
            self.due.push((commit.table, commit.seq_txn));
        }
        // Stable, so that the last of a run of one table is its latest transaction.
        self.due.sort_by(|a, b| a.0.cmp(&b.0));
        self.due.reverse();
        self.due.dedup_by(|next, kept| next.0 == kept.0);
        self.due.reverse();
        Some((through.saturating_sub(1), &self.due))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commits(tables: &[(&str, i64)]) -> Commits {
        let mut commits = Commits::default();
        for (table, seq_txn) in tables {
            commits.push(Arc::from(*table), *seq_txn);
        }
        commits
    }

    fn ok(ledger: &mut Ledger) -> Option<(u64, Vec<(String, i64)>)> {
        ledger.settle();
        let (seq, tables) = ledger.take_ok(u64::MAX)?;
        Some((
            seq,
            tables
                .iter()
                .map(|(table, txn)| (table.to_string(), *txn))
                .collect(),
        ))
    }

    #[test]
    fn an_ok_names_each_table_once_with_its_latest_transaction() {
        let mut ledger = Ledger::new(true);
        for txn in 1..=3 {
            ledger.receive();
            ledger.commit(&mut commits(&[("b", txn), ("a", 10 + txn)]));
        }
        assert_eq!(
            ok(&mut ledger),
            Some((2, vec![("a".into(), 13), ("b".into(), 3)]))
        );
        assert_eq!(ok(&mut ledger), None);
    }

    #[test]
    fn held_back_oks_name_only_what_they_cover() {
        let mut ledger = Ledger::new(false);
        for txn in 1..=3 {
            ledger.receive();
            ledger.commit(&mut commits(&[("a", txn)]));
        }
        assert_eq!(ok(&mut ledger), None);
        ledger.allow(1);
        assert_eq!(ok(&mut ledger), Some((1, vec![("a".into(), 2)])));
        ledger.allow(0);
        assert_eq!(ok(&mut ledger), None);
        ledger.allow(9);
        assert_eq!(ok(&mut ledger), Some((2, vec![("a".into(), 3)])));
    }

    #[test]
    fn nothing_is_acknowledged_past_an_open_group() {
        let mut ledger = Ledger::new(true);
        ledger.receive();
        ledger.commit(&mut commits(&[]));
        ledger.receive();
        ledger.defer(&mut commits(&[]));
        ledger.receive();
        ledger.pass();
        assert_eq!(ok(&mut ledger), Some((0, vec![])));
        ledger.receive();
        assert!(ledger.commit(&mut commits(&[("t", 1)])), "closes the group");
        assert_eq!(ok(&mut ledger), Some((3, vec![("t".into(), 1)])));
    }
}
