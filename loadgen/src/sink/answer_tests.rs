//! Each way of answering that a script can want, as a client on a raw socket sees it.

use std::time::{Duration, Instant};

use super::script_tests::scripted;
use super::test_client::{Client, Said, message, quotes, two_trades};
use super::{DurableManners, Fate, Malformed, RecordLimits, Sink, SinkConfig};
use forebay_wire::header::Flags;
use forebay_wire::upgrade::{DurableTier, UpgradeRequest};
use forebay_wire::ws::{self, Opcode};

fn trades() -> Vec<(String, i64)> {
    vec![("trades".into(), 1)]
}

#[test]
fn messages_are_refused_by_number_and_by_table_and_the_rest_is_silence() {
    let sink = scripted(
        "conn 0 message 1 -> nack 0x09 \"disk full\"\n\
         table quotes times 1 -> nack 0x03 no such column\nconn 2 message 0 -> nack 0x7f",
    );
    let mut client = Client::connect(sink.addr());
    for _ in 0..3 {
        client.send(&two_trades());
    }
    let mut last = client.hear();
    while matches!(last, Said::Ok(0, _)) {
        last = client.hear();
    }
    assert_eq!(last, Said::Error(9, 1, "disk full".into()));
    client.send_frame(Opcode::Ping, b"");
    assert_eq!(client.hear_any(), Said::Pong);
    let fates: Vec<_> = sink.records().messages().map(|m| m.fate).collect();
    assert_eq!(fates, [Fate::Applied, Fate::Refused(9), Fate::Silenced]);
    let mut client = Client::connect(sink.addr());
    client.send(&two_trades());
    client.wait_ok(0);
    client.send(&quotes(2, 2, &[]));
    assert_eq!(client.hear(), Said::Error(3, 1, "no such column".into()));
    let mut client = Client::connect(sink.addr());
    client.send(&two_trades());
    assert_eq!(client.hear(), Said::Error(0x7F, 0, String::new()));
    let totals = sink.totals();
    assert_eq!((totals.messages_refused, totals.rows), (3, 4));
}

#[test]
fn an_error_after_a_message_was_stored_makes_the_client_send_it_again() {
    let dir = tempfile::tempdir().unwrap();
    let sink = Sink::start(SinkConfig {
        store: Some(dir.path().to_owned()),
        ..SinkConfig::scripted("applied 1 times 1 -> nack 0x06 later".parse().unwrap())
    })
    .unwrap();
    let mut client = Client::connect(sink.addr());
    client.send(&two_trades());
    client.wait_ok(0);
    client.send(&two_trades());
    assert_eq!(client.hear(), Said::Error(6, 1, "later".into()));
    let stored = std::fs::read_to_string(dir.path().join("trades.ndjson")).unwrap();
    assert_eq!(stored.lines().count(), 4);
    let first = &sink.records().connections[0];
    assert_eq!(
        (first.messages[1].fate, first.acked),
        (Fate::AppliedAndCut, 1)
    );
}

#[test]
fn a_typed_sink_refuses_what_a_column_cannot_take_until_the_table_is_made_anew() {
    let sink = Sink::start(SinkConfig {
        typed: true,
        ..SinkConfig::default()
    })
    .unwrap();
    let column = |ty: u8, cell: &[u8]| {
        let body = [b"\x01t\x01\x01\x01C", &[ty, 0][..], cell].concat();
        message(Flags::NONE, 1, &body)
    };
    let send = |message: &[u8]| {
        let mut client = Client::connect(sink.addr());
        client.send(message);
        client.hear()
    };
    let as_uuid = column(0x0C, &[1; 16]);
    assert_eq!(
        send(&column(0x05, &[1; 8])),
        Said::Ok(0, vec![("t".into(), 1)])
    );
    assert_eq!(
        send(&column(0x07, &[1; 8])),
        Said::Ok(0, vec![("t".into(), 2)])
    );
    let text = "column \"C\" is Long, cannot take Uuid";
    assert_eq!(send(&as_uuid), Said::Error(3, 0, text.into()));
    sink.recreate_table("t");
    assert_eq!(send(&as_uuid), Said::Ok(0, vec![("t".into(), 1)]));
}

#[test]
fn oks_are_held_skipped_delayed_repeated_and_ahead() {
    let sink = scripted(
        "conn 0 message 1 -> hold 60ms\nconn 1 message 0 -> skip 2\nconn 2 -> delay 40ms\n\
         conn 3 message 0 -> duplicate-ok\nconn 4 message 0 -> ok-ahead 7",
    );
    let mut client = Client::connect(sink.addr());
    client.send(&two_trades());
    assert_eq!(client.hear(), Said::Ok(0, trades()));
    let start = Instant::now();
    let mut two = Vec::new();
    for _ in 0..2 {
        ws::append_client_frame(&mut two, Opcode::Binary, &two_trades(), [1, 2, 3, 4]);
    }
    client.send_raw(&two);
    assert_eq!(client.hear(), Said::Ok(2, vec![("trades".into(), 3)]));
    assert!(start.elapsed() >= Duration::from_millis(60));

    let mut client = Client::connect(sink.addr());
    client.send(&two_trades());
    client.send(&two_trades());
    assert!(client.hears_nothing_for(Duration::from_millis(30)));
    client.send(&two_trades());
    assert_eq!(client.hear(), Said::Ok(2, vec![("trades".into(), 6)]));

    let mut client = Client::connect(sink.addr());
    let start = Instant::now();
    client.send(&two_trades());
    client.wait_ok(0);
    assert!(start.elapsed() >= Duration::from_millis(40));

    let mut client = Client::connect(sink.addr());
    client.send(&two_trades());
    assert_eq!(client.hear(), Said::Ok(0, vec![("trades".into(), 8)]));
    assert_eq!(client.hear(), Said::Ok(0, vec![]));

    let mut client = Client::connect(sink.addr());
    client.send(&two_trades());
    assert_eq!(client.hear(), Said::Ok(7, vec![]));
    client.send(&two_trades());
    assert_eq!(client.hear(), Said::Ok(1, vec![("trades".into(), 10)]));
}

