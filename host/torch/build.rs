//! Finds the libtorch that torch-sys was built against, checks its version, compiles the shim over it, and tells
//! dependents where it lies (`DEP_ACCREDIT_TORCH_LIBTORCH_LIB`).

use std::path::Path;

/// What tch 0.24 binds. torch-sys checks the version of an unpacked libtorch, but not of a Python wheel.
const TORCH_VERSION: &str = "2.11.0";

fn main() {
    println!("cargo::rerun-if-changed=cpp");
    println!("cargo::rerun-if-env-changed=LIBTORCH");
    if let Err(message) = build() {
        println!("cargo::error={message}");
    }
}

fn build() -> Result<(), String> {
    let told = std::env::var("DEP_TCH_LIBTORCH_LIB").map_err(|_| "torch-sys did not say where libtorch is")?;
    let lib =
        std::fs::canonicalize(&told).map_err(|e| format!("libtorch: {told}: {e}; run `cargo xtask quickstart`"))?;
    let torch = lib.parent().ok_or_else(|| format!("libtorch: {} has no parent folder", lib.display()))?;
    check_version(torch)?;
    println!("cargo::metadata=libtorch_lib={}", lib.display());
    println!("cargo::rustc-link-arg=-Wl,-rpath,{}", lib.display());
    cpp()
        .opt_level(3)
        // Conditions and conversions in loops are vectorised only where no one looks at errno or floating-point flags.
        .flags(["-fno-math-errno", "-fno-trapping-math", "-Wno-psabi"])
        .file("cpp/decode.cpp")
        .try_compile("accredit_torch_decode")
        .map_err(|e| format!("cpp/decode.cpp: {e}").replace('\n', " "))?;
    cpp()
        .opt_level(2)
        .warnings(false)
        .include(torch.join("include"))
        .include(torch.join("include/torch/csrc/api/include"))
        .file("cpp/shim.cpp")
        .try_compile("accredit_torch_shim")
        .map_err(|e| format!("cpp/shim.cpp: {e}").replace('\n', " "))?;
    println!("cargo::rustc-link-search=native={}", lib.display());
    // After the shim, which uses their symbols.
    println!("cargo::rustc-link-lib=torch_cpu");
    println!("cargo::rustc-link-lib=c10");
    Ok(())
}

/// A C++ compilation, with the same result in every profile: the tests of a debug build see the same numbers.
fn cpp() -> cc::Build {
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17");
    build
}

fn check_version(torch: &Path) -> Result<(), String> {
    let wheel = torch.join("version.py");
    let unpacked = torch.join("build-version");
    let found = if let Ok(text) = std::fs::read_to_string(&wheel) {
        text.lines()
            .find_map(|line| line.strip_prefix("__version__ = "))
            .map(|version| version.trim_matches(['\'', '"']).to_owned())
            .ok_or_else(|| format!("{}: no line `__version__ = ...`", wheel.display()))?
    } else {
        std::fs::read_to_string(&unpacked)
            .map_err(|e| {
                format!(
                    "{}: neither version.py nor build-version ({e}); set LIBTORCH to the folder `torch` of a torch \
                     {TORCH_VERSION} wheel, or run `cargo xtask quickstart`",
                    torch.display()
                )
            })?
            .trim()
            .to_owned()
    };
    // A local version such as 2.11.0+cu130 is the same release.
    if found.split('+').next() == Some(TORCH_VERSION) {
        return Ok(());
    }
    Err(format!(
        "torch {TORCH_VERSION} is needed, {} is {found}; run `cargo xtask quickstart` with LIBTORCH unset, or set LIBTORCH \
         to the folder `torch` of a torch {TORCH_VERSION} wheel",
        torch.display()
    ))
}
