//! The command `forebay`: what is in a slot, whether it is sound, its frames as text, and how large
//! a cap an outage needs.
//!
//! The commands that look use plain reads only: no io_uring, no direct I/O, no lock kept, nothing
//! written, no symbolic link followed inside a slot. So they work beside a running engine, on a
//! read-only mount, under a seccomp filter, and on slots of the official clients. Whatever a slot
//! holds, they neither panic nor allocate by a length that they read.
//!
//! Three commands act: `clear-failed` removes a marker; `drain` and `settle` (feature `drain`) are
//! the engine itself.
//!
//! The command line is a library, so that the tests of the workspace can have a binary of their
//! own that is the same program. docs/cli.md is its manual.

#![forbid(unsafe_code)]

mod clear_failed;
#[cfg(feature = "drain")]
mod drain;
mod dump;
mod error;
mod fsn_range;
mod inspect;
mod paper;
#[cfg(feature = "drain")]
mod settle;
mod size;
mod slot;
mod verify;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use error::Failure;

/// What a command found out, as its exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// All is well: 0.
    Sound,
    /// Something is damaged: 1.
    Damaged,
    /// It cannot be said: 2.
    Unknown,
    /// Frames are left: 3.
    #[cfg(feature = "drain")]
    Left,
    /// The server refused frames, or a slot is damaged: 4.
    #[cfg(feature = "drain")]
    Refused,
}

impl Outcome {
    fn status(self) -> u8 {
        match self {
            Self::Sound => 0,
            Self::Damaged => 1,
            Self::Unknown => 2,
            #[cfg(feature = "drain")]
            Self::Left => 3,
            #[cfg(feature = "drain")]
            Self::Refused => 4,
        }
    }
}

/// Looks into slots and drains them: directories in which senders keep what the server has not confirmed.
#[derive(Debug, Parser)]
#[command(name = "forebay", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Inspect(inspect::InspectArgs),
    Verify(verify::VerifyArgs),
    Dump(dump::DumpArgs),
    Size(size::SizeArgs),
    ClearFailed(clear_failed::ClearFailedArgs),
    #[cfg(feature = "drain")]
    Drain(drain::DrainArgs),
    #[cfg(feature = "drain")]
    Settle(settle::SettleArgs),
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let out = io::stdout().lock();
    ExitCode::from(run(std::env::args_os(), out, io::stderr()))
}

/// Runs a command line, program name included, and gives its exit status: 0 sound, 1 damaged,
/// 2 cannot say; `drain` also 3 and 4.
pub fn run(
    args: impl IntoIterator<Item = OsString>,
    out: impl Write,
    mut diagnostics: impl Write,
) -> u8 {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Help goes to stdout, mistakes to stderr; where neither can be written, nobody reads.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(2);
        }
    };
    let mut out = io::BufWriter::with_capacity(64 * 1024, out);
    let done = match cli.command {
        Command::Inspect(args) => args.execute(&mut out),
        Command::Verify(args) => args.execute(&mut out),
        Command::Dump(args) => args.execute(&mut out, &mut diagnostics),
        Command::Size(args) => args.execute(&mut out),
        Command::ClearFailed(args) => args.execute(&mut out),
        #[cfg(feature = "drain")]
        Command::Drain(args) => args.execute(&mut out),
        #[cfg(feature = "drain")]
        Command::Settle(args) => args.execute(&mut out),
    };
    let done = done.and_then(|outcome| {
        out.flush().map_err(Failure::Output)?;
        Ok(outcome)
    });
    match done {
        Ok(outcome) => outcome.status(),
        // Whoever read the output has seen enough.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => 0,
        Err(failure) => {
            // Where stderr cannot be written, the status still says it.
            let _ = writeln!(diagnostics, "forebay: {failure}");
            Outcome::Unknown.status()
        }
    }
}
