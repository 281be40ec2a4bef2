//! A blocking QWP client of a few lines, for the tests of the sink.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use forebay_wire::header::{Flags, Header};
use forebay_wire::upgrade::{Expected, UpgradeError, UpgradeReply, UpgradeRequest, Upgraded};
use forebay_wire::varint;
use forebay_wire::ws::{self, Event, Opcode, Reader};

const KEY: [u8; 4] = [0x11, 0x22, 0x33, 0x44];

/// What the server said, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// `OK`, with its sequence number and tables.
    Ok(i64, Vec<(String, i64)>),
    /// A refusal: status byte, sequence number, text.
    Error(u8, i64, String),
    /// Tables that became durable.
    Durable(Vec<(String, i64)>),
    /// A PING of the server, which is answered.
    Ping,
    /// The answer to a PING.
    Pong,
    /// A close code.
    Close(Option<u16>),
    /// Something that no server should say.
    Wrong(String),
    /// End of the stream, or a reset.
    Gone,
}

pub(super) struct Client {
    stream: TcpStream,
    reader: Reader,
    received: Vec<u8>,
}

impl Client {
    pub(super) fn connect(addr: SocketAddr) -> Self {
        Self::try_connect(addr).expect("upgraded").0
    }

    pub(super) fn try_connect(addr: SocketAddr) -> Result<(Self, Upgraded), UpgradeError> {
        Self::try_connect_with(addr, |_| {})
    }

    /// Connects with a request of the caller's own making.
    pub(super) fn try_connect_with(
        addr: SocketAddr,
        change: impl FnOnce(&mut UpgradeRequest<'_>),
    ) -> Result<(Self, Upgraded), UpgradeError> {
        let mut stream = TcpStream::connect(addr).expect("the sink listens");
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream.set_nodelay(true).unwrap();
        let host = addr.ip().to_string();
        let mut request = UpgradeRequest::new(&host, addr.port(), false, [7; 16]);
        change(&mut request);
        stream.write_all(&request.encode()).unwrap();
        let expected = Expected::of(&request);
        let mut received = Vec::new();
        loop {
            let mut piece = [0; 1024];
            let count = match stream.read(&mut piece) {
                Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => 0,
                other => other.unwrap(),
            };
            received.extend_from_slice(&piece[..count]);
            if let Some(upgraded) = UpgradeReply::parse(&received, &expected)? {
                received.drain(..upgraded.consumed);
                let reader = Reader::new(1 << 20);
                return Ok((
                    Self {
                        stream,
                        reader,
                        received,
                    },
                    upgraded,
                ));
            }
            if count == 0 {
                let reason = "the end instead of an answer".to_owned();
                return Err(UpgradeError::Malformed { reason });
            }
        }
    }

    pub(super) fn send(&mut self, message: &[u8]) {
        self.send_frame(Opcode::Binary, message);
    }

    pub(super) fn send_frame(&mut self, opcode: Opcode, payload: &[u8]) {
        let mut bytes = Vec::new();
        ws::append_client_frame(&mut bytes, opcode, payload, KEY);
        self.send_raw(&bytes);
    }

    pub(super) fn send_raw(&mut self, bytes: &[u8]) {
        // The server may have left already; then what it said is what counts.
        let _ = self.stream.write_all(bytes);
    }

    /// The next thing that the server says, PONGs left out.
    pub(super) fn hear(&mut self) -> Said {
        loop {
            match self.hear_any() {
                Said::Pong => {}
                said => return said,
            }
        }
    }

    /// The next thing that the server says.
    pub(super) fn hear_any(&mut self) -> Said {
        loop {
            let step = match self.reader.next(&self.received) {
                Ok(step) => step,
                Err(e) => return Said::Wrong(e.to_string()),
            };
            let ping = match step.event {
                Some(Event::Ping(payload)) => Some(payload.to_vec()),
                _ => None,
            };
            let (consumed, said) = (step.consumed, step.event.map(said));
            self.received.drain(..consumed);
            if let Some(payload) = ping {
                self.send_frame(Opcode::Pong, &payload);
            }
            if let Some(said) = said {
                return said;
            }
            let mut piece = [0; 4096];
            match self.stream.read(&mut piece) {
                Ok(0) => return Said::Gone,
                Ok(count) => self.received.extend_from_slice(&piece[..count]),
                Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => return Said::Gone,
                Err(e) => panic!("nothing heard: {e}"),
            }
        }
    }

    /// Whether nothing is said for so long.
    pub(super) fn hears_nothing_for(&mut self, time: Duration) -> bool {
        self.stream.set_read_timeout(Some(time)).unwrap();
        let mut piece = [0; 64];
        let result = self.stream.read(&mut piece);
        let patience = Some(Duration::from_secs(20));
        self.stream.set_read_timeout(patience).unwrap();
        matches!(result, Err(e) if e.kind() == std::io::ErrorKind::WouldBlock)
    }

    /// Waits until message `seq` is acknowledged.
    pub(super) fn wait_ok(&mut self, seq: i64) {
        loop {
            match self.hear() {
                Said::Ok(acked, _) if acked >= seq => return,
                Said::Ok(..) => {}
                other => panic!("{other:?} instead of OK {seq}"),
            }
        }
    }

    pub(super) fn writer(&self) -> TcpStream {
        self.stream.try_clone().unwrap()
    }
}

fn said(event: Event<'_>) -> Said {
    use forebay_wire::response::{Response, parse};
    let tables = |tables: forebay_wire::response::TableAcks<'_>| {
        tables
            .iter()
            .map(|(name, txn)| (name.to_owned(), txn))
            .collect()
    };
    match event {
        Event::Binary(payload) => match parse(payload) {
            Ok(Response::Ok { seq, tables: named }) => Said::Ok(seq, tables(named)),
            Ok(Response::Error {
                status,
                seq,
                message,
            }) => Said::Error(status.code(), seq, message.to_owned()),
            Ok(Response::DurableAck { tables: named }) => Said::Durable(tables(named)),
            Ok(other) => Said::Wrong(format!("{other:?}")),
            Err(e) => Said::Wrong(e.to_string()),
        },
        Event::Close { code, .. } => Said::Close(code),
        Event::Ping(_) => Said::Ping,
        Event::Pong(_) => Said::Pong,
    }
}

