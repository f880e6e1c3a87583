//! The plugins against numbers of other implementations, through the shared libraries.

use anyhow::{Context, Result};

use crate::checkout::Checkout;
use crate::command;
use crate::workspace::{Workspace, select};

/// Builds the shipped plugins and the program that compares, and runs it on a folder; no algorithm means all.
pub fn run(checkout: &Checkout, folder: &str, algorithms: &[String]) -> Result<()> {
    // The program runs in the root of the checkout, the user may stand elsewhere.
    let folder = std::path::absolute(folder).with_context(|| format!("the folder `{folder}`"))?;
    let folder = folder.strip_prefix(&checkout.root).unwrap_or(&folder);
    let folder = folder.to_str().with_context(|| format!("the path {} is not UTF-8", folder.display()))?;
    for arguments in commands(&Workspace::read(checkout)?, folder, algorithms) {
        command::run(&mut checkout.cargo(arguments))?;
    }
    Ok(())
}

/// The commands of cargo, in order. `folder` is relative to the root of the checkout, or absolute.
fn commands(workspace: &Workspace, folder: &str, algorithms: &[String]) -> [Vec<String>; 2] {
    // One build for all: cargo unites the features, so the second command finds everything as it needs it.
    let mut build = ["build", "--package", "accredit-golden"].map(String::from).to_vec();
    build.extend(select(&workspace.plugins));
    let mut run = ["run", "--quiet", "--package", "accredit-golden", "--", folder].map(String::from).to_vec();
    run.extend_from_slice(algorithms);
    [build, run]
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn the_shipped_plugins_are_built_before_they_are_compared() {
        let plugins = ["accredit-clip", "accredit-grpo"].map(String::from).to_vec();
        let workspace = Workspace { target: PathBuf::from("target"), plugins };
        let [build, run] = commands(&workspace, "data", &["grpo".to_string()]);
        let expected = "build --package accredit-golden --package accredit-clip --package accredit-grpo";
        assert_eq!(build.join(" "), expected);
        assert_eq!(run.join(" "), "run --quiet --package accredit-golden -- data grpo");
    }
}
