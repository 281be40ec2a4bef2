//! The client's upgrade request, in the header order of the official client (protocol.md 2.1).

use std::fmt;
use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{DurableTier, INGEST_PATH, QWP_VERSION};

/// What a client asks for. [`fmt::Debug`] hides the authorization value.
#[derive(Clone, PartialEq, Eq)]
pub struct UpgradeRequest<'a> {
    /// Host as in the connect string; an IPv6 literal without brackets.
    pub host: &'a str,
    /// TCP port; left out of `Host` where it is the scheme's default.
    pub port: u16,
    /// Whether the connection runs over TLS (`wss`).
    pub tls: bool,
    /// 16 random bytes, fresh for every attempt.
    pub nonce: [u8; 16],
    /// `name/version` for the server's log; the official client leaves it out by default.
    pub client_id: Option<&'a str>,
    /// The durable acknowledgement to ask for.
    pub durable: Option<DurableTier>,
    /// Whole value of the `Authorization` header, `Basic ...` or `Bearer ...`.
    pub authorization: Option<&'a str>,
}

impl fmt::Debug for UpgradeRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpgradeRequest")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("tls", &self.tls)
            .field("client_id", &self.client_id)
            .field("durable", &self.durable)
            .field("authorization", &self.authorization.map(|_| "(hidden)"))
            .finish_non_exhaustive()
    }
}

impl<'a> UpgradeRequest<'a> {
    /// A plain request without credentials, client id or durable acknowledgement.
    pub const fn new(host: &'a str, port: u16, tls: bool, nonce: [u8; 16]) -> Self {
        Self {
            host,
            port,
            tls,
            nonce,
            client_id: None,
            durable: None,
            authorization: None,
        }
    }

    /// The `Sec-WebSocket-Key` of this request.
    pub fn key(&self) -> String {
        STANDARD.encode(self.nonce)
    }

    /// Bytes to send. Line breaks inside of values are dropped, so that no value can add a
    /// header of its own.
    pub fn encode(&self) -> Vec<u8> {
        let mut text = String::with_capacity(320);
        let mut line = |name: &str, value: &str| {
            let value = value.chars().filter(|c| !c.is_control());
            text.extend(
                name.chars()
                    .chain(": ".chars())
                    .chain(value)
                    .chain("\r\n".chars()),
            );
        };
        line("Host", &self.host_header());
        line("Connection", "Upgrade");
        line("Upgrade", "websocket");
        line("Sec-WebSocket-Version", "13");
        line("Sec-WebSocket-Key", &self.key());
        line("X-QWP-Max-Version", &QWP_VERSION.to_string());
        if let Some(client_id) = self.client_id {
            line("X-QWP-Client-Id", client_id);
        }
        if let Some(durable) = self.durable {
            line("X-QWP-Request-Durable-Ack", durable.ask());
        }
        if let Some(authorization) = self.authorization {
            line("Authorization", authorization);
        }
        format!("GET {INGEST_PATH} HTTP/1.1\r\n{text}\r\n").into_bytes()
    }

    fn host_header(&self) -> String {
        let mut header = if self.host.contains(':') && !self.host.starts_with('[') {
            format!("[{}]", self.host)
        } else {
            self.host.to_owned()
        };
        let default_port = if self.tls { 443 } else { 80 };
        if self.port != default_port {
            write!(header, ":{}", self.port).expect("writing to a String cannot fail");
        }
        header
    }
}

/// The `Sec-WebSocket-Accept` that answers `key`.
///
/// ```
/// use forebay_wire::upgrade::accept_key;
/// assert_eq!(accept_key("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
/// ```
pub fn accept_key(key: &str) -> String {
    tungstenite::handshake::derive_accept_key(key.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_the_official_client_s_bytes() {
        let request = UpgradeRequest::new("127.0.0.1", 9401, false, [0; 16]);
        let want = "GET /api/v4/write HTTP/1.1\r\nHost: 127.0.0.1:9401\r\n\
            Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
            Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nX-QWP-Max-Version: 1\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(&request.encode()), want);
    }

    #[test]
    fn options_follow_in_the_official_order() {
        let mut request = UpgradeRequest::new("db", 80, false, [0; 16]);
        request.client_id = Some("forebay/0.1\r\nX-Evil: 1");
        request.durable = Some(DurableTier::On);
        request.authorization = Some("Bearer t0ken");
        let bytes = request.encode();
        let text = String::from_utf8_lossy(&bytes);
        let tail = text
            .split_once("X-QWP-Max-Version: 1\r\n")
            .map(|(_, tail)| tail);
        let want = "X-QWP-Client-Id: forebay/0.1X-Evil: 1\r\nX-QWP-Request-Durable-Ack: true\r\n\
            Authorization: Bearer t0ken\r\n\r\n";
        assert_eq!(tail, Some(want));
        assert!(
            !format!("{request:?}").contains("t0ken"),
            "secrets stay out of Debug"
        );
    }

    #[test]
    fn host_leaves_out_default_ports_only() {
        let host = |host, port, tls| UpgradeRequest::new(host, port, tls, [0; 16]).host_header();
        assert_eq!(host("db", 80, false), "db");
        assert_eq!(host("db", 443, false), "db:443");
        assert_eq!(host("db", 443, true), "db");
        assert_eq!(host("db", 80, true), "db:80");
        assert_eq!(host("::1", 9000, false), "[::1]:9000");
        assert_eq!(host("[::1]", 443, true), "[::1]");
    }
}
