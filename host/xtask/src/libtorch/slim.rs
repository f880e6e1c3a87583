//! The small set: what building, training and evaluating on a CPU need of torch's wheel, and nothing else.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// All that is kept of what pip installs. `libtorch_cpu.so` needs NVIDIA's small runtime libraries to start at all, and
/// finds them beside `torch/` through its own rpath.
const KEPT: [&str; 4] = ["torch/lib", "torch/include", "torch/version.py", "nvidia/cu13"];

/// Libraries of `torch/lib` that only CUDA and Python need.
fn is_superfluous(library: &str) -> bool {
    let others = ["libtorch_nvshmem.so", "libtorch_python.so", "libc10_cuda.so", "libcaffe2_nvrtc.so"];
    others.contains(&library) || library.starts_with("libtorch_cuda")
}

/// Removes everything else from a folder that pip has installed into.
pub fn prune(tree: &Path) -> Result<()> {
    for entry in entries(tree)? {
        let inside: Vec<&str> = KEPT.iter().filter_map(|kept| in_folder(&entry, kept)).collect();
        if inside.is_empty() {
            remove(&entry)?;
            continue;
        }
        for below in entries(&entry)? {
            if !inside.iter().any(|name| below.file_name().is_some_and(|file| file == *name)) {
                remove(&below)?;
            }
        }
    }
    for library in entries(&tree.join("torch/lib"))? {
        if library.file_name().and_then(|name| name.to_str()).is_some_and(is_superfluous) {
            remove(&library)?;
        }
    }
    Ok(())
}

/// The second part of a kept path, if `entry` is its first part.
fn in_folder(entry: &Path, kept: &'static str) -> Option<&'static str> {
    let (folder, name) = kept.split_once('/')?;
    entry.file_name().is_some_and(|file| file == folder).then_some(name)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = || format!("cannot list {}", folder.display());
    fs::read_dir(folder).with_context(failed)?.map(|entry| Ok(entry.with_context(failed)?.path())).collect()
}

fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() && !path.is_symlink() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.with_context(|| format!("cannot remove {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(folder: &Path, root: &Path) -> Vec<String> {
        let mut found = Vec::new();
        for entry in entries(folder).unwrap() {
            if entry.is_dir() {
                found.extend(files(&entry, root));
            } else {
                found.push(entry.strip_prefix(root).unwrap().to_str().unwrap().to_string());
            }
        }
        found.sort();
        found
    }

    #[test]
    fn only_the_listed_files_are_kept() {
        let kept = [
            "nvidia/cu13/include/cuda.h",
            "nvidia/cu13/lib/libcudart.so.13",
            "torch/include/torch/torch.h",
            "torch/lib/libc10.so",
            "torch/lib/libgomp.so.1",
            "torch/lib/libshm.so",
            "torch/lib/libshm/libshm.h",
            "torch/lib/libtorch.so",
            "torch/lib/libtorch_cpu.so",
            "torch/version.py",
        ];
        let removed = [
            "bin/torchrun",
            "functorch/__init__.py",
            "nvidia/cudnn/lib/libcudnn.so.9",
            "nvidia_cuda_cupti-13.0.85.dist-info/METADATA",
            "torch-2.11.0.dist-info/METADATA",
            "torch/__init__.py",
            "torch/nn/modules/linear.py",
            "torch/lib/libc10_cuda.so",
            "torch/lib/libcaffe2_nvrtc.so",
            "torch/lib/libtorch_cuda.so",
            "torch/lib/libtorch_cuda_linalg.so",
            "torch/lib/libtorch_nvshmem.so",
            "torch/lib/libtorch_python.so",
            "typing_extensions.py",
        ];
        let tree = tempfile::tempdir().unwrap();
        for file in kept.iter().chain(&removed) {
            let path = tree.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        prune(tree.path()).unwrap();
        assert_eq!(files(tree.path(), tree.path()), kept);
        prune(tree.path()).unwrap();
        assert_eq!(files(tree.path(), tree.path()), kept, "pruning twice changes nothing");
    }

    #[test]
    fn a_tree_without_libraries_is_an_error() {
        let tree = tempfile::tempdir().unwrap();
        assert!(prune(tree.path()).unwrap_err().to_string().contains("torch/lib"));
    }
}
