//! Bad input and a machine that cannot run the engine: one clear error each, before a row is
//! taken, with the remedy.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use forebay::{Engine, Error, Stage, TimestampNanos};

mod loadgen;

/// A connect string for a slot below `dir`; nobody listens at its address.
fn offline(dir: &Path, more: &str) -> String {
    format!(
        "ws::addr=127.0.0.1:1;sf_dir={};initial_connect_retry=async;\
         close_flush_timeout_millis=0;{more}",
        dir.display()
    )
}

/// An engine without a journal; nobody listens at its address.
fn memory_engine() -> Engine {
    let connect = "ws::addr=127.0.0.1:1;initial_connect_retry=async;close_flush_timeout_millis=0;";
    Engine::connect(connect).expect("memory mode")
}

fn refused(connect: &str) -> Error {
    Engine::connect(connect).expect_err("refused")
}

#[test]
fn an_unknown_key_is_named_before_any_file_is_touched() {
    let dir = loadgen::scratch();
    let sf_dir = dir.path().join("sf");
    let error = refused(&offline(&sf_dir, "sf_max_segment_byte=1m;"));
    assert!(
        matches!(&error, Error::Config { key, .. } if key == "sf_max_segment_byte"),
        "{error}"
    );
    assert!(!sf_dir.exists());
}

#[test]
fn a_malformed_value_is_named_before_any_file_is_touched() {
    let dir = loadgen::scratch();
    let sf_dir = dir.path().join("sf");
    for (key, value) in [
        ("sf_max_segment_bytes", "4mib"),
        ("initial_connect_retry", "maybe"),
        ("sender_id", "a/b"),
        ("sf_append_deadline_millis", "-1"),
    ] {
        let connect = format!(
            "ws::addr=127.0.0.1:1;sf_dir={};{key}={value};",
            sf_dir.display()
        );
        let error = refused(&connect);
        assert!(
            matches!(&error, Error::Config { key: named, .. } if named == key),
            "{error}"
        );
    }
    assert!(!sf_dir.exists());
}

#[test]
fn a_missing_parent_directory_is_named() {
    let dir = loadgen::scratch();
    let error = refused(&offline(&dir.path().join("missing/sf"), ""));
    assert!(
        matches!(&error, Error::Disk { source, .. }
        if source.kind() == std::io::ErrorKind::NotFound),
        "{error}"
    );
    assert!(error.to_string().contains("missing"), "{error}");
}

#[test]
fn a_directory_that_takes_no_files_is_named() {
    // Nobody, root included, can create a directory there.
    let error = refused(&offline(Path::new("/proc/forebay"), ""));
    assert!(matches!(&error, Error::Disk { .. }), "{error}");
    assert!(error.to_string().contains("/proc/forebay"), "{error}");
}

#[test]
fn a_second_opener_is_told_the_holders_pid_and_the_slot_is_free_after_close() {
    let dir = loadgen::scratch();
    let connect = offline(&dir.path().join("sf"), "lock_retry_millis=50;");
    let first = Engine::connect(&connect).expect("a free slot");
    let error = refused(&connect);
    let own = std::process::id().to_string();
    assert!(
        matches!(&error, Error::Locked { holder, waited_millis, .. }
            if *holder == own && *waited_millis >= 50),
        "{error}"
    );
    first.close().expect("nothing was published");
    Engine::connect(&connect)
        .expect("free again")
        .close()
        .expect("nothing was published");
}

#[test]
fn a_server_that_is_down_fails_a_connect_without_retry_and_frees_the_slot() {
    let dir = loadgen::scratch();
    let sf_dir = dir.path().join("sf");
    let connect = format!("ws::addr=127.0.0.1:1;sf_dir={};", sf_dir.display());
    for _ in 0..2 {
        let error = refused(&connect);
        assert!(
            matches!(&error, Error::Peer { endpoint, .. } if endpoint == "127.0.0.1:1"),
            "{error}"
        );
        assert!(error.is_retryable());
    }
}

#[test]
fn a_row_larger_than_a_segment_names_the_limit_and_stays_with_the_producer() {
    let dir = loadgen::scratch();
    let connect = offline(&dir.path().join("sf"), "sf_max_segment_bytes=64k;");
    let engine = Engine::connect(&connect).expect("a free slot");
    let mut producer = engine.producer().expect("an open engine");
    let mut row = |text: &str, at| {
        producer.table("t").unwrap().column_str("v", text).unwrap();
        producer.at(TimestampNanos(at)).unwrap();
    };
    row("small", 0);
    row(&"x".repeat(70_000), 1);
    let error = producer
        .try_publish()
        .expect_err("70,000 bytes into 64 KiB");
    assert!(
        matches!(&error, Error::BatchTooLarge { limit_bytes, limit, .. }
            if *limit_bytes == 65_536 - 32 && *limit == "sf_max_segment_bytes"),
        "{error}"
    );
    assert_eq!(producer.rows(), 2, "nothing was accepted");
    producer.clear();
    producer.table("t").unwrap().column_str("v", "x").unwrap();
    producer.at(TimestampNanos(1)).unwrap();
    producer.flush().expect("a batch of ordinary size");
}

#[test]
fn a_batch_larger_than_a_segment_goes_in_parts() {
    let dir = loadgen::scratch();
    let connect = offline(&dir.path().join("sf"), "sf_max_segment_bytes=64k;");
    let engine = Engine::connect(&connect).expect("a free slot");
    let mut producer = engine.producer().expect("an open engine");
    let text = "x".repeat(1000);
    for row in 0..70 {
        producer.table("t").unwrap().column_str("v", &text).unwrap();
        producer.at(TimestampNanos(row)).unwrap();
    }
    producer.flush().expect("70,000 bytes through 64 KiB");
    assert_eq!(producer.rows(), 0);
    let all = producer.publish().expect("nothing more");
    all.wait(Stage::Written, Duration::from_secs(30))
        .expect("a disk");
    let stats = engine.stats();
    assert!(stats.unacked_frames >= 2, "{stats:?}");
    let tables = engine.tables();
    assert_eq!((tables.len(), tables[0].accepted), (1, 70));
}

