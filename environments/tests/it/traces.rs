//! The recordings of the originals, played back, and what happens to files that are none.

use std::io::Write;
use std::path::{Path, PathBuf};

use accredit_environments::traces::{self, TraceError};
use flate2::{Compression, write::GzEncoder};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// Replays a file with this content, whatever its name.
fn replay(content: impl AsRef<[u8]>) -> Result<usize, TraceError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(content.as_ref()).unwrap();
    traces::replay(file.path())
}

/// The lines of a recording.
fn lines(name: &str) -> Vec<String> {
    let mut text = String::new();
    let file = std::fs::File::open(golden(name)).unwrap();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(file), &mut text).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn every_line_of_the_recordings_is_played_back() {
    for (name, expected) in [
        ("frozenlake.jsonl.gz", 936),
        ("sokoban_6x6_1_d300.jsonl.gz", 592),
        ("sokoban_8x8_2_d10.jsonl.gz", 658),
        ("sudoku.jsonl.gz", 234),
    ] {
        match traces::replay(&golden(name)) {
            Ok(lines) => assert_eq!(lines, expected, "{name}"),
            Err(error) => panic!("{name}: {error}"),
        }
    }
}

#[test]
fn every_recording_of_this_folder_is_found() {
    let found = traces::files(&golden("")).unwrap();
    assert!(found.contains(&golden("frozenlake.jsonl.gz")), "{found:?}");
    assert!(found.is_sorted());
}

#[test]
fn one_changed_character_is_found_in_every_field() {
    let lines = lines("frozenlake.jsonl.gz");
    for (from, to, line, key) in [
        ("__GP", "_G_P", 1, "obs"),
        ("\"reward\": 0.0", "\"reward\": 0.001", 2, "reward"),
        ("\"done\": false", "\"done\": true", 2, "done"),
        ("\"success\": false", "\"success\": true", 2, "success"),
        ("\"action_is_valid\": true", "\"action_is_valid\": false", 2, "action_is_valid"),
        ("\"action_is_effective\": false", "\"action_is_effective\": true", 2, "action_is_effective"),
    ] {
        let mut changed = lines.clone();
        changed[line - 1] = changed[line - 1].replacen(from, to, 1);
        assert_ne!(changed, lines, "{key}");
        match replay(changed.join("\n")) {
            Err(TraceError::Differs { line: place, key: found, .. }) => assert_eq!((place, found), (line, key)),
            other => panic!("{key}: {other:?}"),
        }
    }
}

#[test]
fn a_trace_is_known_by_its_content_and_may_be_plain_or_compressed() {
    let text = lines("frozenlake.jsonl.gz")[..20].join("\n");
    assert_eq!(replay(&text).unwrap(), 20);
    assert_eq!(replay(format!("{text}\n\n")).unwrap(), 20);
    let mut compressed = GzEncoder::new(Vec::new(), Compression::fast());
    compressed.write_all(text.as_bytes()).unwrap();
    assert_eq!(replay(compressed.finish().unwrap()).unwrap(), 20);
}

#[test]
fn what_is_no_trace_is_told_apart() {
    let first = lines("frozenlake.jsonl.gz").swap_remove(0);
    let check = |content: &[u8], expected: &str| {
        let message = replay(content).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    };
    check(b"", "has no lines");
    check(b"{\"a\": 1}\n", "line 1 is not the beginning");
    check(b"[1]\n", "line 1: not a JSON object");
    check(b"nonsense\n", "line 1: not a JSON object: expected");
    check(b"\xFF\xFE\n", "cannot be read: invalid utf-8");
    check(&[0x1F, 0x8B, 8, 0], "cannot be read: ");
    check(first.replace("\"t\": 0", "\"t\": 3").as_bytes(), "line 1: `t` is missing or not 0 before any action");
    check(first.replace("\"seed\": 0", "\"seed\": -1").as_bytes(), "`seed` is missing or not a whole number");
    check(first.replace("\"size\": 4", "\"size\": 1").as_bytes(), "line 1: environment `frozen-lake`: `size`");
    check(format!("{first}\n{}", r#"{"t": 1, "action": 5}"#).as_bytes(), "`action` is missing or not the number");
    let missing = traces::replay(Path::new("no/such/file.jsonl")).unwrap_err().to_string();
    assert!(missing.contains("cannot be read: No such file"), "{missing}");
}
