//! Credentials: what is sent, what a refusal leads to, rotation, and that none of it is printed.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use forebay::config::Config;
use forebay::{Engine, Error, TimestampNanos};
use forebay_loadgen::sink::{Sink, SinkConfig};
use forebay_tests::address::free_address;
use forebay_wire::upgrade::{FixedReply, UpgradePolicy};

mod loadgen;
mod log;

const PATIENCE: Duration = Duration::from_mins(3);
const COMMON: &str = "pin=off;reconnect_initial_backoff_millis=5;\
     reconnect_max_backoff_millis=20;close_flush_timeout_millis=0;";

/// A server that wants this `Authorization` value.
fn guarded(listen: SocketAddr, authorization: &str) -> Sink {
    let upgrade = UpgradePolicy {
        authorization: Some(authorization.to_owned()),
        ..UpgradePolicy::default()
    };
    let config = SinkConfig {
        listen,
        upgrade,
        ..SinkConfig::default()
    };
    Sink::start(config).unwrap()
}

/// A server that answers every upgrade with this status.
fn answering(status: u16) -> Sink {
    let echo = ("WWW-Authenticate".to_owned(), "Bearer t0k3n".to_owned());
    let upgrade = UpgradePolicy {
        fixed: Some(FixedReply {
            status,
            headers: vec![echo],
        }),
        ..UpgradePolicy::default()
    };
    let config = SinkConfig {
        upgrade,
        ..SinkConfig::default()
    };
    Sink::start(config).unwrap()
}

fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn one_row(engine: &Engine) {
    let mut producer = engine.producer().unwrap();
    producer.table("t").unwrap().column_i64("n", 1).unwrap();
    producer.at(TimestampNanos(1)).unwrap();
    producer.publish().unwrap();
}

fn write(path: &Path, text: &str) {
    // As secrets are rotated: whole or not at all.
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(&new, path).unwrap();
}

fn token_file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = loadgen::scratch();
    let path = dir.path().join("token");
    write(&path, text);
    (dir, path)
}

#[test]
fn basic_and_bearer_open_the_door() {
    let (dir, path) = token_file("t0k3n\n");
    std::fs::write(dir.path().join("password"), "pass:w0rd\r\n").unwrap();
    let password = dir.path().join("password");
    // base64("user:pass:w0rd")
    let basic = "Basic dXNlcjpwYXNzOncwcmQ=";
    for (authorization, keys) in [
        (basic, "username=user;password=pass:w0rd;".to_owned()),
        (basic, "user=user;pass=pass:w0rd;".to_owned()),
        (
            basic,
            format!("username=user;password_file={};", password.display()),
        ),
        ("Bearer t0k3n", "token=t0k3n;".to_owned()),
        ("Bearer t0k3n", format!("token_file={};", path.display())),
    ] {
        let sink = guarded(any_port(), authorization);
        let connect = format!("ws::addr={};{keys}{COMMON}", sink.addr());
        let engine = Engine::connect(&connect).unwrap();
        one_row(&engine);
        engine.wait_acked(PATIENCE).unwrap();
        engine.close().unwrap();
        let totals = sink.stop();
        assert_eq!((totals.rows, totals.upgrades_rejected), (1, 0), "{keys}");
    }
}

#[test]
fn a_refusal_is_final_after_one_request() {
    // Credentials are taken to be the same everywhere: the second server is not asked.
    for (keys, status) in [("", "401"), ("token=wr0ng;", "403")] {
        let first = if status == "403" {
            answering(403)
        } else {
            guarded(any_port(), "Bearer right")
        };
        let second = Sink::start(SinkConfig::default()).unwrap();
        let (a, b) = (first.addr(), second.addr());
        for mode in ["off", "sync", "async"] {
            let connect = format!("ws::addr={a},{b};initial_connect_retry={mode};{keys}{COMMON}");
            let error = match Engine::connect(&connect) {
                Err(error) => error,
                Ok(engine) => engine
                    .wait_acked(PATIENCE)
                    .err()
                    .unwrap_or_else(|| loadgen::wait_for("a refusal", || engine.producer().err())),
            };
            let text = error.to_string();
            assert!(
                matches!(
                    &error,
                    Error::Peer {
                        retryable: false,
                        ..
                    }
                ),
                "{text}"
            );
            assert!(
                text.contains(status) && text.contains(&a.to_string()),
                "{text}"
            );
            assert!(!text.contains("wr0ng"), "{text}");
        }
        assert_eq!(first.stop().upgrades_rejected, 3);
        assert_eq!(second.stop().connections, 0);
    }
}

