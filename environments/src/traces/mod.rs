//! Recorded traces, played back: what an environment gives here must be what the original gave when the trace was
//! recorded.
//!
//! A trace is a file of JSON objects, one per line, plain or compressed with gzip. Which environment it is of is seen in
//! its first line. To add a format: a file beside this one with a recogniser and a replay, and a line in [`FORMATS`].

mod alfworld;
mod frozen_lake;
mod ragen;
mod sokoban;
mod sudoku;
mod webshop;

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use serde_json::{Map, Value};

use crate::EnvironmentError;

/// Every format that there is.
const FORMATS: &[Format] =
    &[alfworld::FORMAT, frozen_lake::FORMAT, sokoban::FORMAT, sudoku::FORMAT, webshop::PAGES, webshop::SEARCHES];

/// A kind of trace.
struct Format {
    /// Whether a trace that begins with this line is of this kind.
    recognises: fn(&Line) -> bool,
    /// Plays a trace and compares every line. The path is the file's, for formats that need others beside it.
    replay: fn(&Trace, &Path) -> Result<(), TraceError>,
}

/// Why a trace was not played back to its end.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file or the folder cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// There is nothing in the file.
    #[error("has no lines")]
    Empty,
    /// A line is no JSON object.
    #[error("line {line}: not a JSON object{}", .because.as_ref().map(|error| format!(": {error}")).unwrap_or_default())]
    NotAnObject {
        /// The line, from 1.
        line: usize,
        /// What the parser says, where it is not JSON at all.
        because: Option<serde_json::Error>,
    },
    /// No format begins as this file does.
    #[error("line 1 is not the beginning of a trace that is known here")]
    Unknown,
    /// A line lacks what its format needs.
    #[error("line {line}: `{key}` is missing or not {expected}")]
    Field {
        /// The line, from 1.
        line: usize,
        /// The key of the field.
        key: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// The environment refuses what the original did.
    #[error("line {line}: {error}")]
    Environment {
        /// The line, from 1.
        line: usize,
        /// What the environment says.
        error: EnvironmentError,
    },
    /// The environment gives something else.
    #[error("line {line}: `{key}` differs\n  recorded: {recorded}\n  found:    {found}")]
    Differs {
        /// The line, from 1.
        line: usize,
        /// The key of the field.
        key: &'static str,
        /// What the trace has.
        recorded: String,
        /// What the environment gives.
        found: String,
    },
}

impl TraceError {
    /// The line of the file that is wrong, from 1; 0 if it is the file as a whole.
    fn line(&self) -> usize {
        match self {
            Self::Unreadable(_) | Self::Empty | Self::Unknown => 0,
            Self::NotAnObject { line, .. }
            | Self::Field { line, .. }
            | Self::Environment { line, .. }
            | Self::Differs { line, .. } => *line,
        }
    }
}

/// The traces of a folder: its files that end in `.jsonl` or `.jsonl.gz`, in the order of their names.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>, TraceError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if (name.ends_with(".jsonl") || name.ends_with(".jsonl.gz")) && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Plays a trace back and gives the number of its lines if every line is as it was recorded.
pub fn replay(path: &Path) -> Result<usize, TraceError> {
    let trace = Trace::read(path)?;
    let first = trace.lines.first().ok_or(TraceError::Empty)?;
    let format = FORMATS.iter().find(|format| (format.recognises)(first)).ok_or(TraceError::Unknown)?;
    (format.replay)(&trace, path)?;
    Ok(trace.lines.len())
}

/// A trace that was read.
pub(crate) struct Trace {
    /// All lines that are not blank.
    pub(crate) lines: Vec<Line>,
}

/// A line of a trace.
pub(crate) struct Line {
    /// Its number in the file, from 1.
    number: usize,
    fields: Map<String, Value>,
}

impl Trace {
    fn read(path: &Path) -> Result<Self, TraceError> {
        let bytes = fs::read(path)?;
        let text = if bytes.starts_with(&[0x1F, 0x8B]) {
            let mut text = String::new();
            MultiGzDecoder::new(&bytes[..]).read_to_string(&mut text)?;
            text
        } else {
            String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?
        };
        let mut lines = Vec::new();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let number = index + 1;
            match serde_json::from_str(line) {
                Ok(Value::Object(fields)) => lines.push(Line { number, fields }),
                Ok(_) => return Err(TraceError::NotAnObject { line: number, because: None }),
                Err(error) => return Err(TraceError::NotAnObject { line: number, because: Some(error) }),
            }
        }
        Ok(Self { lines })
    }
}

impl Line {
    /// Whether the line has all of these keys.
    pub(crate) fn has(&self, keys: &[&str]) -> bool {
        keys.iter().all(|key| self.fields.contains_key(*key))
    }

    /// A field as it stands; null if it is missing.
    pub(crate) fn value(&self, key: &str) -> &Value {
        self.fields.get(key).unwrap_or(&Value::Null)
    }

    /// A field that is a whole number, 0 or more.
    pub(crate) fn whole(&self, key: &'static str) -> Result<u64, TraceError> {
        self.value(key).as_u64().ok_or_else(|| self.misses(key, "a whole number"))
    }

    /// The error that a field is not what it should be.
    pub(crate) fn misses(&self, key: &'static str, expected: &'static str) -> TraceError {
        TraceError::Field { line: self.number, key, expected }
    }

    /// Gives an error of the environment its place.
    pub(crate) fn place<T>(&self, result: Result<T, EnvironmentError>) -> Result<T, TraceError> {
        result.map_err(|error| TraceError::Environment { line: self.number, error })
    }

    /// Compares a field with what the environment gives. Numbers that are not whole are equal when they are at the
    /// precision of rewards here, 32 bits.
    pub(crate) fn compare(&self, key: &'static str, found: impl Into<Value>) -> Result<(), TraceError> {
        let (recorded, found) = (self.value(key), found.into());
        let equal = match (recorded.as_f64(), found.as_f64()) {
            (Some(recorded), Some(found)) => (recorded - found).abs() <= 1e-6 * recorded.abs().max(1.0),
            _ => *recorded == found,
        };
        if equal {
            return Ok(());
        }
        Err(TraceError::Differs { line: self.number, key, recorded: recorded.to_string(), found: found.to_string() })
    }
}
