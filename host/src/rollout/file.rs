//! Rollout files: one JSON object per line, one line per trajectory.

use std::{
    fs::File,
    io::{BufRead, BufReader, BufWriter, Write},
    path::{Path, PathBuf},
};

use accredit_core::episode::Trajectory;
use thiserror::Error;

/// A rollout file that cannot be read or written.
#[derive(Debug, Error)]
pub enum RolloutFileError {
    /// The file system said no.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        error: std::io::Error,
    },
    /// A line is no trajectory.
    #[error("{}, line {line}{}: {message}", path.display(), place(key))]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The key that does not fit; may be empty.
        key: String,
        /// What is wrong with it.
        message: String,
    },
    /// There is no trajectory in it.
    #[error("{}: no trajectory in it", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

fn place(key: &str) -> String {
    if key.is_empty() { String::new() } else { format!(", `{key}`") }
}

/// Reads all trajectories of a file.
pub fn read(path: &Path) -> Result<Vec<Trajectory>, RolloutFileError> {
    let io = |error| RolloutFileError::Io { path: path.to_owned(), error };
    let reader = BufReader::new(File::open(path).map_err(io)?);
    let mut episodes = Vec::new();
    for (index, line) in reader.split(b'\n').enumerate() {
        let bytes = line.map_err(io)?;
        let refused = |key: String, message: String| RolloutFileError::Line {
            path: path.to_owned(),
            line: index + 1,
            key,
            message,
        };
        if index == 0 && bytes.starts_with(&[0x1f, 0x8b]) {
            return Err(refused(String::new(), "this is a gzip file; unpack it first".to_owned()));
        }
        let line =
            std::str::from_utf8(&bytes).map_err(|_| refused(String::new(), "it is not UTF-8 text".to_owned()))?;
        let line = if index == 0 { line.trim_start_matches('\u{feff}') } else { line };
        if line.trim().is_empty() {
            continue;
        }
        episodes.push(parse(line).map_err(|(key, message)| refused(key, message))?);
    }
    if episodes.is_empty() {
        return Err(RolloutFileError::Empty { path: path.to_owned() });
    }
    Ok(episodes)
}

fn parse(line: &str) -> Result<Trajectory, (String, String)> {
    let mut json = serde_json::Deserializer::from_str(line);
    let parsed = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let key = error.path().to_string();
        (if key == "." { String::new() } else { key }, in_words(&error.into_inner(), line))
    })?;
    json.end().map_err(|error| (String::new(), in_words(&error, line)))?;
    Ok(parsed)
}

/// What is wrong with a line, with its column: the line's number is said elsewhere.
fn in_words(error: &serde_json::Error, line: &str) -> String {
    let text = error.to_string();
    let message = text.split(" at line ").next().unwrap_or_default();
    let message = message.replace("expected f32", "expected a number").replace("struct ", "");
    let rest = line.get(error.column().saturating_sub(1)..).unwrap_or_default();
    let hint = if error.is_syntax() && ["NaN", "Inf", "-Inf"].iter().any(|word| rest.starts_with(word)) {
        "; JSON has no such number: write null"
    } else {
        ""
    };
    format!("column {}: {message}{hint}", error.column())
}

/// Writes trajectories to a file, in place of what was there.
pub fn write(path: &Path, episodes: &[Trajectory]) -> Result<(), RolloutFileError> {
    let io = |error| RolloutFileError::Io { path: path.to_owned(), error };
    let mut writer = BufWriter::new(File::create(path).map_err(io)?);
    for episode in episodes {
        serde_json::to_writer(&mut writer, episode).map_err(|error| io(error.into()))?;
        writer.write_all(b"\n").map_err(io)?;
    }
    writer.flush().map_err(io)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.jsonl");
        std::fs::write(&path, text).unwrap();
        let found = read(&path).err().map(|e| e.to_string().replace(&*path.to_string_lossy(), "r.jsonl"));
        assert_eq!(found.as_deref(), Some(expected));
    }

    #[test]
    fn what_is_wrong_is_named_with_line_and_key() {
        check(
            "{\"group\": \"a\", \"steps\": []}\n{\"group\": \"a\", \"steps\": [{\"reward\": \"x\"}]}\n",
            "r.jsonl, line 2, `steps[0].reward`: column 39: invalid type: string \"x\", expected a number",
        );
        check("{\"steps\": []}\n", "r.jsonl, line 1: column 13: missing field `group`");
        check("\n\n", "r.jsonl: no trajectory in it");
        check("{\"group\": \"a\", \"steps\": []} x\n", "r.jsonl, line 1: column 29: trailing characters");
    }

    #[test]
    fn what_is_written_is_read_back() {
        let text = r#"{"layout":"step","iteration":3,"group":"g0","trajectory":"g0t1","status":"truncated_steps","success":true,"seed":7,"steps":[{"state":"s","reward":1.5,"terminal":true,"valid_action":true,"response":"go","tokens":{"token_id":[1,2],"kind":["think","action"],"old_logprob":[-0.1,-0.25]}},{"reward":null,"tokens":{}}]}"#;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.jsonl");
        std::fs::write(&path, text).unwrap();
        let episodes = read(&path).unwrap();
        assert_eq!(episodes[0].steps[0].tokens.columns["old_logprob"], [-0.1, -0.25]);
        assert_eq!(episodes[0].steps[1].reward, None);
        write(&path, &episodes).unwrap();
        assert_eq!(read(&path).unwrap(), episodes);
    }
}
