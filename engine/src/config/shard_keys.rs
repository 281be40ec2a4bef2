//! Keys of the shards: how many, on which cores, who goes where, and what becomes of the slots of
//! another number of shards.

use super::grammar::Params;
use super::value::{invalid, number};
use crate::error::Error;

/// Most shards of an engine.
pub(crate) const SHARDS_MAX: usize = 64;
/// Highest number of a core.
const CORE_MAX: u64 = 65_535;

/// How many shards an engine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardCount {
    /// So many, 1 to 64.
    Fixed(usize),
    /// As many as `cores` lists; else half of the cores that the process may use, at least one.
    Auto,
}

/// Where the shards' threads run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cores {
    /// Each on a core of its own among those that the process may use, from the last one down.
    Auto,
    /// Where the scheduler puts them.
    Off,
    /// Shard by shard; the kernel decides whether a core may be used.
    List(Vec<usize>),
}

/// What decides to which shard a row goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteBy {
    /// The name of its table.
    Table,
    /// The producer: all of its rows go to one shard.
    Producer,
    /// The key that the application names.
    Key,
}

/// When slots of an earlier number of shards are delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adopt {
    /// Before anything that this engine accepts.
    Before,
    /// Beside it.
    Background,
}

/// The keys of the shards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardKeys {
    /// `shards`.
    pub count: ShardCount,
    /// `cores`, and `pin=off`.
    pub cores: Cores,
    /// `route_by`.
    pub route_by: RouteBy,
    /// `adopt`.
    pub adopt: Adopt,
}

impl ShardKeys {
    pub(super) fn take(params: &mut Params, sender_id: &str) -> Result<Self, Error> {
        let count = count(params)?;
        let cores = cores(params)?;
        if let (ShardCount::Fixed(shards), Cores::List(list)) = (count, &cores)
            && shards > list.len()
        {
            let reason = format!("{} cores are listed for {shards} shards", list.len());
            return Err(Error::config("cores", reason));
        }
        if count != ShardCount::Fixed(1) {
            let longest = super::parse::SENDER_ID_BYTES_MAX - "-63".len();
            if sender_id.len() > longest {
                let reason = format!("with several shards it has at most {longest} characters");
                return Err(Error::config("sender_id", reason));
            }
        }
        Ok(Self {
            count,
            cores,
            route_by: route_by(params)?,
            adopt: adopt(params)?,
        })
    }

    /// How many shards there are on a machine where the process may use `allowed` cores.
    pub(crate) fn count(&self, allowed: usize) -> usize {
        match (&self.count, &self.cores) {
            (ShardCount::Fixed(shards), _) => *shards,
            (ShardCount::Auto, Cores::List(list)) => list.len(),
            (ShardCount::Auto, _) => (allowed / 2).clamp(1, SHARDS_MAX),
        }
    }
}

fn count(params: &mut Params) -> Result<ShardCount, Error> {
    match params.take("shards") {
        None => Ok(ShardCount::Fixed(1)),
        Some(value) if value.eq_ignore_ascii_case("auto") => Ok(ShardCount::Auto),
        Some(value) => number("shards", &value, 1, SHARDS_MAX as u64)
            .map(|shards| ShardCount::Fixed(usize::try_from(shards).unwrap_or(SHARDS_MAX)))
            .map_err(|_| invalid("shards", &value, "auto or a number from 1 to 64")),
    }
}

/// `cores`; `pin=off` is the older way to say `off`.
fn cores(params: &mut Params) -> Result<Cores, Error> {
    let cores = match params.take("cores") {
        None => Cores::Auto,
        Some(value) if value.eq_ignore_ascii_case("auto") => Cores::Auto,
        Some(value) if value.eq_ignore_ascii_case("off") => Cores::Off,
        Some(value) => list(&value).map(Cores::List).ok_or_else(|| {
            let wanted = "auto, off, or up to 64 different cores as in 2,3 or 4-7";
            invalid("cores", &value, wanted)
        })?,
    };
    let pinned = params.switch("pin", true)?;
    Ok(if pinned { cores } else { Cores::Off })
}

fn list(text: &str) -> Option<Vec<usize>> {
    let mut cores = Vec::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let core = |text| number("cores", text, 0, CORE_MAX).ok();
        let (from, to) = (core(from)?, core(to)?);
        if from > to {
            return None;
        }
        for core in from..=to {
            let core = usize::try_from(core).ok()?;
            if cores.len() == SHARDS_MAX || cores.contains(&core) {
                return None;
            }
            cores.push(core);
        }
    }
    Some(cores)
}

fn route_by(params: &mut Params) -> Result<RouteBy, Error> {
    match params.take("route_by") {
        None => Ok(RouteBy::Table),
        Some(value) if value.eq_ignore_ascii_case("table") => Ok(RouteBy::Table),
        Some(value) if value.eq_ignore_ascii_case("producer") => Ok(RouteBy::Producer),
        Some(value) if value.eq_ignore_ascii_case("key") => Ok(RouteBy::Key),
        Some(value) => Err(invalid("route_by", &value, "table, producer or key")),
    }
}

fn adopt(params: &mut Params) -> Result<Adopt, Error> {
    match params.take("adopt") {
        None => Ok(Adopt::Before),
        Some(value) if value.eq_ignore_ascii_case("before") => Ok(Adopt::Before),
        Some(value) if value.eq_ignore_ascii_case("background") => Ok(Adopt::Background),
        Some(value) => Err(invalid("adopt", &value, "before or background")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn parse(keys: &str) -> Result<ShardKeys, String> {
        let text = format!("ws::addr=h;{keys}");
        let config = Config::parse(&text).map_err(|error| error.to_string())?;
        Ok(config.shards)
    }

    #[test]
    fn one_shard_is_the_default_and_auto_is_half_of_the_cores() {
        let keys = parse("").unwrap();
        assert_eq!(keys.count(16), 1);
        assert_eq!((keys.route_by, keys.adopt), (RouteBy::Table, Adopt::Before));
        let auto = parse("shards=auto;").unwrap();
        assert_eq!([0, 1, 2, 8, 500].map(|n| auto.count(n)), [1, 1, 1, 4, 64]);
        assert_eq!(parse("shards=auto;cores=4-6;").unwrap().count(2), 3);
        assert_eq!(parse("shards=2;cores=4-6;").unwrap().count(16), 2);
    }

    #[test]
    fn cores_are_listed_one_a_shard() {
        assert_eq!(parse("cores=3;").unwrap().cores, Cores::List(vec![3]));
        let keys = parse("shards=4;cores=7,0-2;").unwrap();
        assert_eq!(keys.cores, Cores::List(vec![7, 0, 1, 2]));
        assert_eq!(parse("cores=off;").unwrap().cores, Cores::Off);
        assert_eq!(parse("cores=3;pin=off;").unwrap().cores, Cores::Off);
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let long = "x".repeat(237);
        for (keys, told) in [
            ("shards=0;", "1 to 64"),
            ("shards=65;", "1 to 64"),
            ("shards=2;cores=1;", "1 cores are listed for 2"),
            ("cores=1,1;", "different cores"),
            ("cores=2-1;", "different cores"),
            ("cores=,1;", "different cores"),
            ("route_by=row;", "table, producer or key"),
            ("adopt=never;", "before or background"),
            (&format!("shards=2;sender_id={long};"), "at most 236"),
        ] {
            let error = parse(keys).expect_err(keys);
            assert!(error.contains(told), "{keys}: {error}");
        }
        assert!(parse(&format!("sender_id={long};")).is_ok());
    }
}
