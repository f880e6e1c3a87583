//! Files that are no plugin for this program: each is refused in words, before anything of it runs.

use std::{
    env,
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use accredit::plugin::{Library, LoadError, Refusal, inspect};
use accredit_core::rng::{Purpose, Stream};
use accredit_plugin_api::{
    abi::{API_MAJOR, API_MINOR},
    manifest::Manifest,
};
use tempfile::TempDir;

use super::{check_harmless, manifest_offset};
use crate::plugins;

/// A copy of a good library, changed.
struct Copy {
    path: PathBuf,
    _folder: TempDir,
}

fn changed(change: impl FnOnce(&mut Vec<u8>)) -> Copy {
    let mut bytes = fs::read(plugins::library("accredit-misbehave")).unwrap();
    change(&mut bytes);
    file("libaccredit_changed.so", &bytes)
}

/// A copy of a good library with another field of its manifest, which is at this place in it.
fn changed_field(place: usize, value: u32) -> Copy {
    changed(|bytes| {
        let place = manifest_offset(bytes) + place;
        bytes[place..place + 4].copy_from_slice(&value.to_ne_bytes());
    })
}

const STRUCT_SIZE: usize = 8;
const MAJOR: usize = 12;
const NEEDS_MINOR: usize = 20;
const FLAGS: usize = 24;

fn file(name: &str, bytes: &[u8]) -> Copy {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    Copy { path, _folder: folder }
}

fn refusal(path: &Path) -> LoadError {
    Library::load(path, None).unwrap_err()
}

/// Holds that a file is refused, with its path and these words in one line.
#[track_caller]
fn check(path: &Path, words: &[&str]) {
    let error = refusal(path).to_string();
    assert!(error.starts_with(&path.display().to_string()), "{error}");
    assert!(!error.contains('\n'), "{error}");
    for word in words {
        assert!(error.contains(word), "no `{word}` in: {error}");
    }
    let inspected = inspect(path).unwrap_err().to_string();
    assert_eq!(inspected, error, "inspection says the same");
}

#[test]
fn what_is_no_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    check(&folder.path().join("absent.so"), &["no such file"]);
    check(folder.path(), &["a folder", "plugin path"]);
    check(Path::new("/dev/null"), &["not a regular file"]);
    let good = plugins::library("accredit-misbehave");
    check(&good.join("inside.so"), &["no such file"]);
}

#[test]
fn what_is_no_library_is_named() {
    for (bytes, what) in [
        (&b""[..], "empty"),
        (b"[package]\nname = \"mine\"\n", "a text file"),
        ("ä".repeat(40).as_bytes(), "a text file"),
        (b"#!/bin/sh\nexit 0\n", "a script"),
        (b"MZ\x90\0\x03\0\0\0", "a Windows program or library"),
        (b"\xcf\xfa\xed\xfe\x0c\0\0\x01", "a macOS program or library"),
        (b"!<arch>\nlib.o/", "a static library"),
        (b"PK\x03\x04\x14\0", "a zip archive"),
        (b"\0asm\x01\0\0\0", "a WebAssembly module"),
        (b"\xff\xfe\0\0\x12", "a file of an unknown kind"),
    ] {
        check(&file("libaccredit_x.so", bytes).path, &[what]);
    }
    check(&env::current_exe().unwrap(), &["a program", "cdylib"]);
}

#[test]
fn another_library_is_no_plugin() {
    // Any library that this process has open.
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let other = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .find(|path| path.contains("/libgcc_s.so") || path.contains("/libc.so"))
        .unwrap();
    check(Path::new(other), &["no accredit plugin", Manifest::SYMBOL]);
}

#[test]
fn a_file_that_is_cut_anywhere_is_refused_and_never_opened() {
    let copy = changed(|_| {});
    let whole = fs::metadata(&copy.path).unwrap().len();
    let file = File::options().write(true).open(&copy.path).unwrap();
    let steps = (0..=64).map(|step| whole - 1 - step * (whole / 65));
    let small = [4096, 1000, 100, 64, 63, 20, 4, 3, 1];
    for length in steps.chain(small) {
        file.set_len(length).unwrap();
        let error = refusal(&copy.path);
        let Refusal::Truncated { wanted, found } = error.refusal else {
            panic!("{length} of {whole} bytes: {error}");
        };
        assert!(found == length && wanted > length, "{error}");
    }
    file.set_len(0).unwrap();
    assert!(matches!(refusal(&copy.path).refusal, Refusal::Empty));
}

