//! A QWP server that notes when it sends each OK, and a tap on the engine's socket that notes when
//! the shard takes it: the time between is what an acknowledgement waits for the shard's turn.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use forebay_wire::response::{self, Response};
use forebay_wire::server::{
    Commits, Flow, MessageHandler, Outcome, Refusal, Session, SessionConfig,
};
use forebay_wire::upgrade::{Answer, UpgradePolicy, answer};
use forebay_wire::ws::{Event, Reader};
use hdrhistogram::Histogram;

/// OKs that may be under way at once.
const SENT_SLOTS: usize = 1 << 16;
const RESPONSE_BYTES_MAX: usize = 1 << 20;

/// Send times of OKs by message number, in nanoseconds since `start`.
#[derive(Debug)]
struct SentTimes {
    start: Instant,
    nanos: Vec<AtomicU64>,
}

impl SentTimes {
    fn slot(&self, seq: i64) -> &AtomicU64 {
        let index = usize::try_from(seq).unwrap_or(0) % SENT_SLOTS;
        &self.nanos[index]
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Finds the OKs in a stream of bytes that arrives in pieces.
struct OkStream {
    reader: Reader,
    bytes: Vec<u8>,
    head_seen: bool,
}

impl OkStream {
    fn new(head_seen: bool) -> Self {
        Self {
            reader: Reader::new(RESPONSE_BYTES_MAX),
            bytes: Vec::new(),
            head_seen,
        }
    }

    fn push(&mut self, piece: &[u8], mut each: impl FnMut(i64)) {
        self.bytes.extend_from_slice(piece);
        if !self.head_seen {
            let Some(end) = self
                .bytes
                .windows(4)
                .position(|window| window == b"\r\n\r\n")
            else {
                return;
            };
            self.bytes.drain(..end + 4);
            self.head_seen = true;
        }
        let mut start = 0;
        while let Ok(step) = self.reader.next(&self.bytes[start..]) {
            start += step.consumed;
            match step.event {
                Some(Event::Binary(payload)) => {
                    if let Ok(Response::Ok { seq, .. }) = response::parse(payload) {
                        each(seq);
                    }
                }
                Some(_) => {}
                None => break,
            }
        }
        self.bytes.drain(..start);
    }
}

/// Sees the bytes that the engine receives.
pub type Tap = Box<dyn FnMut(&[u8]) + Send>;

/// The server, and what the tap saw.
#[derive(Debug)]
pub struct OkProbe {
    address: SocketAddr,
    sent: Arc<SentTimes>,
    waits: Arc<Mutex<Histogram<u64>>>,
}

struct AcceptAll;

impl MessageHandler for AcceptAll {
    fn message(&mut self, _: &[u8], _: u64, _: &mut Commits) -> Result<Outcome, Refusal> {
        Ok(Outcome::Committed)
    }
}

impl OkProbe {
    /// Starts the server on a free port of loopback, on `core`.
    pub fn start(core: usize) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let nanos = (0..SENT_SLOTS).map(|_| AtomicU64::new(0)).collect();
        let sent = Arc::new(SentTimes {
            start: Instant::now(),
            nanos,
        });
        let times = Arc::clone(&sent);
        std::thread::Builder::new()
            .name("ok-probe".into())
            .spawn(move || {
                core_affinity::set_for_current(core_affinity::CoreId { id: core });
                // One connection is all a measurement has; an error ends it, which the engine sees.
                while let Ok((stream, _)) = listener.accept() {
                    let _ = serve(stream, &times);
                }
            })?;
        let waits = Histogram::new_with_bounds(1, 60_000_000_000, 3).map_err(io::Error::other)?;
        Ok(Self {
            address,
            sent,
            waits: Arc::new(Mutex::new(waits)),
        })
    }

    /// Where the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The tap for `Engine::connect_tapped`.
    pub fn tap(&self) -> Tap {
        let (sent, waits) = (Arc::clone(&self.sent), Arc::clone(&self.waits));
        let mut stream = OkStream::new(false);
        Box::new(move |piece| {
            stream.push(piece, |seq| {
                let wait = sent
                    .now()
                    .saturating_sub(sent.slot(seq).load(Ordering::Acquire));
                if let Ok(mut waits) = waits.lock() {
                    waits.saturating_record(wait.max(1));
                }
            });
        })
    }

    /// Takes what was measured and starts afresh.
    pub fn take(&self) -> Histogram<u64> {
        let mut waits = self
            .waits
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let taken = waits.clone();
        waits.reset();
        taken
    }
}

fn serve(mut stream: TcpStream, sent: &SentTimes) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut head = Vec::new();
    let mut piece = [0; 4096];
    let policy = UpgradePolicy::default();
    let consumed = loop {
        let got = stream.read(&mut piece)?;
        if got == 0 {
            return Ok(());
        }
        head.extend_from_slice(&piece[..got]);
        match answer(&head, &policy) {
            Some(Answer::Accept(accepted)) => {
                stream.write_all(&accepted.response)?;
                break accepted.consumed;
            }
            Some(Answer::Reject { response, .. }) => return stream.write_all(&response),
            None => {}
        }
    };
    let mut session = Session::new(SessionConfig::default());
    let mut out = Vec::new();
    let mut oks = OkStream::new(true);
    let mut flow = session.on_bytes(&head[consumed..], &mut AcceptAll, &mut out);
    loop {
        oks.push(&out, |seq| {
            sent.slot(seq).store(sent.now(), Ordering::Release);
        });
        stream.write_all(&out)?;
        out.clear();
        if !matches!(flow, Flow::Continue) {
            return Ok(());
        }
        let got = stream.read(session.spare())?;
        if got == 0 {
            return Ok(());
        }
        flow = session.received(got, &mut AcceptAll, &mut out);
    }
}
