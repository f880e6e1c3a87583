//! `environment.json`: what a run was made with, so that it can be told apart from another one.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::credit::Pipeline;

/// SHA-256 of a file, in hexadecimal.
pub fn sha256(path: &Path) -> Result<String> {
    let mut file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = file.read(&mut buffer).with_context(|| format!("cannot read {}", path.display()))?;
        if count == 0 {
            break;
        }
        hasher.update(&buffer[..count]);
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The running program: its path and its hash.
pub fn program() -> Result<(PathBuf, String)> {
    let path = std::env::current_exe().context("the path of the program is not known")?;
    let hash = sha256(&path)?;
    Ok((path, hash))
}

/// What the run was made with.
pub fn describe(pipeline: &Pipeline, threads: usize, device: &str) -> Result<Value> {
    let (path, hash) = program()?;
    let plugins: Vec<Value> = pipeline
        .schemes()
        .map(|scheme| {
            let origin = scheme.origin();
            json!({
                "scheme": scheme.label(),
                "plugin": origin.name,
                "version": origin.version,
                "path": origin.path,
                "sha256": origin.sha256,
            })
        })
        .collect();
    Ok(json!({
        "accredit": env!("CARGO_PKG_VERSION"),
        "program": { "path": path, "sha256": hash },
        "command": std::env::args().collect::<Vec<_>>(),
        "device": device,
        "threads": threads,
        "plugins": plugins,
        "started": jiff::Timestamp::now().to_string(),
    }))
}
