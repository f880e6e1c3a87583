//! Fetching libtorch into the cache with pip.
//!
//! pip installs into a scratch folder beside the final one; only what has been checked is renamed into place. So a fetch
//! that is killed leaves no half-made libtorch, and a lock lets a second process wait for the first.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{VERSION, Variant, check, slim};
use crate::command;

/// Pinned with torch, which is linked to these: it does not start without them, even on a CPU.
const PACKAGES: [&str; 3] = ["torch==2.11.0", "nvidia-cuda-runtime==13.0.96", "nvidia-cuda-cupti==13.0.85"];

/// What a name of a scratch folder begins with; a process number follows.
const SCRATCH: &str = "fetching-";

impl Variant {
    /// The name of its folder in the cache.
    fn folder(self) -> String {
        match self {
            Self::Cpu => format!("torch-{VERSION}-cpu"),
            Self::Cuda => format!("torch-{VERSION}-cuda"),
        }
    }

    fn sizes(self) -> &'static str {
        match self {
            Self::Cpu => "543 MB to fetch, 544 MB on disk afterwards",
            Self::Cuda => "2.7 GB to fetch, 4.7 GB on disk afterwards",
        }
    }

    /// Free space that pip needs meanwhile, in MB: the wheels, what they unpack to, and pip's own cache of the wheels.
    fn needed_megabytes(self) -> u64 {
        match self {
            Self::Cpu => 2_400,
            Self::Cuda => 10_200,
        }
    }
}

/// The folder of a variant in the cache, fetched if it is not there. `pip` gives a command that runs pip, and `free` the
/// megabytes that are free on the disk of a folder, if that is known.
pub fn ensure(
    cache: &Path,
    variant: Variant,
    pip: impl Fn() -> Command,
    free: impl Fn(&Path) -> Option<u64>,
) -> Result<PathBuf> {
    let held = cache.join(variant.folder());
    if check(&held.join("torch"), variant).is_ok() {
        return Ok(held);
    }
    fs::create_dir_all(cache).with_context(|| format!("cannot make the folder {}", cache.display()))?;
    let lock_path = cache.join("lock");
    let lock = File::create(&lock_path).with_context(|| format!("cannot write {}", lock_path.display()))?;
    let locked = match lock.try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock) => {
            eprintln!("another process is fetching libtorch; waiting for it");
            lock.lock().with_context(|| format!("cannot lock {}", lock_path.display()))?;
            true
        }
        // A file system without locks: two fetches cost time, but the rename at the end keeps them apart.
        Err(TryLockError::Error(_)) => false,
    };
    if check(&held.join("torch"), variant).is_ok() {
        return Ok(held);
    }
    if locked {
        remove_scratch(cache)?;
    }
    check_pip(&pip)?;
    if let Some(free) = free(cache).filter(|&free| free < variant.needed_megabytes()) {
        bail!("{}", too_little_space(cache, variant, Some(free)));
    }
    let scratch = cache.join(format!("{SCRATCH}{}", std::process::id()));
    let result = fetch(&scratch, &held, variant, &pip);
    // Kept scratch would fill the disk; if removing fails, the next fetch tries again.
    let _ = fs::remove_dir_all(&scratch);
    result.map(|()| held)
}

