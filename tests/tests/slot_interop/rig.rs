//! One slot through many hands: turns of either client, each checked against the slot's bytes and
//! against what the server stored.

use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forebay_loadgen::sink::{Depth, Sink, SinkConfig};
use forebay_tests::address::free_address;
use forebay_tests::stored_slot::{StoredFrame, StoredSlot};
use forebay_wire::decode::{Cell, Message, Mode};

use crate::client::{Client, Side};

/// What happened, for the line that each test prints.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) slots: u64,
    pub(crate) turns: u64,
    pub(crate) kills: u64,
    /// Slots that one client left unacked frames in and the other opened.
    pub(crate) handed_over: u64,
    pub(crate) frames: u64,
    pub(crate) replayed: u64,
    pub(crate) segments_most: u64,
    pub(crate) blank_set_aside: u64,
    /// Slots with frames of a later dictionary epoch: ids from 0 on, numbers that are not.
    pub(crate) later_epochs: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.slots += other.slots;
        self.turns += other.turns;
        self.kills += other.kills;
        self.handed_over += other.handed_over;
        self.frames += other.frames;
        self.replayed += other.replayed;
        self.segments_most = self.segments_most.max(other.segments_most);
        self.blank_set_aside += other.blank_set_aside;
        self.later_epochs += other.later_epochs;
    }
}

/// Rows of one size; each becomes a frame.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rows {
    pub(crate) count: u64,
    pub(crate) text_bytes: u64,
    /// How many symbols they share; 0 for rows without a symbol.
    pub(crate) symbols: u64,
}

/// When the server is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    Down,
    /// Until it confirmed the first rows and what was in the slot.
    First,
    Up,
}

/// How a client ends its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Leave,
    /// Once everything is accepted, and acked where the server stays up.
    Kill,
    /// This long after its start, without rows, whether it has the slot by then or not.
    KillOpening(Duration),
    /// This long after it began to leave, unless it has left by then.
    KillLeaving(Duration),
    /// While the second rows are appended, this long after they began.
    KillAfter(Duration),
}

/// One client's time with the slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) side: Side,
    pub(crate) segment_bytes: u64,
    pub(crate) server: Server,
    pub(crate) first: Rows,
    pub(crate) second: Rows,
    pub(crate) end: End,
}

