//! The sink over real sockets, driven by a scripted client.

use std::fs;
use std::time::{Duration, Instant};

use super::test_client::{Client, Said, message, quotes, two_trades};
use super::{Depth, Sink, SinkConfig};
use forebay_wire::header::Flags;
use forebay_wire::upgrade::{UpgradeError, UpgradePolicy};
use forebay_wire::varint;
use forebay_wire::ws::Opcode;

fn sink(config: SinkConfig) -> Sink {
    Sink::start(config).expect("a free port")
}

#[test]
fn counts_rows_tables_and_symbols_and_acks_with_the_table() {
    let sink = sink(SinkConfig::default());
    let mut client = Client::connect(sink.addr());
    client.send(&two_trades());
    assert_eq!(client.hear(), Said::Ok(0, vec![("trades".into(), 1)]));
    client.send(&quotes(1000, 2, &["a"]));
    assert_eq!(client.hear(), Said::Ok(1, vec![("quotes".into(), 1)]));
    let totals = sink.totals();
    assert_eq!(
        (totals.connections, totals.upgrades, totals.messages),
        (1, 1, 2)
    );
    assert_eq!((totals.rows, totals.symbols), (1002, 3));
    let trades = totals.tables["trades"];
    // The message less header (12) and delta section (18).
    assert_eq!((trades.rows, trades.blocks, trades.bytes), (2, 1, 90 - 30));
    assert_eq!(totals.tables["quotes"].rows, 1000);
    let last = sink.stop();
    assert_eq!(last.to_json()["tables"]["trades"]["rows"], 2);
    assert_eq!(client.hear(), Said::Gone, "stopping cuts connections");
}

#[test]
fn dictionaries_belong_to_connections_and_transactions_to_tables() {
    let sink = sink(SinkConfig {
        depth: Depth::Decode,
        ..SinkConfig::default()
    });
    let mut first = Client::connect(sink.addr());
    first.send(&two_trades());
    first.wait_ok(0);
    let mut second = Client::connect(sink.addr());
    second.send(&quotes(10, 2, &[]));
    let text = "delta symbol dictionary gap: deltaStartId 2 exceeds dictionary size 0";
    assert_eq!(second.hear(), Said::Error(0x0D, 0, text.into()));
    let mut third = Client::connect(sink.addr());
    third.send(&two_trades());
    assert_eq!(third.hear(), Said::Ok(0, vec![("trades".into(), 2)]));
    assert_eq!(sink.totals().messages_refused, 1);
}

#[test]
fn only_decoding_checks_symbol_ids_and_a_refused_message_leaves_no_rows() {
    let unknown_ids = quotes(10, 0, &["only"]);
    let counting = sink(SinkConfig::default());
    let mut client = Client::connect(counting.addr());
    client.send(&unknown_ids);
    client.wait_ok(0);
    let decoding = sink(SinkConfig {
        depth: Depth::Decode,
        ..SinkConfig::default()
    });
    let mut client = Client::connect(decoding.addr());
    client.send(&unknown_ids);
    let Said::Error(0x05, 0, text) = client.hear() else {
        panic!("not refused")
    };
    assert!(text.starts_with("symbol index out of range"), "{text}");
    assert_eq!(decoding.totals().rows, 0);
}

#[test]
fn strict_refuses_what_genuine_tolerates() {
    let mut surplus = two_trades();
    surplus.push(0);
    let genuine = sink(SinkConfig::default());
    let mut client = Client::connect(genuine.addr());
    client.send(&surplus);
    client.wait_ok(0);
    let strict = sink(SinkConfig {
        strict: true,
        ..SinkConfig::default()
    });
    let mut client = Client::connect(strict.addr());
    client.send(&surplus);
    let Said::Error(0x05, 0, text) = client.hear() else {
        panic!("not refused")
    };
    assert!(text.starts_with("strict: "), "{text}");
}

#[test]
fn stored_rows_are_in_the_file_when_the_ok_arrives() {
    let dir = tempfile::tempdir().unwrap();
    let store = Some(dir.path().to_owned());
    let sink = sink(SinkConfig {
        store,
        ..SinkConfig::default()
    });
    let mut client = Client::connect(sink.addr());
    client.send(&two_trades());
    client.wait_ok(0);
    let want = "{\"sym\":\"ETH-USD\",\"price\":2615.54,\"timestamp\":1700000000000000}\n\
        {\"sym\":\"BTC-USD\",\"price\":39269.98,\"timestamp\":1700000000000001}\n";
    assert_eq!(
        fs::read_to_string(dir.path().join("trades.ndjson")).unwrap(),
        want
    );
}

