//! The slots of one sender, whatever number of shards they were made for, and in which order what
//! they hold is to be delivered (decision 0012).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::config::SHARDS_MAX;
use crate::error::Error;
use crate::fsn::Fsn;
use crate::io::Fs;
use crate::orphan::{Left, Stage};
use crate::slot::eras::{self, Era, Eras};

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Family {
    sf_dir: PathBuf,
    base: String,
    own: Vec<String>,
    /// The present era.
    era: u64,
    /// What the slots that are there say, by name.
    known: BTreeMap<String, Eras>,
    /// What is to be delivered before the present era begins, by era.
    past: BTreeMap<u64, Past>,
}

#[derive(Debug, Default)]
struct Past {
    /// Own slots by number of their shard, and the end of the era in them.
    own: Vec<(u32, Fsn)>,
    left: Vec<Left>,
}

impl Family {
    /// Looks at the slots below `sf_dir`; the engine has those of `own`.
    pub(super) fn look(
        fs: &dyn Fs,
        sf_dir: &Path,
        base: &str,
        own: Vec<String>,
    ) -> Result<Self, Error> {
        let shards = (0..SHARDS_MAX).map(|shard| format!("{base}-{shard}"));
        let mut known = BTreeMap::new();
        for name in shards.chain([base.to_owned()]) {
            let dir = sf_dir.join(&name);
            let read = eras::read(fs, &dir);
            let read = read.map_err(|source| Error::disk("read .shards in", &dir, 0, source))?;
            let eras = match read {
                Some(eras) if eras.base == base => eras,
                None if name == base && fs.entries(&dir).is_ok() => Eras::alone(base),
                // Not there, or another sender's whose name looks like that of a shard.
                _ => continue,
            };
            known.insert(name, eras);
        }
        let all = known.values().flat_map(|eras| &eras.all);
        let newest = all.max_by_key(|era| era.number);
        let era = match newest {
            Some(era) if era.shards == own.len() => era.number,
            Some(era) => era.number + 1,
            None => u64::from(own.len() > 1),
        };
        Ok(Self {
            sf_dir: sf_dir.to_path_buf(),
            base: base.to_owned(),
            own,
            era,
            known,
            past: BTreeMap::new(),
        })
    }

    /// The slot of shard `shard` is open: `acked..end` are its frames, those of its intake
    /// included. What follows is of the present era.
    pub(super) fn opened(
        &mut self,
        fs: &dyn Fs,
        shard: u32,
        (acked, end): (Fsn, Fsn),
    ) -> Result<(), Error> {
        let name = &self.own[shard as usize];
        let before = self.known.get(name);
        let present = Era {
            number: self.era,
            shards: self.own.len(),
            from: end,
        };
        let mut eras = match before {
            Some(before) if acked < end => before.clone(),
            // Nothing is left of what it was: the era begins with the slot.
            _ => Eras {
                base: self.base.clone(),
                all: vec![Era {
                    from: acked.min(end),
                    ..present
                }],
            },
        };
        eras.begin(present, acked);
        for (era, end) in eras.past(self.era, acked) {
            let end = end.expect("the present era follows");
            self.past.entry(era).or_default().own.push((shard, end));
        }
        // A shard that always was alone needs no record.
        let plain = self.era == 0;
        if !plain && before != Some(&eras) {
            eras::write(fs, &self.sf_dir.join(name), &eras)?;
        }
        self.known.insert(name.clone(), eras);
        Ok(())
    }

    /// The slots of shards that are no more, as far as they are known.
    pub(super) fn strangers(&self) -> Vec<String> {
        let names = self.known.keys().filter(|name| !self.own.contains(name));
        names.cloned().collect()
    }

    /// What is to be delivered first, era by era; `left` are the slots that hold anything, of
    /// those that are nobody's.
    pub(super) fn stages(mut self, left: &[String]) -> Vec<Stage> {
        for name in left {
            let Some(eras) = self.known.get(name) else {
                continue;
            };
            // How far it is acked is found out when it is taken over.
            for (era, end) in eras.past(u64::MAX, Fsn(0)) {
                let name = name.clone();
                let left = Left { name, until: end };
                self.past.entry(era).or_default().left.push(left);
            }
        }
        let past = self.past.into_values();
        past.map(|Past { own, left }| Stage { own, left }).collect()
    }
}
