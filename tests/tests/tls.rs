//! `wss`: whom a connection trusts, what it says when it does not, and that rows come through.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use forebay::{Engine, Error, Producer, TimestampNanos};
use forebay_loadgen::sink::{Depth, Sink, SinkConfig, TlsIdentity};

use tls_rig::{Authority, End, Front};

mod loadgen;
mod log;
mod tls_rig;

const PATIENCE: Duration = Duration::from_mins(3);

fn sink(store: Option<&Path>) -> Sink {
    let config = SinkConfig {
        depth: Depth::Decode,
        strict: true,
        store: store.map(Path::to_path_buf),
        ..SinkConfig::default()
    };
    Sink::start(config).unwrap()
}

/// A connect string for a server whose certificate `roots` vouches for.
fn secure(host: &str, port: u16, roots: &Path, more: &str) -> String {
    let roots = roots.display();
    format!("wss::addr={host}:{port};tls_roots={roots};{more}{COMMON}")
}

const COMMON: &str = "pin=off;close_flush_timeout_millis=30000;";

fn row(producer: &mut Producer, n: u64, text: &str) {
    producer.table("t").unwrap();
    producer.column_i64("n", i64::try_from(n).unwrap()).unwrap();
    producer.column_str("v", text).unwrap();
    let at = TimestampNanos(i64::try_from(n).unwrap() + 1);
    producer.at(at).unwrap();
}

/// Sends a few rows and waits until the server has them.
fn deliver(connect: &str) {
    let engine = Engine::connect(connect).unwrap_or_else(|error| panic!("{connect}: {error}"));
    let mut producer = engine.producer().unwrap();
    for n in 0..100 {
        row(&mut producer, n, "x");
    }
    producer.flush().unwrap();
    engine.wait_acked(PATIENCE).unwrap();
    engine.close().unwrap();
}

/// The error of a first connection that fails: of the server's side, and worth another try.
fn refusal(connect: &str) -> String {
    match Engine::connect(connect) {
        Err(
            error @ Error::Peer {
                retryable: true, ..
            },
        ) => error.to_string(),
        other => panic!("{connect}: {other:?}"),
    }
}

fn config_refusal(connect: &str) -> (String, String) {
    match Engine::connect(connect) {
        Err(Error::Config { key, reason }) => (key, reason),
        other => panic!("{connect}: {other:?}"),
    }
}

#[test]
fn a_name_or_an_address_of_the_certificate_is_trusted() {
    let dir = loadgen::scratch();
    let (sink, authority) = (sink(None), Authority::new("ours"));
    let roots = authority.file(dir.path());
    let by_name = Front::start(sink.addr(), authority.server(&["localhost"]), End::Never);
    deliver(&secure("localhost", by_name.port(), &roots, ""));
    let explicit = "tls_ca=pem_file;tls_verify=on;";
    deliver(&secure("localhost", by_name.port(), &roots, explicit));
    let by_address = Front::start(sink.addr(), authority.server(&["127.0.0.1"]), End::Never);
    deliver(&secure("127.0.0.1", by_address.port(), &roots, ""));
    assert_eq!(sink.stop().rows, 300);
}

#[test]
fn the_older_version_of_tls_is_spoken_too() {
    let dir = loadgen::scratch();
    let (sink, authority) = (sink(None), Authority::new("ours"));
    let config = authority.issue(&["localhost"], false, &[&rustls::version::TLS12]);
    let front = Front::start(sink.addr(), config, End::Never);
    let roots = authority.file(dir.path());
    deliver(&secure("localhost", front.port(), &roots, ""));
    assert_eq!(sink.stop().rows, 100);
}

#[test]
fn a_certificate_that_is_not_good_is_named_with_the_way_out() {
    let dir = loadgen::scratch();
    let (sink, authority) = (sink(None), Authority::new("ours"));
    let (stranger, namesake) = (Authority::new("theirs"), Authority::new("ours"));
    let roots = authority.file(dir.path());
    for (config, words) in [
        (
            stranger.server(&["localhost"]),
            ["unknown issuer", "tls_roots"],
        ),
        (
            namesake.server(&["localhost"]),
            ["not signed by the authority", "tls_roots"],
        ),
        (
            authority.server(&["other.test"]),
            ["name in addr", "other.test"],
        ),
        (
            authority.server(&["127.0.0.1"]),
            ["name in addr", "localhost"],
        ),
        (authority.expired(&["localhost"]), ["expired", "renew"]),
    ] {
        let front = Front::start(sink.addr(), config, End::Never);
        let text = refusal(&secure("localhost", front.port(), &roots, ""));
        let endpoint = format!("localhost:{}", front.port());
        for word in words.iter().chain([&endpoint.as_str()]) {
            assert!(text.contains(word), "{word:?} in {text:?}");
        }
        println!("{text}");
    }
    // The compiled-in and the system's authorities do not know ours either.
    let front = Front::start(sink.addr(), authority.server(&["localhost"]), End::Never);
    for ca in ["", "tls_ca=webpki_and_os_roots;"] {
        let text = refusal(&format!(
            "wss::addr=localhost:{};{ca}{COMMON}",
            front.port()
        ));
        assert!(text.contains("unknown issuer"), "{text}");
    }
    assert_eq!(sink.stop().upgrades, 0);
}

