//! The HTTP upgrade that opens a QWP connection, both sides, as bytes (protocol.md 2).
//!
//! Client: [`UpgradeRequest::encode`] gives the bytes to send, [`UpgradeReply::parse`] judges
//! what came back. Server: [`answer`] checks a request in the genuine server's order and gives
//! the response. Parsing of HTTP heads is tungstenite's; requests are written here because their
//! header order is part of what is compared with the official client.

mod check;
mod durable;
mod error;
mod head;
mod policy;
mod reply;
mod request;

pub use check::{Accepted, Answer, answer};
pub use durable::DurableTier;
pub use error::UpgradeError;
pub use head::{HEAD_BYTES_MAX, LINE_BYTES_MAX};
pub use policy::{FixedReply, UpgradePolicy};
pub use reply::{Expected, UpgradeReply, Upgraded};
pub use request::{UpgradeRequest, accept_key};

/// The only version of the protocol so far.
pub const QWP_VERSION: u8 = 1;
/// Path that the official client asks for.
pub const INGEST_PATH: &str = "/api/v4/write";
/// The server's other path for the same endpoint.
pub const INGEST_PATH_SHORT: &str = "/write/v4";
/// Largest message that the protocol allows, bytes, whatever a server's buffer holds.
pub const MESSAGE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Receive buffer of a server in its default configuration, bytes.
pub const RECV_BUFFER_BYTES_DEFAULT: usize = 2 * 1024 * 1024;

/// The batch size that a server with this receive buffer advertises: the buffer less the longest
/// frame header, at most [`MESSAGE_BYTES_MAX`]. `None` when the buffer holds no header.
///
/// ```
/// use forebay_wire::upgrade::{RECV_BUFFER_BYTES_DEFAULT, advertised_batch_size};
/// assert_eq!(advertised_batch_size(RECV_BUFFER_BYTES_DEFAULT), Some(2_097_138));
/// ```
pub fn advertised_batch_size(recv_buffer_bytes: usize) -> Option<u64> {
    let room = recv_buffer_bytes.checked_sub(crate::ws::HEADER_BYTES_MAX)?;
    (room > 0).then(|| MESSAGE_BYTES_MAX.min(room as u64))
}
