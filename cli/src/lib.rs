//! The command `forebay`: what is in a slot, whether it is sound, its frames as text, and how large
//! a cap an outage needs.
//!
//! Plain reads only: no io_uring, no direct I/O, no lock kept, nothing written, no symbolic link
//! followed inside a slot. So it works beside a running engine, on a read-only mount, under a
//! seccomp filter, and on slots of the official clients. Whatever a slot holds, the tool neither
//! panics nor allocates by a length that it read.
//!
//! The command line is a library, so that the tests of the workspace can have a binary of their
//! own that is the same program. docs/cli.md is its manual.

#![forbid(unsafe_code)]

mod dump;
mod error;
mod fsn_range;
mod inspect;
mod paper;
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
}

impl Outcome {
    fn status(self) -> u8 {
        match self {
            Self::Sound => 0,
            Self::Damaged => 1,
            Self::Unknown => 2,
        }
    }
}

/// Looks into slots: directories in which senders keep what the server has not confirmed.
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
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let out = io::stdout().lock();
    ExitCode::from(run(std::env::args_os(), out, io::stderr()))
}

/// Runs a command line, program name included, and gives its exit status: 0 sound, 1 damaged,
/// 2 cannot say.
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