/// The slot, and what must be in it.
pub(crate) struct Rig {
    dir: tempfile::TempDir,
    next_row: u64,
    symbols: HashMap<u64, String>,
    /// Rows of the unacked frames, oldest first.
    pub(crate) pending: Vec<u64>,
    last_side: Option<Side>,
    /// More keys of our turns.
    keys: &'static str,
    /// Blank spares that the official client left when it was killed.
    blank: usize,
    pub(crate) counts: Counts,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self {
            dir: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory"),
            next_row: 0,
            symbols: HashMap::new(),
            pending: Vec::new(),
            last_side: None,
            keys: "",
            blank: 0,
            counts: Counts {
                slots: 1,
                ..Counts::default()
            },
        }
    }

    /// A slot whose dictionary we begin anew as soon as all is acked.
    pub(crate) fn with_epochs() -> Self {
        Self {
            keys: "symbol_dict_reset_threshold=1;",
            ..Self::new()
        }
    }

    fn slot(&self) -> PathBuf {
        self.dir.path().join("sf/shared")
    }

    fn conf(&self, turn: &Turn, address: SocketAddr) -> String {
        // What waits in an intake is not for the official client (`intake_kill` has both together):
        // here everything that was accepted has to be in the segments.
        let ours = match turn.side {
            Side::Ours => format!("pin=off;intake=memory;lock_retry_millis=1000;{}", self.keys),
            Side::Official => String::new(),
        };
        format!(
            "ws::addr={address};sf_dir={};sender_id=shared;sf_max_segment_bytes={};\
             initial_connect_retry=async;reconnect_initial_backoff_millis=5;\
             reconnect_max_backoff_millis=20;close_flush_timeout_millis=0;{ours}",
            self.dir.path().join("sf").display(),
            turn.segment_bytes
        )
    }

    /// Plays the turn and checks what it left.
    pub(crate) fn play(&mut self, turn: &Turn) {
        // The official client refuses a slot with a blank spare beside an empty active segment,
        // also one that it left so itself: ours has to go first.
        let side = match turn.side {
            Side::Official if self.blank > 0 => Side::Ours,
            side => side,
        };
        let turn = &Turn { side, ..*turn };
        let address = free_address();
        let store = self.dir.path().join(format!("store-{}", self.counts.turns));
        if let End::KillOpening(delay) = turn.end {
            let client = Client::start(turn.side, &self.conf(turn, address));
            std::thread::sleep(delay);
            client.kill();
            self.counts.turns += 1;
            self.counts.kills += 1;
            self.last_side = Some(turn.side);
            let known = self.pending.clone();
            return self.check(turn, &known, known.len(), 0, &[]);
        }
        let mut sink = (turn.server != Server::Down).then(|| start_sink(address, &store));
        let mut client = Client::open(turn.side, &self.conf(turn, address));
        let before = self.pending.len();
        let mut known = self.pending.clone();
        known.extend(self.append(&mut client, turn.first));
        client.expect_accepted_all(&known[before..]);
        // Rows certainly in the slot, and rows certainly confirmed.
        let mut in_slot = known.len();
        let mut acked = 0;
        if turn.server == Server::First {
            client.command("acked");
            client.expect("acked");
            acked = known.len();
            sink.take().map(Sink::stop);
        }
        known.extend(self.append(&mut client, turn.second));
        if let End::KillAfter(delay) = turn.end {
            std::thread::sleep(delay);
        } else {
            client.expect_accepted_all(&known[in_slot..]);
            in_slot = known.len();
            if turn.server == Server::Up {
                client.command("acked");
                client.expect("acked");
                acked = known.len();
            }
        }
        if turn.end == End::Leave {
            client.leave();
        } else {
            self.counts.kills += 1;
            let accepted = if let End::KillLeaving(delay) = turn.end {
                client.kill_leaving(delay);
                None
            } else {
                client.kill()
            };
            let up_to = known.iter().filter(|row| accepted >= Some(**row)).count();
            in_slot = in_slot.max(up_to);
        }
        drop(sink);
        let received = self.stored(&store);
        if self.last_side.is_some_and(|last| last != turn.side) && before > 0 {
            self.counts.handed_over += 1;
        }
        self.counts.turns += 1;
        self.counts.replayed += received.len().min(before) as u64;
        self.last_side = Some(turn.side);
        self.check(turn, &known, in_slot, acked, &received);
    }

    fn check(
        &mut self,
        turn: &Turn,
        known: &[u64],
        in_slot: usize,
        acked: usize,
        received: &[u64],
    ) {
        assert!(
            known.starts_with(received),
            "the server got {received:?} of {known:?}"
        );
        assert!(received.len() >= acked, "acked rows arrived");
        let slot = StoredSlot::read(&self.slot()).expect("a slot in order");
        let segments = slot.segment_bytes.len() as u64;
        self.counts.blank_set_aside = slot.blank_set_aside as u64;
        self.counts.segments_most = self.counts.segments_most.max(segments);
        if turn.side == Side::Ours {
            assert!(slot.blank <= self.blank, "{:?}", slot.names);
        }
        self.blank = slot.blank;
        if let Some(frame) = slot.frames.first().filter(|frame| frame.fsn > 0) {
            let message = Message::parse(&frame.payload, Mode::Strict).expect("a message");
            let delta = message.delta();
            let anew = delta.is_some_and(|delta| delta.start() == 0 && delta.count() > 0);
            self.counts.later_epochs += u64::from(anew);
        }
        let left: Vec<u64> = slot.unacked().iter().map(row_of).collect();
        if left.is_empty() {
            assert!(received.len() >= in_slot, "{} < {in_slot}", received.len());
        } else {
            let from = known.iter().position(|row| *row == left[0]);
            let from = from.expect("a row that was published");
            assert!(known[from..].starts_with(&left), "{left:?} of {known:?}");
            assert!(from + left.len() >= in_slot, "{left:?} of {known:?}");
            assert!(from <= received.len(), "given up but not at the server");
            if turn.end == End::Leave {
                assert!(from >= acked, "acked rows are noted by who leaves in peace");
            }
        }
        if turn.end == End::Leave && acked == known.len() {
            assert!(slot.is_drained(), "{:?}", slot.names);
        }
        self.pending = left;
    }

    /// The last turn: all that is unacked reaches the server, and only the lock files stay.
    pub(crate) fn drain(&mut self, side: Side, segment_bytes: u64) {
        self.play(&Turn {
            side,
            segment_bytes,
            server: Server::Up,
            first: Rows::default(),
            second: Rows::default(),
            end: End::Leave,
        });
        assert!(self.pending.is_empty(), "{:?}", self.pending);
        let slot = StoredSlot::read(&self.slot()).expect("a slot in order");
        assert!(slot.is_drained(), "{:?}", slot.names);
    }

    fn append(&mut self, client: &mut Client, rows: Rows) -> std::ops::Range<u64> {
        let numbers = self.next_row..self.next_row + rows.count;
        if rows.count > 0 {
            client.command(&format!(
                "rows {} {} {} {}",
                numbers.start, rows.count, rows.text_bytes, rows.symbols
            ));
        }
        for number in numbers.clone() {
            if let Some(id) = number.checked_rem(rows.symbols) {
                self.symbols.insert(number, format!("S{id}"));
            }
        }
        self.next_row = numbers.end;
        self.counts.frames += rows.count;
        numbers
    }

    /// The rows that the server stored, in its order, each with its symbol.
    fn stored(&self, store: &Path) -> Vec<u64> {
        let text = fs::read_to_string(store.join("t.ndjson")).unwrap_or_default();
        let rows = text.lines().map(|line| {
            let value: serde_json::Value = serde_json::from_str(line).expect("a whole line");
            let number = value["n"].as_u64().expect("a number");
            let symbol = value.get("sym").and_then(serde_json::Value::as_str);
            assert_eq!(
                symbol,
                self.symbols.get(&number).map(String::as_str),
                "symbol of row {number}"
            );
            number
        });
        rows.collect()
    }
}

impl Client {
    fn expect_accepted_all(&mut self, rows: &[u64]) {
        if let Some(last) = rows.last() {
            self.expect_accepted(*last);
        }
    }
}

/// The number of the one row in a frame.
fn row_of(frame: &StoredFrame) -> u64 {
    let message = Message::parse(&frame.payload, Mode::Strict).expect("a message");
    let mut rows = Vec::new();
    for table in message.tables() {
        for column in table.expect("a table").columns() {
            let column = column.expect("a column");
            if column.name == "n" {
                rows.extend(column.cells());
            }
        }
    }
    match rows.as_slice() {
        [Some(Cell::Integer(number))] => u64::try_from(*number).expect("a row number"),
        other => panic!("frame {} holds {other:?}", frame.fsn),
    }
}

fn start_sink(listen: SocketAddr, store: &Path) -> Sink {
    let config = SinkConfig {
        listen,
        depth: Depth::Decode,
        strict: true,
        store: Some(store.to_path_buf()),
        ..SinkConfig::default()
    };
    // A child that another thread is just starting may hold the probe of `free_address` for a while.
    let until = Instant::now() + Duration::from_secs(1);
    loop {
        match Sink::start(config.clone()) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(1));
            }
            other => return other.expect("listens"),
        }
    }
}
