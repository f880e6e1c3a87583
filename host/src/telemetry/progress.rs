//! Progress on the terminal: a bar with the success rate, tokens per second and the time left; plain lines where there
//! is no terminal.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Seconds between plain lines.
const PLAIN_EVERY: Duration = Duration::from_secs(5);

/// Shows how far a part of the run is.
pub struct Progress {
    bar: Option<ProgressBar>,
    name: &'static str,
    length: u64,
    position: u64,
    started: Instant,
    first: u64,
    shown: Option<Instant>,
}

impl Progress {
    /// Progress through `length` steps, of which `position` are done.
    pub fn new(name: &'static str, position: u64, length: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(length).with_position(position);
            // A style that cannot be parsed leaves the plain default.
            if let Ok(style) = ProgressStyle::with_template("{prefix} {bar:24} {pos}/{len} {msg} [{elapsed} < {eta}]") {
                bar.set_style(style.progress_chars("━━╌"));
            }
            bar.set_prefix(name);
            bar.reset_eta();
            bar
        });
        Self { bar, name, length, position, started: Instant::now(), first: position, shown: None }
    }

    /// One more step is done.
    pub fn step(&mut self, message: &str) {
        self.at(self.position + 1, message);
    }

    /// So many steps are done.
    pub fn at(&mut self, position: u64, message: &str) {
        let moved = position != self.position || self.shown.is_none();
        self.position = position;
        if let Some(bar) = &self.bar {
            bar.set_message(message.to_owned());
            bar.set_position(self.position);
            return;
        }
        let due = self.shown.is_none_or(|shown| shown.elapsed() >= PLAIN_EVERY);
        if due || (self.position == self.length && moved) {
            self.shown = Some(Instant::now());
            let elapsed = self.started.elapsed();
            let left = elapsed.as_secs_f64() * (self.length - self.position) as f64
                / (self.position - self.first).max(1) as f64;
            line(&format!(
                "{} {}/{} {message} [{} < {}]",
                self.name,
                self.position,
                self.length,
                clock(elapsed.as_secs()),
                clock(left as u64)
            ));
        }
    }

    /// Shows a line above the bar.
    pub fn say(&self, message: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| line(message)),
            None => line(message),
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Writes a line to the error stream. One that cannot be written is lost, and the run goes on.
pub fn line(message: &str) {
    let _ = writeln!(std::io::stderr(), "{message}");
}

fn clock(seconds: u64) -> String {
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_minutes_and_seconds() {
        assert_eq!([clock(0), clock(59), clock(61), clock(3600)], ["0:00", "0:59", "1:01", "60:00"]);
    }
}