#[test]
fn a_token_is_rotated_while_rows_flow() {
    let (_dir, path) = token_file("first");
    let address = free_address();
    let sink = guarded(address, "Bearer first");
    let connect = format!("ws::addr={address};token_file={};{COMMON}", path.display());
    let engine = Engine::connect(&connect).unwrap();
    one_row(&engine);
    engine.wait_acked(PATIENCE).unwrap();
    // The file changes first: the server that comes back finds the new token at once.
    write(&path, "second");
    sink.stop();
    let sink = guarded(address, "Bearer second");
    one_row(&engine);
    engine.wait_acked(PATIENCE).unwrap();
    assert_eq!(sink.stop().upgrades_rejected, 0);
    engine.close().unwrap();
}

#[test]
fn a_refused_token_is_tried_once_more_if_its_file_changed() {
    let (_dir, path) = token_file("first");
    let address = free_address();
    let sink = guarded(address, "Bearer first");
    // The file changes within the pause after the refusal.
    let keys = "reconnect_initial_backoff_millis=2000;reconnect_max_backoff_millis=2000;";
    let connect = format!(
        "ws::addr={address};token_file={};pin=off;close_flush_timeout_millis=0;{keys}",
        path.display()
    );
    let engine = Engine::connect(&connect).unwrap();
    sink.stop();
    // The server changes first: the old token is refused, then the new one is read.
    let sink = guarded(address, "Bearer second");
    loadgen::wait_for("a refusal", || {
        (sink.totals().upgrades_rejected > 0).then_some(())
    });
    write(&path, "second");
    one_row(&engine);
    engine.wait_acked(PATIENCE).unwrap();
    assert_eq!(sink.totals().upgrades_rejected, 1);
    // And when it does not change, the second refusal is the end.
    sink.stop();
    let sink = guarded(address, "Bearer third");
    one_row(&engine);
    let error = engine.wait_acked(PATIENCE).expect_err("refused");
    let text = error.to_string();
    assert!(
        matches!(
            &error,
            Error::Peer {
                retryable: false,
                ..
            }
        ),
        "{text}"
    );
    assert!(
        text.contains("401") && text.contains("has not changed since"),
        "{text}"
    );
    assert!(
        text.contains("token_file") && !text.contains("second"),
        "{text}"
    );
    assert_eq!(sink.stop().upgrades_rejected, 1);
}

#[test]
fn on_auth_error_retry_waits_for_the_right_to_come() {
    let address = free_address();
    let sink = guarded(address, "Bearer other");
    let connect = format!(
        "ws::addr={address};token=t0k3n;on_auth_error=retry;initial_connect_retry=async;{COMMON}"
    );
    let start = Instant::now();
    let engine = Engine::connect(&connect).unwrap();
    one_row(&engine);
    loadgen::wait_for("refusals", || {
        (sink.totals().upgrades_rejected >= 5).then_some(())
    });
    // Paced like every attempt that fails: 5, 10, 20 and 20 ms apart, and jitter on top.
    assert!(
        start.elapsed() >= Duration::from_millis(55),
        "{:?}",
        start.elapsed()
    );
    let failure = engine.last_failure().unwrap();
    assert!(
        failure.contains("401") && !failure.contains("t0k3n"),
        "{failure}"
    );
    sink.stop();
    let sink = guarded(address, "Bearer t0k3n");
    engine.wait_acked(PATIENCE).unwrap();
    assert_eq!(sink.stop().rows, 1);
    engine.close().unwrap();
}

#[test]
fn a_first_connection_with_retry_reports_a_refusal_as_retryable() {
    let sink = guarded(any_port(), "Bearer other");
    let connect = format!(
        "ws::addr={};on_auth_error=retry;initial_connect_retry=off;{COMMON}",
        sink.addr()
    );
    let error = Engine::connect(&connect).expect_err("refused");
    assert!(
        error.is_retryable() && error.to_string().contains("401"),
        "{error}"
    );
}

