//! Answers that are held back: a thread per connection that writes them when they are due.
//!
//! All answers of a connection take this way, so their order stays what the session made it.

use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The connection's end of the delay line.
#[derive(Debug)]
pub(super) struct DelayedWriter {
    delay: Duration,
    queue: Option<Sender<(Instant, Vec<u8>)>>,
    writer: Option<JoinHandle<()>>,
}

impl DelayedWriter {
    pub(super) fn start(stream: &TcpStream, delay: Duration) -> io::Result<Self> {
        let stream = stream.try_clone()?;
        let (queue, due) = mpsc::channel();
        let writer = thread::Builder::new()
            .name("sink-delay".to_owned())
            .spawn(move || write_when_due(&stream, &due))?;
        Ok(Self {
            delay,
            queue: Some(queue),
            writer: Some(writer),
        })
    }

    /// Takes over what is to be written; false once writing has failed.
    pub(super) fn send(&self, answers: Vec<u8>) -> bool {
        let due = Instant::now() + self.delay;
        self.queue
            .as_ref()
            .is_some_and(|queue| queue.send((due, answers)).is_ok())
    }

    /// Waits until everything taken over is written.
    pub(super) fn finish(&mut self) {
        drop(self.queue.take());
        if let Some(writer) = self.writer.take() {
            // Its panic has been printed by itself.
            let _ = writer.join();
        }
    }
}

impl Drop for DelayedWriter {
    fn drop(&mut self) {
        self.finish();
    }
}

fn write_when_due(mut stream: &TcpStream, due: &Receiver<(Instant, Vec<u8>)>) {
    for (due, answers) in due {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if stream.write_all(&answers).is_err() {
            // Wakes the reading thread, which then ends the connection.
            let _ = stream.shutdown(Shutdown::Both);
            return;
        }
    }
}