/// The message of protocol.md 20.1: two trades, two new symbols.
pub(super) fn two_trades() -> Vec<u8> {
    let mut body = vec![0, 2, 7];
    body.extend_from_slice(b"ETH-USD\x07BTC-USD\x06trades\x02\x03\x03sym\x09\x05price\x07\x00\x0a");
    body.extend_from_slice(&[0, 0, 1, 0]);
    body.extend_from_slice(&2615.54_f64.to_le_bytes());
    body.extend_from_slice(&39269.98_f64.to_le_bytes());
    body.push(0);
    body.extend_from_slice(&1_700_000_000_000_000_i64.to_le_bytes());
    body.extend_from_slice(&1_700_000_000_000_001_i64.to_le_bytes());
    message(Flags::DELTA_SYMBOL_DICT, 1, &body)
}

/// Quotes as market data has them: 2 symbols, 2 doubles, 2 longs, a nanosecond timestamp; 44 bytes
/// a row. `start` symbols are known to the connection, `new` are added.
pub(super) fn quotes(rows: u32, start: u64, new: &[&str]) -> Vec<u8> {
    let mut body = Vec::new();
    varint::push(start, &mut body);
    varint::push(new.len() as u64, &mut body);
    for symbol in new {
        varint::push(symbol.len() as u64, &mut body);
        body.extend_from_slice(symbol.as_bytes());
    }
    body.extend_from_slice(b"\x06quotes");
    varint::push(rows.into(), &mut body);
    body.extend_from_slice(
        b"\x07\x06symbol\x09\x04side\x09\x03bid\x07\x03ask\x07\
          \x08bid_size\x05\x08ask_size\x05\0\x10",
    );
    for spread in [7, 2] {
        body.push(0);
        body.extend((0..rows).map(|row| u8::try_from(row % spread).unwrap()));
    }
    for offset in [100.0, 100.5] {
        body.push(0);
        body.extend((0..rows).flat_map(|row| (f64::from(row) + offset).to_le_bytes()));
    }
    for offset in [1_i64, 1_000, 1_750_000_000_000_000_000] {
        body.push(0);
        body.extend((0..rows).flat_map(|row| (i64::from(row) + offset).to_le_bytes()));
    }
    message(Flags::DELTA_SYMBOL_DICT, 1, &body)
}

pub(super) fn message(flags: Flags, tables: u16, body: &[u8]) -> Vec<u8> {
    let header = Header::new(flags, tables, u32::try_from(body.len()).unwrap());
    [&header.to_bytes()[..], body].concat()
}
