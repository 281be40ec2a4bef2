//! Keys of the steward and of the spares that it makes.

use std::time::Duration;

use super::grammar::Params;
use super::value::invalid;
use crate::error::Error;

/// Most spares of a slot.
const SPARES_MAX: u64 = 64;

/// Whether spares are written over with zeros before they are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefill {
    /// With `sf_durability=flush` and `append`, where each commit ends with an fdatasync.
    Auto,
    /// Always.
    On,
    /// Never: blocks are reserved only.
    Off,
}

/// How the maintenance thread is kept, and what it makes ahead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StewardKeys {
    /// `steward_respawn_backoff_millis`: pause between its death and its next start.
    pub respawn_backoff: Duration,
    /// `steward_respawn_max`: new starts within the window; with one death more the shard does its
    /// work.
    pub respawns_max: usize,
    /// `steward_respawn_window_millis`: the window.
    pub respawn_window: Duration,
    /// `sf_spares`: segments made ahead.
    pub spares: usize,
    /// `sf_prefill`.
    pub prefill: Prefill,
    /// `sf_min_free_bytes`: no segment is made that would leave less of the filesystem free.
    pub min_free_bytes: u64,
}

impl StewardKeys {
    pub(super) fn take(params: &mut Params) -> Result<Self, Error> {
        let count = |number| usize::try_from(number).unwrap_or(usize::MAX);
        Ok(Self {
            respawn_backoff: params.millis("steward_respawn_backoff_millis", 1_000, 1)?,
            respawns_max: count(params.number("steward_respawn_max", 5, 0, 1_000)?),
            respawn_window: params.millis("steward_respawn_window_millis", 60_000, 1)?,
            spares: count(params.number("sf_spares", 2, 1, SPARES_MAX)?),
            prefill: prefill(params)?,
            min_free_bytes: params.size("sf_min_free_bytes", 0, u64::MAX)?.unwrap_or(0),
        })
    }
}

fn prefill(params: &mut Params) -> Result<Prefill, Error> {
    let Some(value) = params.take("sf_prefill") else {
        return Ok(Prefill::Auto);
    };
    match value.to_ascii_lowercase().as_str() {
        "auto" => Ok(Prefill::Auto),
        "on" => Ok(Prefill::On),
        "off" => Ok(Prefill::Off),
        _ => Err(invalid("sf_prefill", &value, "auto, on or off")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn config(keys: &str) -> Result<Config, String> {
        let text = format!("ws::addr=h;{keys}");
        Config::parse(&text).map_err(|error| error.to_string())
    }

    fn parse(keys: &str) -> Result<StewardKeys, String> {
        config(keys).map(|config| config.steward)
    }

    #[test]
    fn five_times_a_minute_a_second_apart() {
        let keys = parse("").unwrap();
        assert_eq!(keys.respawns_max, 5);
        assert_eq!(keys.respawn_backoff, Duration::from_secs(1));
        assert_eq!(keys.respawn_window, Duration::from_mins(1));
    }

    #[test]
    fn the_keys_are_read_and_bounded() {
        let keys = parse("steward_respawn_max=0;steward_respawn_backoff_millis=7;").unwrap();
        assert_eq!(keys.respawns_max, 0);
        assert_eq!(keys.respawn_backoff, Duration::from_millis(7));
        let keys = parse("sf_spares=5;sf_prefill=ON;sf_min_free_bytes=1g;").unwrap();
        assert_eq!((keys.spares, keys.prefill), (5, Prefill::On));
        assert_eq!(keys.min_free_bytes, 1 << 30);
        for bad in [
            "steward_respawn_max=1001;",
            "steward_respawn_backoff_millis=0;",
            "steward_respawn_window_millis=x;",
            "sf_spares=0;",
            "sf_spares=65;",
            "sf_prefill=yes;",
            "sf_min_free_bytes=-1;",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn spares_are_filled_where_every_commit_is_synced() {
        let filled = |keys: &str| config(&format!("sf_dir=/d;{keys}")).unwrap().fills_spares();
        assert!(!filled("") && !filled("sf_durability=periodic;"));
        assert!(filled("sf_durability=flush;") && filled("sf_durability=append;"));
        assert!(filled("sf_prefill=on;"));
        assert!(!filled("sf_durability=append;sf_prefill=off;"));
    }
}
