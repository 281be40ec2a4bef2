//! Keys of the steward: how often it is started again when it dies.

use std::time::Duration;

use super::grammar::Params;
use crate::error::Error;

/// How the maintenance thread is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StewardKeys {
    /// `steward_respawn_backoff_millis`: pause between its death and its next start.
    pub respawn_backoff: Duration,
    /// `steward_respawn_max`: new starts within the window; with one death more the shard does its
    /// work.
    pub respawns_max: usize,
    /// `steward_respawn_window_millis`: the window.
    pub respawn_window: Duration,
}

impl StewardKeys {
    pub(super) fn take(params: &mut Params) -> Result<Self, Error> {
        let respawns = params.number("steward_respawn_max", 5, 0, 1_000)?;
        Ok(Self {
            respawn_backoff: params.millis("steward_respawn_backoff_millis", 1_000, 1)?,
            respawns_max: usize::try_from(respawns).unwrap_or(usize::MAX),
            respawn_window: params.millis("steward_respawn_window_millis", 60_000, 1)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn parse(keys: &str) -> Result<StewardKeys, String> {
        let text = format!("ws::addr=h;{keys}");
        let config = Config::parse(&text).map_err(|error| error.to_string())?;
        Ok(config.steward)
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
        for bad in [
            "steward_respawn_max=1001;",
            "steward_respawn_backoff_millis=0;",
            "steward_respawn_window_millis=x;",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
