//! What a worker needs of whatever carries its messages, and lines of bounded length.

use std::io::{BufRead, Read};
use std::time::{Duration, Instant};

use crossbeam::channel::Receiver;

/// Until when something must be there.
#[derive(Clone, Copy)]
pub(super) struct Deadline {
    at: Instant,
    limit: Duration,
}

impl Deadline {
    pub(super) fn in_seconds(seconds: f64) -> Self {
        let limit = Duration::from_secs_f64(seconds);
        Self { at: Instant::now() + limit, limit }
    }

    /// The time that is left.
    pub(super) fn left(&self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    /// The error once none is left.
    pub(super) fn late(&self, who: &str) -> String {
        format!("{who} gave no answer within {:.1} s", self.limit.as_secs_f64())
    }
}

/// Carries messages to one server that holds episodes. Errors are texts for people; after one the link is given up.
pub(super) trait Link: Send {
    /// Sends one line. Its answer must be there by the deadline where the link cannot wait for single lines.
    fn send(&mut self, line: String, deadline: Deadline) -> Result<(), String>;

    /// The next line that came back, without its end. Waits until the deadline, or until `stop` is disconnected.
    fn receive(&mut self, deadline: Deadline, stop: &Receiver<()>) -> Result<Vec<u8>, String>;

    /// Ends what can be ended after a failure, and says what is known about it: the end of a sentence, or nothing.
    fn post_mortem(&mut self) -> String;

    /// Ends what can be ended, in peace.
    fn end(&mut self);

    /// Whether it dies with the host, so that there is no need to close its episodes one by one.
    fn is_own(&self) -> bool;
}

/// Makes links.
pub(super) trait Connect: Send + Sync {
    /// Makes the link of a worker.
    fn connect(&self, worker: usize) -> Result<Box<dyn Link>, String>;
}

/// A line, or why there is none.
pub(super) enum Line {
    Whole(Vec<u8>),
    /// It is longer than allowed.
    TooLong,
    /// The other side has closed; this is what came after the last line's end.
    End(Vec<u8>),
}

/// The next line of at most `limit` bytes, without its end.
pub(super) fn read_line(reader: &mut impl BufRead, limit: usize) -> std::io::Result<Line> {
    let mut line = Vec::new();
    // One byte more than allowed tells a line of just the right length from one that is too long.
    reader.by_ref().take(limit as u64 + 1).read_until(b'\n', &mut line)?;
    Ok(if line.pop_if(|last| *last == b'\n').is_some() {
        Line::Whole(line)
    } else if line.len() > limit {
        Line::TooLong
    } else {
        Line::End(line)
    })
}

/// The error for a line that is too long.
pub(super) fn too_long(limit: usize) -> String {
    format!("it wrote a line of more than {limit} bytes (`limits.max_message_bytes`)")
}

/// The beginning of what was written, for an error.
pub(super) fn excerpt(bytes: &[u8]) -> String {
    const SHOWN: usize = 200;
    printable(&String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN * 4 + 1)]), SHOWN)
}

/// The reason that the other side gives, for an error: as long as a reason can be, and nothing that moves a cursor.
pub(super) fn reason(text: &str) -> String {
    const SHOWN: usize = 2000;
    printable(text, SHOWN)
}

/// At most so many characters of a text, control characters but the end of a line as escapes.
fn printable(text: &str, most: usize) -> String {
    let mut shown = String::new();
    for (place, letter) in text.chars().enumerate() {
        if place == most {
            shown.push_str("...");
            break;
        }
        match letter {
            '\n' | '"' | '\'' | '\\' => shown.push(letter),
            _ => shown.extend(letter.escape_debug()),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8], limit: usize) -> Vec<String> {
        let mut reader = text;
        let mut lines = Vec::new();
        loop {
            match read_line(&mut reader, limit).unwrap() {
                Line::Whole(line) => lines.push(excerpt(&line)),
                Line::TooLong => return [lines, vec!["too long".to_owned()]].concat(),
                Line::End(rest) => return [lines, vec![format!("end {}", excerpt(&rest))]].concat(),
            }
        }
    }

    #[test]
    fn lines_have_a_longest_length() {
        assert_eq!(lines(b"ab\n\nabcd\nabc", 4), ["ab", "", "abcd", "end abc"]);
        assert_eq!(lines(b"ab\nabcde\n", 4), ["ab", "too long"]);
        assert_eq!(lines(b"", 4), ["end "]);
        assert_eq!(lines(b"abcd", 4), ["end abcd"]);
    }

    #[test]
    fn an_excerpt_is_short_and_printable() {
        assert_eq!(excerpt(b"a\x1b\xff"), "a\\u{1b}\u{fffd}");
        assert_eq!(excerpt(b"{\"a\": '\\'}"), "{\"a\": '\\'}");
        assert_eq!(excerpt(&[b'x'; 1000]).len(), 203);
        assert_eq!(excerpt(&[b'x'; 200]).len(), 200);
    }
}
