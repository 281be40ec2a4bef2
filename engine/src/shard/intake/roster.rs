//! Which lanes a turn looks at.
//!
//! All of them, where there are few. Of many it looks at those that had something lately; at all of
//! them when those have nothing, and from time to time: a thousand producers of which one is busy
//! cost its turns nothing, and any other is heard a tenth of a millisecond later at most.

/// So many lanes are looked at in every turn.
const FEW: usize = 32;
/// So long after a look at all lanes the next one is due (nanoseconds).
const LOOK_AGAIN: u64 = 100_000;

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct Roster {
    /// Places of the lanes that had something, rising.
    lately: Vec<usize>,
    /// When `lately` was written; `None`: it means nothing.
    looked: Option<u64>,
}

impl Roster {
    /// Lanes came or went: places have changed.
    pub(super) fn forget(&mut self) {
        self.looked = None;
    }

    /// The lanes that a turn at `now` looks at first; `None` for all of so many.
    pub(super) fn lately(&self, lanes: usize, now: u64) -> Option<&[usize]> {
        let looked = self.looked.filter(|_| lanes > FEW)?;
        (now < looked + LOOK_AGAIN).then_some(&self.lately)
    }

    /// All lanes that can have anything that is not given back; `None` for all.
    pub(super) fn busy(&self) -> Option<&[usize]> {
        self.looked.map(|_| &*self.lately)
    }

    /// All of so many lanes were looked at: `busy` are those that have or had something.
    pub(super) fn note(&mut self, lanes: usize, now: u64, busy: impl Iterator<Item = usize>) {
        self.lately.clear();
        self.looked = None;
        if lanes > FEW {
            self.lately.extend(busy);
            self.looked = Some(now);
        }
    }

    /// Number `step` of the lanes that had something lately, from the first at or behind `next` on.
    pub(super) fn nth(&self, next: usize, step: usize) -> usize {
        let first = self.lately.partition_point(|place| *place < next);
        self.lately[(first + step) % self.lately.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_lanes_are_all_looked_at_every_time() {
        let mut roster = Roster::default();
        roster.note(FEW, 1_000, [3].into_iter());
        assert_eq!(roster.lately(FEW, 1_001), None);
        assert_eq!(roster.busy(), None);
    }

    #[test]
    fn of_many_only_those_that_had_something_until_a_look_is_due() {
        let mut roster = Roster::default();
        assert_eq!(roster.lately(FEW + 1, 0), None, "nothing is known yet");
        roster.note(FEW + 1, 1_000, [3, 20].into_iter());
        assert_eq!(
            roster.lately(FEW + 1, 1_000 + LOOK_AGAIN - 1),
            Some(&[3, 20][..])
        );
        assert_eq!(roster.lately(FEW + 1, 1_000 + LOOK_AGAIN), None);
        assert_eq!(roster.busy(), Some(&[3, 20][..]));
        roster.forget();
        assert_eq!((roster.lately(FEW + 1, 1_001), roster.busy()), (None, None));
    }

    #[test]
    fn lanes_come_in_turn() {
        let mut roster = Roster::default();
        roster.note(FEW + 1, 0, [2, 5, 9].into_iter());
        let all = |next| [0, 1, 2].map(|step| roster.nth(next, step));
        assert_eq!(all(0), [2, 5, 9]);
        assert_eq!(all(5), [5, 9, 2]);
        assert_eq!(all(6), [9, 2, 5]);
        assert_eq!(all(10), [2, 5, 9]);
    }
}
