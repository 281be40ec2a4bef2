//! Two owners never meet in one slot, not even when the first was killed with writes in flight: the
//! kernel keeps the lock until the last of them is on the disk.
//!
//! The disk is ext4 on a loop device over a file of this process, which keeps writes waiting
//! ([`slow_file`]). Needs root, /dev/fuse and loop devices.

#[path = "../slot_interop/client.rs"]
#[allow(dead_code, reason = "the other test file that has it uses more of it")]
mod client;
mod device;
mod slow_file;

use std::collections::hash_map::DefaultHasher;
use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use client::{Client, Side};
use device::Device;
use forebay::{Engine, Error};
use forebay_loadgen::sink::{Depth, Sink, SinkConfig};
use forebay_tests::address::free_address;
use forebay_tests::block::wait_until;
use forebay_tests::stored_slot::StoredSlot;
use forebay_wire::decode::{Cell, Message, Mode};

/// Writes that must be in flight at a kill.
const IN_FLIGHT_MIN: usize = 20;
/// How long a lock is watched that must not come free, and files that must not change.
const WATCHED: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_mins(3);
/// Rows that are in the slot before writes begin to wait, and the size of those that follow.
const ROWS_BEFORE: u64 = 30;
const TEXT_BYTES: u64 = 200_000;

/// The lock of a directory, if it is free.
fn try_lock(dir: &Path) -> Option<File> {
    let file = File::options().read(true).open(dir.join(".lock"));
    let file = file.expect("the lock file is there");
    file.try_lock().is_ok().then_some(file)
}

/// Names and contents of all files of a directory.
fn content_hash(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).expect("a directory");
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    let mut hasher = DefaultHasher::new();
    for path in paths {
        path.hash(&mut hasher);
        fs::read(&path).expect("readable").hash(&mut hasher);
    }
    hasher.finish()
}

/// Lets the writes of a killed process go one by one: the lock comes free after the last, and then
/// nothing changes any more.
fn expect_free_after_the_last_write(device: &Device, dir: &Path) -> (u64, Duration) {
    let taken_early = wait_until(WATCHED, || try_lock(dir).is_some());
    assert!(
        !taken_early,
        "the lock is free with {} writes in flight",
        device.file.held()
    );
    let before = device.file.landed();
    while device.file.held() > 0 {
        // Looked at first: were the lock free now, a write would land after it.
        assert!(
            try_lock(dir).is_none(),
            "{} writes are in flight",
            device.file.held()
        );
        device.file.release_one();
    }
    let last = Instant::now();
    let mut lock = None;
    let free = wait_until(PATIENCE, || {
        lock = try_lock(dir);
        lock.is_some()
    });
    assert!(free, "the lock never comes free");
    let waited = last.elapsed();

    let seen = || (device.file.landed(), content_hash(dir));
    let (landed, content) = seen();
    let late = wait_until(WATCHED, || device.file.held() > 0);
    assert!(!late, "a write came when the lock was free");
    assert_eq!(
        seen(),
        (landed, content),
        "a write landed when the lock was free"
    );
    (landed - before, waited)
}

/// `direct_writer` with its writes in flight.
struct DirectWriter(Child);

impl DirectWriter {
    fn start(lock_is: &str, dir: &Path, device: &Device) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_direct_writer"))
            .arg(lock_is)
            .arg(dir)
            .arg(IN_FLIGHT_MIN.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary is built");
        let stdout = child.stdout.take().expect("piped");
        let writer = Self(child);
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("text");
        assert_eq!(line, "submitted\n");
        let all = wait_until(PATIENCE, || device.file.held() == IN_FLIGHT_MIN);
        assert!(all, "{} writes in flight", device.file.held());
        assert!(try_lock(dir).is_none(), "it holds the lock");
        writer
    }

    fn kill(mut self) {
        self.0.kill().expect("killed");
        self.0.wait().expect("waited for");
    }
}

