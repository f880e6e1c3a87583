//! Why a file was refused: one paragraph that says what the file is, what was wanted, and what to do.

use std::{
    io,
    path::{Path, PathBuf},
};

use accredit_plugin_api::{
    abi::{API_MAJOR, API_MINOR},
    host::CallError,
    manifest::Manifest,
};
use thiserror::Error;

/// A file that was refused as a plugin.
#[derive(Debug, Error)]
#[error("{}: {refusal}", path.display())]
pub struct LoadError {
    /// The file, as it was named.
    pub path: PathBuf,
    /// Why.
    pub refusal: Refusal,
}

/// The reasons to refuse a file.
#[derive(Debug, Error)]
pub enum Refusal {
    /// Nothing is there.
    #[error("there is no such file. A plugin is a shared library, such as `target/release/libaccredit_NAME.so`")]
    Missing,
    /// A folder.
    #[error("this is a folder. Name the shared library in it; to search a whole folder, add it to the plugin path")]
    Folder,
    /// A pipe, a device or the like.
    #[error("this is not a regular file, and a plugin is a shared library")]
    Special,
    /// The operating system does not let it be read.
    #[error("it cannot be read: {0}")]
    Unreadable(io::Error),
    /// No bytes.
    #[error("the file is empty. Build or copy the plugin again")]
    Empty,
    /// It does not begin as a shared library does.
    #[error("this is {found}, and a plugin is a shared library (ELF). Name the `.so` that `cargo build` made")]
    NotALibrary {
        /// What it begins like.
        found: &'static str,
    },
    /// Shorter than it says.
    #[error("the file is cut off: it should have {wanted} bytes and has {found}. Copy or build it again")]
    Truncated {
        /// Bytes that its own header speaks of.
        wanted: u64,
        /// Bytes that are there.
        found: u64,
    },
    /// A library for another kind of machine.
    #[error(
        "it was built for {found}, and this program runs on {}. Build the plugin on or for this machine",
        this_machine()
    )]
    OtherMachine {
        /// The machine that it says.
        found: String,
    },
    /// A program, an object file, and so on.
    #[error("this is {found}, not a shared library. A plugin's Cargo.toml says `crate-type = [\"cdylib\"]`")]
    OtherKind {
        /// What it is.
        found: &'static str,
    },
    /// Its tables contradict each other.
    #[error("the file is damaged: {0}. Copy or build it again")]
    Damaged(String),
    /// A shared library, but no plugin.
    #[error(
        "this shared library is no accredit plugin: it exports no `{}`. \
         A plugin calls `export_plugin!` once; `accredit plugin new NAME` writes one that does",
        Manifest::SYMBOL
    )]
    NoManifest,
    /// A manifest that is none.
    #[error(
        "it exports `{}`, but what stands there is not a plugin's manifest. Build it again with accredit-plugin-api {API_MAJOR}",
        Manifest::SYMBOL
    )]
    BadManifest,
    /// Another major version of the api.
    #[error(
        "it was built against plugin api {major}.{minor}, and this program speaks {API_MAJOR}.{API_MINOR}. {}",
        other_major_advice(*major)
    )]
    OtherMajor {
        /// Its major version.
        major: u32,
        /// Its minor version.
        minor: u32,
    },
    /// It cannot live with so old a host.
    #[error(
        "it needs plugin api {API_MAJOR}.{needs}, and this program has {API_MAJOR}.{API_MINOR}. \
         Use a newer accredit, or an older version of the plugin"
    )]
    NeedsNewerHost {
        /// The minor version that it needs.
        needs: u32,
    },
    /// A panic in it would end the program.
    #[error(
        "it was built with `panic = \"abort\"`, so that a panic in it would end the whole run. \
         Build it with `panic = \"unwind\"`, which is cargo's default"
    )]
    PanicAbort,
    /// Not the file that the configuration pins.
    #[error(
        "its SHA-256 is {found}, and the configuration pins {wanted}. \
         If this is the file that you want, change `sha256`; otherwise put the pinned one in its place"
    )]
    OtherHash {
        /// The pinned hash.
        wanted: String,
        /// The file's hash.
        found: String,
    },
    /// The system's loader refuses it.
    #[error("the system cannot load it: {0}")]
    Open(String),
    /// No usable entry point.
    #[error(
        "it has a manifest, but its entry point cannot be used: {0}. Build it again with accredit-plugin-api {API_MAJOR}"
    )]
    Entry(String),
    /// Types at the boundary that differ from the host's, though the versions agree.
    #[error(
        "it says plugin api {API_MAJOR}.{minor}, but its types at the boundary differ from this program's:\n{}\n\
         Build it again with an unchanged accredit-plugin-api {API_MAJOR}",
        indented(differences)
    )]
    OtherLayout {
        /// The minor version that it says.
        minor: u32,
        /// One difference each.
        differences: Vec<String>,
    },
    /// It cannot say what it holds.
    #[error("it loads, but it cannot describe its schemes: {}", failure(.0))]
    Describe(CallError),
    /// What it says about its schemes cannot be read.
    #[error(
        "it loads, but the description of its schemes cannot be read: {0}. Build it again with accredit-plugin-api {API_MAJOR}"
    )]
    BadDescription(String),
}

impl Refusal {
    pub(super) fn of(self, path: &Path) -> LoadError {
        LoadError { path: path.to_owned(), refusal: self }
    }
}

/// What a plugin said when a call failed, with the place.
pub(super) fn failure(error: &CallError) -> String {
    use accredit_plugin_api::host::CallErrorKind::Panicked;
    let CallError { kind, message, location } = error;
    match (kind, location.as_str()) {
        (Panicked, "") => format!("panicked: {message}"),
        (Panicked, place) => format!("panicked at {place}: {message}"),
        _ => message.clone(),
    }
}

/// The machine that this program was built for, by the name that rustc gives it.
fn this_machine() -> &'static str {
    std::env::consts::ARCH
}

fn other_major_advice(major: u32) -> String {
    if major > API_MAJOR {
        format!("Use an accredit that speaks {major}.x, or build the plugin with accredit-plugin-api {API_MAJOR}.x")
    } else {
        format!("Build the plugin again with accredit-plugin-api {API_MAJOR}.x")
    }
}

fn indented(lines: &[String]) -> String {
    lines.iter().map(|line| format!("  - {line}")).collect::<Vec<_>>().join("\n")
}
