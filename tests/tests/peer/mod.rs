//! A server on a raw socket whose every answer is spelled out by the test: one connection at a
//! time, one message at a time, whatever a server may do wrong.

#![allow(
    dead_code,
    unused_imports,
    reason = "each test file compiles this module and uses its part of it"
)]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

mod conn;
mod rows;

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(crate) use conn::{Conn, Heard, Sent};
pub(crate) use rows::{Seen, fill};

/// A listening server; stopped on drop.
pub(crate) struct Peer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    heard: Arc<Mutex<Vec<Heard>>>,
    thread: Option<JoinHandle<()>>,
    current: Arc<Mutex<Option<TcpStream>>>,
}

impl Peer {
    /// Listens; `script` is called for each connection with its number, from 0.
    pub(crate) fn start(script: impl FnMut(usize, &mut Conn) + Send + 'static) -> Self {
        Self::listen(TcpListener::bind("127.0.0.1:0").unwrap(), script)
    }

    /// As [`start`](Self::start), at an address.
    pub(crate) fn listen(
        listener: TcpListener,
        mut script: impl FnMut(usize, &mut Conn) + Send + 'static,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let heard = Arc::new(Mutex::new(Vec::new()));
        let current = Arc::new(Mutex::new(None));
        let (stopped, log, now) = (Arc::clone(&stop), Arc::clone(&heard), Arc::clone(&current));
        let thread = std::thread::spawn(move || {
            for number in 0.. {
                let (stream, _) = listener.accept().unwrap();
                if stopped.load(Ordering::Acquire) {
                    return;
                }
                stream.set_nodelay(true).unwrap();
                stream
                    .set_read_timeout(Some(Duration::from_secs(30)))
                    .unwrap();
                *now.lock().unwrap() = Some(stream.try_clone().unwrap());
                log.lock().unwrap().push(Heard {
                    at: Instant::now(),
                    sent: Vec::new(),
                });
                let mut conn = Conn::new(stream, Arc::clone(&log), Arc::clone(&stopped));
                script(number, &mut conn);
                *now.lock().unwrap() = None;
            }
        });
        Self {
            address,
            stop,
            heard,
            thread: Some(thread),
            current,
        }
    }

    /// Where it listens.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.address
    }

    /// Every connection so far.
    pub(crate) fn heard(&self) -> Vec<Heard> {
        self.heard.lock().unwrap().clone()
    }

    /// How many connections there were.
    pub(crate) fn connections(&self) -> usize {
        self.heard.lock().unwrap().len()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(stream) = self.current.lock().unwrap().take() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}