fn fetch(scratch: &Path, held: &Path, variant: Variant, pip: &impl Fn() -> Command) -> Result<()> {
    eprintln!("fetching torch {VERSION} to {} ({}), once for all checkouts", held.display(), variant.sizes());
    let (tree, temporary) = (scratch.join("tree"), scratch.join("temporary"));
    fs::create_dir_all(&temporary).with_context(|| format!("cannot make the folder {}", temporary.display()))?;
    let mut install = pip();
    install.arg("install");
    if variant == Variant::Cpu {
        // Nothing of Python is kept, so nothing of it is compiled.
        install.args(["--no-deps", "--no-compile"]);
    }
    install.arg("--target").arg(&tree).args(PACKAGES);
    // pip unpacks where TMPDIR says: beside the target a move is a rename, and a small /tmp does no harm.
    install.env("TMPDIR", &temporary);
    // The user's settings apply, but for two that forbid the target folder.
    install.env("PIP_USER", "0").env("PIP_REQUIRE_VIRTUALENV", "0");
    // A warning about root is about system folders, which a target folder does not touch.
    install.env("PIP_ROOT_USER_ACTION", "ignore");
    let (succeeded, errors) = command::run_and_keep_errors(&mut install)?;
    if !succeeded {
        bail!("{}", explain(&errors, variant, scratch));
    }
    if variant == Variant::Cpu {
        slim::prune(&tree)?;
    }
    check(&tree.join("torch"), variant).context("what pip has installed cannot be used")?;
    if check(&held.join("torch"), variant).is_ok() {
        return Ok(());
    }
    if held.exists() {
        eprintln!("{} is damaged; it is replaced", held.display());
        let aside = scratch.join("damaged");
        fs::rename(held, &aside).with_context(|| format!("cannot move {} away", held.display()))?;
    }
    fs::rename(&tree, held).with_context(|| format!("cannot rename {} to {}", tree.display(), held.display()))
}

/// Removes what fetches that were killed have left.
fn remove_scratch(cache: &Path) -> Result<()> {
    for entry in fs::read_dir(cache).with_context(|| format!("cannot list {}", cache.display()))?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(SCRATCH) {
            let path = entry.path();
            fs::remove_dir_all(&path).with_context(|| {
                format!("cannot remove {}, which a fetch that was stopped has left", path.display())
            })?;
        }
    }
    Ok(())
}

fn check_pip(pip: &impl Fn() -> Command) -> Result<()> {
    if !cfg!(target_os = "linux") {
        bail!(
            "`cargo xtask` fetches libtorch on Linux only. Set LIBTORCH to the folder `torch` of a torch {VERSION}, as \
             an absolute path."
        );
    }
    let mut version = pip();
    version.arg("--version");
    if command::works(&mut version) {
        return Ok(());
    }
    let mut python = Command::new(version.get_program());
    if !command::works(python.arg("--version")) {
        bail!(
            "libtorch is fetched with pip, and there is no python3 here. Install python3 with pip (Debian and Ubuntu: \
             `apt install python3-pip`), or set LIBTORCH to the folder `torch` of a torch {VERSION} that you have, as an \
             absolute path."
        );
    }
    bail!(
        "libtorch is fetched with pip, and this python3 has no pip (`{}` fails). Install it (Debian and Ubuntu: `apt \
         install python3-pip`; others: `python3 -m ensurepip --user`), or set LIBTORCH to the folder `torch` of a torch \
         {VERSION} that you have, as an absolute path.",
        command::line(&version)
    );
}

/// The megabytes that are free on the disk of a folder. Without df, or where it prints something else, pip finds out.
pub fn free_space(folder: &Path) -> Option<u64> {
    free_megabytes(&command::read(Command::new("df").arg("-Pk").arg(folder)).ok()?)
}

/// Free space in MB, as the table of `df -Pk` says.
fn free_megabytes(table: &str) -> Option<u64> {
    let kilobytes: u64 = table.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()?;
    Some(kilobytes * 1_024 / 1_000_000)
}

fn too_little_space(cache: &Path, variant: Variant, free: Option<u64>) -> String {
    let free = free.map(|free| format!(" ({free} MB free)")).unwrap_or_default();
    format!(
        "there is too little space on the disk of {}{free}: fetching libtorch takes {} MB for a while. Make room, or set \
         ACCREDIT_CACHE to a folder on a larger disk. (pip keeps a copy in its own cache; PIP_NO_CACHE_DIR=1 prevents \
         that.)",
        cache.display(),
        variant.needed_megabytes()
    )
}

