//! `forebay`: looks into slot directories.

use std::process::ExitCode;

fn main() -> ExitCode {
    forebay_cli::main()
}