impl Drop for DirectWriter {
    fn drop(&mut self) {
        // It may have ended already: then there is nothing to kill.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A directory for a test on a new device, unless the machine has none.
fn device_with(name: &str) -> Option<(Device, std::path::PathBuf)> {
    if let Some(reason) = forebay_tests::block::missing() {
        println!("skipped: {reason}");
        return None;
    }
    let device = device::mount();
    device.file.hold();
    let dir = device.root().join(name);
    fs::create_dir(&dir).expect("a new directory");
    Some((device, dir))
}

#[test]
#[ignore = "needs root, /dev/fuse and loop devices"]
fn a_lock_that_is_not_registered_is_free_while_writes_of_its_dead_holder_are_in_flight() {
    let Some((device, dir)) = device_with("plain") else {
        return;
    };
    let writer = DirectWriter::start("plain", &dir, &device);
    writer.kill();
    let began = Instant::now();
    assert!(
        wait_until(PATIENCE, || try_lock(&dir).is_some()),
        "the lock comes free"
    );
    let (waited, in_flight) = (began.elapsed(), device.file.held());
    println!("not registered: free {waited:?} after the kill, {in_flight} writes in flight");
    assert_eq!((in_flight, device.file.landed()), (IN_FLIGHT_MIN, 0));
}

#[test]
#[ignore = "needs root, /dev/fuse and loop devices"]
fn a_lock_that_is_registered_is_free_only_after_the_writes_of_its_dead_holder() {
    let Some((device, dir)) = device_with("registered") else {
        return;
    };
    let writer = DirectWriter::start("registered", &dir, &device);
    writer.kill();
    let (landed, waited) = expect_free_after_the_last_write(&device, &dir);
    println!("registered: free {waited:?} after the last of {landed} writes");
    assert_eq!(landed, IN_FLIGHT_MIN as u64);
    let data = fs::read(dir.join("data")).expect("readable");
    assert!(
        data.iter().all(|byte| *byte == slow_file::MARK),
        "all writes are in the file"
    );
}

#[test]
#[ignore = "needs root, /dev/fuse and loop devices"]
fn the_slot_of_a_killed_engine_is_free_only_after_its_writes_and_holds_them() {
    let Some((device, dir)) = device_with("sf") else {
        return;
    };
    device.file.release_all();
    let address = free_address();
    let conf = format!(
        "ws::addr={address};sf_dir={};sender_id=fenced;sf_max_segment_bytes=4m;\
         initial_connect_retry=async;reconnect_initial_backoff_millis=5;\
         reconnect_max_backoff_millis=20;close_flush_timeout_millis=0;pin=off;\
         intake=memory;",
        dir.display()
    );
    // Without a file for the rings what is confirmed is written, and what is not comes from nowhere
    // but the writes in flight.
    let in_flight = kill_with_writes_in_flight(&device, &conf);
    let impatient = format!("{conf}lock_retry_millis=50;");
    let refused = Engine::connect(&impatient).map(|_| "opened");
    assert!(
        matches!(&refused, Err(Error::Locked { waited_millis, .. }) if *waited_millis >= 50),
        "{refused:?} with {} writes in flight",
        device.file.held()
    );
    let slot = dir.join("fenced");
    let (landed, waited) = expect_free_after_the_last_write(&device, &slot);
    assert!(landed >= in_flight as u64);

    let stored = StoredSlot::read(&slot).expect("a slot in order");
    let frames = stored.unacked().iter();
    let rows: Vec<u64> = frames.map(|frame| row_of(&frame.payload)).collect();
    println!(
        "engine: killed with {in_flight} writes in flight, free {waited:?} after the last of \
         {landed}, {} frames in the slot",
        rows.len()
    );
    assert_eq!(rows, (0..rows.len() as u64).collect::<Vec<_>>());
    let written_too = rows.len() as u64 > ROWS_BEFORE;
    assert!(written_too, "what was in flight at the kill is in the slot");
    assert_eq!(delivered_by_the_next(&device, address, &conf), rows);
}

/// Starts an engine, lets its writes wait, and kills it; how many were in flight.
fn kill_with_writes_in_flight(device: &Device, conf: &str) -> usize {
    let mut client = Client::open(Side::Ours, conf);
    client.command(&format!("rows 0 {ROWS_BEFORE} 2000 0"));
    client.expect_accepted(ROWS_BEFORE - 1);
    device.file.hold();
    client.command(&format!("rows {ROWS_BEFORE} 3 {TEXT_BYTES} 0"));
    let enough = wait_until(PATIENCE, || device.file.held() >= IN_FLIGHT_MIN);
    assert!(enough, "{} writes in flight", device.file.held());
    let in_flight = device.file.held();
    let last = Some(ROWS_BEFORE - 1);
    assert_eq!(client.kill(), last, "no row of those writes was confirmed");
    in_flight
}

/// The rows that the next engine with this slot delivers.
fn delivered_by_the_next(device: &Device, address: SocketAddr, conf: &str) -> Vec<u64> {
    let store = device.root().join("store");
    let sink = Sink::start(SinkConfig {
        listen: address,
        depth: Depth::Decode,
        strict: true,
        store: Some(store.clone()),
        ..SinkConfig::default()
    });
    let sink = sink.expect("listens");
    let mut next = Client::open(Side::Ours, conf);
    next.command("acked");
    next.expect("acked");
    next.leave();
    sink.stop();
    delivered(&store)
}

/// The number of the one row in a frame.
fn row_of(payload: &[u8]) -> u64 {
    let message = Message::parse(payload, Mode::Strict).expect("a message");
    let tables = message.tables().map(|table| table.expect("a table"));
    let columns = tables.flat_map(|table| table.columns());
    let mut columns = columns.map(|column| column.expect("a column"));
    let numbers = columns.find(|column| column.name == "n").expect("numbers");
    match numbers.cells().collect::<Vec<_>>().as_slice() {
        [Some(Cell::Integer(number))] => u64::try_from(*number).expect("a row number"),
        other => panic!("a frame with the rows {other:?}"),
    }
}

/// The numbers of the rows that the server stored, in its order.
fn delivered(store: &Path) -> Vec<u64> {
    let text = fs::read_to_string(store.join("t.ndjson")).expect("rows");
    let rows = text.lines().map(|line| {
        let value: serde_json::Value = serde_json::from_str(line).expect("a whole line");
        value["n"].as_u64().expect("a number")
    });
    rows.collect()
}
