//! `forebay-loadgen`: a QWP server to send to, and load to send.

use std::process::ExitCode;

fn main() -> ExitCode {
    forebay_loadgen::cli::main()
}
