//! Lets the program and its tests find libtorch at run time, without an environment variable. Without the feature
//! `torch` nothing is linked, and nothing is said here.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=DEP_ACCREDIT_TORCH_LIBTORCH_LIB");
    if let Ok(lib) = std::env::var("DEP_ACCREDIT_TORCH_LIBTORCH_LIB") {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{lib}");
        println!("cargo::metadata=libtorch_lib={lib}");
    }
}
