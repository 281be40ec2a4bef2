//! Figures by contender and round.

use std::collections::BTreeMap;

use super::figures::Figures;
use super::verdict::Pair;

/// What was measured so far.
#[derive(Debug, Default)]
pub(super) struct Results(BTreeMap<(String, usize), Figures>);

impl Results {
    pub(super) fn push(&mut self, round: usize, key: &str, figures: Figures) {
        self.0.insert((key.to_owned(), round), figures);
    }

    /// A figure of two contenders, round by round; rounds in which ours was not measured are left
    /// out.
    pub(super) fn pairs(&self, ours: &str, theirs: Option<&str>, figure: &str) -> Vec<Pair> {
        let of = |key: &str, round: usize| self.0.get(&(key.to_owned(), round))?.get(figure);
        let rounds = self.0.keys().filter(|(key, _)| key == ours);
        rounds
            .filter_map(|(_, round)| {
                Some(Pair {
                    ours: of(ours, *round)?,
                    theirs: theirs.and_then(|theirs| of(theirs, *round)),
                })
            })
            .collect()
    }

    /// Everything, for who wants to look closer.
    pub(super) fn to_json(&self) -> serde_json::Value {
        let all = self.0.iter().map(|((key, round), figures)| {
            serde_json::json!({"contender": key, "round": round, "figures": figures.to_json()})
        });
        all.collect()
    }
}
