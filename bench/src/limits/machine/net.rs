//! Bytes through the loopback.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::limits::figures::float;

const MESSAGE_BYTES: usize = 32 << 10;
const READ_BYTES: usize = 256 << 10;
/// How long it is measured.
const LENGTH: Duration = Duration::from_millis(300);

/// GB/s of messages from one thread to another, until the last one was read.
pub(super) fn loopback() -> Result<f64, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut out = TcpStream::connect(listener.local_addr()?)?;
    let (mut into, _) = listener.accept()?;
    let reader = std::thread::spawn(move || -> std::io::Result<u64> {
        let mut room = vec![0; READ_BYTES];
        let mut bytes = 0;
        loop {
            match into.read(&mut room)? {
                0 => return Ok(bytes),
                count => bytes += count as u64,
            }
        }
    });
    let message = vec![7; MESSAGE_BYTES];
    let began = Instant::now();
    while began.elapsed() < LENGTH {
        out.write_all(&message)?;
    }
    drop(out);
    let bytes = reader.join().map_err(|_| "the reader panicked")??;
    Ok(float(bytes) / began.elapsed().as_secs_f64() / 1e9)
}
