//! Reads what a Hugging Face model folder says about itself. Weights are not read, only what stands before them.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{ErrorKind, Read},
    path::{Path, PathBuf},
};

use safetensors::tensor::Metadata;
use serde_json::Value;

use crate::{
    describe::Parts,
    error::{Error, Result},
};

/// Longest beginning of a weight file; the format's own limit.
const LONGEST_HEADER: u64 = 100_000_000;

/// A model folder.
pub(crate) struct Folder {
    pub parts: Parts,
    /// Type and number of weights of each tensor.
    pub weights: Vec<(String, u64)>,
    /// Bytes of the weight files.
    pub bytes: u64,
    pub problems: Vec<String>,
}

pub(crate) fn read(folder: &Path) -> Result<Folder> {
    let path = folder.join("config.json");
    let config = match read_json(&path)? {
        Value::Object(config) => config,
        Value::Null => return Err(Error::file(folder, "has no config.json, expected a Hugging Face model folder")),
        _ => return Err(Error::file(&path, "expected a JSON object")),
    };
    let tokenizer_config = read_json(&folder.join("tokenizer_config.json"))?;
    let chat_template = !tokenizer_config["chat_template"].is_null() || folder.join("chat_template.jinja").exists();
    let parts = Parts {
        config,
        generation: read_json(&folder.join("generation_config.json"))?,
        tokenizer: read_json(&folder.join("tokenizer.json"))?,
        tokenizer_config,
        chat_template,
    };
    let mut weights = Vec::new();
    let mut bytes = 0;
    let mut problems = Vec::new();
    let files = weight_files(folder)?;
    if files.is_empty() {
        problems.push(format!("{} has no model.safetensors", folder.display()));
    }
    for path in files {
        let (header, size) = read_header(&path)?;
        bytes += size;
        for name in header.offset_keys() {
            if let Some(info) = header.info(&name) {
                weights.push((format!("{:?}", info.dtype), info.shape.iter().map(|size| *size as u64).product()));
            }
        }
    }
    Ok(Folder { parts, weights, bytes, problems })
}

/// A JSON file; null where there is none.
fn read_json(path: &Path) -> Result<Value> {
    match fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text).map_err(|e| Error::file(path, e.to_string())),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(Value::Null),
        Err(e) => Err(Error::io(path, e)),
    }
}

fn weight_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let (single, index) = (folder.join("model.safetensors"), folder.join("model.safetensors.index.json"));
    if single.exists() {
        return Ok(vec![single]);
    }
    let map = match read_json(&index)? {
        Value::Null => return Ok(Vec::new()),
        value => value["weight_map"].as_object().cloned(),
    };
    let map = map.ok_or_else(|| Error::key(&index, "weight_map", "missing, expected tensors and their files"))?;
    let mut names = BTreeSet::new();
    for (tensor, file) in &map {
        // A shard lies in the folder itself.
        let name = file.as_str().filter(|file| Path::new(file).file_name().is_some_and(|name| name == *file));
        names.insert(name.ok_or_else(|| Error::key(&index, tensor, format!("{file} is no file name")))?);
    }
    Ok(names.into_iter().map(|name| folder.join(name)).collect())
}

/// What stands before the weights, and the size of the file.
fn read_header(path: &Path) -> Result<(Metadata, u64)> {
    let io = |e| Error::io(path, e);
    let mut file = File::open(path).map_err(io)?;
    let size = file.metadata().map_err(io)?.len();
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(io)?;
    let length = u64::from_le_bytes(length);
    if length > LONGEST_HEADER || length + 8 > size {
        let message = format!("not a safetensors file: its header would have {length} of {size} bytes");
        return Err(Error::file(path, message));
    }
    let mut text = vec![0; length as usize];
    file.read_exact(&mut text).map_err(io)?;
    let header: Metadata = serde_json::from_slice(&text).map_err(|e| Error::file(path, e.to_string()))?;
    let expected = length + 8 + header.data_len() as u64;
    if expected != size {
        return Err(Error::file(path, format!("has {size} bytes, expected {expected}; is it cut short?")));
    }
    Ok((header, size))
}
