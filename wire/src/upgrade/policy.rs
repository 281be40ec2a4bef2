//! What a server grants and refuses at the upgrade: its configuration, and the knobs that tests
//! turn.

use super::{DurableTier, RECV_BUFFER_BYTES_DEFAULT, advertised_batch_size};

/// A response given to every request instead of judging it, for tests of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedReply {
    /// HTTP status, for instance 503.
    pub status: u16,
    /// Further headers, name and value.
    pub headers: Vec<(String, String)>,
}

/// How a server answers upgrades. The default is the open-source server: standalone, default
/// receive buffer, no credentials, no durable acknowledgements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpgradePolicy {
    /// `X-QWP-Max-Batch-Size`, bytes; `None` leaves the header out, as old servers do.
    pub max_batch_size: Option<u64>,
    /// `X-QuestDB-Role`. `REPLICA` and `PRIMARY_CATCHUP` refuse with 421.
    pub role: Option<String>,
    /// The only durable acknowledgement that is granted, when it is asked for.
    pub durable: Option<DurableTier>,
    /// The `Authorization` value that clients must send; without it, 401.
    pub authorization: Option<String>,
    /// Answers every request with this.
    pub fixed: Option<FixedReply>,
}

impl Default for UpgradePolicy {
    fn default() -> Self {
        Self {
            max_batch_size: advertised_batch_size(RECV_BUFFER_BYTES_DEFAULT),
            role: None,
            durable: None,
            authorization: None,
            fixed: None,
        }
    }
}

impl UpgradePolicy {
    /// The role, if it is one that takes no writes.
    pub fn refusing_role(&self) -> Option<&str> {
        let refuses = |role: &&str| {
            role.eq_ignore_ascii_case("REPLICA") || role.eq_ignore_ascii_case("PRIMARY_CATCHUP")
        };
        self.role.as_deref().filter(refuses)
    }
}
