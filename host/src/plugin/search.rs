//! From what a configuration writes after `plugin =` to a file and a scheme in it.

use std::{
    collections::BTreeSet,
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
};

use thiserror::Error;

use super::{
    error::{LoadError, Refusal},
    inspect::{Inspected, inspect},
    load::Library,
    near::hint,
};

/// The folders in which plugins are looked for, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchPath {
    folders: Vec<PathBuf>,
}

/// A plugin's file, and which of its schemes was meant if that was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The file.
    pub path: PathBuf,
    /// The scheme's name; none leaves it to [`SearchPath::open`].
    pub scheme: Option<String>,
}

/// Why there is no scheme for what a configuration says.
#[derive(Debug, Error)]
pub enum FindError {
    /// No file, no library and no scheme of this name.
    #[error(
        "there is no plugin `{wanted}`: neither {file} nor another library or scheme of that name is in {}.{hint} \
         Build it, or name its folder with `--plugin-path` or ACCREDIT_PLUGIN_PATH, or write the library's path",
        list(searched)
    )]
    NotFound {
        /// The name.
        wanted: String,
        /// The file that it would be in.
        file: String,
        /// The folders that were searched.
        searched: Vec<PathBuf>,
        /// A near name, in a sentence that begins with a space; or nothing.
        hint: String,
    },
    /// A library of several schemes, none of which has the library's name.
    #[error(
        "{}: this plugin holds several schemes: {}. Write which one, as in `{}`",
        path.display(),
        schemes.join(", "),
        example(path, schemes)
    )]
    SeveralSchemes {
        /// The library.
        path: PathBuf,
        /// Its schemes.
        schemes: Vec<String>,
    },
    /// A scheme that the library does not hold.
    #[error("{}: this plugin holds no scheme `{wanted}`, but {}.{hint}", path.display(), schemes.join(", "))]
    NoSuchScheme {
        /// The library.
        path: PathBuf,
        /// The name.
        wanted: String,
        /// Its schemes.
        schemes: Vec<String>,
        /// A near name, in a sentence that begins with a space; or nothing.
        hint: String,
    },
    /// The file cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl SearchPath {
    /// The folders that the user names, then those of `ACCREDIT_PLUGIN_PATH` (separated as in `PATH`), then the running
    /// program's folder and its `plugins`, then the user's own (`~/.local/share/accredit/plugins`).
    pub fn new(named: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut folders: Vec<PathBuf> = named.into_iter().collect();
        if let Some(path) = env::var_os("ACCREDIT_PLUGIN_PATH") {
            folders.extend(env::split_paths(&path).filter(|f| !f.as_os_str().is_empty()));
        }
        let program = env::current_exe().ok();
        let program = program.as_deref().and_then(Path::parent);
        // Tests and examples run one folder below the libraries that cargo built with them.
        let program = program.map(|folder| match folder.file_name().and_then(OsStr::to_str) {
            Some("deps" | "examples") => folder.parent().unwrap_or(folder),
            _ => folder,
        });
        if let Some(program) = program {
            folders.push(program.to_owned());
            folders.push(program.join("plugins"));
        }
        let data = env::var_os("XDG_DATA_HOME")
            .map(PathBuf::from)
            .filter(|folder| folder.is_absolute())
            .or_else(|| env::home_dir().map(|home| home.join(".local/share")));
        folders.extend(data.map(|data| data.join("accredit/plugins")));
        Self::of_folders(folders)
    }

    /// These folders alone.
    pub fn of_folders(folders: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut seen = BTreeSet::new();
        let folders = folders.into_iter().filter(|folder| seen.insert(folder.clone())).collect();
        Self { folders }
    }

    /// The folders, in the order in which they are searched.
    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// What inspection says about every library in the path that is a plugin or has the name of one. Nothing of them
    /// runs.
    pub fn available(&self) -> Vec<Result<Inspected, LoadError>> {
        self.libraries()
            .iter()
            .map(|path| inspect(path))
            .filter(|inspected| match inspected {
                Ok(_) => true,
                Err(LoadError { path, refusal }) => {
                    !matches!(refusal, Refusal::NoManifest) || short_name(path).is_some()
                }
            })
            .collect()
    }

    /// The file that `plugin` means. With a `/` or a last `.so` it is a file, relative to `base`, and may end in
    /// `#SCHEME`; else it is a name: of the file `libaccredit_NAME.so`, or of the package `accredit-NAME` or `NAME`, or
    /// of a scheme. The last needs the libraries in the path to be loaded, so it is tried last.
    pub fn find(&self, plugin: &str, base: &Path) -> Result<Found, FindError> {
        if let Some((file, scheme)) = as_file(plugin) {
            return Ok(Found { path: base.join(file), scheme: scheme.map(str::to_owned) });
        }
        let file = format!("libaccredit_{}.so", plugin.replace('-', "_"));
        for folder in &self.folders {
            let path = folder.join(&file);
            if path.exists() {
                return Ok(Found { path, scheme: None });
            }
        }
        let inspected: Vec<Inspected> = self.available().into_iter().flatten().collect();
        if let Some(library) = inspected.iter().find(|i| i.short_name() == plugin || i.name == plugin) {
            return Ok(Found { path: library.path.clone(), scheme: None });
        }
        let mut names: Vec<String> = Vec::new();
        for library in &inspected {
            names.push(library.short_name().to_owned());
            match Library::load(&library.path, None) {
                Ok(loaded) => {
                    let schemes = loaded.describe().schemes.iter();
                    names.extend(schemes.map(|scheme| scheme.name.clone()));
                }
                // The user asked for another plugin, so this one is no reason to stop.
                Err(error) => tracing::warn!("left out while looking for `{plugin}`: {error}"),
            }
            if names.iter().any(|name| name == plugin) {
                return Ok(Found { path: library.path.clone(), scheme: Some(plugin.to_owned()) });
            }
        }
        Err(FindError::NotFound {
            wanted: plugin.to_owned(),
            file,
            searched: self.folders.clone(),
            hint: hint(plugin, names.iter().map(String::as_str)),
        })
    }

    /// Finds and loads what `plugin` means, and says which scheme of it: the one that was named, else the one that has
    /// the plugin's name, else its only one.
    pub fn open(
        &self,
        plugin: &str,
        base: &Path,
        expected_sha256: Option<&str>,
    ) -> Result<(Library, String), FindError> {
        let Found { path, scheme } = self.find(plugin, base)?;
        let library = Library::load(&path, expected_sha256)?;
        let schemes: Vec<String> = library.describe().schemes.iter().map(|scheme| scheme.name.clone()).collect();
        if let Some(wanted) = scheme {
            return if schemes.contains(&wanted) {
                Ok((library, wanted))
            } else {
                let hint = hint(&wanted, schemes.iter().map(String::as_str));
                Err(FindError::NoSuchScheme { path, wanted, schemes, hint })
            };
        }
        let own_name = schemes.iter().find(|name| *name == plugin || *name == library.inspected().short_name());
        match (own_name, schemes.as_slice()) {
            (Some(name), _) | (None, [name]) => Ok((library, name.clone())),
            _ => Err(FindError::SeveralSchemes { path, schemes }),
        }
    }

    /// Every file in the path that has the name of a library.
    fn libraries(&self) -> Vec<PathBuf> {
        let mut libraries = Vec::new();
        for folder in &self.folders {
            let mut here: Vec<PathBuf> = match folder.read_dir() {
                Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
                Err(error) => {
                    if error.kind() != std::io::ErrorKind::NotFound {
                        tracing::warn!("plugin path: {}: {error}", folder.display());
                    }
                    continue;
                }
            };
            here.retain(|path| is_library(path) && !path.is_dir());
            here.sort();
            libraries.extend(here);
        }
        libraries
    }
}

