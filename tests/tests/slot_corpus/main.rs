//! Claim: every slot that a published client left behind is the same slot here. `forebay inspect`
//! and `dump` say of it what its `expected.json` says; it opens with exactly its frames, FSNs,
//! symbols, watermark and manifest; and it is delivered: exactly its unacked frames, with their
//! rows, and then nothing stays but the lock files. So do the four files whose bytes the format's
//! description lists.
//!
//! `FOREBAY_CORPUS=DIR` takes an unpacked corpus in place of `tests/corpus.tar.xz`.

mod fixtures;
mod kept;
mod looks;
#[path = "../slots/mod.rs"]
mod slots;

use std::path::Path;
use std::time::Duration;

use forebay::{Engine, Error};
use forebay_loadgen::sink::{Depth, Sink, SinkConfig};
use forebay_tests::corpus::Corpus;

use kept::{Kept, contents, kept_slots, stored, unacked, unpack};

const PATIENCE: Duration = Duration::from_mins(3);
/// What may stay: the lock files, and what a drainer of the client once noted.
const STAYS: [&str; 4] = [".lock", ".lock.pid", ".last_error", ".failed"];

fn connect(kept: &Kept, sf: &Path, address: &str) -> Result<Engine, Error> {
    Engine::connect(&format!(
        "ws::addr={address};sf_dir={};sender_id={};pin=off;initial_connect_retry=async;\
         close_flush_timeout_millis=0;",
        sf.display(),
        kept.slot
    ))
}

/// Looks at the slot, opens it, looks again, and lets it be delivered; returns how many frames were.
fn deliver(kept: &Kept) -> u64 {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let (sf, store) = (dir.path().join("sf"), dir.path().join("store"));
    let slot = unpack(kept, &sf);
    let left = contents(&slot);
    looks::as_left(kept, &slot);
    assert!(contents(&slot) == left, "looking changes nothing");
    let sink = Sink::start(SinkConfig {
        depth: Depth::Decode,
        strict: true,
        store: Some(store.clone()),
        ..SinkConfig::default()
    });
    let sink = sink.expect("listens");
    if kept.is_undeliverable() {
        return set_aside(kept, &sf, &slot, &sink);
    }
    let (frames, rows) = unacked(kept);
    // Without a server first: what the engine finds, and what it leaves.
    let engine = connect(kept, &sf, "127.0.0.1:1").expect("opens");
    looks::as_opened(kept, &engine.stats(), frames);
    drop(engine);
    looks::as_reopened(kept, &slot, frames == 0);
    let engine = connect(kept, &sf, &sink.addr().to_string()).expect("opens");
    assert_eq!(engine.stats().frames_recovered, frames);
    engine.wait_acked(PATIENCE).expect("delivered");
    assert_eq!(engine.stats().frames_acked, frames);
    engine.close().expect("drained");
    let totals = sink.stop();
    assert_eq!(totals.messages_refused, 0);
    let blocks: u64 = totals.tables.values().map(|table| table.blocks).sum();
    assert_eq!(blocks, frames, "one table in each frame");
    assert_eq!(stored(&store), rows);
    let left = contents(&slot);
    let beyond = left.keys().find(|name| !STAYS.contains(&name.as_str()));
    assert_eq!(beyond, None);
    frames
}

/// A slot whose frames need symbols that nobody has any more is set aside, every byte kept.
fn set_aside(kept: &Kept, sf: &Path, slot: &Path, sink: &Sink) -> u64 {
    let address = sink.addr().to_string();
    if kept.messages().is_empty() {
        // The slot of the drainer that gave it up.
        let engine = connect(kept, sf, &address).expect("opens");
        engine.close().expect("nothing to drain");
        return 0;
    }
    let before = contents(slot);
    let engine = connect(kept, sf, &address).expect("an empty slot takes its place");
    let stats = engine.stats();
    assert_eq!((stats.slots_set_aside, stats.frames_recovered), (1, 0));
    engine.close().expect("nothing to drain");
    let name = slot.file_name().and_then(|name| name.to_str());
    let aside = format!("{}.unreplayable-0", name.expect("a name of UTF-8"));
    let mut after = contents(&slot.with_file_name(aside));
    let reason = after.remove(".failed").expect("a reason file");
    assert!(String::from_utf8_lossy(&reason).contains("symbol"));
    let mut before = before;
    // The reason is added to the dead drainer's; the holder's number is ours.
    let earlier = before.remove(".failed").unwrap_or_default();
    assert!(reason.starts_with(&earlier), "the earlier reason stays");
    before.remove(".lock.pid");
    after.remove(".lock.pid");
    assert!(before == after, "every byte is kept");
    assert_eq!(sink.totals().messages, 0);
    0
}

#[test]
fn slots_of_published_clients_are_delivered_exactly() {
    let corpus = Corpus::open().expect("the corpus");
    let (mut slots, mut with_frames, mut frames) = (0, 0, 0);
    for kept in kept_slots(&corpus) {
        println!("{}", kept.folder.display());
        let delivered = deliver(&kept);
        slots += 1;
        with_frames += u32::from(delivered > 0);
        frames += delivered;
    }
    println!("{slots} slots, {with_frames} with unacked frames, {frames} frames delivered");
    assert!(slots >= 50 && with_frames >= 35 && frames >= 288);
}