#[test]
fn unsafe_off_takes_any_certificate_and_warns_once() {
    let (sink, authority) = (sink(None), Authority::new("ours"));
    let config = authority.expired(&["other.test"]);
    let front = Front::start(sink.addr(), config, End::Never);
    let connect = format!(
        "wss::addr=localhost:{};tls_verify=unsafe_off;{COMMON}",
        front.port()
    );
    let text = log::captured(|| deliver(&connect));
    assert_eq!(text.matches("FB-T001").count(), 1, "{text}");
    assert!(text.contains("WARN") && text.contains("tls_verify=unsafe_off"));
    assert_eq!(sink.stop().rows, 100);
}

#[test]
fn roots_that_cannot_be_used_are_refused_before_anything_is_contacted() {
    let dir = loadgen::scratch();
    let path = dir.path().join("roots");
    let connect = secure("localhost", 1, &path, "");
    let (key, reason) = config_refusal(&connect);
    assert_eq!(key, "tls_roots");
    assert!(reason.contains("No such file"), "{reason}");
    let begin = "-----BEGIN CERTIFICATE-----\n";
    let end = "-----END CERTIFICATE-----\n";
    for (bytes, words) in [
        (b"".to_vec(), "no PEM certificate"),
        (b"garbage".to_vec(), "no PEM certificate"),
        (vec![0x30, 0x82, 0xFF, 0x00], "convert it to PEM"),
        (vec![0xFE, 0xED, 0xFE, 0xED], "convert it to PEM"),
        (format!("{begin}!!!!\n{end}").into_bytes(), "not PEM"),
        (format!("{begin}AAAA\n{end}").into_bytes(), "cannot be used"),
        (format!("{begin}AAAA\n").into_bytes(), "not PEM"),
    ] {
        std::fs::write(&path, &bytes).unwrap();
        let (key, reason) = config_refusal(&connect);
        assert_eq!(key, "tls_roots");
        assert!(reason.contains(words), "{words:?} in {reason:?}");
    }
}

#[test]
fn a_server_without_tls_is_recognized() {
    let sink = sink(None);
    let text = refusal(&format!("wss::addr={};{COMMON}", sink.addr()));
    assert!(text.contains("TLS"), "{text}");
    println!("{text}");
}

#[test]
fn a_handshake_that_stalls_ends_after_five_seconds() {
    // Its kernel completes the TCP connection, and nobody ever answers.
    let deaf = TcpListener::bind("127.0.0.1:0").unwrap();
    let start = Instant::now();
    let address = deaf.local_addr().unwrap();
    let text = refusal(&format!("wss::addr={address};{COMMON}"));
    let waited = start.elapsed();
    assert!(text.contains("no TLS handshake within 5 s"), "{text}");
    assert!(waited >= Duration::from_secs(5), "{waited:?}");
    assert!(waited < Duration::from_secs(9), "{waited:?}");
}

/// The rows that the sink stored, each once and in order, after `connections` or more handshakes.
fn check_reconnects(end: End, least_handshakes: u64) {
    let dir = loadgen::scratch();
    let store = dir.path().join("store");
    let (sink, authority) = (sink(Some(&store)), Authority::new("ours"));
    let front = Front::start(sink.addr(), authority.server(&["localhost"]), end);
    let more = format!(
        "sf_dir={};reconnect_initial_backoff_millis=1;reconnect_max_backoff_millis=20;",
        dir.path().join("sf").display()
    );
    let roots = authority.file(dir.path());
    let connect = secure("localhost", front.port(), &roots, &more);
    let engine = Engine::connect(&connect).unwrap();
    let mut producer = engine.producer().unwrap();
    let text = "y".repeat(100);
    for n in 0..2_000 {
        row(&mut producer, n, &text);
        if n % 10 == 9 {
            producer.flush().unwrap();
        }
    }
    engine.wait_acked(PATIENCE).unwrap();
    assert_eq!(engine.stats().server_errors, 0);
    engine.close().unwrap();
    let handshakes = front.handshakes.load(Ordering::Acquire);
    assert!(handshakes >= least_handshakes, "{handshakes} handshakes");
    sink.stop();
    let mut next = 0;
    for (n, v) in stored(&store) {
        assert_eq!(v, text);
        assert!(n <= next, "row {n} came before {next}");
        next = next.max(n + 1);
    }
    assert_eq!(next, 2_000);
}

#[test]
fn connections_that_break_without_a_word_lose_nothing() {
    check_reconnects(End::Silent(20_000), 5);
}