#[test]
fn deferred_rows_are_stored_with_the_message_that_commits_and_lost_with_the_connection() {
    let dir = tempfile::tempdir().unwrap();
    let store = Some(dir.path().to_owned());
    let sink = sink(SinkConfig {
        store,
        ..SinkConfig::default()
    });
    let mut deferred = two_trades();
    deferred[5] |= 0x01;
    let mut lost = Client::connect(sink.addr());
    lost.send(&deferred);
    lost.send_frame(Opcode::Close, &[0x03, 0xE8]);
    assert_eq!(
        lost.hear(),
        Said::Close(Some(1000)),
        "no OK for an open group"
    );
    assert_eq!(sink.totals().rows, 0);
    let mut client = Client::connect(sink.addr());
    client.send(&deferred);
    client.send(&deferred);
    client.send(&message(Flags::DELTA_SYMBOL_DICT, 0, &[2, 0]));
    assert_eq!(client.hear(), Said::Ok(2, vec![("trades".into(), 1)]));
    let text = fs::read_to_string(dir.path().join("trades.ndjson")).unwrap();
    assert_eq!(text.lines().count(), 4);
    assert_eq!(sink.totals().rows, 4);
}

#[test]
fn every_type_is_stored_as_the_corpus_writes_it() {
    let hex = "51575031010801009e010000 0000 0174 02 11 02693802 0369313603 0369333204 0366333206 \
        01750c 01680d 02697018 0264740b 016316 0362696e17 01670e 0267380e 02646111 026c6112 \
        02746e10 0274750a 0010 00ff01 00feff0000 00fdffffff00000080 000000c03f0000c07f \
        010201000000000000000200000000000000 \
        01020100000000000000000000000000000000000000000000000000000000000040 01020100000a \
        0102005c260500000000 0041000000 0102000000000200000000ff 01020516 010208ff \
        01020102000000000000000000f03f0000000000000040 \
        0102020100000003000000010000000000000002000000000000000300000000000000 \
        01020500000000000000 0102f9ffffffffffffff 00e803000000000000d007000000000000";
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let bytes: Vec<u8> = digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect();
    let dir = tempfile::tempdir().unwrap();
    let store = Some(dir.path().to_owned());
    let sink = sink(SinkConfig {
        store,
        strict: true,
        ..SinkConfig::default()
    });
    let mut client = Client::connect(sink.addr());
    client.send(&with_columns_terminated(bytes));
    client.wait_ok(0);
    let text = fs::read_to_string(dir.path().join("t.ndjson")).unwrap();
    let rows: Vec<&str> = text.lines().collect();
    let long256 = "0x4000000000000000000000000000000000000000000000000000000000000001";
    let want = format!(
        "{{\"i8\":-1,\"i16\":-2,\"i32\":-3,\"f32\":1.5,\
         \"u\":\"00000000-0000-0002-0000-000000000001\",\"h\":\"{long256}\",\"ip\":\"10.0.0.1\",\
         \"dt\":86400000,\"c\":\"65\",\"bin\":\"00ff\",\"g\":\"22/5\",\"g8\":\"255/8\",\
         \"da\":{{\"dims\":[2],\"v\":[\"0x3ff0000000000000\",\"0x4000000000000000\"]}},\
         \"la\":{{\"dims\":[1,3],\"v\":[\"1\",\"2\",\"3\"]}},\
         \"tn\":5,\"tu\":-7,\"timestamp\":1000}}"
    );
    assert_eq!(rows[0], want);
    let nulls = "{\"i8\":1,\"i16\":0,\"i32\":-2147483648,\"f32\":\"NaN\",\"u\":null,\"h\":null,\
        \"ip\":null,\"dt\":null,\"c\":\"0\",\"bin\":null,\"g\":null,\"g8\":null,\"da\":null,\
        \"la\":null,\"tn\":null,\"tu\":null,\"timestamp\":2000}";
    assert_eq!(rows[1], nulls);
}

/// The published dump leaves the payload length of its 298 bytes at 0x11e.
fn with_columns_terminated(mut bytes: Vec<u8>) -> Vec<u8> {
    let payload = u32::try_from(bytes.len() - 12).unwrap();
    bytes[8..12].copy_from_slice(&payload.to_le_bytes());
    bytes
}