/// Whether a file has the ending of a shared library.
fn is_library(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("so"))
}

/// The file and the scheme, if `plugin` is written as a file.
fn as_file(plugin: &str) -> Option<(&str, Option<&str>)> {
    let (file, scheme) = match plugin.rsplit_once('#') {
        Some((file, scheme)) if is_library(Path::new(file)) => (file, Some(scheme)),
        _ => (plugin, None),
    };
    (file.contains('/') || is_library(Path::new(file))).then_some((file, scheme))
}

/// `grpo` for `libaccredit_grpo.so`.
fn short_name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()?.strip_prefix("libaccredit_")?.strip_suffix(".so")
}

fn list(folders: &[PathBuf]) -> String {
    if folders.is_empty() {
        return "the plugin path, which is empty".to_owned();
    }
    folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn example(path: &Path, schemes: &[String]) -> String {
    let scheme = schemes.first().map_or("SCHEME", String::as_str);
    format!("{}#{scheme}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_or_the_ending_makes_a_file() {
        for (plugin, expected) in [
            ("grpo", None),
            ("my.plugin", None),
            ("libmine.so", Some(("libmine.so", None))),
            ("./mine", Some(("./mine", None))),
            ("a/libm.so#two", Some(("a/libm.so", Some("two")))),
            ("a#b/libm.so", Some(("a#b/libm.so", None))),
            ("grpo#two", None),
        ] {
            assert_eq!(as_file(plugin), expected, "{plugin}");
        }
    }

    #[test]
    fn a_file_is_relative_to_the_configuration_and_never_searched() {
        let path = SearchPath::of_folders([]);
        let found = |plugin| path.find(plugin, Path::new("/runs")).unwrap().path;
        assert_eq!(found("lib/mine.so"), Path::new("/runs/lib/mine.so"));
        assert_eq!(found("/opt/mine.so"), Path::new("/opt/mine.so"));
    }

    #[test]
    fn named_folders_come_first_and_none_twice() {
        let folder = PathBuf::from("/opt/plugins");
        let path = SearchPath::new([folder.clone(), folder.clone()]);
        assert_eq!(path.folders()[0], folder);
        assert_eq!(path.folders().iter().filter(|f| **f == folder).count(), 1);
        assert!(path.folders().iter().all(|f| !f.ends_with("deps")));
        let program = env::current_exe().unwrap();
        let beside = program.parent().and_then(Path::parent).unwrap();
        assert!(path.folders().iter().any(|f| f == beside));
    }
}
