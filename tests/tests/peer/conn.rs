//! The server's end of one connection.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use forebay_wire::response::{Status, write_durable_ack, write_error, write_ok};
use forebay_wire::upgrade::{Answer, UpgradePolicy, answer};
use forebay_wire::ws::{ClientFrame, Opcode, append_server_frame, close, mask};

use super::rows::number;

/// What a client sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sent {
    /// A frame with the number of its row.
    Row(u64),
    /// A message without rows.
    CatchUp,
    /// PING.
    Ping,
    /// PONG.
    Pong,
    /// CLOSE with its code.
    Close(Option<u16>),
}

/// What one connection brought.
#[derive(Debug, Clone)]
pub(crate) struct Heard {
    /// When it was accepted.
    pub(crate) at: Instant,
    /// Everything in order.
    pub(crate) sent: Vec<Sent>,
}

impl Heard {
    /// The numbers of the rows.
    pub(crate) fn rows(&self) -> Vec<u64> {
        let row = |sent: &Sent| match sent {
            Sent::Row(n) => Some(*n),
            _ => None,
        };
        self.sent.iter().filter_map(row).collect()
    }
}

/// The server's end of a connection.
pub(crate) struct Conn {
    stream: TcpStream,
    buffer: Vec<u8>,
    used: usize,
    heard: Arc<Mutex<Vec<Heard>>>,
    stop: Arc<AtomicBool>,
    /// Messages received.
    pub(crate) messages: i64,
    /// The last of them.
    pub(crate) last: Vec<u8>,
}

impl Conn {
    pub(super) fn new(
        stream: TcpStream,
        heard: Arc<Mutex<Vec<Heard>>>,
        stop: Arc<AtomicBool>,
    ) -> Self {
        Self {
            stream,
            buffer: Vec::new(),
            used: 0,
            heard,
            stop,
            messages: 0,
            last: Vec::new(),
        }
    }

    /// Answers the upgrade request; `false` when there was none.
    pub(crate) fn upgrade(&mut self, policy: &UpgradePolicy) -> bool {
        loop {
            match answer(&self.buffer[..self.used], policy) {
                None => {
                    if !self.read() {
                        return false;
                    }
                }
                Some(Answer::Accept(accepted)) => {
                    self.consume(accepted.consumed);
                    return self.raw(&accepted.response);
                }
                Some(Answer::Reject { response, .. }) => {
                    self.raw(&response);
                    return false;
                }
            }
        }
    }

    /// The next thing that the client sent; `None` at the end of the stream.
    pub(crate) fn next(&mut self) -> Option<Sent> {
        loop {
            let frame = ClientFrame::parse(&self.buffer[..self.used]).expect("a legal frame");
            if let Some(frame) = frame {
                let end = frame.header_bytes + usize::try_from(frame.payload_bytes).unwrap();
                if self.used >= end {
                    let mut payload = self.buffer[frame.header_bytes..end].to_vec();
                    mask::apply(&mut payload, frame.mask_key, 0);
                    self.consume(end);
                    let sent = self.judge(frame.opcode, &payload);
                    let mut heard = self.heard.lock().unwrap();
                    heard.last_mut().unwrap().sent.push(sent.clone());
                    return Some(sent);
                }
            }
            if !self.read() {
                return None;
            }
        }
    }

    /// The next row or the end; PINGs are answered, catch-up is passed over.
    pub(crate) fn next_row(&mut self) -> Option<u64> {
        loop {
            match self.next()? {
                Sent::Row(n) => return Some(n),
                Sent::Ping => {
                    self.say(Opcode::Pong, &[]);
                }
                Sent::Close(_) => return None,
                _ => {}
            }
        }
    }

    /// Waits for the next message; `false` at the end.
    pub(crate) fn next_row_or_catch_up(&mut self) -> bool {
        loop {
            match self.next() {
                Some(Sent::Row(_) | Sent::CatchUp) => return true,
                Some(Sent::Ping | Sent::Pong) => {}
                Some(Sent::Close(_)) | None => return false,
            }
        }
    }