#[test]
fn a_million_deferred_rows_of_a_table_are_committed_early() {
    let sink = sink(SinkConfig::default());
    let mut client = Client::connect(sink.addr());
    let rows = 600_000_u32;
    let mut body = b"\x01t".to_vec();
    varint::push(rows.into(), &mut body);
    body.extend_from_slice(b"\x01\x01c\x02\0");
    body.resize(body.len() + rows as usize, 7);
    for seq in [1, 3] {
        for _ in 0..2 {
            client.send(&message(Flags::DEFER_COMMIT, 1, &body));
        }
        assert_eq!(
            client.hear(),
            Said::Ok(seq, vec![("t".into(), (seq + 1) / 2)])
        );
    }
    assert_eq!(sink.stop().rows, 2_400_000);
}

#[test]
fn connections_are_dropped_after_their_share_of_messages() {
    let sink = sink(SinkConfig {
        drop_after: Some(3),
        ..SinkConfig::default()
    });
    for _ in 0..2 {
        let mut client = Client::connect(sink.addr());
        for _ in 0..3 {
            client.send(&two_trades());
        }
        client.wait_ok(2);
        assert_eq!(client.hear(), Said::Gone);
    }
    assert_eq!((sink.totals().drops, sink.totals().messages), (2, 6));
}

#[test]
fn answers_are_held_back_in_their_order() {
    let ack_delay = Duration::from_millis(40);
    let sink = sink(SinkConfig {
        ack_delay,
        ..SinkConfig::default()
    });
    let mut client = Client::connect(sink.addr());
    let start = Instant::now();
    client.send(&two_trades());
    client.send(b"not QWP");
    client.wait_ok(0);
    assert!(start.elapsed() >= ack_delay);
    let Said::Error(0x05, 1, _) = client.hear() else {
        panic!("not refused")
    };
}

#[test]
fn connects_are_refused_for_the_configured_time_and_then_taken() {
    let refuse_for = Duration::from_secs(2);
    let start = Instant::now();
    let sink = sink(SinkConfig {
        refuse_for,
        ..SinkConfig::default()
    });
    let mut refusals = 0;
    while let Err(e) = std::net::TcpStream::connect(sink.addr()) {
        assert_eq!(e.kind(), std::io::ErrorKind::ConnectionRefused);
        refusals += 1;
        std::thread::sleep(Duration::from_millis(1));
        assert!(start.elapsed() < Duration::from_secs(30));
    }
    assert!(refusals > 0);
    assert!(start.elapsed() >= refuse_for);
    let mut client = Client::connect(sink.addr());
    client.send(&two_trades());
    client.wait_ok(0);
}

#[test]
fn roles_and_oversized_frames_are_refused_as_the_genuine_server_does() {
    let replica = UpgradePolicy {
        role: Some("REPLICA".into()),
        ..UpgradePolicy::default()
    };
    let sink_of_replica = sink(SinkConfig {
        upgrade: replica,
        ..SinkConfig::default()
    });
    let refused = Client::try_connect(sink_of_replica.addr()).err();
    let want = UpgradeError::RoleReject {
        role: "REPLICA".into(),
        transient: false,
    };
    assert_eq!(refused, Some(want));
    assert_eq!(sink_of_replica.stop().upgrades_rejected, 1);

    let small = sink(SinkConfig {
        recv_buffer_bytes: 4096,
        ..SinkConfig::default()
    });
    let mut client = Client::connect(small.addr());
    client.send(&quotes(1000, 0, &[]));
    assert_eq!(client.hear(), Said::Close(Some(1009)));
}

#[test]
fn an_unmasked_frame_is_dropped_without_a_close() {
    let sink = sink(SinkConfig::default());
    let mut client = Client::connect(sink.addr());
    client.send_raw(&[0x82, 0x01, 0x00]);
    assert_eq!(client.hear(), Said::Gone);
}

#[test]
fn many_connections_count_into_one_table() {
    let sink = sink(SinkConfig::default());
    let addr = sink.addr();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(move || {
                let mut client = Client::connect(addr);
                for seq in 0..50 {
                    client.send(&two_trades());
                    client.wait_ok(seq);
                }
            });
        }
    });
    let totals = sink.stop();
    assert_eq!((totals.rows, totals.connections), (800, 8));
    assert_eq!(totals.tables["trades"].transactions, 400);
}
