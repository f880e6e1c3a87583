//! What cargo says about the workspace: where it builds to, and which members are plugin libraries.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::checkout::Checkout;
use crate::command;

/// The workspace, as `cargo metadata` describes it.
#[derive(Debug, PartialEq, Eq)]
pub struct Workspace {
    /// Where cargo builds to; `CARGO_TARGET_DIR` and cargo's configuration are taken into account.
    pub target: PathBuf,
    /// Packages that build a plugin to ship: the shared libraries under plugins/. A package with a program as well, as
    /// the one that compares golden numbers, has its plugin for itself.
    pub plugins: Vec<String>,
}

impl Workspace {
    /// Asks cargo.
    pub fn read(checkout: &Checkout) -> Result<Self> {
        let mut command = checkout.cargo(["metadata", "--no-deps", "--format-version", "1"]);
        let text = command::read(&mut command)?;
        Self::parse(&text).with_context(|| format!("what `{}` printed", command::line(&command)))
    }

    fn parse(text: &str) -> Result<Self> {
        let metadata: Value = serde_json::from_str(text)?;
        let path = |value: &Value, key: &str| {
            value[key].as_str().map(PathBuf::from).with_context(|| format!("the path `{key}` is missing"))
        };
        let plugins_folder = path(&metadata, "workspace_root")?.join("plugins");
        let mut plugins = Vec::new();
        for package in metadata["packages"].as_array().context("the list `packages` is missing")? {
            if !has_target(package, "cdylib") || has_target(package, "bin") {
                continue;
            }
            if path(package, "manifest_path")?.starts_with(&plugins_folder) {
                plugins.push(package["name"].as_str().context("a package has no `name`")?.to_string());
            }
        }
        Ok(Self { target: path(&metadata, "target_directory")?, plugins })
    }

    /// The program that cargo has built in a profile's folder, such as `release`.
    pub fn program(&self, profile: &str) -> Result<PathBuf> {
        let program = self.target.join(profile).join(format!("accredit{}", std::env::consts::EXE_SUFFIX));
        if !program.is_file() {
            bail!(
                "cargo has built accredit, but {} does not exist. If a cargo configuration or CARGO_BUILD_TARGET sets \
                 `build.target`, remove it for this task.",
                program.display()
            );
        }
        Ok(program)
    }
}

fn has_target(package: &Value, wanted: &str) -> bool {
    let targets = package["targets"].as_array().into_iter().flatten();
    targets.flat_map(|target| target["kind"].as_array().into_iter().flatten()).any(|kind| kind == wanted)
}

/// Packages as arguments of cargo: `--package a --package b`.
pub fn select<'a>(packages: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    packages.into_iter().flat_map(|package| ["--package".to_string(), package.clone()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_are_the_shared_libraries_under_plugins() {
        let package = |name: &str, folder: &str, kinds: &str| {
            let kinds: Vec<String> = kinds.split(' ').map(|kind| format!(r#"{{"kind": ["{kind}"]}}"#)).collect();
            format!(
                r#"{{"name": "{name}", "manifest_path": "/src/{folder}/Cargo.toml", "targets": [{}]}}"#,
                kinds.join(",")
            )
        };
        let packages = [
            package("accredit-grpo", "plugins/grpo", "cdylib"),
            package("accredit-golden", "plugins/golden", "cdylib bin"),
            package("accredit-misbehave", "host/tests/fixtures/misbehave", "cdylib"),
            package("accredit", "host", "lib"),
        ];
        let text = format!(
            r#"{{"packages": [{}], "target_directory": "/tmp/a \"b\"", "workspace_root": "/src"}}"#,
            packages.join(",")
        );
        let expected = Workspace { target: PathBuf::from("/tmp/a \"b\""), plugins: vec!["accredit-grpo".to_string()] };
        assert_eq!(Workspace::parse(&text).unwrap(), expected);
    }

    #[test]
    fn answers_that_lack_something_are_refused() {
        for (text, expected) in [
            ("", "EOF"),
            (r#"{"packages": []}"#, "`workspace_root` is missing"),
            (r#"{"workspace_root": "/src"}"#, "`packages` is missing"),
            (r#"{"workspace_root": "/src", "packages": []}"#, "`target_directory` is missing"),
        ] {
            let message = Workspace::parse(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }

    #[test]
    fn this_workspace_has_the_plugins_that_it_ships() {
        let workspace = Workspace::read(&Checkout::find().unwrap()).unwrap();
        for plugin in ["accredit-grpo", "accredit-actfocus", "accredit-clip"] {
            assert!(workspace.plugins.iter().any(|name| name == plugin), "{plugin}");
        }
        assert!(!workspace.plugins.iter().any(|name| name == "accredit-misbehave"));
    }

    #[test]
    fn a_program_that_was_built_elsewhere_is_missed() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().to_path_buf();
        let workspace = Workspace { target: target.clone(), plugins: Vec::new() };
        let message = workspace.program("release").unwrap_err().to_string();
        assert!(message.contains("build.target"), "{message}");
        let expected = target.join("release").join(format!("accredit{}", std::env::consts::EXE_SUFFIX));
        std::fs::create_dir_all(target.join("release")).unwrap();
        std::fs::write(&expected, "").unwrap();
        assert_eq!(workspace.program("release").unwrap(), expected);
    }
}
