//! `metrics.jsonl`: one JSON object for each iteration.

use std::{
    fs::{File, OpenOptions},
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Key of the iteration's number in every line.
pub const ITERATION: &str = "iteration";

/// Named numbers of one iteration, in the order in which they were put in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Metrics {
    values: Map<String, Value>,
}

impl Metrics {
    /// Puts a number in. One that is not finite becomes null, which readers show as missing.
    pub fn put(&mut self, name: impl Into<String>, value: f64) {
        self.values.insert(name.into(), serde_json::Number::from_f64(value).map_or(Value::Null, Value::Number));
    }

    /// Adds to a number, which is 0 if it is not there.
    pub fn add(&mut self, name: impl Into<String>, value: f64) {
        let name = name.into();
        let before = self.get(&name).unwrap_or(0.0);
        self.put(name, before + value);
    }

    /// The same numbers under names that begin with a prefix.
    #[must_use]
    pub fn prefixed(self, prefix: &str) -> Self {
        Self { values: self.values.into_iter().map(|(name, value)| (format!("{prefix}{name}"), value)).collect() }
    }

    /// A number by name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.values.get(name).and_then(Value::as_f64)
    }

    /// All numbers.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.values.iter().filter_map(|(name, value)| value.as_f64().map(|value| (name.as_str(), value)))
    }
}

/// As a line of the file, without the iteration.
impl From<Metrics> for String {
    fn from(metrics: Metrics) -> Self {
        Value::Object(metrics.values).to_string()
    }
}

impl TryFrom<String> for Metrics {
    type Error = serde_json::Error;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Ok(Self { values: serde_json::from_str(&text)? })
    }
}

/// Reads what a run has written so far, one line for each iteration. The last line of a killed run may be half a line,
/// which is passed over: it will be written again.
pub fn read(path: &Path) -> Result<Vec<Metrics>> {
    Ok(lines(path)?.into_iter().map(|(_, values)| Metrics { values }).collect())
}

/// The whole lines of a file: each as text, and its numbers.
fn lines(path: &Path) -> Result<Vec<(String, Map<String, Value>)>> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut whole = Vec::new();
    for line in BufReader::new(file).lines() {
        let line = line.with_context(|| format!("cannot read {}", path.display()))?;
        if let Ok(Value::Object(values)) = serde_json::from_str(&line) {
            whole.push((line, values));
        }
    }
    Ok(whole)
}

/// The file of a run.
#[derive(Debug)]
pub struct MetricsFile {
    path: PathBuf,
    file: File,
}

impl MetricsFile {
    /// Opens the file and keeps the lines of iterations before `iteration`: a run that goes on from a checkpoint writes
    /// the others again, so that no line stands twice.
    pub fn open(path: &Path, iteration: u64) -> Result<Self> {
        let before = if path.exists() { lines(path)? } else { Vec::new() };
        let kept = before
            .into_iter()
            .filter(|(_, values)| values.get(ITERATION).and_then(Value::as_u64).is_some_and(|at| at < iteration))
            .map(|(line, _)| line)
            .collect::<Vec<_>>();
        let aside = path.with_extension("jsonl.new");
        let mut text = kept.join("\n");
        if !text.is_empty() {
            text.push('\n');
        }
        std::fs::write(&aside, text).with_context(|| format!("cannot write {}", aside.display()))?;
        std::fs::rename(&aside, path).with_context(|| format!("cannot write {}", path.display()))?;
        let file =
            OpenOptions::new().append(true).open(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Writes one iteration as one line, at once.
    pub fn write(&mut self, iteration: u64, metrics: &Metrics) -> Result<()> {
        let mut line = Map::new();
        line.insert(ITERATION.to_owned(), iteration.into());
        line.extend(metrics.values.clone());
        let text = format!("{}\n", Value::Object(line));
        self.file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resumed_run_writes_no_line_twice_and_drops_half_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let mut metrics = Metrics::default();
        metrics.put("loss", 0.5);
        let mut file = MetricsFile::open(&path, 0).unwrap();
        for iteration in 0..3 {
            file.write(iteration, &metrics).unwrap();
        }
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.push_str("{\"iteration\": 1");
        std::fs::write(&path, text).unwrap();
        let mut file = MetricsFile::open(&path, 2).unwrap();
        metrics.put("loss", f64::NAN);
        file.write(2, &metrics).unwrap();
        let lines = std::fs::read_to_string(&path).unwrap();
        assert_eq!(
            lines,
            "{\"iteration\":0,\"loss\":0.5}\n{\"iteration\":1,\"loss\":0.5}\n{\"iteration\":2,\"loss\":null}\n"
        );
    }
}
