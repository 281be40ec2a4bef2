//! Answers of good and bad servers against [`UpgradeReply::parse`].

use super::*;
use proptest::prelude::*;

const GOOD: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\n\
    Connection: keep-alive, upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

fn expected(durable: Option<DurableTier>) -> Expected {
    let mut request = UpgradeRequest::new("localhost", 9000, false, *b"the sample nonce");
    request.durable = durable;
    Expected::of(&request)
}

fn parse(text: &str) -> Result<Option<Upgraded>, UpgradeError> {
    UpgradeReply::parse(text.as_bytes(), &expected(None))
}

/// The good answer with `line` among its headers.
fn with(line: &str) -> String {
    GOOD.replace("\r\n\r\n", &format!("\r\n{line}\r\n\r\n"))
}

fn upgraded(text: &str) -> Upgraded {
    parse(text).expect("accepted").expect("complete")
}

#[test]
fn a_bare_answer_is_version_1_with_unknown_cap() {
    let got = upgraded(GOOD);
    let want = Upgraded {
        consumed: GOOD.len(),
        version: 1,
        max_batch_size: None,
        role: None,
        durable: None,
    };
    assert_eq!(got, want);
    for cut in 0..GOOD.len() {
        assert_eq!(parse(&GOOD[..cut]), Ok(None), "{cut}");
    }
}

#[test]
fn cap_and_role_are_read_and_nonsense_is_unknown() {
    assert_eq!(
        upgraded(&with("X-QWP-Max-Batch-Size:  1000 ")).max_batch_size,
        Some(1000)
    );
    for nonsense in ["0", "-1", "many", "99999999999999999999", ""] {
        let line = format!("X-QWP-Max-Batch-Size: {nonsense}");
        assert_eq!(upgraded(&with(&line)).max_batch_size, None, "{nonsense}");
    }
    let role = upgraded(&with("X-QuestDB-Role: PRIMARY")).role;
    assert_eq!(role.as_deref(), Some("PRIMARY"));
}

#[test]
fn statuses_fall_into_their_classes() {
    let status = |line: &str| parse(&format!("HTTP/1.1 {line}\r\n\r\n"));
    for code in [401, 403] {
        assert_eq!(
            status(&format!("{code} No")),
            Err(UpgradeError::Auth { status: code })
        );
    }
    for code in [200, 400, 404, 421, 426, 500, 503] {
        assert_eq!(
            status(&format!("{code} No")),
            Err(UpgradeError::Status { status: code })
        );
    }
    let role = |role: &str, transient| {
        let got = status(&format!(
            "421 Misdirected Request\r\nX-QuestDB-Role: {role}"
        ));
        assert_eq!(
            got,
            Err(UpgradeError::RoleReject {
                role: role.to_owned(),
                transient
            })
        );
    };
    role("primary_catchup", true);
    role("REPLICA", false);
    role("SOMETHING_NEW", false);
    let empty = status("421 Misdirected Request\r\nX-QuestDB-Role: ");
    assert_eq!(empty, Err(UpgradeError::Status { status: 421 }));
}

#[test]
fn a_101_that_proves_nothing_is_refused() {
    let no_upgrade = GOOD.replace("Upgrade: WebSocket\r\n", "");
    assert_eq!(
        parse(&no_upgrade),
        Err(UpgradeError::NotUpgraded { header: "Upgrade" })
    );
    let no_connection = GOOD.replace("keep-alive, upgrade", "keep-alive");
    assert_eq!(
        parse(&no_connection),
        Err(UpgradeError::NotUpgraded {
            header: "Connection"
        })
    );
    assert_eq!(
        parse(&GOOD.replace("s3pP", "S3pP")),
        Err(UpgradeError::BadAccept)
    );
}

#[test]
fn versions_that_were_not_offered_are_refused() {
    assert_eq!(upgraded(&with("X-QWP-Version: 1")).version, 1);
    for text in ["0", "2", "256", "one", ""] {
        let got = parse(&with(&format!("X-QWP-Version: {text}")));
        let want = UpgradeError::BadVersion {
            answered: text.to_owned(),
            offered: 1,
        };
        assert_eq!(got, Err(want));
    }
}

#[test]
fn a_durable_grant_must_be_the_one_asked_for() {
    let ask = |tier, text: &str| UpgradeReply::parse(text.as_bytes(), &expected(Some(tier)));
    let got = ask(DurableTier::On, &with("X-QWP-Durable-Ack: Enabled"));
    let granted = got.expect("granted").expect("complete").durable;
    assert_eq!(granted, Some(DurableTier::On));
    let mismatch = |asked, granted: Option<&str>| {
        Err(UpgradeError::DurableMismatch {
            asked,
            granted: granted.map(str::to_owned),
        })
    };
    assert_eq!(ask(DurableTier::On, GOOD), mismatch("true", None));
    let enabled = with("X-QWP-Durable-Ack: enabled");
    assert_eq!(
        ask(DurableTier::Local, &enabled),
        mismatch("local", Some("enabled"))
    );
    assert_eq!(upgraded(&enabled).durable, None, "not asked, so ignored");
}

#[test]
fn heads_over_the_limits_are_refused() {
    let long = with(&format!("X-Long: {}", "a".repeat(LINE_BYTES_MAX)));
    let line: Result<Option<Upgraded>, _> = Err(UpgradeError::LineTooLong {
        limit_bytes: LINE_BYTES_MAX,
    });
    assert_eq!(parse(&long), line.clone());
    assert_eq!(parse(&"a".repeat(LINE_BYTES_MAX + 1)), line);
    let many = with(&["X-A: b"; 6].join("\r\n").replace('b', &"b".repeat(8000)));
    let head = Err(UpgradeError::HeadTooLarge {
        limit_bytes: HEAD_BYTES_MAX,
    });
    assert_eq!(parse(&many), head);
}

#[test]
fn what_is_not_http_is_malformed() {
    let got = parse("SSH-2.0-OpenSSH_9.6\r\n\r\n");
    assert!(
        matches!(got, Err(UpgradeError::Malformed { .. })),
        "{got:?}"
    );
}

proptest! {
    #[test]
    fn any_change_of_a_byte_is_read_without_panic(at in 0..GOOD.len(), byte in any::<u8>()) {
        let mut bytes = GOOD.as_bytes().to_vec();
        bytes[at] = byte;
        if let Ok(Some(upgraded)) = UpgradeReply::parse(&bytes, &expected(None)) {
            prop_assert!(upgraded.consumed <= bytes.len());
        }
    }
}
