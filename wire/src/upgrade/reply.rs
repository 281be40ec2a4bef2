//! The server's answer to an upgrade, judged by the client (protocol.md 2.2 and 2.3).

use tungstenite::handshake::client::Response;
use tungstenite::handshake::machine::TryParse;
use tungstenite::http::HeaderMap;

use super::head::{Excess, check_limits, has_token, text};
use super::{
    DurableTier, HEAD_BYTES_MAX, LINE_BYTES_MAX, QWP_VERSION, UpgradeError, UpgradeRequest,
    accept_key,
};

/// What the answer must match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The right `Sec-WebSocket-Accept`.
    pub accept: String,
    /// The durable acknowledgement that was asked for.
    pub durable: Option<DurableTier>,
}

impl Expected {
    /// What the answer to this request must match.
    pub fn of(request: &UpgradeRequest<'_>) -> Self {
        Self {
            accept: accept_key(&request.key()),
            durable: request.durable,
        }
    }
}

/// A connection that speaks QWP from here on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgraded {
    /// Length of the response head, bytes. What follows belongs to the WebSocket stream.
    pub consumed: usize,
    /// Version chosen by the server; 1 when it named none.
    pub version: u8,
    /// Largest message that the server takes, bytes; `None` when it does not say.
    pub max_batch_size: Option<u64>,
    /// Role of the node, as newer servers tell it.
    pub role: Option<String>,
    /// The durable acknowledgement that was asked for and granted.
    pub durable: Option<DurableTier>,
}

/// Parser of the server's answer. Holds nothing: an incomplete head is parsed again from its
/// start, which its limit of 32 KiB keeps cheap.
#[derive(Clone, Copy, Debug)]
pub struct UpgradeReply;

impl UpgradeReply {
    /// Judges the answer at the front of `bytes`; `Ok(None)` while its head is incomplete.
    ///
    /// ```
    /// use forebay_wire::upgrade::{Expected, UpgradeReply, UpgradeRequest};
    /// let request = UpgradeRequest::new("localhost", 9000, false, *b"the sample nonce");
    /// let expected = Expected::of(&request);
    /// let answer = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
    ///     Connection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\
    ///     X-QWP-Max-Batch-Size: 2097138\r\n\r\n\x82";
    /// let upgraded = UpgradeReply::parse(answer, &expected)?.expect("complete");
    /// assert_eq!(upgraded.max_batch_size, Some(2_097_138));
    /// assert_eq!(answer[upgraded.consumed..], [0x82]);
    /// # Ok::<(), forebay_wire::upgrade::UpgradeError>(())
    /// ```
    pub fn parse(bytes: &[u8], expected: &Expected) -> Result<Option<Upgraded>, UpgradeError> {
        let parsed = Response::try_parse(&bytes[..bytes.len().min(HEAD_BYTES_MAX + 1)]);
        let head_bytes = match &parsed {
            Ok(Some((consumed, _))) => Some(*consumed),
            Ok(None) | Err(_) => None,
        };
        check_limits(bytes, head_bytes).map_err(|excess| match excess {
            Excess::Head => UpgradeError::HeadTooLarge {
                limit_bytes: HEAD_BYTES_MAX,
            },
            Excess::Line => UpgradeError::LineTooLong {
                limit_bytes: LINE_BYTES_MAX,
            },
        })?;
        let parsed = parsed.map_err(|e| UpgradeError::Malformed {
            reason: e.to_string(),
        })?;
        let Some((consumed, response)) = parsed else {
            return Ok(None);
        };
        judge(
            consumed,
            response.status().as_u16(),
            response.headers(),
            expected,
        )
        .map(Some)
    }
}

fn judge(
    consumed: usize,
    status: u16,
    headers: &HeaderMap,
    expected: &Expected,
) -> Result<Upgraded, UpgradeError> {
    let role = text(headers, "X-QuestDB-Role").filter(|role| !role.is_empty());
    match (status, role) {
        (101, _) => {}
        (401 | 403, _) => return Err(UpgradeError::Auth { status }),
        (421, Some(role)) => {
            let transient = role.eq_ignore_ascii_case("PRIMARY_CATCHUP");
            return Err(UpgradeError::RoleReject {
                role: role.to_owned(),
                transient,
            });
        }
        (status, _) => return Err(UpgradeError::Status { status }),
    }
    for (header, token) in [("Upgrade", "websocket"), ("Connection", "Upgrade")] {
        if !has_token(headers, header, token) {
            return Err(UpgradeError::NotUpgraded { header });
        }
    }
    if text(headers, "Sec-WebSocket-Accept") != Some(expected.accept.as_str()) {
        return Err(UpgradeError::BadAccept);
    }
    Ok(Upgraded {
        consumed,
        version: version(headers)?,
        max_batch_size: batch_size(headers),
        role: role.map(str::to_owned),
        durable: durable(headers, expected.durable)?,
    })
}

fn version(headers: &HeaderMap) -> Result<u8, UpgradeError> {
    let Some(value) = headers.get("X-QWP-Version") else {
        return Ok(QWP_VERSION);
    };
    let answered = String::from_utf8_lossy(value.as_bytes()).trim().to_owned();
    match answered.parse::<u8>() {
        Ok(version @ 1..=QWP_VERSION) => Ok(version),
        _ => Err(UpgradeError::BadVersion {
            answered,
            offered: QWP_VERSION,
        }),
    }
}

fn batch_size(headers: &HeaderMap) -> Option<u64> {
    let digits = text(headers, "X-QWP-Max-Batch-Size")?;
    digits.parse().ok().filter(|&size| size > 0)
}

fn durable(
    headers: &HeaderMap,
    asked: Option<DurableTier>,
) -> Result<Option<DurableTier>, UpgradeError> {
    let Some(tier) = asked else { return Ok(None) };
    let granted = text(headers, "X-QWP-Durable-Ack");
    if granted.is_some_and(|granted| granted.eq_ignore_ascii_case(tier.grant())) {
        return Ok(Some(tier));
    }
    let granted = granted.map(str::to_owned);
    Err(UpgradeError::DurableMismatch {
        asked: tier.ask(),
        granted,
    })
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