#[test]
fn connections_that_end_with_close_notify_lose_nothing() {
    check_reconnects(End::Announced(20_000), 5);
}

/// Numbers and texts in the order in which the sink stored them.
fn stored(store: &Path) -> impl Iterator<Item = (u64, String)> {
    let file = std::fs::File::open(store.join("t.ndjson")).unwrap();
    BufReader::with_capacity(1 << 20, file).lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        let text = line["v"].as_str().unwrap().to_owned();
        (line["n"].as_u64().unwrap(), text)
    })
}

const BIG_ROWS: u64 = 12_800;
const BIG_TEXT: usize = 16_384;

/// A text of its own for every row: printable, and unlike its neighbours everywhere.
fn big_text(n: u64) -> String {
    let mut state = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut text = String::with_capacity(BIG_TEXT);
    while text.len() < BIG_TEXT {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.extend(state.to_le_bytes().map(|byte| char::from(b'0' + byte % 64)));
    }
    text
}

/// Sends 210 MB in messages of 1 MiB; MB/s from the first row to the last acknowledgement.
fn push_big(connect: &str, texts: &[String]) -> f64 {
    let engine = Engine::connect(connect).unwrap();
    let mut producer = engine.producer().unwrap();
    let start = Instant::now();
    for n in 0..BIG_ROWS {
        row(
            &mut producer,
            n,
            &texts[usize::try_from(n).unwrap() % texts.len()],
        );
        if n % 64 == 63 {
            producer.publish().unwrap();
        }
    }
    producer.flush().unwrap();
    engine.wait_acked(PATIENCE).unwrap();
    let seconds = start.elapsed().as_secs_f64();
    let stats = engine.stats();
    assert_eq!(stats.reconnects_succeeded, 0);
    let bytes = stats.bytes_sent;
    let cpu = stats.shard_cpu_nanos;
    engine.close().unwrap();
    #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
    let (bytes, cpu) = (bytes as f64, cpu as f64);
    let rate = bytes / seconds / 1e6;
    println!(
        "{}: {:.0} MB in {seconds:.2} s, {rate:.0} MB/s, shard {:.2} ns a byte",
        connect.split("::").next().unwrap(),
        bytes / 1e6,
        cpu / bytes
    );
    rate
}

#[test]
fn two_hundred_megabytes_arrive_as_they_were_sent() {
    let dir = loadgen::scratch();
    let store = dir.path().join("store");
    let (sink, authority) = (sink(Some(&store)), Authority::new("ours"));
    let front = Front::start(sink.addr(), authority.server(&["localhost"]), End::Never);
    let roots = authority.file(dir.path());
    let connect = secure("localhost", front.port(), &roots, "intake_ring_bytes=16m;");
    let texts: Vec<String> = (0..BIG_ROWS).map(big_text).collect();
    push_big(&connect, &texts);
    assert_eq!(sink.stop().rows, BIG_ROWS);
    let mut count = 0;
    for (n, text) in stored(&store) {
        assert_eq!(n, count);
        assert!(text == texts[usize::try_from(n).unwrap()], "row {n}");
        count += 1;
    }
    assert_eq!(count, BIG_ROWS);
}

/// A sink that speaks TLS itself.
fn tls_sink(authority: &Authority) -> Sink {
    let (certificate, key) = authority.pem(&["localhost"]);
    let identity = TlsIdentity::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
    let config = SinkConfig {
        tls: Some(identity),
        ..SinkConfig::default()
    };
    Sink::start(config).unwrap()
}

#[test]
fn connections_cut_under_tls_are_made_again() {
    let dir = loadgen::scratch();
    let authority = Authority::new("ours");
    let sink = tls_sink(&authority);
    let roots = authority.file(dir.path());
    let connect = secure("localhost", sink.addr().port(), &roots, "");
    let engine = Engine::connect(&connect).unwrap();
    let mut producer = engine.producer().unwrap();
    for n in 0..20 {
        row(&mut producer, n, "x");
        producer.publish().unwrap();
        engine.wait_acked(PATIENCE).unwrap();
        sink.cut_connections();
    }
    engine.close().unwrap();
    let totals = sink.stop();
    assert_eq!(totals.rows, 20);
    assert!(totals.upgrades >= 19, "{totals:?}");
}

#[test]
#[ignore = "prints throughput: run alone, in release"]
fn throughput_beside_plain() {
    let dir = loadgen::scratch();
    let authority = Authority::new("ours");
    let plain = Sink::start(SinkConfig::default()).unwrap();
    let secured = tls_sink(&authority);
    let roots = authority.file(dir.path());
    let texts: Vec<String> = (0..64).map(big_text).collect();
    let ring = "intake_ring_bytes=16m;";
    for _ in 0..3 {
        push_big(&format!("ws::addr={};{ring}{COMMON}", plain.addr()), &texts);
        let connect = secure("localhost", secured.addr().port(), &roots, ring);
        push_big(&connect, &texts);
    }
}
