//! Which cores shards run on.

use crate::config::{Config, Cores};

/// Cores that the calling thread may use.
fn allowed_cores() -> Vec<usize> {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    cores.iter().map(|core| core.id).collect()
}

/// Cores that the process may use. A CPU quota counts like a small set of cores: shards that spin
/// use it up for each other.
pub(crate) fn usable_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// How many shards an engine has here.
pub(crate) fn shard_count(config: &Config) -> usize {
    config.shards.count(usable_cores())
}

/// Where the shards of an engine run: decided by the caller's thread, whose cores they are.
#[derive(Debug, Clone)]
pub(crate) struct Placement {
    asked: Cores,
    allowed: Vec<usize>,
}

impl Placement {
    /// Among the cores that the calling thread may use.
    pub(crate) fn here(config: &Config) -> Self {
        Self {
            asked: config.shards.cores.clone(),
            allowed: allowed_cores(),
        }
    }

    /// The core of a shard; `None` leaves it to the scheduler. A listed one is not judged here: the
    /// kernel knows better, a set of allowed cores may be wider for a thread that asks.
    pub(crate) fn core_of(&self, shard: u32) -> Option<usize> {
        let shard = shard as usize;
        match &self.asked {
            Cores::Off => None,
            Cores::List(list) => list.get(shard).copied(),
            // More shards than cores share them.
            Cores::Auto => self.allowed.iter().rev().cycle().nth(shard).copied(),
        }
    }

    /// What was asked for and what is allowed, for a refusal.
    pub(crate) fn sets(&self) -> String {
        format!("asked for: {:?}, allowed: {:?}", self.asked, self.allowed)
    }

    /// The cores of `shards` shards in words: `3, 2`.
    pub(crate) fn in_words(&self, shards: usize) -> String {
        let cores = (0..).take(shards).map(|shard| self.core_of(shard));
        let words: Vec<_> = cores
            .map(|core| core.map_or_else(|| "any".to_owned(), |core| core.to_string()))
            .collect();
        words.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placement(asked: Cores) -> Placement {
        let allowed = vec![0, 2, 5];
        Placement { asked, allowed }
    }

    #[test]
    fn shards_take_allowed_cores_from_the_last_one_down_or_as_listed() {
        assert_eq!(placement(Cores::Auto).in_words(4), "5, 2, 0, 5");
        assert_eq!(placement(Cores::Off).in_words(2), "any, any");
        assert_eq!(placement(Cores::List(vec![7, 2])).in_words(2), "7, 2");
    }
}
