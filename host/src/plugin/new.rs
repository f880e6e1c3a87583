//! `accredit plugin new`: the project of a plugin, complete and ready to be changed.

use std::{
    io,
    path::{Path, PathBuf},
};

use accredit_plugin_api::abi::API_MAJOR;
use thiserror::Error;

/// Why no project was made.
#[derive(Debug, Error)]
pub enum NewError {
    /// A name that cannot be that of a package and a scheme.
    #[error(
        "`{0}` cannot be a plugin's name: it must be small letters, digits and single dashes, and begin with a letter, \
         as in `turn-mean`"
    )]
    Name(String),
    /// The folder is there already.
    #[error("{} exists already. Choose another name, or remove it first", .0.display())]
    Exists(PathBuf),
    /// The folder that is said to hold the plugin api does not.
    #[error("{} holds no accredit-plugin-api: there is no such package in its Cargo.toml", .0.display())]
    NoApi(PathBuf),
    /// A file could not be written.
    #[error("{}: {error}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

/// The files of a project: where, and what, with `{{...}}` for what depends on the name. The template also works with
/// cargo-generate.
const FILES: [(&str, &str); 5] = [
    ("Cargo.toml", include_str!("../../../plugin-api/template/Cargo.toml")),
    ("src/lib.rs", include_str!("../../../plugin-api/template/src/lib.rs")),
    ("README.md", include_str!("../../../plugin-api/template/README.md")),
    ("example.toml", include_str!("../../../plugin-api/template/example.toml")),
    (".gitignore", include_str!("../../../plugin-api/template/.gitignore")),
];

/// Writes the project of a plugin `name` into `folder`, which must not exist. It depends on the plugin api at
/// `api_path`; without one, on that of the checkout that this program was built from, if it still stands; else on its
/// released version.
pub fn create_project(folder: &Path, name: &str, api_path: Option<&Path>) -> Result<(), NewError> {
    check_name(name)?;
    let api = match api_path {
        Some(path) => Some(api_at(path).ok_or_else(|| NewError::NoApi(path.to_owned()))?),
        None => api_at(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugin-api")),
    };
    if folder.symlink_metadata().is_ok() {
        return Err(NewError::Exists(folder.to_owned()));
    }
    let values = [
        ("{{project-name}}", name.to_owned()),
        ("{{project-name | snake_case}}", name.replace('-', "_")),
        ("{{project-name | pascal_case}}", pascal_case(name)),
        ("{{api}}", dependency(api.as_deref())),
    ];
    for (file, template) in FILES {
        let text =
            values.iter().fold(template.to_owned(), |text, (placeholder, value)| text.replace(placeholder, value));
        write(&folder.join(file), &text)?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), NewError> {
    let failed = |error| NewError::Write { path: path.to_owned(), error };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    std::fs::write(path, text).map_err(failed)
}

fn check_name(name: &str) -> Result<(), NewError> {
    let word = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    // File systems take 255 bytes, and the library's name has a little more than this one.
    let fits = name.len() <= 64 && name.starts_with(|c: char| c.is_ascii_lowercase());
    if fits && name.split('-').all(word) { Ok(()) } else { Err(NewError::Name(name.to_owned())) }
}

/// The absolute path of a folder that holds the plugin api.
fn api_at(folder: &Path) -> Option<PathBuf> {
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).ok()?;
    let manifest: toml::Table = manifest.parse().ok()?;
    let name = manifest.get("package")?.get("name")?.as_str()?;
    (name == "accredit-plugin-api").then(|| folder.canonicalize().ok()).flatten()
}

/// What stands between the braces of the dependency on the plugin api.
fn dependency(path: Option<&Path>) -> String {
    let version = format!("version = \"{API_MAJOR}\"");
    match path {
        Some(path) => {
            let path = toml::Value::String(path.display().to_string());
            format!("{version}, path = {path}")
        }
        None => version,
    }
}

fn pascal_case(name: &str) -> String {
    name.split('-')
        .map(|word| {
            let (first, rest) = word.split_at(word.len().min(1));
            first.to_uppercase() + rest
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_small_words_with_dashes() {
        for name in ["turn-mean", "a", "grpo2", "x-1"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        let long = "a".repeat(65);
        for name in ["", "Turn", "turn_mean", "-a", "a-", "a--b", "2fast", "a b", "a/b", "ä", "..", &long] {
            assert!(matches!(check_name(name), Err(NewError::Name(_))), "{name}");
        }
    }

    #[test]
    fn a_project_is_complete_and_nothing_is_written_over() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("turn-mean");
        create_project(&folder, "turn-mean", None).unwrap();
        for (file, _) in FILES {
            let text = std::fs::read_to_string(folder.join(file)).unwrap();
            assert!(!text.contains("{{"), "{file}:\n{text}");
        }
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let manifest: toml::Table = manifest.parse().unwrap();
        let api = &manifest["dependencies"]["accredit-plugin-api"];
        assert!(api["path"].as_str().unwrap().ends_with("plugin-api"));
        let again = create_project(&folder, "turn-mean", None);
        assert!(matches!(again, Err(NewError::Exists(_))), "{again:?}");
    }

    #[test]
    fn a_folder_without_the_api_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("mine");
        let made = create_project(&folder, "mine", Some(scratch.path()));
        assert!(matches!(made, Err(NewError::NoApi(_))), "{made:?}");
        assert!(!folder.exists());
    }
}
