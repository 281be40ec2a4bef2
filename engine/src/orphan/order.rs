//! Whose turn it is among orphans: of one sender, the frames of an era (`slot/eras.rs`) before those
//! of the next, over all of its slots.
//!
//! A sender of which any slot is held lives, and delivers itself what its earlier numbers of shards
//! left: its other slots are nobody's business. A slot that was given up is passed over, as its
//! sender would.

use std::collections::BTreeMap;

use super::{Obstacle, Orphan};
use crate::fsn::Fsn;
use crate::slot::eras::Eras;

/// Whether a slot may be drained now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Turn {
    /// Up to this frame; `None` means all of it.
    Now(Option<Fsn>),
    /// Not before this slot of the same sender.
    Behind(String),
    /// Somebody holds it, or it was given up.
    Never,
}

/// A slot as its turn is judged.
struct Member<'a> {
    name: &'a str,
    obstacle: Option<Obstacle>,
    /// The first era that is not delivered, and its end in this slot.
    era: (u64, Option<Fsn>),
}

/// The turns of the slots of a directory, by name. `eras` says what `.shards` of a slot does,
/// `reached` up to where drainers of this process have delivered it.
pub(super) fn turns(
    found: &[Orphan],
    eras: impl Fn(&str) -> Option<Eras>,
    reached: &BTreeMap<String, Fsn>,
) -> BTreeMap<String, Turn> {
    let noted: BTreeMap<&str, Eras> = found
        .iter()
        .filter_map(|orphan| Some((orphan.name.as_str(), eras(&orphan.name)?)))
        .collect();
    let mut families: BTreeMap<&str, Vec<Member<'_>>> = BTreeMap::new();
    for orphan in found {
        let name = orphan.name.as_str();
        let known = noted.get(name);
        // Without a note: a shard that was alone.
        let alone = Eras::alone(name);
        let from = reached.get(name).copied().unwrap_or(Fsn(0));
        let steps = known.unwrap_or(&alone).past(u64::MAX, from);
        let member = Member {
            name,
            obstacle: orphan.obstacle,
            era: steps.first().copied().unwrap_or((0, None)),
        };
        let base = known.map_or(name, |eras| eras.base.as_str());
        families.entry(base).or_default().push(member);
    }
    let turns = families.values().flat_map(|family| {
        let turn = |member: &Member<'_>| (member.name.to_owned(), turn_of(member, family));
        family.iter().map(turn)
    });
    turns.collect()
}

fn turn_of(member: &Member<'_>, family: &[Member<'_>]) -> Turn {
    if member.obstacle.is_some() {
        return Turn::Never;
    }
    let held = |other: &&Member<'_>| other.obstacle == Some(Obstacle::Held);
    let earlier = |other: &&Member<'_>| other.obstacle.is_none() && other.era.0 < member.era.0;
    let before = family
        .iter()
        .find(held)
        .or_else(|| family.iter().find(earlier));
    match before {
        Some(other) => Turn::Behind(other.name.to_owned()),
        None => Turn::Now(member.era.1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::eras::Era;

    /// Slots with their obstacles, and the eras of those that have a note.
    struct World(Vec<Orphan>, BTreeMap<String, Eras>);

    /// Name, obstacle, and number and first frame of each era.
    type Slot<'a> = (&'a str, Option<Obstacle>, &'a [(u64, u64)]);

    fn world(slots: &[Slot<'_>]) -> World {
        let mut world = World(Vec::new(), BTreeMap::new());
        for (name, obstacle, eras) in slots {
            let (name, obstacle) = ((*name).to_owned(), *obstacle);
            if !eras.is_empty() {
                let era = |(number, from): &(u64, u64)| Era {
                    number: *number,
                    shards: 2,
                    from: Fsn(*from),
                };
                let base = name.split('-').next().expect("a base").to_owned();
                let all = eras.iter().map(era).collect();
                world.1.insert(name.clone(), Eras { base, all });
            }
            world.0.push(Orphan {
                name,
                bytes: 1,
                obstacle,
            });
        }
        world
    }

    impl World {
        fn turns(&self, reached: &[(&str, u64)]) -> Vec<Turn> {
            let reached = reached
                .iter()
                .map(|(name, fsn)| ((*name).to_owned(), Fsn(*fsn)));
            let turns = turns(
                &self.0,
                |name| self.1.get(name).cloned(),
                &reached.collect(),
            );
            self.0
                .iter()
                .map(|slot| turns[&slot.name].clone())
                .collect()
        }
    }

    fn behind(name: &str) -> Turn {
        Turn::Behind(name.to_owned())
    }

    const ALL: Turn = Turn::Now(None);

    #[test]
    fn strangers_do_not_wait_for_each_other() {
        let world = world(&[
            ("a", None, &[]),
            ("b", None, &[]),
            ("c-0", None, &[(3, 0)]),
            ("d-0", None, &[(1, 0)]),
            ("e", Some(Obstacle::Held), &[]),
        ]);
        assert_eq!(world.turns(&[]), [ALL, ALL, ALL, ALL, Turn::Never]);
    }

    #[test]
    fn an_era_comes_before_the_next_in_every_slot_of_a_sender() {
        // One shard, then two of which the first had been there, then three.
        let world = world(&[
            ("app", None, &[]),
            ("app-0", None, &[(1, 0), (2, 40)]),
            ("app-1", None, &[(1, 0), (2, 7)]),
            ("app-2", None, &[(2, 0)]),
        ]);
        let wait = || behind("app");
        assert_eq!(world.turns(&[]), [ALL, wait(), wait(), wait()]);
        let without = World(world.0[1..].to_vec(), world.1.clone());
        let until = |fsn| Turn::Now(Some(Fsn(fsn)));
        assert_eq!(without.turns(&[]), [until(40), until(7), behind("app-0")]);
        let one = [("app-0", 40)];
        assert_eq!(
            without.turns(&one),
            [behind("app-1"), until(7), behind("app-1")]
        );
        let both = [("app-0", 40), ("app-1", 7)];
        assert_eq!(without.turns(&both), [ALL, ALL, ALL]);
    }

    #[test]
    fn a_sender_that_lives_delivers_itself_and_what_was_given_up_is_passed_over() {
        let family = |first| {
            world(&[
                ("app-0", Some(first), &[(1, 0)]),
                ("app-1", None, &[(1, 0), (2, 9)]),
                ("app-2", None, &[(2, 0)]),
            ])
        };
        let held = || behind("app-0");
        assert_eq!(
            family(Obstacle::Held).turns(&[]),
            [Turn::Never, held(), held()]
        );
        assert_eq!(
            family(Obstacle::Failed).turns(&[("app-1", 9)]),
            [Turn::Never, ALL, ALL]
        );
        assert_eq!(
            family(Obstacle::Failed).turns(&[]),
            [Turn::Never, Turn::Now(Some(Fsn(9))), behind("app-1")]
        );
    }
}
