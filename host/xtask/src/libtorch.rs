//! libtorch for the crates that link to it: the right version, fetched once for all checkouts of a machine.
//!
//! The order of preference: the user's own `LIBTORCH`; what the checkout's `.libtorch` already holds; the cache; the
//! network, through pip, since PyPI's wheel of torch is the build that machines with a GPU carry too.

mod cache;
mod fetch;
mod link;
mod slim;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::checkout::Checkout;

/// The version of torch that the `tch` of this workspace is made for.
const VERSION: &str = "2.11.0";

/// The two sets of files that the cache can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    /// What a build, training and evaluation on the CPU need.
    Cpu,
    /// Everything, with CUDA.
    Cuda,
}

/// Makes sure that plain cargo finds libtorch in the checkout.
pub fn ensure(checkout: &Checkout, cuda: bool) -> Result<()> {
    let variant = if cuda { Variant::Cuda } else { Variant::Cpu };
    if let Some(own) = &checkout.users_libtorch {
        check_users_own(own, variant)?;
        eprintln!("libtorch: {} (LIBTORCH is set; keep it set for plain cargo too)", own.display());
        return Ok(());
    }
    let place = checkout.libtorch();
    if check(&place.join("torch"), variant).is_ok() {
        eprintln!("libtorch: {}", place.canonicalize().unwrap_or(place).display());
        return Ok(());
    }
    link::check_replaceable(&place)?;
    let folder = cache::folder(|name| std::env::var_os(name))?;
    let pip = || {
        let mut pip = checkout.program("python3");
        pip.args(["-m", "pip"]);
        pip
    };
    let held = fetch::ensure(&folder, variant, pip, fetch::free_space)?;
    link::replace(&place, &held)?;
    eprintln!("libtorch: {}", held.display());
    Ok(())
}

/// Checks that a folder `torch` is libtorch of the right version with what a variant has.
fn check(torch: &Path, variant: Variant) -> Result<()> {
    let version = version(torch)?;
    // A local part such as `+cu130` names the build, not the version.
    if version.split('+').next() != Some(VERSION) {
        bail!("{} is torch {version}, and accredit needs {VERSION}", torch.display());
    }
    let mut needed = vec!["include/torch/csrc/api/include/torch/torch.h", "lib/libtorch_cpu.so", "lib/libc10.so"];
    if variant == Variant::Cuda {
        needed.push("lib/libtorch_cuda.so");
    }
    for file in needed {
        if !torch.join(file).is_file() {
            bail!("{} has no {file}", torch.display());
        }
    }
    Ok(())
}

/// The version of libtorch in a folder: `version.py` in a wheel, `build-version` in PyTorch's archives for C++.
fn version(torch: &Path) -> Result<String> {
    let in_wheel = fs::read_to_string(torch.join("version.py"));
    let in_wheel = in_wheel.ok().as_deref().and_then(version_in_python).map(String::from);
    in_wheel
        .or_else(|| fs::read_to_string(torch.join("build-version")).ok().map(|text| text.trim().to_string()))
        .with_context(|| format!("{} has no version.py or build-version that says a version", torch.display()))
}

fn version_in_python(text: &str) -> Option<&str> {
    let value = text.lines().find_map(|line| line.strip_prefix("__version__ = "))?;
    Some(value.trim().trim_matches(['\'', '"']))
}

fn check_users_own(torch: &Path, variant: Variant) -> Result<()> {
    let advice = format!(
        "Unset LIBTORCH to have `cargo xtask` fetch the right one, or set it to the folder `torch` of a torch {VERSION}."
    );
    if torch.is_relative() {
        bail!(
            "LIBTORCH is set to `{}`, which is not an absolute path; build scripts run in folders of their own and would \
             not find it. {advice}",
            torch.display()
        );
    }
    check(torch, variant)
        .with_context(|| format!("LIBTORCH is set to a folder that cannot be used. {advice} The reason"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A made-up libtorch of a version.
    pub(super) fn make_up(torch: &Path, version: &str) {
        for file in ["include/torch/csrc/api/include/torch/torch.h", "lib/libtorch_cpu.so", "lib/libc10.so"] {
            fs::create_dir_all(torch.join(file).parent().unwrap()).unwrap();
            fs::write(torch.join(file), "").unwrap();
        }
        fs::write(torch.join("version.py"), format!("__all__ = ['debug']\n__version__ = '{version}'\ndebug = False\n"))
            .unwrap();
    }

    fn refusal(torch: &Path, variant: Variant) -> String {
        format!("{:#}", check_users_own(torch, variant).unwrap_err())
    }

    #[test]
    fn the_version_must_be_the_one_that_tch_is_made_for() {
        let folder = tempfile::tempdir().unwrap();
        for (version, good) in [("2.11.0+cu130", true), ("2.11.0", true), ("2.10.0", false), ("2.11.01", false)] {
            make_up(folder.path(), version);
            assert_eq!(check(folder.path(), Variant::Cpu).is_ok(), good, "{version}");
        }
        make_up(folder.path(), "2.10.0+cpu");
        let message = refusal(folder.path(), Variant::Cpu);
        assert!(message.contains("is torch 2.10.0+cpu, and accredit needs 2.11.0"), "{message}");
        assert!(message.contains("Unset LIBTORCH"), "{message}");
    }

    #[test]
    fn an_archive_for_cpp_says_its_version_too() {
        let folder = tempfile::tempdir().unwrap();
        make_up(folder.path(), "2.11.0");
        fs::remove_file(folder.path().join("version.py")).unwrap();
        assert!(refusal(folder.path(), Variant::Cpu).contains("no version.py"));
        fs::write(folder.path().join("build-version"), "2.11.0+cpu\n").unwrap();
        check(folder.path(), Variant::Cpu).unwrap();
    }

    #[test]
    fn a_folder_must_hold_what_the_build_needs() {
        let folder = tempfile::tempdir().unwrap();
        make_up(folder.path(), VERSION);
        assert!(refusal(folder.path(), Variant::Cuda).contains("has no lib/libtorch_cuda.so"));
        fs::write(folder.path().join("lib/libtorch_cuda.so"), "").unwrap();
        check(folder.path(), Variant::Cuda).unwrap();
        fs::remove_file(folder.path().join("lib/libtorch_cpu.so")).unwrap();
        assert!(refusal(folder.path(), Variant::Cpu).contains("has no lib/libtorch_cpu.so"));
    }

    #[test]
    fn a_libtorch_that_build_scripts_would_not_find_is_refused() {
        for value in ["", "libtorch", "../torch"] {
            assert!(refusal(Path::new(value), Variant::Cpu).contains("not an absolute path"), "{value}");
        }
    }

    #[test]
    fn a_checkout_that_has_libtorch_is_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let checkout = Checkout { root: folder.path().to_path_buf(), users_libtorch: None };
        make_up(&checkout.libtorch().join("torch"), VERSION);
        ensure(&checkout, false).unwrap();
        assert!(!checkout.libtorch().is_symlink());
        // The folder is the user's, not a link of ours: it is not replaced by the full set.
        let message = ensure(&checkout, true).unwrap_err().to_string();
        assert!(message.contains("is not a link"), "{message}");
    }
}
