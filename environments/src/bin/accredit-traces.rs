//! `accredit-traces DIR`: plays every recorded trace of a folder back, and says of each file that all of its lines are
//! equal, or what differs first. Exit codes: 0 all equal, 1 something differs or is no trace, 2 wrong usage.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use accredit_environments::traces;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(folder), None) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: accredit-traces DIR");
        return ExitCode::from(2);
    };
    match run(Path::new(&folder)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all traces of the folder are as they were recorded.
fn run(folder: &Path) -> io::Result<bool> {
    let in_folder = |error| io::Error::other(format!("the folder {} {error}", folder.display()));
    let files = traces::files(folder).map_err(in_folder)?;
    if files.is_empty() {
        return Err(io::Error::other(format!("the folder {} has no *.jsonl or *.jsonl.gz", folder.display())));
    }
    let mut all_equal = true;
    let mut out = io::stdout().lock();
    for file in files {
        match traces::replay(&file) {
            Ok(lines) => writeln!(out, "{}: {lines} lines equal", file.display())?,
            Err(error) => {
                all_equal = false;
                writeln!(out, "{}: {error}", file.display())?;
            }
        }
    }
    Ok(all_equal)
}
