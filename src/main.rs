//! Command line in, exit code out.

use std::process::ExitCode;

fn main() -> ExitCode {
    playgate::cli::main()
}