#[test]
fn a_refused_row_is_left_out_and_the_batch_goes_on() {
    let engine = memory_engine();
    let mut producer = engine.producer().expect("an open engine");
    producer.table("t").unwrap().column_i64("v", 1).unwrap();
    producer.at(TimestampNanos(1)).unwrap();
    let error = producer
        .table("t")
        .unwrap()
        .column_f64("v", 1.0)
        .expect_err("v is a LONG");
    assert!(
        matches!(&error, Error::Row { table, column, .. } if table == "t" && column == "v"),
        "{error}"
    );
    let error = producer
        .table("t")
        .unwrap()
        .column_i64("v", 2)
        .unwrap()
        .at(TimestampNanos(-1));
    assert!(matches!(error, Err(Error::Row { .. })));
    assert_eq!(producer.rows(), 1);
    producer.publish().expect("one whole row");
}

#[test]
fn stages_that_can_never_be_reached_are_misuse_at_once() {
    let engine = memory_engine();
    let mut producer = engine.producer().expect("an open engine");
    producer.table("t").unwrap().column_i64("v", 1).unwrap();
    producer.at(TimestampNanos(1)).unwrap();
    let receipt = producer.publish().expect("room");
    for stage in [Stage::Written, Stage::Stable, Stage::Durable] {
        let outcome = receipt.wait(stage, Duration::from_mins(1));
        assert!(
            matches!(outcome, Err(Error::Misuse(_))),
            "{stage:?}: {outcome:?}"
        );
    }
    let outcome = receipt.wait(Stage::Acked, Duration::from_millis(20));
    assert!(matches!(outcome, Err(Error::Timeout { .. })), "{outcome:?}");
}

#[test]
fn too_few_descriptors_are_an_error_at_once() {
    let dir = loadgen::scratch();
    for limit in 8..20 {
        let script = format!("ulimit -n {limit} && exec \"$@\"");
        let start = std::time::Instant::now();
        let output = Command::new("sh")
            .args(["-c", &script, "sh"])
            .arg(loadgen::binary())
            .args(["run", "--rows", "1", "--batch", "1", "--conf"])
            .arg(offline(&dir.path().join("sf"), ""))
            .output()
            .expect("sh starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(start.elapsed() < Duration::from_secs(10), "{limit}: {said}");
        // 3: it ran, and nobody listens at the server's address.
        assert!(
            matches!(output.status.code(), Some(1 | 3)),
            "{limit}: {said}"
        );
        let told = said.contains("ulimit -n") || output.status.code() == Some(3);
        assert!(told, "{limit}: {said}");
    }
}

/// `forebay-loadgen run` of one row through `wrapper`, with its slot below `dir`.
fn run_wrapped(wrapper: &[&str], dir: &Path) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/without_io_uring.py");
    let (program, arguments) = wrapper.split_first().expect("a wrapper");
    Command::new(program)
        .arg(script)
        .args(arguments)
        .arg(loadgen::binary())
        .args(["run", "--rows", "1", "--batch", "1", "--conf"])
        .arg(offline(&dir.join("sf"), ""))
        .output()
        .expect("the wrapper starts")
}

/// Field report `uring-denied`.
#[test]
#[ignore = "needs python3 for a seccomp filter"]
fn uring_denied_is_one_clear_error_with_the_remedy() {
    let dir = loadgen::scratch();
    let hints = [
        ("1", "kernel.io_uring_disabled"),
        ("38", "seccomp profile"),
        ("95", "sandbox"),
    ];
    // io_uring_setup, io_uring_enter, io_uring_register: the same numbers on every architecture.
    let calls = [
        ("425", "setting up"),
        ("426", "entering"),
        ("427", "registering"),
    ];
    for (errno, hint) in hints {
        for (call, doing) in calls {
            let output = run_wrapped(&["python3", &format!("{errno}:{call}")], dir.path());
            let text = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{errno}:{call}: {text}");
            for part in ["io_uring", hint, doing] {
                assert!(text.contains(part), "{errno}:{call}: {part}: {text}");
            }
            assert!(!dir.path().join("sf").exists(), "nothing is touched");
        }
    }
}

/// An empty ramfs, which has neither direct I/O nor preallocation; unmounted on drop.
struct Ramfs(tempfile::TempDir);

impl Ramfs {
    fn mount() -> Self {
        let dir = loadgen::scratch();
        let status = Command::new("mount")
            .args(["-t", "ramfs", "ramfs"])
            .arg(dir.path())
            .status()
            .expect("mount starts");
        assert!(status.success(), "mounting a ramfs");
        Self(dir)
    }
}

impl Drop for Ramfs {
    fn drop(&mut self) {
        // A leftover mount of an empty ramfs harms nothing.
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
#[ignore = "needs root to mount a ramfs"]
fn no_fallocate() {
    let ramfs = Ramfs::mount();
    let error = refused(&offline(&ramfs.0.path().join("sf"), ""));
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("reserving blocks") && text.contains("fallocate"),
        "{text}"
    );
    assert!(text.contains("on ramfs"), "{text}");
    assert!(
        text.contains(&ramfs.0.path().display().to_string()),
        "{text}"
    );
}
