//! Running programs: every command is shown before it runs, and a failure names it.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, ExitStatus, Output, Stdio};

use anyhow::{Context, Result, bail};

/// Shows a command, runs it, and fails if it fails.
pub fn run(command: &mut Command) -> Result<()> {
    let status = status(command)?;
    if !status.success() {
        bail!("`{}` failed ({status})", line(command));
    }
    Ok(())
}

/// Shows a command and runs it; a failure to start is an error, an exit status is not.
pub fn status(command: &mut Command) -> Result<ExitStatus> {
    eprintln!("$ {}", line(command));
    command.status().with_context(|| format!("cannot start `{}`", line(command)))
}

/// Shows a command and runs it; says whether it succeeded, and what it wrote to its error stream, which is shown as it
/// comes.
pub fn run_and_keep_errors(command: &mut Command) -> Result<(bool, String)> {
    eprintln!("$ {}", line(command));
    let started = command.stderr(Stdio::piped()).spawn();
    let mut child = started.with_context(|| format!("cannot start `{}`", line(command)))?;
    let mut errors = Vec::new();
    if let Some(mut stream) = child.stderr.take() {
        let mut piece = [0; 4096];
        loop {
            let length = stream.read(&mut piece).with_context(|| format!("while `{}` ran", line(command)))?;
            if length == 0 {
                break;
            }
            errors.extend_from_slice(&piece[..length]);
            io::stderr().write_all(&piece[..length])?;
        }
    }
    Ok((child.wait()?.success(), String::from_utf8_lossy(&errors).into_owned()))
}

/// What a command prints, errors passed through; fails if it fails.
pub fn read(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::inherit()).output();
    let Output { status, stdout, .. } = output.with_context(|| format!("cannot start `{}`", line(command)))?;
    if !status.success() {
        bail!("`{}` failed ({status})", line(command));
    }
    String::from_utf8(stdout).with_context(|| format!("`{}` printed something that is not UTF-8", line(command)))
}

/// Whether a command can be started and succeeds; what it prints is thrown away.
pub fn works(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// A command as one would type it into a shell in the folder where it runs; cargo without the path of the toolchain.
pub fn line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let inside = command.get_current_dir().and_then(|folder| program.strip_prefix(folder).ok());
    let program = match (program.file_name(), inside) {
        (Some(name), _) if name == "cargo" => name,
        (_, Some(inside)) => inside.as_os_str(),
        _ => program.as_os_str(),
    };
    let words: Vec<String> = std::iter::once(program).chain(command.get_args()).map(quoted).collect();
    words.join(" ")
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_can_be_pasted_into_a_shell() {
        let mut command = Command::new("/home/me/.rustup/toolchains/stable/bin/cargo");
        command.args(["test", "--set", "a b", "it's", "", "torch==2.11.0"]);
        assert_eq!(line(&command), r"cargo test --set 'a b' 'it'\''s' '' torch==2.11.0");
        let mut inside = Command::new("/src/target/debug/accredit");
        assert_eq!(line(inside.current_dir("/src").arg("plan")), "target/debug/accredit plan");
    }

    #[test]
    fn failures_name_the_command() {
        let missing = run(&mut Command::new("no-such-program-here")).unwrap_err();
        assert!(format!("{missing:#}").starts_with("cannot start `no-such-program-here`"));
        let failed = run(Command::new("sh").args(["-c", "exit 3"])).unwrap_err().to_string();
        assert!(failed.contains("sh -c 'exit 3'") && failed.contains('3'), "{failed}");
        assert!(read(Command::new("sh").args(["-c", "exit 3"])).is_err());
    }

    #[test]
    fn errors_are_kept() {
        let (succeeded, errors) = run_and_keep_errors(Command::new("sh").args(["-c", "echo why >&2; exit 3"])).unwrap();
        assert_eq!((succeeded, errors.as_str()), (false, "why\n"));
        let (succeeded, errors) = run_and_keep_errors(Command::new("sh").args(["-c", "true"])).unwrap();
        assert_eq!((succeeded, errors.as_str()), (true, ""));
    }

    #[test]
    fn output_is_read_and_success_is_seen() {
        assert_eq!(read(Command::new("sh").args(["-c", "echo a; echo b"])).unwrap(), "a\nb\n");
        assert!(works(Command::new("sh").args(["-c", "exit 0"])));
        assert!(!works(Command::new("sh").args(["-c", "exit 1"])));
        assert!(!works(&mut Command::new("no-such-program-here")));
    }
}
