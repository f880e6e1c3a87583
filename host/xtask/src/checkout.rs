//! The checkout that a task works on, and how its programs are started there.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// The checkout.
#[derive(Debug)]
pub struct Checkout {
    /// The folder with the workspace's Cargo.toml.
    pub root: PathBuf,
    /// The `LIBTORCH` that the user set, where there is one.
    pub users_libtorch: Option<PathBuf>,
}

impl Checkout {
    /// The checkout that cargo started this program for.
    pub fn find() -> Result<Self> {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let manifest = PathBuf::from(manifest);
        let root = manifest.ancestors().nth(2).with_context(|| format!("{} has no workspace", manifest.display()))?;
        let users_libtorch = users_own(std::env::var_os("LIBTORCH"), root);
        Ok(Self { root: root.to_path_buf(), users_libtorch })
    }

    /// A program that runs in the root of the checkout, in the environment that the user has.
    ///
    /// What cargo added for this program itself is taken out again: build scripts of some crates watch such variables,
    /// and would run once more on every change between `cargo xtask` and plain cargo.
    pub fn program(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root);
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
                command.env_remove(&name);
            }
        }
        if self.users_libtorch.is_none() {
            command.env_remove("LIBTORCH");
        }
        command
    }

    /// The cargo that started this program, with arguments.
    pub fn cargo<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.program(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(arguments);
        command
    }

    /// Where `.cargo/config.toml` tells the build that libtorch is: a link that [`crate::libtorch`] makes, or a folder.
    pub fn libtorch(&self) -> PathBuf {
        self.root.join(".libtorch")
    }
}

/// The value of `LIBTORCH` if it is the user's, and nothing if it is the one that `.cargo/config.toml` gives to every
/// program that cargo runs, this one included.
fn users_own(value: Option<OsString>, root: &Path) -> Option<PathBuf> {
    let value = PathBuf::from(value?);
    let ours = value.ends_with(".libtorch/torch")
        && value.ancestors().nth(2).is_some_and(|folder| folder == root || same_folder(folder, root));
    (!ours).then_some(value)
}

fn same_folder(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_libtorch_of_the_cargo_configuration_is_not_the_users() {
        let root = Path::new("/src/accredit");
        assert_eq!(users_own(None, root), None);
        assert_eq!(users_own(Some("/src/accredit/.libtorch/torch".into()), root), None);
        for own in ["/opt/libtorch", "/src/other/.libtorch/torch", ".libtorch/torch", ""] {
            assert_eq!(users_own(Some(own.into()), root), Some(PathBuf::from(own)), "{own}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_checkout_reached_through_a_link_is_the_same_checkout() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("checkout");
        std::fs::create_dir(&root).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&root, &link).unwrap();
        assert_eq!(users_own(Some(link.join(".libtorch/torch").into()), &root), None);
    }

    #[test]
    fn programs_see_libtorch_only_if_it_is_the_users() {
        let removed = |users_libtorch| {
            let checkout = Checkout { root: PathBuf::from("/src"), users_libtorch };
            let command = checkout.cargo(["build"]);
            command.get_envs().any(|(name, value)| name == "LIBTORCH" && value.is_none())
        };
        assert!(removed(None));
        assert!(!removed(Some(PathBuf::from("/opt/libtorch"))));
    }
}
