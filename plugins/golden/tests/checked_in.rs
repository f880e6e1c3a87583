//! The checked-in numbers against the shared libraries, by the program that a user runs.
#![allow(clippy::unwrap_used)]

#[expect(dead_code, reason = "what other tests need of it")]
#[path = "../../../host/tests/it/plugins.rs"]
mod plugins;

use std::{fs, path::Path, process::Command};

#[test]
fn the_plugins_give_the_checked_in_numbers() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR"));
    for entry in fs::read_dir(golden.join("..")).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap();
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        if manifest.contains("\"cdylib\"") && name != "golden" {
            plugins::library(&format!("accredit-{name}"));
        }
    }
    plugins::library_named("accredit-golden", "accredit-given");
    plugins::run(Command::new(env!("CARGO_BIN_EXE_accredit-golden")).arg(golden.join("data")));
}
