//! Weight files in the safetensors format: which tensors go into which, and what stands at their beginning.

use std::{collections::HashMap, path::Path};

use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::{Map, Value, json};

use crate::{
    error::{Error, Result},
    import::Dtype,
    tensors::Target,
};

/// A weight file.
pub(crate) struct Shard<'a> {
    pub file: String,
    pub targets: &'a [Target<'a>],
}

/// Deals tensors to files, in order, none larger than `most` bytes unless a tensor alone is.
pub(crate) fn shards<'a>(targets: &'a [Target<'a>], dtype: Dtype, most: u64) -> Vec<Shard<'a>> {
    let mut ends = Vec::new();
    let mut size = 0;
    for (index, target) in targets.iter().enumerate() {
        let bytes = target.source.weights * dtype.bytes();
        if size > 0 && size + bytes > most {
            ends.push(index);
            size = 0;
        }
        size += bytes;
    }
    ends.push(targets.len());
    let (count, mut start) = (ends.len(), 0);
    let shard = |(index, end): (usize, usize)| {
        let file = match count {
            1 => "model.safetensors".to_owned(),
            _ => format!("model-{:05}-of-{count:05}.safetensors", index + 1),
        };
        let shard = Shard { file, targets: &targets[start..end] };
        start = end;
        shard
    };
    ends.into_iter().enumerate().map(shard).collect()
}

/// `model.safetensors.index.json`.
pub(crate) fn index(shards: &[Shard], dtype: Dtype) -> Value {
    let mut map = Map::new();
    let mut weights = 0;
    for shard in shards {
        for target in shard.targets {
            map.insert(target.name.clone(), json!(shard.file));
            weights += target.source.weights;
        }
    }
    json!({ "metadata": { "total_parameters": weights, "total_size": weights * dtype.bytes() }, "weight_map": map })
}

impl Shard<'_> {
    /// All that comes before the weights.
    pub fn header(&self, path: &Path, dtype: Dtype) -> Result<Vec<u8>> {
        let mut end = 0;
        let info = |target: &Target| {
            let start = end;
            end += (target.source.weights * dtype.bytes()) as usize;
            let dtype = match dtype {
                Dtype::F32 => safetensors::Dtype::F32,
                Dtype::F16 => safetensors::Dtype::F16,
                Dtype::Bf16 => safetensors::Dtype::BF16,
            };
            let shape = target.source.shape.iter().map(|size| *size as usize).collect();
            (target.name.clone(), TensorInfo { dtype, shape, data_offsets: (start, end) })
        };
        // transformers asks for the format.
        let format = HashMap::from([("format".to_owned(), "pt".to_owned())]);
        let metadata = Metadata::new(Some(format), self.targets.iter().map(info).collect());
        let metadata = metadata.map_err(|e| Error::file(path, e.to_string()))?;
        let mut text = serde_json::to_vec(&metadata).map_err(|e| Error::file(path, e.to_string()))?;
        text.resize(text.len().next_multiple_of(8), b' ');
        let mut header = (text.len() as u64).to_le_bytes().to_vec();
        header.append(&mut text);
        Ok(header)
    }
}
