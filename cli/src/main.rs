//! `forebay`: looks into slot directories, and drains them.

use std::process::ExitCode;

fn main() -> ExitCode {
    forebay_cli::main()
}
