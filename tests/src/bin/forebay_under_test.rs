//! `forebay` once more, so that this package's tests find it built: cargo builds the binaries of a
//! test's own package only.

use std::process::ExitCode;

fn main() -> ExitCode {
    forebay_cli::main()
}
