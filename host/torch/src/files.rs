//! Files that are whole or not there: written aside, synced, renamed.

use std::fs::{self, File};
use std::path::Path;

use crate::error::{Error, Result};

/// Lets `write` fill a file beside `path`, then moves it to `path`. A reader, or a machine that stops half way, sees
/// the old file or the new one.
pub(crate) fn write_aside(path: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let name = path.file_name().ok_or_else(|| Error::file(path, "has no file name"))?;
    let mut partial = name.to_owned();
    partial.push(".partial");
    let partial = path.with_file_name(partial);
    write(&partial)?;
    File::open(&partial).and_then(|file| file.sync_all()).map_err(|e| Error::io(&partial, e))?;
    fs::rename(&partial, path).map_err(|e| Error::io(path, e))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|e| Error::io(folder, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weights");
        write_aside(&path, |to| fs::write(to, "old").map_err(|e| Error::io(to, e))).unwrap();
        let failed = write_aside(&path, |to| {
            fs::write(to, "ne").map_err(|e| Error::io(to, e))?;
            Err(Error::Cancelled)
        });
        assert!(failed.is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    }
}