#[test]
fn inspection_of_a_damaged_file_ends_in_words_or_in_a_manifest() {
    let copy = changed(|_| {});
    let good = fs::read(&copy.path).unwrap();
    let file = File::options().write(true).open(&copy.path).unwrap();
    let table = u64::from_ne_bytes(good[40..48].try_into().unwrap());
    let random = Stream::new(7, Purpose::Other);
    let mut refused = 0;
    for attempt in 0..200 {
        let random = random.with(attempt);
        // The header, the table of sections, or anywhere.
        let (start, length) = match attempt % 3 {
            0 => (4, 60),
            1 => (table, good.len() as u64 - table),
            _ => (0, good.len() as u64),
        };
        let place = start + random.below(0, length);
        let value = [random.below(1, 256) as u8];
        file.write_all_at(&value, place).unwrap();
        refused += usize::from(inspect(&copy.path).is_err());
        file.write_all_at(&good[place as usize..][..1], place).unwrap();
    }
    assert!((1..200).contains(&refused), "{refused} of 200 refused");
}

#[test]
fn another_machine_is_named() {
    let aarch64 = changed(|bytes| bytes[18] = 183);
    check(&aarch64.path, &["built for aarch64", "runs on", env::consts::ARCH]);
    check(&changed(|bytes| bytes[4] = 1).path, &["a 32-bit machine"]);
    check(&changed(|bytes| bytes[5] = 3 - bytes[5]).path, &["another byte order"]);
    check(&changed(|bytes| bytes[4] = 9).path, &["damaged"]);
    check(&changed(|bytes| bytes[5] = 9).path, &["damaged"]);
    check(&changed(|bytes| bytes[16] = 2).path, &["a program"]);
    check(&changed(|bytes| bytes[16] = 1).path, &["an object file"]);
}

#[test]
fn a_manifest_that_is_none_is_refused() {
    let magic = changed(|bytes| {
        let place = manifest_offset(bytes);
        bytes[place] = b'X';
    });
    check(&magic.path, &["not a plugin's manifest"]);
    // Too short to say which version of the api it is.
    check(&changed_field(STRUCT_SIZE, 20).path, &["not a plugin's manifest"]);
}

#[test]
fn a_manifest_of_another_length_is_read_as_far_as_both_sides_know_it() {
    let longer = changed_field(STRUCT_SIZE, 5000);
    assert_eq!(inspect(&longer.path).unwrap().name, "accredit-misbehave");
    check_harmless(&longer.path);
    let shorter = inspect(&changed_field(STRUCT_SIZE, 28 + 64).path).unwrap();
    assert_eq!((shorter.name.as_str(), shorter.version.as_str()), ("accredit-misbehave", ""));
}

#[test]
fn another_major_is_refused_in_both_directions() {
    let newer = API_MAJOR + 1;
    check(
        &changed_field(MAJOR, newer).path,
        &[
            &format!("plugin api {newer}.{API_MINOR}"),
            &format!("this program speaks {API_MAJOR}.{API_MINOR}"),
            &format!("Use an accredit that speaks {newer}.x"),
        ],
    );
    check(
        &changed_field(MAJOR, 0).path,
        &["plugin api 0.", &format!("Build the plugin again with accredit-plugin-api {API_MAJOR}.x")],
    );
}

#[test]
fn a_plugin_that_needs_a_newer_host_is_told_so() {
    let needs = API_MINOR + 1;
    check(
        &changed_field(NEEDS_MINOR, needs).path,
        &[&format!("needs plugin api {API_MAJOR}.{needs}"), "newer accredit"],
    );
}

#[test]
fn a_library_that_aborts_on_panic_is_refused() {
    check(&changed_field(FLAGS, Manifest::PANIC_ABORT).path, &["panic = \"abort\"", "panic = \"unwind\""]);
}

#[test]
fn another_hash_is_refused_and_the_right_one_is_not() {
    let path = plugins::library("accredit-misbehave");
    let right = inspect(&path).unwrap().sha256;
    Library::load(&path, Some(&right)).unwrap();
    Library::load(&path, Some(&right.to_uppercase())).unwrap();
    let wrong = "0".repeat(64);
    let error = Library::load(&path, Some(&wrong)).unwrap_err().to_string();
    assert!(error.contains(&right) && error.contains(&wrong), "{error}");
}

#[test]
fn a_symbol_that_nobody_has_is_found_when_the_library_is_opened() {
    let copy = changed(|bytes| {
        let (name, absent) = (b"\0posix_memalign\0", b"\0posix_memaligm\0");
        // Once for the system's loader, and once for a debugger.
        let places: Vec<usize> = (0..bytes.len()).filter(|place| bytes[*place..].starts_with(name)).collect();
        assert!(!places.is_empty());
        for place in places {
            bytes[place..][..absent.len()].copy_from_slice(absent);
        }
    });
    inspect(&copy.path).unwrap();
    let error = refusal(&copy.path).to_string();
    assert!(error.contains("undefined symbol: posix_memaligm"), "{error}");
}
