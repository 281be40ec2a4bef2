//! Keys of errors and events: how many wait for the notifier.

use super::grammar::Params;
use crate::error::Error;

/// Most entries that an inbox may be given: some 64 MiB of texts.
const CAPACITY_MAX: u64 = 65_536;

/// Capacities of the two inboxes between the engine and its notifier; when one is full its oldest
/// entry goes, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventKeys {
    /// `error_inbox_capacity`: errors that wait, at least 16.
    pub errors: usize,
    /// `connection_listener_inbox_capacity`: connection events that wait.
    pub connections: usize,
}

impl Default for EventKeys {
    fn default() -> Self {
        Self {
            errors: 256,
            connections: 64,
        }
    }
}

impl EventKeys {
    pub(super) fn take(params: &mut Params) -> Result<Self, Error> {
        let mut capacity = |key: &str, default, min| {
            let entries = params.number(key, default, min, CAPACITY_MAX)?;
            Ok::<_, Error>(usize::try_from(entries).unwrap_or(usize::MAX))
        };
        Ok(Self {
            errors: capacity("error_inbox_capacity", 256, 16)?,
            connections: capacity("connection_listener_inbox_capacity", 64, 1)?,
        })
    }
}
