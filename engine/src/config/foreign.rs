//! Keys without an effect here: those of other clients, and those of features still to come.
//!
//! One connect string serves senders and query clients of several languages, so what belongs to
//! them is accepted. What a user would expect to work is never ignored silently: it is refused.

use super::grammar::Params;
use super::value::{invalid, not_yet, number};
use crate::error::Error;

/// Keys of query clients, pools and other languages that are ignored whatever they say.
const IGNORED: [&str; 15] = [
    "target",
    "zone",
    "failover",
    "compression",
    "compression_level",
    "buffer_pool_size",
    "max_batch_rows",
    "client_id",
    "path",
    "auth",
    "max_version",
    "acquire_timeout_ms",
    "idle_timeout_ms",
    "lazy_connect",
    "pool_reap",
];
const IGNORED_PREFIXES: [&str; 3] = ["failover_", "query_", "sender_pool_"];
/// Numbers that tune what is not built yet, with their least value; harmless at any value.
const TUNING: [(&str, u64); 2] = [
    ("catch_up_cap_gap_min_escalation_window_millis", 0),
    ("catchup_cap_gap_min_escalation_window_millis", 0),
];

/// Refuses keys whose feature does not exist yet, unless they switch it off.
pub(super) fn refuse_unbuilt(params: &mut Params) -> Result<(), Error> {
    for (key, what) in [("transaction", "transactions")] {
        if params.switch(key, false)? {
            return Err(not_yet(key, what));
        }
    }
    if let Some(value) = params.take("qwp_ws_progress") {
        match value.to_ascii_lowercase().as_str() {
            "background" => {}
            "manual" => return Err(not_yet("qwp_ws_progress", "progress by the caller")),
            _ => return Err(invalid("qwp_ws_progress", &value, "background")),
        }
    }
    Ok(())
}

/// Judges what nobody has taken: ignored, not built yet, or unknown.
pub(super) fn judge_rest(params: Params) -> Result<(), Error> {
    for (key, value) in params.rest() {
        let key = key.as_str();
        if let Some((_, min)) = TUNING.iter().find(|(name, _)| *name == key) {
            number(key, &value, *min, u64::from(u32::MAX))?;
        } else if !IGNORED.contains(&key)
            && !IGNORED_PREFIXES
                .iter()
                .any(|prefix| key.starts_with(prefix))
        {
            return Err(Error::config(key, "unknown key"));
        }
    }
    Ok(())
}
