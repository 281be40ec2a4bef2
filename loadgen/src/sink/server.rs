//! Listening and stopping.

use std::collections::HashMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::connection;
use super::live::Live;
use super::records::Log;
use super::script::When;
use super::scripted::{self, Last};
use super::store::Store;
use super::totals::Counters;
use super::{SinkConfig, Totals};

/// What the threads of a sink share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: SinkConfig,
    pub(super) counters: Counters,
    pub(super) store: Option<Store>,
    pub(super) live: Live,
    pub(super) log: Option<Log>,
    stopping: AtomicBool,
    streams: Mutex<HashMap<u64, TcpStream>>,
}

/// A running sink. Dropping it stops it.
///
/// ```
/// use forebay_loadgen::sink::{Sink, SinkConfig};
/// let sink = Sink::start(SinkConfig::default())?;
/// println!("ws::addr={};", sink.addr());
/// let totals = sink.stop();
/// assert_eq!(totals.rows, 0);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Sink {
    addr: SocketAddr,
    pub(super) shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
    clock: Option<JoinHandle<()>>,
}

impl Sink {
    /// Binds and starts to accept.
    ///
    /// # Errors
    /// What binding the address, or opening the store's directory, answers.
    pub fn start(config: SinkConfig) -> io::Result<Self> {
        let store = config.store.as_deref().map(Store::open).transpose()?;
        let listener = TcpListener::bind(config.listen)?;
        let addr = listener.local_addr()?;
        // Closed before anybody can know the address, if connects are to be refused at first.
        let listener = Some(listener).filter(|_| config.refuse_for.is_zero());
        let shared = Arc::new(Shared::new(config, store));
        // It was empty.
        let _ = shared.live.addr.set(addr);
        let clock = match shared.config.script {
            Some(_) => Some(start_clock(&shared)?),
            None => None,
        };
        let for_acceptor = Arc::clone(&shared);
        let acceptor = thread::Builder::new()
            .name("sink-accept".to_owned())
            .spawn(move || accept_all(listener, addr, &for_acceptor))?;
        Ok(Self {
            addr,
            shared,
            acceptor: Some(acceptor),
            clock,
        })
    }

    /// Where the sink listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What was counted so far.
    pub fn totals(&self) -> Totals {
        self.shared.counters.read()
    }

    /// Cuts every connection, as a server that dies would; the sink goes on listening.
    pub fn cut_connections(&self) {
        self.shared.cut();
    }

    /// Stops listening, cuts every connection, waits for their threads, returns the totals.
    pub fn stop(mut self) -> Totals {
        self.end();
        self.totals()
    }

    /// Like [`Sink::stop`], with the sink left to be asked for its totals and records.
    pub fn end(&mut self) {
        let Some(acceptor) = self.acceptor.take() else {
            return;
        };
        self.shared.stopping.store(true, SeqCst);
        // Wakes the acceptor; it may be between two binds, then it looks at the flag by itself.
        drop(TcpStream::connect_timeout(
            &self.addr,
            Duration::from_secs(1),
        ));
        self.shared.cut();
        // A panic of the acceptor has been printed by its own thread.
        let _ = acceptor.join();
        if let Some(clock) = self.clock.take() {
            let _ = clock.join();
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    pub(super) fn new(config: SinkConfig, store: Option<Store>) -> Self {
        let live = Live::new(&config);
        Self {
            log: config.record.map(|limits| Log::new(limits, live.started)),
            live,
            config,
            counters: Counters::default(),
            store,
            stopping: AtomicBool::new(false),
            streams: Mutex::new(HashMap::new()),
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(SeqCst)
    }

    fn cut(&self) {
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        for stream in streams.values() {
            // It may be gone already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn enter(&self, id: u64, stream: &TcpStream) -> io::Result<()> {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.insert(id, stream.try_clone()?);
        drop(streams);
        if self.is_stopping() {
            // `cut` may have run before the insert.
            stream.shutdown(Shutdown::Both)?;
        }
        Ok(())
    }

    fn leave(&self, id: u64) {
        self.streams
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&id);
    }
}

fn accept_all(listener: Option<TcpListener>, addr: SocketAddr, shared: &Arc<Shared>) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    let mut listener = listener;
    let mut id = 0;
    loop {
        let Some(open) = listener.take().or_else(|| bind_later(addr, shared)) else {
            break;
        };
        let accepted = open.accept();
        if shared.is_stopping() {
            break;
        }
        if shared.live.take_stop() {
            // What was accepted may be the wake-up call.
            continue;
        }
        listener = Some(open);
        let Ok((stream, _)) = accepted else {
            // Out of descriptors, most likely: wait for some to be closed.
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        shared.counters.connections.fetch_add(1, Relaxed);
        if let Some(log) = &shared.log {
            log.accept();
        }
        threads.retain(|thread| !thread.is_finished());
        let for_thread = Arc::clone(shared);
        let spawned = thread::Builder::new()
            .name(format!("sink-{id}"))
            .spawn(move || serve(id, &stream, &for_thread));
        // Without a thread the stream is closed, which the client sees as a lost connection.
        threads.extend(spawned.ok());
        id += 1;
    }
    drop(listener);
    shared.cut();
    for thread in threads {
        // Its panic has been printed by itself.
        let _ = thread.join();
    }
}

fn serve(id: u64, stream: &TcpStream, shared: &Shared) {
    if let Some(core) = shared.config.pin_core {
        core_affinity::set_for_current(core_affinity::CoreId { id: core });
    }
    let mut last = Last::ShutDown;
    if shared.enter(id, stream).is_ok() {
        // How a peer leaves is no error of the sink.
        if shared.config.is_scripted() {
            last = scripted::serve(stream, id, shared).unwrap_or(Last::ShutDown);
        } else {
            let _ = connection::serve(stream, shared);
        }
    }
    // The registered clone keeps the socket open until here.
    shared.leave(id);
    if last == Last::ShutDown {
        let _ = stream.shutdown(Shutdown::Both);
    }
}

/// Binds the address when connects are no longer to be refused; the kernel refuses them until
/// then.
fn bind_later(addr: SocketAddr, shared: &Shared) -> Option<TcpListener> {
    while !shared.is_stopping() {
        if !shared.live.is_refusing()
            && let Ok(listener) = TcpListener::bind(addr)
        {
            return Some(listener);
        }
        thread::sleep(Duration::from_millis(5));
    }
    None
}

/// Does what a script wants of the sink at given times.
fn start_clock(shared: &Arc<Shared>) -> io::Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    thread::Builder::new()
        .name("sink-clock".to_owned())
        .spawn(move || {
            let mut done = (u64::MAX, Vec::new());
            while !shared.is_stopping() {
                let script = shared.live.script();
                if done.0 != script.generation {
                    done = (script.generation, vec![false; script.rules.len()]);
                }
                for (at, rule) in script.rules.iter().enumerate() {
                    let When::At(time) = rule.when else { continue };
                    let due = rule.action.is_of_sink() && script.since.elapsed() >= time;
                    if due && !done.1[at] {
                        done.1[at] = true;
                        if script.fire(at) {
                            shared.live.perform(&rule.action, &shared.counters);
                        }
                    }
                }
                thread::sleep(Duration::from_millis(5));
            }
        })
}
