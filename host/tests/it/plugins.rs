//! The plugin libraries that tests load. Cargo builds no shared library for a test run, so this asks it to.

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, OnceLock},
};

/// The library of a package of this workspace, built as these tests are.
///
/// With `ACCREDIT_PLUGINS_BUILT` set, the libraries are there already, and cargo is not asked again by every test
/// process.
pub fn library(package: &str) -> PathBuf {
    library_named(package, package)
}

/// The library of a package that gives it another name than its own.
pub fn library_named(package: &str, name: &str) -> PathBuf {
    let target = target_folder();
    if env::var_os("ACCREDIT_PLUGINS_BUILT").is_none() {
        build(package, &target, &[]);
    }
    built(name, &target)
}

/// The library of a package, built against the plugin api's next minor version.
pub fn next_minor_library(package: &str) -> PathBuf {
    // Its own folder: libraries of both versions have the same name.
    let target = target_folder().join("next-minor");
    build(package, &target, &["--features", "next-minor"]);
    built(package, &target)
}

/// The folder in which cargo built this test.
pub fn target_folder() -> PathBuf {
    let program = env::current_exe().unwrap();
    // target/debug/deps/it-0123
    program.ancestors().nth(3).unwrap().to_owned()
}

fn built(package: &str, target: &Path) -> PathBuf {
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    let file = format!("lib{}.so", package.replace('-', "_"));
    let path = target.join(profile).join(file);
    assert!(path.is_file(), "{} was not built", path.display());
    path
}

fn build(package: &str, target: &Path, arguments: &[&str]) {
    /// By package and target folder: built once in a process.
    static BUILT: Mutex<BTreeMap<(String, PathBuf), &'static OnceLock<()>>> = Mutex::new(BTreeMap::new());
    let once = *BUILT
        .lock()
        .unwrap()
        .entry((package.to_owned(), target.to_owned()))
        .or_insert_with(|| Box::leak(Box::default()));
    once.get_or_init(|| {
        let mut cargo = cargo();
        cargo.args(["build", "--package", package, "--target-dir"]);
        cargo.arg(target).args(arguments);
        if !cfg!(debug_assertions) {
            cargo.arg("--release");
        }
        run(&mut cargo);
    });
}

/// The cargo that runs these tests, in the workspace.
pub fn cargo() -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    cargo
}

/// Runs a command to its end, and shows what it said if it failed.
pub fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
