//! How an upgrade fails. The variants are the classes of protocol.md 2.3: what the endpoint walk
//! does next depends on them and on nothing else.

/// Why an endpoint did not become a QWP connection. No variant holds a credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UpgradeError {
    /// 401 or 403: terminal for the whole cluster.
    #[error("the server refused the credentials (HTTP {status})")]
    Auth {
        /// 401 or 403.
        status: u16,
    },
    /// 421 with a role: this node does not take writes now.
    #[error("the server does not take writes in its role {role}")]
    RoleReject {
        /// The role as the server spelled it.
        role: String,
        /// `PRIMARY_CATCHUP`: it will take writes soon. Otherwise rank the host last.
        transient: bool,
    },
    /// Any other status than 101, and 421 without a role: transient.
    #[error("the server answered the upgrade with HTTP {status}")]
    Status {
        /// The status received.
        status: u16,
    },
    /// The 101 lacks a token that makes it an upgrade to WebSocket.
    #[error("the upgrade response has no `{header}` header that says so")]
    NotUpgraded {
        /// `Upgrade` or `Connection`.
        header: &'static str,
    },
    /// `Sec-WebSocket-Accept` is absent or is not the hash of the key that was sent.
    #[error("the upgrade response does not prove that it answers this request")]
    BadAccept,
    /// The server chose a version that was not offered: transient, for this endpoint.
    #[error("the server chose QWP version {answered:?}; this client speaks up to {offered}")]
    BadVersion {
        /// The header's text.
        answered: String,
        /// The highest version that the request offered.
        offered: u8,
    },
    /// Durable acknowledgements were asked for and not granted.
    #[error("the server grants no durable acknowledgement (asked for `{asked}`, got {granted:?})")]
    DurableMismatch {
        /// What the request asked for.
        asked: &'static str,
        /// The grant header's text, if there was one.
        granted: Option<String>,
    },
    /// The response is not HTTP/1.1.
    #[error("the upgrade response is not HTTP/1.1: {reason}")]
    Malformed {
        /// What the parser found.
        reason: String,
    },
    /// The response head exceeds its limit.
    #[error("the upgrade response head exceeds {limit_bytes} bytes")]
    HeadTooLarge {
        /// The limit, bytes.
        limit_bytes: usize,
    },
    /// One line of the response head exceeds its limit.
    #[error("a line of the upgrade response exceeds {limit_bytes} bytes")]
    LineTooLong {
        /// The limit, bytes.
        limit_bytes: usize,
    },
}
