//! A folder that checks the GPU of another machine, and the same check on this one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::checkout::Checkout;
use crate::workspace::Workspace;
use crate::{command, libtorch};

/// What the folder's user runs.
const SCRIPT: &str = include_str!("gpu_check/run.sh");
/// Configurations in the folder: the one that is checked, and what it builds on.
const CONFIGURATIONS: [&str; 2] = ["device-check.toml", "quickstart.toml"];
/// A configuration that a CPU trains in a minute.
const SMALL: &str = "configs/quickstart.toml";

/// Builds the program and its plugins in release, puts them into a folder that another machine can use, and checks the
/// device of this one.
pub fn run(checkout: &Checkout) -> Result<()> {
    let gpu = Path::new("/dev/nvidia0").exists();
    libtorch::ensure(checkout, gpu)?;
    command::run(&mut checkout.cargo(["build", "--release"]))?;
    let workspace = Workspace::read(checkout)?;
    let folder = workspace.target.join("gpu-check");
    gather(&checkout.root, &workspace.program("release")?, &workspace.plugins, &folder)?;
    eprintln!(
        "{} checks the GPU of another machine: copy it there and run ./run.sh PYTHON, the Python that has torch 2.11.0",
        folder.display()
    );
    let mut check = checkout.program(workspace.program("release")?);
    check.args(["device", "check", if gpu { "configs/device-check.toml" } else { SMALL }]);
    command::run(&mut check)
}

/// Fills the folder anew, with the program and the libraries of these packages, which stand beside it.
fn gather(root: &Path, program: &Path, plugins: &[String], folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    let configs = folder.join("configs");
    fs::create_dir_all(&configs).with_context(|| format!("cannot make {}", configs.display()))?;
    let copy = |from: &Path, to: PathBuf| {
        fs::copy(from, to).map(drop).with_context(|| format!("cannot copy {}", from.display()))
    };
    copy(program, folder.join("accredit"))?;
    for package in plugins {
        let name = format!("lib{}.so", package.replace('-', "_"));
        copy(&program.with_file_name(&name), folder.join(name))?;
    }
    for name in CONFIGURATIONS {
        copy(&root.join("configs").join(name), configs.join(name))?;
    }
    let script = folder.join("run.sh");
    fs::write(&script, SCRIPT).with_context(|| format!("cannot write {}", script.display()))?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// A checkout with a program that prints how it is called, and the folder that is made of it.
    fn gathered() -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let built = root.path().join("release");
        fs::create_dir_all(&built).unwrap();
        fs::create_dir_all(root.path().join("configs")).unwrap();
        for name in CONFIGURATIONS {
            fs::write(root.path().join("configs").join(name), name).unwrap();
        }
        let program = built.join("accredit");
        fs::write(&program, "#!/bin/sh\necho \"$LD_LIBRARY_PATH $*\"\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(built.join("libaccredit_x.so"), "x").unwrap();
        // A library that is shipped to nobody.
        fs::write(built.join("libaccredit_misbehave.so"), "x").unwrap();
        let folder = root.path().join("gpu-check");
        gather(root.path(), &program, &["accredit-x".to_owned()], &folder).unwrap();
        (root, folder)
    }

    /// A program that answers as a Python with torch at this place would.
    fn python(root: &Path, torch: &str) -> PathBuf {
        let python = root.join("python");
        fs::write(&python, format!("#!/bin/sh\necho '{torch}'\n")).unwrap();
        fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
        python
    }

    #[test]
    fn the_folder_holds_what_the_check_needs_and_is_made_anew() {
        let (root, folder) = gathered();
        fs::write(folder.join("left"), "").unwrap();
        let program = root.path().join("release/accredit");
        gather(root.path(), &program, &["accredit-x".to_owned()], &folder).unwrap();
        let mut names: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["accredit", "configs", "libaccredit_x.so", "run.sh"]);
        assert_eq!(fs::read_to_string(folder.join("configs/device-check.toml")).unwrap(), "device-check.toml");
    }

    #[test]
    fn the_script_uses_the_torch_of_a_python_and_refuses_another_version() {
        let (root, folder) = gathered();
        let torch = root.path().join("torch");
        fs::create_dir(&torch).unwrap();
        let run = |python: &Path| {
            let mut command = Command::new(folder.join("run.sh"));
            command.arg(python).arg("--json").env_remove("LD_LIBRARY_PATH").output().unwrap()
        };
        let with_torch = python(root.path(), torch.to_str().unwrap());
        fs::write(torch.join("version.py"), "__version__ = '2.11.0+cu130'\ndebug = False\n").unwrap();
        let output = run(&with_torch);
        let expected = format!(
            "{}/lib device check {}/configs/device-check.toml --device cuda --json\n",
            torch.display(),
            folder.display()
        );
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);

        fs::write(torch.join("version.py"), "__version__ = '2.10.0'\n").unwrap();
        let output = run(&with_torch);
        assert!(!output.status.success());
        assert!(String::from_utf8_lossy(&output.stderr).contains("is version 2.10.0"));
        let output = run(&python(root.path(), ""));
        assert!(String::from_utf8_lossy(&output.stderr).contains("has no torch"));
    }
}
