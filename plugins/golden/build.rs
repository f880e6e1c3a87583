//! Lets this program find libtorch where the host that it links has the feature `torch`, as in a build of the whole
//! workspace.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if let Ok(lib) = std::env::var("DEP_ACCREDIT_LIBTORCH_LIB") {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{lib}");
    }
}
