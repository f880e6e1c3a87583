//! From names to files: the search path, and what is said when nothing is found.

use std::{
    fs,
    path::{Path, PathBuf},
};

use accredit::plugin::{FindError, SearchPath, list_text};

use crate::plugins;

/// Two folders: one with a library under its own file name, one with it under another.
struct Folders {
    _scratch: tempfile::TempDir,
    own: PathBuf,
    other: PathBuf,
}

fn folders() -> Folders {
    let scratch = tempfile::tempdir().unwrap();
    let library = plugins::library("accredit-misbehave");
    let [own, other] = ["own", "other"].map(|name| scratch.path().join(name));
    for (folder, file) in [(&own, "libaccredit_misbehave.so"), (&other, "libsomething.so")] {
        fs::create_dir(folder).unwrap();
        fs::copy(&library, folder.join(file)).unwrap();
    }
    Folders { _scratch: scratch, own, other }
}

fn open(path: &SearchPath, plugin: &str) -> Result<(PathBuf, String), FindError> {
    let (library, scheme) = path.open(plugin, Path::new("/"), None)?;
    Ok((library.inspected().path.clone(), scheme))
}

#[test]
fn a_name_is_a_file_then_a_package_then_a_scheme() {
    let folders = folders();
    let both = SearchPath::of_folders([folders.other.clone(), folders.own.clone()]);
    let only_other = SearchPath::of_folders([folders.other.clone()]);
    let own = folders.own.join("libaccredit_misbehave.so");
    let other = folders.other.join("libsomething.so");
    for (path, plugin, file, scheme) in [
        (&both, "misbehave", &own, "misbehave"),
        (&only_other, "misbehave", &other, "misbehave"),
        (&only_other, "accredit-misbehave", &other, "misbehave"),
        (&both, "harmless", &other, "harmless"),
    ] {
        let found = open(path, plugin).unwrap();
        assert_eq!(found, (file.clone(), scheme.to_owned()), "{plugin}");
    }
}

#[test]
fn the_first_folder_wins() {
    let folders = folders();
    let copy = folders.other.join("libaccredit_misbehave.so");
    fs::copy(folders.own.join("libaccredit_misbehave.so"), &copy).unwrap();
    let path = SearchPath::of_folders([folders.other.clone(), folders.own.clone()]);
    assert_eq!(open(&path, "misbehave").unwrap().0, copy);
}

#[test]
fn a_file_may_name_its_scheme() {
    let folders = folders();
    let nowhere = SearchPath::of_folders([]);
    let open = |plugin: &str| nowhere.open(plugin, &folders.other, None).map(|(_, scheme)| scheme);
    assert_eq!(open("libsomething.so").unwrap(), "misbehave");
    assert_eq!(open("./libsomething.so#harmless").unwrap(), "harmless");
    let error = open("libsomething.so#harmles").unwrap_err().to_string();
    assert!(error.contains("Did you mean `harmless`?"), "{error}");
    assert!(error.contains("but misbehave, harmless, "), "{error}");
    let error = open("libabsent.so").unwrap_err().to_string();
    assert!(error.contains("libabsent.so: there is no such file"), "{error}");
}

#[test]
fn what_is_not_found_says_where_it_was_looked_for_and_what_is_near() {
    let folders = folders();
    let path = SearchPath::of_folders([folders.other.clone(), PathBuf::from("/absent")]);
    for (plugin, hint) in [
        ("misbehvae", "Did you mean `misbehave`?"),
        ("harmles", "Did you mean `harmless`?"),
        ("turn-mean", "libaccredit_turn_mean.so"),
    ] {
        let error = open(&path, plugin).unwrap_err();
        assert!(matches!(error, FindError::NotFound { .. }));
        let error = error.to_string();
        for part in
            [&format!("`{plugin}`"), hint, &folders.other.display().to_string(), "/absent", "ACCREDIT_PLUGIN_PATH"]
        {
            assert!(error.contains(part), "no {part} in: {error}");
        }
    }
    let far = open(&path, "turn-mean").unwrap_err().to_string();
    assert!(!far.contains("Did you mean"), "{far}");
    let empty = SearchPath::of_folders([]);
    let error = open(&empty, "grpo").unwrap_err().to_string();
    assert!(error.contains("the plugin path, which is empty"), "{error}");
}

#[test]
fn a_broken_file_with_the_right_name_is_not_passed_over() {
    let folders = folders();
    let broken = tempfile::tempdir().unwrap();
    fs::write(broken.path().join("libaccredit_misbehave.so"), "text").unwrap();
    let path = SearchPath::of_folders([broken.path().to_owned(), folders.own.clone()]);
    let error = open(&path, "misbehave").unwrap_err();
    assert!(matches!(error, FindError::Load(_)), "{error}");
}

#[test]
fn the_list_has_plugins_and_what_has_a_plugins_name() {
    let folders = folders();
    fs::write(folders.own.join("libaccredit_bad.so"), "").unwrap();
    fs::write(folders.own.join("notes.txt"), "").unwrap();
    // A shared library that is no plugin, and does not say so by its name.
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let libc =
        maps.lines().filter_map(|line| line.split_whitespace().nth(5)).find(|path| path.contains("/libc.so")).unwrap();
    fs::copy(libc, folders.own.join("libc.so")).unwrap();
    let path = SearchPath::of_folders([folders.own.clone(), folders.other.clone()]);
    let available = path.available();
    let names: Vec<_> =
        available.iter().map(|found| found.as_ref().map(|i| i.name.as_str()).map_err(|e| e.path.clone())).collect();
    assert_eq!(
        names,
        [Err(folders.own.join("libaccredit_bad.so")), Ok("accredit-misbehave"), Ok("accredit-misbehave"),]
    );
    let text = list_text(&available);
    assert_eq!(text.matches("misbehave  0.1.0  api 1.").count(), 2, "{text}");
    assert!(text.contains("not usable: ") && text.contains("the file is empty"));
}

#[test]
fn the_programs_own_folder_is_searched() {
    let library = plugins::library("accredit-misbehave");
    let (found, _) = open(&SearchPath::new([]), "misbehave").unwrap();
    assert_eq!(found, library);
}
