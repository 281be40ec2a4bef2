//! `forebay-loadgen`: a QWP server to send to, and load to send.

use std::process::ExitCode;

use forebay_loadgen::allocations::Counting;

/// A run tells what its producers and shards asked for.
#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() -> ExitCode {
    forebay_loadgen::cli::main()
}
