//! The server's side of the upgrade: the genuine server's checks, in its order and with its
//! texts (protocol.md 2.2 and 2.3). Pure: bytes in, response bytes out.

use std::fmt::Write;

use tungstenite::handshake::machine::TryParse;
use tungstenite::handshake::server::Request;
use tungstenite::http::HeaderMap;

use super::head::{check_limits, has_token, text};
use super::{
    DurableTier, HEAD_BYTES_MAX, INGEST_PATH, INGEST_PATH_SHORT, QWP_VERSION, UpgradePolicy,
    accept_key,
};

/// A request that was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Length of the request head, bytes. What follows belongs to the WebSocket stream.
    pub consumed: usize,
    /// The 101 response to send.
    pub response: Vec<u8>,
    /// Version of the conversation.
    pub version: u8,
    /// The durable acknowledgement that was granted.
    pub durable: Option<DurableTier>,
    /// `X-QWP-Client-Id`, for the log only.
    pub client_id: Option<String>,
}

/// The server's decision about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Send the response and go on with WebSocket frames.
    Accept(Accepted),
    /// Send the response and close the connection.
    Reject {
        /// HTTP status of the response.
        status: u16,
        /// The response to send.
        response: Vec<u8>,
    },
}

/// Decides about the request at the front of `bytes`; `None` while its head is incomplete.
pub fn answer(bytes: &[u8], policy: &UpgradePolicy) -> Option<Answer> {
    let parsed = Request::try_parse(&bytes[..bytes.len().min(HEAD_BYTES_MAX + 1)]);
    let head_bytes = match &parsed {
        Ok(Some((consumed, _))) => Some(*consumed),
        Ok(None) | Err(_) => None,
    };
    if check_limits(bytes, head_bytes).is_err() {
        return Some(reject(431, "Request Header Fields Too Large", &[], ""));
    }
    match parsed {
        Ok(None) => None,
        Ok(Some((consumed, request))) => Some(match judge(&request, policy) {
            Ok(()) => accept(consumed, request.headers(), policy),
            Err(refused) => refused,
        }),
        Err(_) if is_another_method(bytes) => {
            Some(reject(405, reason_of(405), &[("Allow", "GET")], ""))
        }
        Err(_) => Some(bad_request("Bad Request")),
    }
}

/// Whether the request line is HTTP with a method that upgrades are not asked for with.
fn is_another_method(bytes: &[u8]) -> bool {
    let line = bytes
        .split(|&byte| byte == b'\r')
        .next()
        .unwrap_or_default();
    let mut words = line.split(|&byte| byte == b' ');
    let method = words.next().unwrap_or_default();
    let is_method = !method.is_empty() && method.iter().all(u8::is_ascii_uppercase);
    is_method && method != b"GET" && words.next_back() == Some(b"HTTP/1.1")
}

fn judge(request: &Request, policy: &UpgradePolicy) -> Result<(), Answer> {
    let headers = request.headers();
    if let Some(fixed) = &policy.fixed {
        let extra: Vec<_> = fixed
            .headers
            .iter()
            .map(|(n, v)| (n.as_str(), v.as_str()))
            .collect();
        return Err(reject(fixed.status, reason_of(fixed.status), &extra, ""));
    }
    check_credentials(headers, policy)?;
    check_handshake(headers)?;
    if text(headers, "Sec-WebSocket-Version") != Some("13") {
        let extra = [
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Version", "13"),
        ];
        return Err(reject(426, reason_of(426), &extra, ""));
    }
    if let Some(role) = policy.refusing_role() {
        // The genuine server states the length before the role.
        let head = format!(
            "HTTP/1.1 421 {}\r\nConnection: close\r\nContent-Length: 0\r\n\
             X-QuestDB-Role: {role}\r\n\r\n",
            reason_of(421)
        );
        return Err(Answer::Reject {
            status: 421,
            response: head.into_bytes(),
        });
    }
    if ![INGEST_PATH, INGEST_PATH_SHORT].contains(&request.uri().path()) {
        return Err(reject(404, reason_of(404), &[], ""));
    }
    Ok(())
}

fn check_credentials(headers: &HeaderMap, policy: &UpgradePolicy) -> Result<(), Answer> {
    let Some(wanted) = &policy.authorization else {
        return Ok(());
    };
    match text(headers, "Authorization") {
        Some(given) if given == wanted => Ok(()),
        _ => Err(reject(401, reason_of(401), &[], "")),
    }
}

fn check_handshake(headers: &HeaderMap) -> Result<(), Answer> {
    if headers.contains_key("Origin") {
        return Err(bad_request("Origin header not allowed on QWP WebSocket"));
    }
    match text(headers, "Upgrade") {
        None => return Err(bad_request("Missing Upgrade header")),
        Some(value) if value.eq_ignore_ascii_case("websocket") => {}
        Some(_) => return Err(bad_request("Invalid Upgrade header value")),
    }
    if !headers.contains_key("Connection") {
        return Err(bad_request("Missing Connection header"));
    }
    if !has_token(headers, "Connection", "upgrade") {
        return Err(bad_request("Connection header must contain 'upgrade'"));
    }
    match text(headers, "Sec-WebSocket-Key") {
        None => Err(bad_request("Missing Sec-WebSocket-Key header")),
        Some(key) if is_key(key) => Ok(()),
        Some(_) => Err(bad_request(
            "Invalid Sec-WebSocket-Key (must be 24-character base64 key)",
        )),
    }
}

fn is_key(key: &str) -> bool {
    key.len() == 24
        && key
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"+/=".contains(&b))
}

fn accept(consumed: usize, headers: &HeaderMap, policy: &UpgradePolicy) -> Answer {
    let key = text(headers, "Sec-WebSocket-Key").unwrap_or_default();
    let asked = text(headers, "X-QWP-Request-Durable-Ack").and_then(DurableTier::from_ask);
    let durable = asked.filter(|asked| policy.durable == Some(*asked));
    let mut head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {}\r\nX-QWP-Version: {QWP_VERSION}\r\n",
        accept_key(key)
    );
    let mut line = |name: &str, value: &str| {
        write!(head, "{name}: {value}\r\n").expect("writing to a String cannot fail");
    };
    if let Some(tier) = durable {
        line("X-QWP-Durable-Ack", tier.grant());
    }
    if let Some(role) = &policy.role {
        line("X-QuestDB-Role", role);
    }
    if let Some(max_batch_size) = policy.max_batch_size {
        line("X-QWP-Max-Batch-Size", &max_batch_size.to_string());
    }
    head.push_str("\r\n");
    Answer::Accept(Accepted {
        consumed,
        response: head.into_bytes(),
        version: QWP_VERSION,
        durable,
        client_id: text(headers, "X-QWP-Client-Id").map(str::to_owned),
    })
}

fn bad_request(body: &str) -> Answer {
    reject(400, reason_of(400), &[("Content-Type", "text/plain")], body)
}

fn reject(status: u16, reason: &str, extra: &[(&str, &str)], body: &str) -> Answer {
    let mut head = format!("HTTP/1.1 {status} {reason}\r\n");
    for (name, value) in extra {
        write!(head, "{name}: {value}\r\n").expect("writing to a String cannot fail");
    }
    write!(head, "Content-Length: {}\r\n\r\n{body}", body.len())
        .expect("writing to a String cannot fail");
    Answer::Reject {
        status,
        response: head.into_bytes(),
    }
}

fn reason_of(status: u16) -> &'static str {
    tungstenite::http::StatusCode::from_u16(status)
        .ok()
        .and_then(|status| status.canonical_reason())
        .unwrap_or("Error")
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
