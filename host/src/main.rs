//! The `accredit` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    accredit::commands::main()
}