#[test]
fn a_file_that_cannot_be_read_fails_the_attempt_and_is_read_again() {
    let dir = loadgen::scratch();
    let path = dir.path().join("token");
    let sink = guarded(any_port(), "Bearer t0k3n");
    let connect = |mode: &str| {
        format!(
            "ws::addr={};token_file={};initial_connect_retry={mode};{COMMON}",
            sink.addr(),
            path.display()
        )
    };
    let error = Engine::connect(&connect("off")).expect_err("refused");
    let text = error.to_string();
    assert!(error.is_retryable(), "{text}");
    assert!(
        text.contains("token_file") && text.contains("No such file"),
        "{text}"
    );
    let engine = Engine::connect(&connect("async")).unwrap();
    one_row(&engine);
    for (bytes, words) in [
        ("s3cret\nline", "more than one line"),
        ("", "empty"),
        ("s3cret\u{1}", "control"),
    ] {
        write(&path, bytes);
        loadgen::wait_for(words, || {
            let failure = engine.last_failure()?;
            assert!(!failure.contains("s3cret"), "{failure}");
            failure.contains(words).then_some(())
        });
    }
    write(&path, "t0k3n\n");
    engine.wait_acked(PATIENCE).unwrap();
    engine.close().unwrap();
    let totals = sink.stop();
    assert_eq!((totals.rows, totals.upgrades_rejected), (1, 0));
}

#[test]
fn secrets_are_in_no_error_no_log_and_no_debug_output() {
    const SECRET: &str = "hunter2-horse-battery";
    // What the header makes of it: base64("u:hunter2-horse-battery").
    const ENCODED: &str = "dTpodW50ZXIyLWhvcnNlLWJhdHRlcnk";
    let (_dir, path) = token_file(SECRET);
    let file = format!("token_file={};", path.display());
    let mut said = Vec::new();
    for keys in [
        format!("token={SECRET};"),
        format!("username=u;password={SECRET};"),
        file,
    ] {
        let sink = guarded(any_port(), "Bearer other");
        let connect = format!("ws::addr={};{keys}{COMMON}", sink.addr());
        said.push(format!("{:?}", Config::parse(&connect).unwrap()));
        said.push(log::captured(|| {
            let error = Engine::connect(&connect).expect_err("refused");
            println!("{error}");
            tracing::error!(%error, ?error, "refused");
            let retry = format!("{connect}on_auth_error=retry;initial_connect_retry=async;");
            let engine = Engine::connect(&retry).unwrap();
            loadgen::wait_for("a failure", || engine.last_failure());
            tracing::error!(?engine, failure = ?engine.last_failure(), "running");
            one_row(&engine);
            tracing::error!(error = ?engine.close(), "closed");
        }));
        let wrong = Config::parse(&format!("{connect}token_file=/x;password_file=/y;"));
        said.push(format!("{wrong:?}"));
    }
    let said = said.join("\n");
    assert!(said.contains("ERROR") && said.contains("Engine"), "{said}");
    for secret in [SECRET, ENCODED] {
        assert!(!said.contains(secret), "{said}");
    }
}

/// Field report `dns-changed`: the server moves to another address of the same name.
#[test]
fn dns_changed() {
    let hosts = [free_address(), free_address()];
    // One port on both addresses.
    let port = hosts[0].port();
    let second = SocketAddr::new(hosts[1].ip(), port);
    let moved = Arc::new(AtomicU64::new(0));
    let (place, asked) = (Arc::clone(&moved), Arc::new(AtomicU64::new(0)));
    let count = Arc::clone(&asked);
    let resolver = move |host: &str, port: u16| {
        assert_eq!(host, "db.test");
        count.fetch_add(1, Ordering::AcqRel);
        let at = usize::try_from(place.load(Ordering::Acquire)).unwrap();
        Ok(vec![SocketAddr::new(hosts[at].ip(), port)])
    };
    let open = |listen| {
        Sink::start(SinkConfig {
            listen,
            ..SinkConfig::default()
        })
        .unwrap()
    };
    let sink = open(hosts[0]);
    let connect = format!("ws::addr=db.test:{port};{COMMON}");
    let engine = Engine::connect_resolving(&connect, resolver).unwrap();
    one_row(&engine);
    engine.wait_acked(PATIENCE).unwrap();
    assert_eq!(asked.load(Ordering::Acquire), 1);
    let other = open(second);
    moved.store(1, Ordering::Release);
    sink.stop();
    one_row(&engine);
    engine.wait_acked(PATIENCE).unwrap();
    assert!(asked.load(Ordering::Acquire) >= 2);
    assert_eq!(other.stop().rows, 1);
    engine.close().unwrap();
}

