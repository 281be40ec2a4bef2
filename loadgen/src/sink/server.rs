//! Listening and stopping.

use std::collections::HashMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::connection;
use super::store::Store;
use super::totals::Counters;
use super::{SinkConfig, Totals};

/// What the threads of a sink share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: SinkConfig,
    pub(super) counters: Counters,
    pub(super) store: Option<Store>,
    stopping: AtomicBool,
    live: Mutex<HashMap<u64, TcpStream>>,
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
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
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
        let for_acceptor = Arc::clone(&shared);
        let acceptor = thread::Builder::new()
            .name("sink-accept".to_owned())
            .spawn(move || accept_all(listener, addr, &for_acceptor))?;
        Ok(Self {
            addr,
            shared,
            acceptor: Some(acceptor),
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
        self.shut_down();
        self.totals()
    }

    fn shut_down(&mut self) {
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
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.shut_down();
    }
}

impl Shared {
    pub(super) fn new(config: SinkConfig, store: Option<Store>) -> Self {
        Self {
            config,
            counters: Counters::default(),
            store,
            stopping: AtomicBool::new(false),
            live: Mutex::new(HashMap::new()),
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(SeqCst)
    }

    fn cut(&self) {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        for stream in live.values() {
            // It may be gone already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn enter(&self, id: u64, stream: &TcpStream) -> io::Result<()> {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.insert(id, stream.try_clone()?);
        drop(live);
        if self.is_stopping() {
            // `cut` may have run before the insert.
            stream.shutdown(Shutdown::Both)?;
        }
        Ok(())
    }

    fn leave(&self, id: u64) {
        self.live
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&id);
    }
}

fn accept_all(listener: Option<TcpListener>, addr: SocketAddr, shared: &Arc<Shared>) {
    let Some(listener) = listener.or_else(|| bind_later(addr, shared)) else {
        return;
    };
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    for (id, stream) in (0_u64..).zip(listener.incoming()) {
        if shared.is_stopping() {
            break;
        }
        let Ok(stream) = stream else {
            // Out of descriptors, most likely: wait for some to be closed.
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        shared.counters.connections.fetch_add(1, Relaxed);
        threads.retain(|thread| !thread.is_finished());
        let for_thread = Arc::clone(shared);
        let spawned = thread::Builder::new()
            .name(format!("sink-{id}"))
            .spawn(move || serve(id, &stream, &for_thread));
        // Without a thread the stream is closed, which the client sees as a lost connection.
        threads.extend(spawned.ok());
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
    if shared.enter(id, stream).is_ok() {
        // How a peer leaves is no error of the sink.
        let _ = connection::serve(stream, shared);
    }
    shared.leave(id);
    // The registered clone kept the socket open until here.
    let _ = stream.shutdown(Shutdown::Both);
}

/// Binds the address when the configured time has passed; the kernel refuses connects until then.
fn bind_later(addr: SocketAddr, shared: &Shared) -> Option<TcpListener> {
    let refuse_until = Instant::now() + shared.config.refuse_for;
    while !shared.is_stopping() {
        if Instant::now() >= refuse_until
            && let Ok(listener) = TcpListener::bind(addr)
        {
            return Some(listener);
        }
        thread::sleep(Duration::from_millis(5));
    }
    None
}
