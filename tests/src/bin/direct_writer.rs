//! A process that holds a lock and has direct writes in flight, for the test of fencing: is the
//! lock free once it is killed?
//!
//! ```text
//! direct_writer plain|registered DIR WRITES
//! ```
//! It locks `DIR/.lock`, submits the writes of 4 KiB to `DIR/data` on an `io_uring` ring, in whose
//! file table the lock is registered or not, says `submitted` and waits to be killed.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use io_uring::{IoUring, opcode, types};

const BLOCK: u32 = 4096;
/// Marks the writes: they are the ones that are held up.
const MARK: u8 = b'x';
/// If nobody kills it.
const LIFETIME: Duration = Duration::from_mins(1);

fn create(path: &Path, flags: i32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true);
    options.custom_flags(flags).open(path)
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [lock_is, dir, writes] = arguments.as_slice() else {
        return Err("direct_writer plain|registered DIR WRITES".into());
    };
    let (dir, writes): (&Path, u32) = (Path::new(dir), writes.parse()?);
    let lock = create(&dir.join(".lock"), 0)?;
    lock.try_lock()?;
    let mut zeros = create(&dir.join("data"), 0)?;
    zeros.write_all(&vec![0; (writes * BLOCK) as usize])?;
    zeros.sync_all()?;
    let data = create(&dir.join("data"), libc::O_DIRECT)?;

    let mut ring = IoUring::new(writes.next_power_of_two())?;
    if lock_is == "registered" {
        ring.submitter().register_files(&[lock.as_raw_fd()])?;
    }
    // Never freed: the kernel reads it until the process is gone.
    let buffer = Box::leak(vec![MARK; 2 * BLOCK as usize].into_boxed_slice());
    let skip = buffer.as_ptr().align_offset(BLOCK as usize);
    let block = &buffer[skip..skip + BLOCK as usize];
    for index in 0..writes {
        let write = opcode::Write::new(types::Fd(data.as_raw_fd()), block.as_ptr(), BLOCK)
            .offset(u64::from(index * BLOCK))
            .build();
        // SAFETY: the block is leaked, so it is valid for ever, and the file stays open until the
        // process ends.
        unsafe { ring.submission().push(&write) }?;
    }
    ring.submit()?;
    println!("submitted");
    std::thread::sleep(LIFETIME);
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("direct_writer: {error}");
            ExitCode::FAILURE
        }
    }
}