    fn judge(&mut self, opcode: Opcode, payload: &[u8]) -> Sent {
        match opcode {
            Opcode::Ping => Sent::Ping,
            Opcode::Pong => Sent::Pong,
            Opcode::Close => Sent::Close(close::split_payload(payload).0),
            Opcode::Binary => {
                self.messages += 1;
                self.last = payload.to_vec();
                number(payload).map_or(Sent::CatchUp, Sent::Row)
            }
            other => panic!("a client sent {other:?}"),
        }
    }

    fn read(&mut self) -> bool {
        if self.used == self.buffer.len() {
            self.buffer.resize((2 * self.used).max(64 << 10), 0);
        }
        match self.stream.read(&mut self.buffer[self.used..]) {
            Ok(0) | Err(_) => false,
            Ok(got) => {
                self.used += got;
                true
            }
        }
    }

    fn consume(&mut self, count: usize) {
        self.buffer.copy_within(count..self.used, 0);
        self.used -= count;
    }

    /// Sends bytes as they are; `false` when the client is gone.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Sends one frame.
    pub(crate) fn say(&mut self, opcode: Opcode, payload: &[u8]) -> bool {
        let mut bytes = Vec::new();
        append_server_frame(&mut bytes, opcode, payload);
        self.raw(&bytes)
    }

    /// Sends an OK for everything up to message `seq`.
    pub(crate) fn ok(&mut self, seq: i64) -> bool {
        self.ok_with(seq, &[])
    }

    /// Sends an OK that names tables.
    pub(crate) fn ok_with(&mut self, seq: i64, tables: &[(&str, i64)]) -> bool {
        let mut payload = Vec::new();
        write_ok(&mut payload, seq, tables.iter().copied());
        self.say(Opcode::Binary, &payload)
    }

    /// Sends an OK for everything received so far.
    pub(crate) fn ok_all(&mut self) -> bool {
        self.ok(self.messages - 1)
    }

    /// Sends a durable acknowledgement.
    pub(crate) fn durable(&mut self, tables: &[(&str, i64)]) -> bool {
        let mut payload = Vec::new();
        write_durable_ack(&mut payload, tables.iter().copied());
        self.say(Opcode::Binary, &payload)
    }

    /// Refuses message `seq`.
    pub(crate) fn refuse(&mut self, status: u8, seq: i64) -> bool {
        let mut payload = Vec::new();
        let status = Status::from_code(status);
        write_error(&mut payload, status, seq, "refused by the script");
        self.say(Opcode::Binary, &payload)
    }

    /// Sends CLOSE and waits for the client to go.
    pub(crate) fn close(&mut self, code: Option<u16>) {
        let payload = code.map_or_else(Vec::new, |code| close::payload(code, "scripted"));
        self.say(Opcode::Close, &payload);
        self.listen_to_the_end();
    }

    /// Reads until the client goes, saying nothing.
    pub(crate) fn listen_to_the_end(&mut self) {
        while self.next().is_some() {}
    }

    /// The stream ends from this side; the client may still say something.
    pub(crate) fn fin(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
        self.listen_to_the_end();
    }

    /// Drops the connection with a reset: unread bytes are left.
    pub(crate) fn reset(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Reads about so many bytes and looks at none.
    pub(crate) fn read_some(&mut self, bytes: usize) {
        while self.used < bytes && self.read() {}
    }

    /// Reads nothing more and waits until the server is dropped.
    pub(crate) fn wait_for_the_end(&self) {
        while !self.stop.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Reads whatever comes, upgrade or not, and says nothing.
    pub(crate) fn listen_raw(&mut self) {
        while self.read() {
            self.used = 0;
        }
    }

    /// Serves as a good server does until the client goes.
    pub(crate) fn serve(&mut self) {
        while self.next_row().is_some() {
            self.ok_all();
        }
    }
}
