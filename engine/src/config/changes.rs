//! Keys that may change while an engine runs: see [`Engine::reconfigure`](crate::Engine::reconfigure).

use std::time::Duration;

use super::grammar::Params;
use super::{Config, Endpoint, addr, parse};
use crate::error::Error;

/// The keys that a running engine takes.
pub(crate) const CHANGEABLE: [&str; 3] =
    ["addr", "sf_append_deadline_millis", "sf_max_total_bytes"];

/// New values; `None` where a key stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// `addr`.
    pub(crate) endpoints: Option<Vec<Endpoint>>,
    /// `sf_append_deadline_millis`.
    pub(crate) append_deadline: Option<Duration>,
    /// `sf_max_total_bytes`.
    pub(crate) total_bytes: Option<u64>,
}

impl Changes {
    /// Reads `key=value;...`, for an engine that was started with `present`.
    ///
    /// # Errors
    /// [`Error::Config`] with the key at fault: one that needs a restart, or a value that its
    /// connect string could not have had either.
    pub(crate) fn parse(text: &str, present: &Config) -> Result<Self, Error> {
        let (_, mut params) = Params::read(&format!("ws::{text}"))?;
        let mut changes = Self::default();
        if let Some(list) = params.take("addr") {
            changes.endpoints = Some(addr::endpoints(&list)?);
        }
        if params.has_prefix("sf_append_deadline_millis") {
            let limit = params.millis("sf_append_deadline_millis", 0, 0)?;
            changes.append_deadline = Some(limit);
        }
        if let Some(total) = params.size("sf_max_total_bytes", 1, u64::MAX)? {
            parse::check_total(total, present.segment_bytes)?;
            changes.total_bytes = Some(total);
        }
        if let Some((key, _)) = params.rest().next() {
            let reason = format!(
                "cannot be changed while the engine runs ({} can): close it and connect anew",
                CHANGEABLE.join(", ")
            );
            return Err(Error::config(key, reason));
        }
        Ok(changes)
    }

    /// Takes what `later` changes.
    pub(crate) fn update(&mut self, later: Self) {
        self.endpoints = later.endpoints.or(self.endpoints.take());
        self.append_deadline = later.append_deadline.or(self.append_deadline);
        self.total_bytes = later.total_bytes.or(self.total_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Changes, Error> {
        let present = Config::parse("ws::addr=h;sf_max_segment_bytes=1m;").unwrap();
        Changes::parse(text, &present)
    }

    #[test]
    fn what_may_change_is_read_as_in_a_connect_string() {
        assert_eq!(parse("").unwrap(), Changes::default());
        let text = "addr=a:1,b;sf_append_deadline_millis=0;addr=c;sf_max_total_bytes=2m;";
        let changes = parse(text).unwrap();
        let names: Vec<String> = changes
            .endpoints
            .iter()
            .flatten()
            .map(ToString::to_string)
            .collect();
        assert_eq!(names, ["a:1", "b:9000", "c:9000"]);
        assert_eq!(changes.append_deadline, Some(Duration::ZERO));
        assert_eq!(changes.total_bytes, Some(2 << 20));
    }

    #[test]
    fn everything_else_needs_a_restart_and_nothing_wrong_is_taken() {
        for (text, at_fault) in [
            ("sf_dir=/x;", "sf_dir"),
            ("sf_max_total_bytes=2097151;", "sf_max_total_bytes"),
            ("sf_max_total_bytes=many;", "sf_max_total_bytes"),
            ("sf_append_deadline_millis=-1;", "sf_append_deadline_millis"),
            ("addr=;", "addr"),
            ("addr=a,a;", "addr"),
            ("nonsense=1;", "nonsense"),
        ] {
            let Err(Error::Config { key, .. }) = parse(text) else {
                panic!("{text}");
            };
            assert_eq!(key, at_fault, "{text}");
        }
    }

    #[test]
    fn later_changes_win_and_leave_the_others() {
        let mut all = parse("addr=a;sf_max_total_bytes=2m;").unwrap();
        all.update(parse("sf_max_total_bytes=3m;sf_append_deadline_millis=7;").unwrap());
        let expected = "addr=a;sf_max_total_bytes=3m;sf_append_deadline_millis=7;";
        assert_eq!(all, parse(expected).unwrap());
    }
}
