//! A directory of the simulated disk: entries that a power cut may lose until the directory is
//! synced.

use std::collections::BTreeMap;

use super::super::random::Rng;

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    /// A file, by number.
    File(usize),
    /// A directory, by number.
    Directory(usize),
}

#[derive(Debug, Clone)]
enum Change {
    Link(String, Node),
    Unlink(String),
    Rename(String, String, Node),
}

/// Entries now and at the last sync, and the changes in between.
#[derive(Debug, Clone, Default)]
pub(super) struct Directory {
    now: BTreeMap<String, Node>,
    durable: BTreeMap<String, Node>,
    pending: Vec<Change>,
}

impl Directory {
    pub(super) fn entries(&self) -> impl Iterator<Item = (&String, Node)> {
        self.now.iter().map(|(name, node)| (name, *node))
    }

    pub(super) fn get(&self, name: &str) -> Option<Node> {
        self.now.get(name).copied()
    }

    pub(super) fn link(&mut self, name: &str, node: Node) {
        self.change(Change::Link(name.to_owned(), node));
    }

    pub(super) fn unlink(&mut self, name: &str) {
        self.change(Change::Unlink(name.to_owned()));
    }

    pub(super) fn rename(&mut self, from: &str, to: &str, node: Node) {
        self.change(Change::Rename(from.to_owned(), to.to_owned(), node));
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.now);
        self.pending.push(change);
    }

    pub(super) fn sync(&mut self) {
        self.durable.clone_from(&self.now);
        self.pending.clear();
    }

    /// Each change since the last sync is kept or lost on its own.
    pub(super) fn power_cut(&mut self, rng: &mut Rng) {
        let percent = [0, 100, 50][rng.index(3)];
        for change in self.pending.drain(..) {
            if rng.percent(percent) {
                change.apply(&mut self.durable);
            }
        }
        self.now.clone_from(&self.durable);
    }
}

impl Change {
    fn apply(&self, entries: &mut BTreeMap<String, Node>) {
        match self {
            Self::Link(name, node) => {
                entries.insert(name.clone(), *node);
            }
            Self::Unlink(name) => {
                entries.remove(name);
            }
            Self::Rename(from, to, node) => {
                entries.remove(from);
                entries.insert(to.clone(), *node);
            }
        }
    }
}
