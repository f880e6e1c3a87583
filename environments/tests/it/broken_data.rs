//! Ways in which folders and files of data can be broken, whatever they should hold. Each error must name the path, say
//! what is wrong with it, and where such data come from.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// What is done to a path, and what the error says then.
type Way = (fn(&Path), &'static str);

const LINK: Way = (|path| symlink(path, path).unwrap(), "Too many levels of symbolic links");

/// Breaks a file in every way, and puts it back. `refused` gives the error, and `hint` is a part of it that says where the
/// data come from.
pub fn check_file(path: &Path, hint: &str, refused: &dyn Fn() -> String) {
    let content = fs::read(path).unwrap();
    let ways: [Way; 4] = [
        (|path| drop(File::create(path).unwrap()), "is empty"),
        (|path| fs::create_dir(path).unwrap(), "is no file but a folder"),
        LINK,
        (|path| fs::write(path, [0x1F, 0x8B, 8, 0, 0xFF]).unwrap(), "line 1"),
    ];
    let check = |expected: &str| {
        let message = refused();
        assert!(message.contains(path.to_str().unwrap()), "{message}");
        assert!(message.contains(expected) && message.contains(hint), "{expected}: {message}");
    };
    for (change, expected) in ways {
        fs::remove_file(path).unwrap();
        change(path);
        check(expected);
        if fs::symlink_metadata(path).unwrap().is_dir() { fs::remove_dir(path) } else { fs::remove_file(path) }
            .unwrap();
        fs::write(path, &content).unwrap();
    }
    fs::write(path, &content[..content.len() * 2 / 3]).unwrap();
    check("cut");
    let (head, tail) = content.split_at(12);
    fs::write(path, [b"\n\n", head, b"\xFF", tail].concat()).unwrap();
    check("line ");
    fs::write(path, &content).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o000)).unwrap();
    // Root may read everything.
    if File::open(path).is_err() {
        check("Permission denied");
    }
    fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
}

/// Checks what is no folder. `refused` gives the error for a path.
pub fn check_folder(hint: &str, refused: &dyn Fn(&Path) -> String) {
    let parent = tempfile::tempdir().unwrap();
    let ways: [Way; 4] = [
        (|_| {}, "there is no folder "),
        (|path| fs::write(path, "x").unwrap(), "is a file, and a folder is expected"),
        LINK,
        (|path| fs::DirBuilder::new().create(path).unwrap(), ""),
    ];
    for (index, (make, expected)) in ways.into_iter().enumerate() {
        let path = parent.path().join(index.to_string());
        make(&path);
        let check = |expected: &str| {
            let message = refused(&path);
            assert!(message.contains(path.to_str().unwrap()), "{message}");
            assert!(message.contains(expected) && message.contains(hint), "{expected}: {message}");
        };
        check(expected);
        if path.is_dir() {
            fs::set_permissions(&path, Permissions::from_mode(0o000)).unwrap();
            if fs::read_dir(&path).is_err() {
                check("Permission denied");
            }
            fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        }
    }
}
