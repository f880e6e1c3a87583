//! Folders and files that a setting names. What is wrong with one is told with its path, what was expected, and the hint
//! of who asks: where such data come from.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::Path;

/// Refuses what is no folder that can be read.
pub(crate) fn check_folder(path: &Path, hint: &str) -> Result<(), String> {
    let shown = path.display();
    match fs::metadata(path) {
        Ok(found) if !found.is_dir() => return Err(format!("{shown} is a file, and a folder is expected; {hint}")),
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(format!("there is no folder {shown}; {hint}")),
        _ => {}
    }
    fs::read_dir(path).map(drop).map_err(|error| format!("cannot read the folder {shown}: {error}; {hint}"))
}

/// Whether a name is taken in a folder, by whatever.
pub(crate) fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Opens a file for reading. An empty one is refused.
pub(crate) fn open(path: &Path, hint: &str) -> Result<File, String> {
    let shown = path.display();
    let unreadable = |error| format!("cannot read {shown}: {error}; {hint}");
    let found = fs::metadata(path).map_err(unreadable)?;
    if !found.is_file() {
        return Err(format!("{shown} is no file{}; {hint}", if found.is_dir() { " but a folder" } else { "" }));
    }
    if found.len() == 0 {
        return Err(format!("{shown} is empty; {hint}"));
    }
    File::open(path).map_err(unreadable)
}

/// The text of a file.
pub(crate) fn read(path: &Path, hint: &str) -> Result<String, String> {
    let mut bytes = Vec::new();
    let read = open(path, hint)?.read_to_end(&mut bytes);
    read.map_err(|error| format!("cannot read {}: {error}; {hint}", path.display()))?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.split(|byte| *byte == b'\n').count();
        format!("{}, line {line}: not UTF-8 text; {hint}", path.display())
    })
}
