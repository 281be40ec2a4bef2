//! `.shards`: for how many shards the frames of a slot were journaled.
//!
//! ```text
//! base=app                       the `sender_id` whose shard the slot belongs to
//! era=1 shards=2 from=0          frames from this number on were journaled by one of two shards,
//! era=2 shards=8 from=1834       from this one on by one of eight
//! ```
//!
//! Every change of the number begins an era. With another number of shards a table is another
//! shard's, so the order of its rows holds only if the frames of one era, of all slots, are
//! delivered before those of the next. A slot with the sender's own name and without this file is
//! of a shard that was alone: era 0. A drained slot has no such file.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use super::names::ERAS;
use super::whole;
use crate::error::Error;
use crate::fsn::Fsn;
use crate::io::Fs;

/// Most eras that one slot may hold frames of; each needs a line.
const BYTES_MAX: usize = 64 << 10;

/// A time of one number of shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Era {
    /// Rises by one with every change.
    pub(crate) number: u64,
    /// How many shards there were.
    pub(crate) shards: usize,
    /// The slot's first frame of it.
    pub(crate) from: Fsn,
}

/// What `.shards` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Eras {
    /// The sender.
    pub(crate) base: String,
    /// Oldest first; at least one.
    pub(crate) all: Vec<Era>,
}

impl Eras {
    /// Those of a slot whose sender had one shard.
    pub(crate) fn alone(base: &str) -> Self {
        let first = Era {
            number: 0,
            shards: 1,
            from: Fsn(0),
        };
        Self {
            base: base.to_owned(),
            all: vec![first],
        }
    }

    /// The eras before `present` of which `acked..` holds frames, with the end of each in this
    /// slot: `None` where the rest of the slot is of it.
    pub(crate) fn past(&self, present: u64, acked: Fsn) -> Vec<(u64, Option<Fsn>)> {
        let ends = self.all.iter().skip(1).map(|next| Some(next.from));
        let eras = self.all.iter().zip(ends.chain([None]));
        eras.filter(|(era, end)| era.number < present && end.is_none_or(|end| end > acked))
            .map(|(era, end)| (era.number, end))
            .collect()
    }

    /// From `next` on frames are of `present`; those below `acked` are forgotten.
    pub(crate) fn begin(&mut self, present: Era, acked: Fsn) {
        if self.all.last().map(|last| last.number) != Some(present.number) {
            self.all.push(present);
        }
        let over = self
            .all
            .iter()
            .skip(1)
            .take_while(|next| next.from <= acked);
        let over = over.count();
        self.all.drain(..over);
    }

    fn parse(text: &str) -> Option<Self> {
        let base = text.lines().find_map(|line| line.strip_prefix("base="))?;
        let eras = text.lines().filter(|line| line.starts_with("era="));
        let all: Option<Vec<Era>> = eras.map(parse_era).collect();
        let all = all?;
        let rises = |pair: &[Era]| match pair {
            [a, b] => a.number < b.number && a.from <= b.from,
            _ => false,
        };
        let sound = !all.is_empty() && all.windows(2).all(rises);
        sound.then(|| Self {
            base: base.to_owned(),
            all,
        })
    }

    fn text(&self) -> String {
        let mut text = format!("base={}\n", self.base);
        for era in &self.all {
            let Era {
                number,
                shards,
                from,
            } = era;
            // Writing to a string does not fail.
            let _ = writeln!(text, "era={number} shards={shards} from={from}");
        }
        text
    }
}

fn parse_era(line: &str) -> Option<Era> {
    let mut words = line.split(' ');
    let mut word = |key: &str| words.next()?.strip_prefix(key)?.parse::<u64>().ok();
    Some(Era {
        number: word("era=")?,
        shards: usize::try_from(word("shards=")?).ok()?,
        from: Fsn(word("from=")?),
    })
}

/// Reads the file of a slot, if there is a usable one.
///
/// # Errors
/// The kernel's, but for a file or slot that is not there.
pub(crate) fn read(fs: &dyn Fs, dir: &Path) -> io::Result<Option<Eras>> {
    let Some(text) = whole::read(fs, dir, ERAS, BYTES_MAX)? else {
        return Ok(None);
    };
    let eras = Eras::parse(&text);
    if eras.is_none() {
        tracing::warn!(
            slot = %dir.display(),
            "FB-A003 .shards is not usable: the frames count as those of the present number of shards"
        );
    }
    Ok(eras)
}

/// Writes the file of a slot whose lock is held, durably.
pub(crate) fn write(fs: &dyn Fs, dir: &Path, eras: &Eras) -> Result<(), Error> {
    let written = whole::write(fs, dir, ERAS, eras.text().as_bytes());
    written
        .map(drop)
        .map_err(|source| Error::disk("write", &dir.join(ERAS), 0, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn era(number: u64, shards: usize, from: u64) -> Era {
        let from = Fsn(from);
        Era {
            number,
            shards,
            from,
        }
    }

    #[test]
    fn the_text_says_what_was_written() {
        let eras = Eras {
            base: "app".to_owned(),
            all: vec![era(1, 2, 0), era(2, 8, 1834)],
        };
        assert_eq!(Eras::parse(&eras.text()), Some(eras));
        for bad in [
            "",
            "base=x\n",
            "base=x\nera=1 shards=2\n",
            "base=x\nera=2 shards=2 from=0\nera=1 shards=1 from=9\n",
            "base=x\nera=1 shards=2 from=-1\n",
        ] {
            assert_eq!(Eras::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn past_eras_end_where_the_next_begins_and_are_forgotten_once_acked() {
        let mut eras = Eras::alone("app");
        eras.begin(era(1, 2, 10), Fsn(0));
        eras.begin(era(2, 8, 30), Fsn(0));
        eras.begin(era(2, 8, 99), Fsn(0));
        let past = |eras: &Eras, acked| eras.past(2, Fsn(acked));
        assert_eq!(past(&eras, 0), [(0, Some(Fsn(10))), (1, Some(Fsn(30)))]);
        assert_eq!(past(&eras, 10), [(1, Some(Fsn(30)))]);
        assert_eq!(past(&eras, 30), []);
        assert_eq!(eras.past(3, Fsn(12)), [(1, Some(Fsn(30))), (2, None)]);
        eras.begin(era(2, 8, 99), Fsn(10));
        assert_eq!(eras.all, [era(1, 2, 10), era(2, 8, 30)]);
        eras.begin(era(2, 8, 99), Fsn(30));
        assert_eq!(eras.all, [era(2, 8, 30)]);
    }
}
