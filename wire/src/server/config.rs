//! What a session is told at its start.

use crate::upgrade::{DurableTier, RECV_BUFFER_BYTES_DEFAULT};

/// Settings of one connection. The default is the genuine server's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionConfig {
    /// Receive buffer, bytes: a frame larger than this, header included, is answered by CLOSE
    /// 1009.
    pub recv_buffer_bytes: usize,
    /// How much of the receive buffer exists from the start. It grows to the whole when a frame
    /// needs it, so simulators with many connections may start small.
    pub recv_buffer_bytes_at_start: usize,
    /// Largest message that is processed, bytes; larger ones are a `PARSE_ERROR`.
    pub message_bytes_max: usize,
    /// Processed messages within one pass after which an OK is sent before the pass ends.
    pub ok_every: u64,
    /// Whether OKs are sent as soon as they are due. Without it each waits for
    /// [`super::Session::ack_up_to`].
    pub auto_ack: bool,
    /// Also refuse empty messages and frame lengths in too long a form.
    pub strict: bool,
    /// A server that was configured read-only: every message is a `SECURITY_ERROR`.
    pub read_only: bool,
    /// The durable acknowledgement granted at the upgrade.
    pub durable: Option<DurableTier>,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            recv_buffer_bytes: RECV_BUFFER_BYTES_DEFAULT,
            recv_buffer_bytes_at_start: 64 * 1024,
            message_bytes_max: RECV_BUFFER_BYTES_DEFAULT,
            ok_every: 8,
            auto_ack: true,
            strict: false,
            read_only: false,
            durable: None,
        }
    }
}
