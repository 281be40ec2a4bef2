//! Keys of the orphan scan and its drainers (protocol.md sections 13.9 and 17).

use std::time::Duration;

use super::grammar::Params;
use crate::error::Error;

/// Drainers that run at once at most, whatever the key says: each is three threads and a ring.
const DRAINERS_MAX: u64 = 64;

/// What to do with slots that other senders left beside the own one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrphanKeys {
    /// `drain_orphans`: deliver them. Off, they are only reported.
    pub drain: bool,
    /// `max_background_drainers`: how many at once, 64 at most; 0 is the same as off.
    pub drainers_max: usize,
    /// `orphan_scan_interval_millis`: time between two looks at the directory.
    pub scan_interval: Duration,
}

impl OrphanKeys {
    pub(super) fn take(params: &mut Params) -> Result<Self, Error> {
        let asked = params.number("max_background_drainers", 4, 0, u64::from(u32::MAX))?;
        Ok(Self {
            drain: params.switch("drain_orphans", false)?,
            drainers_max: usize::try_from(asked.min(DRAINERS_MAX)).unwrap_or(usize::MAX),
            scan_interval: params.millis("orphan_scan_interval_millis", 30_000, 10)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Config;
    use super::OrphanKeys;

    fn parse(keys: &str) -> Result<OrphanKeys, String> {
        let text = format!("ws::addr=h;{keys}");
        let config = Config::parse(&text).map_err(|error| error.to_string())?;
        Ok(config.orphans)
    }

    #[test]
    fn orphans_are_reported_and_not_drained_by_default() {
        let keys = parse("").unwrap();
        assert_eq!((keys.drain, keys.drainers_max), (false, 4));
        assert_eq!(keys.scan_interval, Duration::from_secs(30));
    }

    #[test]
    fn the_keys_are_read_and_bounded() {
        let keys = parse("drain_orphans=on;max_background_drainers=2;").unwrap();
        assert_eq!((keys.drain, keys.drainers_max), (true, 2));
        assert_eq!(parse("max_background_drainers=0;").unwrap().drainers_max, 0);
        assert_eq!(
            parse("max_background_drainers=4000;").unwrap().drainers_max,
            64
        );
        for bad in [
            "drain_orphans=yes;",
            "max_background_drainers=-1;",
            "orphan_scan_interval_millis=9;",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