/// What a failure of pip means, and what to do, from what it has printed to its error stream.
fn explain(errors: &str, variant: Variant, scratch: &Path) -> String {
    let says = |needles: &[&str]| needles.iter().any(|needle| errors.contains(needle));
    let cache = scratch.parent().unwrap_or(scratch);
    if says(&["No space left on device", "Disk quota exceeded"]) {
        return too_little_space(cache, variant, None);
    }
    if says(&["Retrying (", "Max retries exceeded", "ConnectionError", "timed out", "ProxyError", "SSLError"]) {
        return "pip could not reach its package index (its messages stand above). Check the network; behind a proxy set \
                HTTPS_PROXY, and for a mirror or a certificate of your own PIP_INDEX_URL or PIP_CERT. What was not \
                fetched completely is removed; run this again to try once more."
            .to_string();
    }
    if says(&["No matching distribution found"]) {
        return format!(
            "pip finds no torch {VERSION} for this python3 and this machine. There are wheels for CPython 3.10 to 3.14 on \
             Linux: install one of these (an active virtual environment is used), or set LIBTORCH to the folder `torch` \
             of a torch {VERSION} that you have, as an absolute path."
        );
    }
    "pip failed; its messages stand above. What was not fetched completely is removed; run this again to try once more."
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stand-in for pip: a shell script that counts its installs in `log` and does `install` with `$target` set.
    fn pip(folder: &Path, install: &str) -> impl Fn() -> Command + use<> {
        let script = folder.join("pip.sh");
        let text = format!(
            "[ \"$1\" = install ] || exit 0\n\
             echo \"$@\" >> {folder}/log\n\
             while [ \"$1\" != --target ]; do shift; done\n\
             target=$2\n\
             {install}\n",
            folder = folder.display()
        );
        fs::write(&script, text).unwrap();
        move || {
            let mut command = Command::new("sh");
            command.arg(&script);
            command
        }
    }

    /// What an install leaves, with something to prune.
    const GOOD: &str = "mkdir -p $target/torch/include/torch/csrc/api/include/torch $target/torch/lib $target/bin\n\
         mkdir -p $target/nvidia/cu13/lib\n\
         cd $target/torch\n\
         touch include/torch/csrc/api/include/torch/torch.h lib/libtorch_cpu.so lib/libc10.so lib/libtorch_cuda.so\n\
         echo \"__version__ = '2.11.0+cu130'\" > version.py";

    fn installs(folder: &Path) -> usize {
        fs::read_to_string(folder.join("log")).map_or(0, |log| log.lines().count())
    }

    fn names(cache: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(cache).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_fetch_is_pruned_put_into_place_and_not_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let (cache, pip) = (folder.path().join("cache"), pip(folder.path(), GOOD));
        for _ in 0..2 {
            let held = ensure(&cache, Variant::Cpu, &pip, |_| None).unwrap();
            assert_eq!(held, cache.join("torch-2.11.0-cpu"));
            assert!(!held.join("bin").exists() && !held.join("torch/lib/libtorch_cuda.so").exists());
        }
        assert_eq!(installs(folder.path()), 1);
        assert_eq!(names(&cache), ["lock", "torch-2.11.0-cpu"]);
    }

    #[test]
    fn the_full_set_is_fetched_with_dependencies_and_kept_whole() {
        let folder = tempfile::tempdir().unwrap();
        let (cache, pip) = (folder.path().join("cache"), pip(folder.path(), GOOD));
        let held = ensure(&cache, Variant::Cuda, &pip, |_| None).unwrap();
        assert_eq!(held, cache.join("torch-2.11.0-cuda"));
        assert!(held.join("bin").exists() && held.join("torch/lib/libtorch_cuda.so").exists());
        let log = fs::read_to_string(folder.path().join("log")).unwrap();
        assert!(!log.contains("--no-deps") && log.contains("torch==2.11.0"), "{log}");
    }

    #[test]
    fn two_at_once_fetch_once() {
        let folder = tempfile::tempdir().unwrap();
        let (cache, pip) = (folder.path().join("cache"), pip(folder.path(), &format!("sleep 0.3\n{GOOD}")));
        std::thread::scope(|scope| {
            let fetches: Vec<_> =
                (0..2).map(|_| scope.spawn(|| ensure(&cache, Variant::Cpu, &pip, |_| None))).collect();
            for fetch in fetches {
                fetch.join().unwrap().unwrap();
            }
        });
        assert_eq!(installs(folder.path()), 1);
    }

    #[test]
    fn a_failed_fetch_leaves_nothing_and_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("cache");
        let broken = "mkdir -p $target/torch\n\
                      echo 'WARNING: Retrying (Retry(total=0)) after connection broken' >&2\n\
                      exit 1";
        let message = ensure(&cache, Variant::Cpu, pip(folder.path(), broken), |_| None).unwrap_err().to_string();
        assert!(message.contains("could not reach its package index"), "{message}");
        assert_eq!(names(&cache), ["lock"]);
    }

    #[test]
    fn another_version_is_not_put_into_place() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("cache");
        let wrong = GOOD.replace("2.11.0", "2.12.0");
        let error = ensure(&cache, Variant::Cpu, pip(folder.path(), &wrong), |_| None).unwrap_err();
        assert!(format!("{error:#}").contains("is torch 2.12.0+cu130"), "{error:#}");
        assert_eq!(names(&cache), ["lock"]);
    }

    #[test]
    fn what_a_killed_fetch_left_is_removed_and_a_damaged_folder_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("cache");
        fs::create_dir_all(cache.join("fetching-1/tree/torch")).unwrap();
        fs::create_dir_all(cache.join("torch-2.11.0-cpu/torch/lib")).unwrap();
        ensure(&cache, Variant::Cpu, pip(folder.path(), GOOD), |_| None).unwrap();
        assert_eq!(names(&cache), ["lock", "torch-2.11.0-cpu"]);
    }

    #[test]
    fn a_missing_python_and_a_missing_pip_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let message =
            |pip: fn() -> Command| ensure(folder.path(), Variant::Cpu, pip, |_| None).unwrap_err().to_string();
        let no_python = message(|| Command::new("no-such-python"));
        assert!(no_python.contains("there is no python3 here"), "{no_python}");
        // `cargo --version` succeeds and `cargo -m pip --version` does not, as with a python3 that has no pip.
        let no_pip = message(|| {
            let mut command = Command::new("cargo");
            command.args(["-m", "pip"]);
            command
        });
        assert!(no_pip.contains("this python3 has no pip (`cargo -m pip --version` fails)"), "{no_pip}");
    }

    #[test]
    fn failures_of_pip_are_explained() {
        let scratch = Path::new("/cache/libtorch/fetching-1");
        for (errors, expected) in [
            ("OSError: [Errno 28] No space left on device", "set ACCREDIT_CACHE"),
            ("NewConnectionError: Max retries exceeded\nERROR: No matching distribution found", "Check the network"),
            ("ERROR: No matching distribution found for torch==2.11.0", "CPython 3.10 to 3.14"),
            ("something new", "pip failed"),
        ] {
            assert!(explain(errors, Variant::Cpu, scratch).contains(expected), "{errors}");
        }
    }

    #[test]
    fn free_space_is_read_from_the_table_of_df() {
        let table = "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/sda 9 9 2000000 14% /\n";
        assert_eq!(free_megabytes(table), Some(2_048));
        assert_eq!(free_megabytes("df: nothing here"), None);
    }

    #[test]
    fn nothing_is_fetched_to_a_disk_that_is_too_small() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("cache");
        let fetch = |free| ensure(&cache, Variant::Cpu, pip(folder.path(), GOOD), |_| Some(free));
        let message = fetch(2_399).unwrap_err().to_string();
        assert!(message.contains("(2399 MB free)") && message.contains("2400 MB"), "{message}");
        assert_eq!(names(&cache), ["lock"]);
        fetch(2_400).unwrap();
    }
}