#[test]
fn malformed_answers_come_in_place_of_the_ok() {
    let lines: Vec<String> = Malformed::ALL
        .iter()
        .enumerate()
        .map(|(conn, (name, _))| format!("conn {conn} message 1 -> malformed {name}"))
        .collect();
    let sink = scripted(&lines.join("\n"));
    for (name, kind) in Malformed::ALL {
        let mut client = Client::connect(sink.addr());
        client.send(&two_trades());
        client.wait_ok(0);
        client.send(&two_trades());
        let said = client.hear();
        if kind == Malformed::Fragmented {
            assert_eq!(said, Said::Ok(1, vec![]));
        } else {
            assert!(matches!(said, Said::Wrong(_)), "{name}: {said:?}");
        }
    }
}

#[test]
fn raw_answers_pings_and_silence_to_pings_and_closes() {
    let sink = scripted(
        "conn 0 start -> raw 880203e8\nconn 1 start -> answer 0200000000\n\
         conn 2 start -> ping\nconn 3 -> no-pongs\nconn 3 -> no-close-echo",
    );
    assert_eq!(Client::connect(sink.addr()).hear(), Said::Close(Some(1000)));
    let said = Client::connect(sink.addr()).hear();
    assert!(matches!(said, Said::Wrong(_)), "{said:?}");
    let mut client = Client::connect(sink.addr());
    assert_eq!(client.hear(), Said::Ping);
    client.send(&two_trades());
    client.wait_ok(0);
    let mut client = Client::connect(sink.addr());
    client.send_frame(Opcode::Ping, b"?");
    client.send(&two_trades());
    assert_eq!(client.hear_any(), Said::Ok(0, vec![("trades".into(), 2)]));
    client.send_frame(Opcode::Close, &[3, 0xE8]);
    assert_eq!(client.hear_any(), Said::Gone);
    let records = sink.records();
    assert_eq!(records.connections[2].pongs[0].1, b"sink");
    assert_eq!(records.connections[3].pings[0].1, b"?");
    assert_eq!(records.connections[3].closes[0].1, Some(1000));
}

#[test]
fn pauses_and_slow_reads_hold_up_the_client() {
    let sink = scripted("conn 0 message 0 -> pause 50ms\nconn 1 -> slow-read 50 10ms");
    for at_least in [50, 20] {
        let mut client = Client::connect(sink.addr());
        let start = Instant::now();
        client.send(&two_trades());
        client.wait_ok(0);
        assert!(start.elapsed() >= Duration::from_millis(at_least));
    }
}

fn durable_client(sink: &Sink) -> Client {
    let ask = |request: &mut UpgradeRequest<'_>| request.durable = Some(DurableTier::On);
    Client::try_connect_with(sink.addr(), ask).unwrap().0
}

#[test]
fn durable_acknowledgements_come_late_lagging_never_and_fall_with_a_recreated_table() {
    let mut config = SinkConfig::scripted("".parse().unwrap());
    config.upgrade.durable = Some(DurableTier::On);
    let sink = Sink::start(config).unwrap();
    let mut client = durable_client(&sink);
    let mut sent = -1;
    // What is durable after another message and a PING.
    let mut step = |client: &mut Client, wait: u64| {
        client.send(&two_trades());
        sent += 1;
        client.wait_ok(sent);
        std::thread::sleep(Duration::from_millis(wait));
        client.send_frame(Opcode::Ping, b"");
        let mut durable = None;
        loop {
            match client.hear_any() {
                Said::Durable(tables) => durable = Some(tables[0].1),
                Said::Pong => return durable,
                other => panic!("{other:?}"),
            }
        }
    };
    assert_eq!(step(&mut client, 0), Some(1));
    let lag = 1;
    sink.set_durable(DurableManners {
        lag,
        ..DurableManners::default()
    });
    assert_eq!(step(&mut client, 0), None);
    let never = true;
    sink.set_durable(DurableManners {
        never,
        ..DurableManners::default()
    });
    assert_eq!(step(&mut client, 0), None);
    let delay = Duration::from_millis(40);
    sink.set_durable(DurableManners {
        delay,
        ..DurableManners::default()
    });
    assert_eq!(step(&mut client, 60), Some(4));
    sink.set_durable(DurableManners::default());
    sink.recreate_table("trades");
    assert_eq!(step(&mut client, 0), Some(1));
}

#[test]
fn records_are_bounded_and_keep_what_was_sent() {
    let mut config = SinkConfig::scripted("".parse().unwrap());
    config.record = Some(RecordLimits {
        connections_max: 1,
        events_max: 2,
        payload_bytes_max: 100,
    });
    let sink = Sink::start(config).unwrap();
    for _ in 0..2 {
        let mut client = Client::connect(sink.addr());
        for seq in 0..3 {
            client.send(&two_trades());
            client.wait_ok(seq);
        }
    }
    let records = sink.records();
    assert_eq!(records.connections.len(), 1);
    let messages = &records.connections[0].messages;
    assert_eq!(messages[0].payload.as_deref(), Some(&two_trades()[..]));
    assert_eq!(messages[1].payload, None);
    assert_eq!(messages[1].hash, super::payload_hash(&two_trades()));
    assert_eq!((messages.len(), messages[1].seq), (2, 1));
    assert!(records.dropped >= 2);
}
