//! Each upgrade and each ending that a script can want, as a client on a raw socket sees it.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::test_client::{Client, Said, quotes, two_trades};
use super::{Fate, Records, Sink, SinkConfig, basic_authorization};
use forebay_wire::upgrade::{DurableTier, UpgradeError, UpgradeRequest};
use forebay_wire::ws::Opcode;

pub(super) fn scripted(text: &str) -> Sink {
    let script = text.parse().expect("a script");
    Sink::start(SinkConfig::scripted(script)).expect("a free port")
}

fn refusal(sink: &Sink) -> UpgradeError {
    Client::try_connect(sink.addr()).err().expect("refused")
}

fn until(what: impl Fn() -> bool) {
    let start = Instant::now();
    while !what() {
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "it never happens"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn upgrades_are_refused_by_connection_number_and_count() {
    let sink = scripted(
        "conn 0 -> http 401\n\
         conn 1..2 times 1 -> http 503 \"Retry-After: 1\"\n\
         conn 3/2 -> http 421 \"X-QuestDB-Role: REPLICA\"",
    );
    assert_eq!(refusal(&sink), UpgradeError::Auth { status: 401 });
    assert_eq!(refusal(&sink), UpgradeError::Status { status: 503 });
    Client::connect(sink.addr());
    let role = "REPLICA".to_owned();
    let transient = false;
    assert_eq!(refusal(&sink), UpgradeError::RoleReject { role, transient });
    let answered = |records: &Records| records.connections.len() == 4;
    assert!(sink.wait_for(Duration::from_secs(10), answered));
    let records = sink.records();
    let statuses: Vec<_> = records.connections.iter().map(|c| c.http_status).collect();
    assert_eq!(statuses, [Some(401), Some(503), Some(101), Some(421)]);
    assert_eq!(records.connections[1].header("upgrade"), Some("websocket"));
}

#[test]
fn the_101_can_lack_or_falsify_what_a_client_checks() {
    let sink = scripted("conn 0 -> wrong-accept\nconn 1 -> header \"X-QWP-Version: 9\"");
    assert_eq!(refusal(&sink), UpgradeError::BadAccept);
    assert!(matches!(refusal(&sink), UpgradeError::BadVersion { .. }));

    let mut config = SinkConfig::scripted("conn 0 -> no-grant".parse().unwrap());
    config.upgrade.durable = Some(DurableTier::On);
    let sink = Sink::start(config).unwrap();
    let ask = |request: &mut UpgradeRequest<'_>| request.durable = Some(DurableTier::On);
    let refused = Client::try_connect_with(sink.addr(), ask).err().unwrap();
    assert!(matches!(
        refused,
        UpgradeError::DurableMismatch { granted: None, .. }
    ));
    let (_, upgraded) = Client::try_connect_with(sink.addr(), ask).unwrap();
    assert_eq!(upgraded.durable, Some(DurableTier::On));
}

#[test]
fn the_batch_cap_is_advertised_and_enforced() {
    let sink = scripted("conn 0 -> cap 4096\nconn 1 -> cap none");
    let (mut client, upgraded) = Client::try_connect(sink.addr()).unwrap();
    assert_eq!(upgraded.max_batch_size, Some(4096));
    client.send(&quotes(10, 0, &[]));
    client.send(&quotes(1000, 0, &[]));
    assert!(matches!(client.hear(), Said::Ok(0, _) | Said::Error(..)));
    let mut last = client.hear();
    while !matches!(last, Said::Close(_)) {
        last = client.hear();
    }
    assert_eq!(last, Said::Close(Some(1009)));
    let (_, upgraded) = Client::try_connect(sink.addr()).unwrap();
    assert_eq!(upgraded.max_batch_size, None);
}

#[test]
fn half_a_response_silence_raw_bytes_and_endings_come_at_the_upgrade() {
    let sink = scripted(
        "conn 0 -> half-response\nconn 1 upgrade -> half-open\nconn 2 upgrade -> rst\n\
         conn 3 upgrade -> eof\nconn 4 upgrade -> raw 4e4f\nconn 5 upgrade -> pause 50ms",
    );
    let request = UpgradeRequest::new("h", 1, false, [1; 16]).encode();
    let late = Duration::from_secs(10);
    let answer = |wait, bytes| {
        let mut stream = TcpStream::connect(sink.addr()).unwrap();
        stream.write_all(&request).unwrap();
        // However long the first bytes take, then silence for so long.
        stream.set_read_timeout(Some(late)).unwrap();
        let mut text = vec![0; bytes];
        stream.read_exact(&mut text).unwrap();
        stream.set_read_timeout(Some(wait)).unwrap();
        let end = stream.read_to_end(&mut text).map_err(|e| e.kind());
        (String::from_utf8_lossy(&text).into_owned(), end.err())
    };
    let soon = Duration::from_millis(300);
    let (half, end) = answer(soon, 1);
    assert!(
        half.starts_with("HTTP/1.1 101") && !half.contains("\r\n\r\n"),
        "{half}"
    );
    assert_eq!(end, Some(ErrorKind::WouldBlock));
    assert_eq!(
        answer(soon, 0),
        (String::new(), Some(ErrorKind::WouldBlock))
    );
    assert_eq!(
        answer(late, 0),
        (String::new(), Some(ErrorKind::ConnectionReset))
    );
    assert_eq!(answer(late, 0), (String::new(), None));
    assert_eq!(answer(late, 0), ("NO".to_owned(), None));
    let start = Instant::now();
    Client::connect(sink.addr());
    assert!(start.elapsed() >= Duration::from_millis(50));
}

#[test]
fn endings_in_place_of_a_message_leave_it_unapplied_and_acknowledge_those_before() {
    for (action, last) in [
        ("close 1011 \"going\"", Said::Close(Some(1011))),
        ("close 1000", Said::Close(Some(1000))),
        ("eof", Said::Gone),
        ("rst", Said::Gone),
    ] {
        let sink = scripted(&format!("message 2 times 1 -> {action}"));
        let mut client = Client::connect(sink.addr());
        client.send(&two_trades());
        client.wait_ok(0);
        client.send(&two_trades());
        client.wait_ok(1);
        client.send(&two_trades());
        assert_eq!(client.hear(), last, "{action}");
        let mut next = Client::connect(sink.addr());
        for seq in 0..3 {
            next.send(&two_trades());
            next.wait_ok(seq);
        }
        let records = sink.records();
        let fates: Vec<_> = records.connections[0]
            .messages
            .iter()
            .map(|m| m.fate)
            .collect();
        assert_eq!(fates, [Fate::Applied, Fate::Applied, Fate::Cut]);
        assert_eq!(
            (records.connections[0].acked, records.connections[1].acked),
            (2, 3)
        );
        assert_eq!(sink.totals().rows, 10);
    }
}

#[test]
fn applied_endings_keep_the_message_without_an_ok_for_it() {
    let sink = scripted("applied 1 times 1 -> rst");
    let mut client = Client::connect(sink.addr());
    client.send(&two_trades());
    client.wait_ok(0);
    client.send(&two_trades());
    assert_eq!(client.hear(), Said::Gone);
    until(|| sink.totals().rows == 4);
    let first = &sink.records().connections[0];
    assert_eq!(
        (first.messages[1].fate, first.acked),
        (Fate::AppliedAndCut, 1)
    );
}

#[test]
fn half_open_connections_stay_and_say_nothing() {
    let sink = scripted("message 0 -> half-open");
    let mut client = Client::connect(sink.addr());
    client.send(&two_trades());
    client.send_frame(Opcode::Ping, b"?");
    assert!(client.hears_nothing_for(Duration::from_millis(60)));
    drop(sink);
    assert_eq!(client.hear(), Said::Gone);
}

#[test]
fn endings_come_at_times_and_after_oks() {
    let sink = scripted("conn 0 acked 1 -> close 1013\nconn 1 after 30ms -> eof");
    let start = Instant::now();
    let mut client = Client::connect(sink.addr());
    client.send(&two_trades());
    client.send(&two_trades());
    client.wait_ok(1);
    assert_eq!(client.hear(), Said::Close(Some(1013)));
    let mut client = Client::connect(sink.addr());
    assert_eq!(client.hear(), Said::Gone);
    assert!(start.elapsed() >= Duration::from_millis(30));
    let mut client = Client::connect(sink.addr());
    sink.set_script("at 20ms -> close 1001".parse().unwrap());
    assert_eq!(client.hear(), Said::Close(Some(1001)));
}

#[test]
fn a_role_change_ends_connections_and_refuses_upgrades_until_it_ends() {
    let sink = scripted("");
    let mut client = Client::connect(sink.addr());
    client.send(&two_trades());
    client.wait_ok(0);
    sink.set_role(Some("PRIMARY_CATCHUP"));
    assert_eq!(client.hear(), Said::Close(Some(1000)));
    let role = "PRIMARY_CATCHUP".to_owned();
    let transient = true;
    assert_eq!(refusal(&sink), UpgradeError::RoleReject { role, transient });
    sink.set_role(Some("PRIMARY"));
    let (_, upgraded) = Client::try_connect(sink.addr()).unwrap();
    assert_eq!(upgraded.role.as_deref(), Some("PRIMARY"));
    sink.set_script("message 0 -> role REPLICA".parse().unwrap());
    let mut client = Client::connect(sink.addr());
    client.send(&two_trades());
    assert_eq!(client.hear(), Said::Close(Some(1000)));
}

#[test]
fn a_sink_that_stops_listening_refuses_connects_and_keeps_connections() {
    let closed_for = Duration::from_secs(1);
    let start = Instant::now();
    let sink = scripted("at 1ms -> stop-listening 1s");
    until(|| TcpStream::connect(sink.addr()).is_err());
    until(|| TcpStream::connect(sink.addr()).is_ok());
    assert!(start.elapsed() >= closed_for);
    let mut client = Client::connect(sink.addr());
    sink.stop_listening(closed_for);
    until(|| TcpStream::connect(sink.addr()).is_err());
    client.send(&two_trades());
    client.wait_ok(0);
    until(|| TcpStream::connect(sink.addr()).is_ok());
}

#[test]
fn credentials_can_be_exchanged_while_the_sink_runs() {
    let mut config = SinkConfig::scripted("".parse().unwrap());
    config.upgrade.authorization = Some("Bearer first".to_owned());
    let sink = Sink::start(config).unwrap();
    let with = |value: &'static str| {
        let result = Client::try_connect_with(sink.addr(), |r| r.authorization = Some(value));
        result.err()
    };
    assert_eq!(refusal(&sink), UpgradeError::Auth { status: 401 });
    assert_eq!(with("Bearer first"), None);
    let basic = basic_authorization("admin:quest");
    assert_eq!(basic, "Basic YWRtaW46cXVlc3Q=");
    sink.set_authorization(Some(&basic));
    assert_eq!(
        with("Bearer first"),
        Some(UpgradeError::Auth { status: 401 })
    );
    assert_eq!(with("Basic YWRtaW46cXVlc3Q="), None);
    let json = sink.records().to_json().to_string();
    assert!(json.contains("Bearer") && !json.contains("first"), "{json}");
}

#[test]
fn thousands_of_reset_connections_leave_nothing_behind() {
    let sink = scripted("applied 0 -> rst");
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = open();
    for _ in 0..2000 {
        let mut client = Client::connect(sink.addr());
        client.send(&two_trades());
        assert_eq!(client.hear(), Said::Gone);
    }
    until(|| open() < before + 100);
    let records = sink.records();
    assert!(records.connections.iter().all(|conn| conn.acked == 0));
    assert_eq!(sink.stop().rows, 4000);
}
