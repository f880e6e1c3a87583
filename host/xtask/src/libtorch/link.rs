//! The checkout's `.libtorch`: a link to the cache, so that the build has one path for every machine.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// Refuses to go on where something stands in the place of the link that is not a link: it is the user's.
pub fn check_replaceable(place: &Path) -> Result<()> {
    match fs::symlink_metadata(place) {
        Ok(metadata) if metadata.is_symlink() => Ok(()),
        Ok(_) => bail!(
            "{} is not a link to the cache, and does not hold the libtorch that is asked for. Move it away, and run this \
             again.",
            place.display()
        ),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot look at {}", place.display())),
    }
}

/// Makes `place` a link to a folder, in one step: a build that runs meanwhile sees the old link or the new one.
pub fn replace(place: &Path, folder: &Path) -> Result<()> {
    check_replaceable(place)?;
    let aside = place.with_extension(format!("new-{}", std::process::id()));
    let failed = || format!("cannot make {} a link to {}", place.display(), folder.display());
    // What a killed process of the same number has left.
    let _ = fs::remove_file(&aside);
    std::os::unix::fs::symlink(folder, &aside).with_context(failed)?;
    fs::rename(&aside, place).with_context(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_made_and_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join(".libtorch");
        for name in ["a", "b", "b"] {
            let target = folder.path().join(name);
            fs::create_dir_all(&target).unwrap();
            replace(&place, &target).unwrap();
            assert_eq!(fs::read_link(&place).unwrap(), target);
        }
        fs::remove_dir(folder.path().join("b")).unwrap();
        replace(&place, &folder.path().join("a")).unwrap();
        let names = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(names, 2, "only the link and the folder a are left");
    }

    #[test]
    fn what_is_no_link_is_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join(".libtorch");
        fs::create_dir(&place).unwrap();
        let message = replace(&place, folder.path()).unwrap_err().to_string();
        assert!(message.contains("is not a link") && message.contains("Move it away"), "{message}");
        assert!(place.is_dir() && !place.is_symlink());
    }
}