#[test]
fn every_address_of_a_name_is_tried_in_its_order() {
    let sink = Sink::start(SinkConfig::default()).unwrap();
    let good = sink.addr();
    let refusing = SocketAddr::from(([127, 0, 0, 77], good.port()));
    let resolver = move |_: &str, _: u16| Ok(vec![refusing, refusing, good]);
    let connect = format!("ws::addr=db.test:{};{COMMON}", good.port());
    let engine = Engine::connect_resolving(&connect, resolver).unwrap();
    one_row(&engine);
    engine.wait_acked(PATIENCE).unwrap();
    engine.close().unwrap();
    assert_eq!(sink.stop().rows, 1);
}

#[test]
fn a_resolver_that_fails_later_is_replaced_by_what_it_last_said() {
    let address = free_address();
    let broken = Arc::new(AtomicU64::new(0));
    let is_broken = Arc::clone(&broken);
    let resolver = move |_: &str, _: u16| {
        if is_broken.load(Ordering::Acquire) > 0 {
            return Err(std::io::Error::other("no resolver today"));
        }
        Ok(vec![address])
    };
    let open = || {
        Sink::start(SinkConfig {
            listen: address,
            ..SinkConfig::default()
        })
        .unwrap()
    };
    let sink = open();
    let connect = format!("ws::addr=db.test:{};{COMMON}", address.port());
    let engine = Engine::connect_resolving(&connect, resolver).unwrap();
    broken.store(1, Ordering::Release);
    sink.stop();
    let sink = open();
    one_row(&engine);
    engine.wait_acked(PATIENCE).unwrap();
    engine.close().unwrap();
    assert_eq!(sink.stop().rows, 1);
}

#[test]
fn a_resolver_that_never_answered_fails_the_attempt_with_its_words() {
    let resolver = |_: &str, _: u16| Err(std::io::Error::other("no resolver today"));
    let connect = format!("ws::addr=db.test;initial_connect_retry=off;{COMMON}");
    let error = Engine::connect_resolving(&connect, resolver).expect_err("no address");
    let text = error.to_string();
    assert!(text.contains("cannot resolve: no resolver today"), "{text}");
    assert!(error.is_retryable());
}

#[test]
fn a_look_up_that_hangs_delays_a_reconnect_and_does_not_stop_it() {
    let sink = Sink::start(SinkConfig::default()).unwrap();
    let address = sink.addr();
    let (release, hung) = mpsc::channel::<()>();
    let (hung, calls) = (Mutex::new(hung), AtomicU64::new(0));
    let resolver = move |_: &str, _: u16| {
        if calls.fetch_add(1, Ordering::AcqRel) == 1 {
            // The second look-up; ends when the test does.
            let _ = hung.lock().unwrap().recv();
        }
        Ok(vec![address])
    };
    let connect = format!("ws::addr=db.test:{};{COMMON}", address.port());
    let engine = Engine::connect_resolving(&connect, resolver).unwrap();
    let start = Instant::now();
    sink.cut_connections();
    one_row(&engine);
    engine.wait_acked(PATIENCE).unwrap();
    let waited = start.elapsed();
    assert!(
        waited >= Duration::from_secs(9),
        "last good addresses: {waited:?}"
    );
    assert!(waited < Duration::from_secs(15), "{waited:?}");
    // The next one does not queue behind the one that still hangs.
    let start = Instant::now();
    sink.cut_connections();
    one_row(&engine);
    engine.wait_acked(PATIENCE).unwrap();
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
    engine.close().unwrap();
    drop(release);
}

/// A server that answers 401 to everybody: nothing but its status reaches the user.
#[test]
fn what_a_server_says_beside_its_status_is_not_repeated() {
    let sink = answering(401);
    let connect = format!("ws::addr={};token=t0k3n;{COMMON}", sink.addr());
    let error = Engine::connect(&connect).expect_err("refused");
    assert!(!format!("{error} {error:?}").contains("t0k3n"), "{error:?}");
}
