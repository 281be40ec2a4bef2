//! Requests of good and bad clients against [`answer`].

use super::*;
use crate::upgrade::{FixedReply, UpgradeRequest};
use proptest::prelude::*;

fn good() -> String {
    let request = UpgradeRequest::new("127.0.0.1", 9000, false, *b"the sample nonce");
    String::from_utf8(request.encode()).expect("ASCII")
}

fn decide(text: &str, policy: &UpgradePolicy) -> (u16, String) {
    match answer(text.as_bytes(), policy).expect("complete") {
        Answer::Accept(accepted) => (101, String::from_utf8(accepted.response).expect("ASCII")),
        Answer::Reject { status, response } => {
            (status, String::from_utf8(response).expect("ASCII"))
        }
    }
}

fn bad(text: &str) -> String {
    let (status, response) = decide(text, &UpgradePolicy::default());
    assert_eq!(status, 400, "{response}");
    let (head, body) = response.split_once("\r\n\r\n").expect("a body");
    let want = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: {}",
        body.len()
    );
    assert_eq!(head, want);
    body.to_owned()
}

#[test]
fn the_101_has_the_genuine_headers_in_their_order() {
    let policy = UpgradePolicy {
        role: Some("PRIMARY".to_owned()),
        durable: Some(DurableTier::On),
        ..UpgradePolicy::default()
    };
    let request = good().replace(
        "\r\n\r\n",
        "\r\nX-QWP-Request-Durable-Ack: TRUE\r\nX-QWP-Client-Id: t/1\r\n\r\nrest",
    );
    let Some(Answer::Accept(accepted)) = answer(request.as_bytes(), &policy) else {
        panic!("refused")
    };
    let want = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nX-QWP-Version: 1\r\n\
        X-QWP-Durable-Ack: enabled\r\nX-QuestDB-Role: PRIMARY\r\n\
        X-QWP-Max-Batch-Size: 2097138\r\n\r\n";
    assert_eq!(String::from_utf8_lossy(&accepted.response), want);
    assert_eq!(&request[accepted.consumed..], "rest");
    assert_eq!(accepted.durable, Some(DurableTier::On));
    assert_eq!(accepted.client_id.as_deref(), Some("t/1"));
}

#[test]
fn a_default_server_grants_no_durable_acks_and_names_no_role() {
    let request = good().replace("\r\n\r\n", "\r\nX-QWP-Request-Durable-Ack: true\r\n\r\n");
    let (status, response) = decide(&request, &UpgradePolicy::default());
    assert_eq!(status, 101);
    assert!(
        !response.contains("Durable") && !response.contains("Role"),
        "{response}"
    );
    let short = good().replace(INGEST_PATH, INGEST_PATH_SHORT);
    assert_eq!(decide(&short, &UpgradePolicy::default()).0, 101);
}

#[test]
fn what_a_handshake_lacks_is_said_in_the_genuine_words() {
    let without = |name: &str| {
        let lines = good();
        let kept: Vec<_> = lines
            .split("\r\n")
            .filter(|l| !l.starts_with(name))
            .collect();
        kept.join("\r\n")
    };
    assert_eq!(bad(&without("Upgrade:")), "Missing Upgrade header");
    assert_eq!(
        bad(&good().replace(": websocket", ": h2c")),
        "Invalid Upgrade header value"
    );
    assert_eq!(bad(&without("Connection:")), "Missing Connection header");
    let close = good().replace("Connection: Upgrade", "Connection: close");
    assert_eq!(bad(&close), "Connection header must contain 'upgrade'");
    assert_eq!(
        bad(&without("Sec-WebSocket-Key")),
        "Missing Sec-WebSocket-Key header"
    );
    let short_key = good().replace("bm9uY2U==", "");
    let want = "Invalid Sec-WebSocket-Key (must be 24-character base64 key)";
    assert_eq!(bad(&good().replace("dGhl", "dG l")), want);
    assert_eq!(bad(&short_key.replace("dGhl", "dG")), want);
    let origin = good().replace("Upgrade: websocket", "Origin: http://x");
    assert_eq!(bad(&origin), "Origin header not allowed on QWP WebSocket");
    assert_eq!(bad("FOO\r\n\r\n"), "Bad Request");
}

#[test]
fn version_role_and_path_are_checked_in_that_order() {
    let policy = |role: &str| UpgradePolicy {
        role: Some(role.to_owned()),
        ..UpgradePolicy::default()
    };
    let old = good()
        .replace("Version: 13", "Version: 8")
        .replace(INGEST_PATH, "/exec");
    let upgrade_required = "HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\n\
        Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nContent-Length: 0\r\n\r\n";
    let got = decide(&old, &policy("REPLICA"));
    assert_eq!(got, (426, upgrade_required.to_owned()));
    let elsewhere = good().replace(INGEST_PATH, "/exec");
    let misdirected = "HTTP/1.1 421 Misdirected Request\r\nConnection: close\r\n\
        Content-Length: 0\r\nX-QuestDB-Role: REPLICA\r\n\r\n";
    assert_eq!(
        decide(&elsewhere, &policy("REPLICA")),
        (421, misdirected.to_owned())
    );
    assert_eq!(decide(&elsewhere, &policy("PRIMARY")).0, 404);
    assert_eq!(decide(&good(), &policy("PRIMARY_CATCHUP")).0, 421);
}

#[test]
fn other_methods_than_get_are_not_allowed() {
    let put = good().replacen("GET", "PUT", 1);
    let (status, response) = decide(&put, &UpgradePolicy::default());
    assert_eq!(status, 405);
    assert!(response.contains("\r\nAllow: GET\r\n"), "{response}");
    let nonsense = good().replacen("GET", "get me", 1);
    assert_eq!(decide(&nonsense, &UpgradePolicy::default()).0, 400);
}

#[test]
fn credentials_come_before_everything_else() {
    let policy = UpgradePolicy {
        authorization: Some("Bearer right".to_owned()),
        ..UpgradePolicy::default()
    };
    let bare = "GET /exec HTTP/1.1\r\n\r\n";
    assert_eq!(decide(bare, &policy).0, 401);
    let with =
        |value: &str| good().replace("\r\n\r\n", &format!("\r\nAuthorization: {value}\r\n\r\n"));
    assert_eq!(decide(&with("Bearer wrong"), &policy).0, 401);
    assert_eq!(decide(&with("Bearer right"), &policy).0, 101);
}

#[test]
fn a_fixed_reply_is_given_to_everybody() {
    let fixed = FixedReply {
        status: 503,
        headers: vec![("Retry-After".into(), "1".into())],
    };
    let policy = UpgradePolicy {
        fixed: Some(fixed),
        ..UpgradePolicy::default()
    };
    let want = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(decide(&good(), &policy), (503, want.to_owned()));
}

#[test]
fn an_endless_head_is_refused() {
    let long = format!("GET / HTTP/1.1\r\n{}", "X-A: b\r\n".repeat(10_000));
    assert_eq!(decide(&long, &UpgradePolicy::default()).0, 431);
    assert_eq!(
        answer(&long.as_bytes()[..500], &UpgradePolicy::default()),
        None
    );
}

proptest! {
    #[test]
    fn any_change_of_a_byte_is_answered_without_panic(at in 0_usize..200, byte in any::<u8>()) {
        let mut bytes = good().into_bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Some(Answer::Accept(accepted)) = answer(&bytes, &UpgradePolicy::default()) {
            prop_assert!(accepted.consumed <= bytes.len());
        }
    }
}
