//! The log: warnings on the terminal (ACCREDIT_LOG changes what), and everything from information on in the run's file.

use std::{
    fs::{File, OpenOptions},
    io::{self, IsTerminal, Write},
    path::Path,
    sync::OnceLock,
};

use anyhow::{Context, Result};
use tracing_subscriber::{EnvFilter, Layer, filter::LevelFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

static FILE: OnceLock<File> = OnceLock::new();

/// Writes to the run's file, once there is one.
struct ToFile;

impl Write for ToFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        FILE.get().map_or(Ok(bytes.len()), |mut file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        FILE.get().map_or(Ok(()), |mut file| file.flush())
    }
}

/// Sets the log up. Once in a process.
pub fn init() {
    let terminal = EnvFilter::try_from_env("ACCREDIT_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::registry()
        .with(
            fmt::layer()
                .with_writer(io::stderr)
                .with_ansi(io::stderr().is_terminal())
                .without_time()
                .with_target(false)
                .with_filter(terminal),
        )
        .with(fmt::layer().with_writer(|| ToFile).with_ansi(false).with_filter(LevelFilter::INFO))
        .init();
}

/// Appends the log of this process to a file from now on.
pub fn write_to(path: &Path) -> Result<()> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("cannot write {}", path.display()))?;
    // A process has one run; a second one keeps the first one's file.
    let _ = FILE.set(file);
    Ok(())
}
