//! A GGUF file becomes a model folder: planned as a whole, so that everything is refused before anything is written, then
//! written beside its place and renamed.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use half::{
    bf16, f16,
    slice::{HalfBitsSliceExt, HalfFloatSliceExt},
};
use serde_json::{Map, Value, json};

use crate::{
    architecture::{Shape, config},
    dequantize::dequantize,
    error::{Error, Result},
    file::Gguf,
    shards::{Shard, index, shards},
    tensor_type::{F16, F32},
    tensors::{Target, targets},
    tokenizer::Tokenizer,
};

/// Weights that are converted at a time.
const CHUNK: usize = 1 << 18;
/// Size of a weight file; transformers' own limit.
const SHARD_BYTES: u64 = 5_000_000_000;

/// The type of weights that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// 32 bits: every quantised weight to its last bit.
    F32,
    /// 16 bits, five of them for the exponent.
    F16,
    /// 16 bits with the range of f32.
    Bf16,
}

impl Dtype {
    /// The type that loses nothing where the file's weights are plain numbers, and bf16, which models are published in,
    /// where they are quantised: rounding to it is small against what quantisation has taken.
    fn auto(targets: &[Target]) -> Self {
        let mut matrices =
            targets.iter().filter(|target| target.source.shape.len() > 1).map(|target| target.source.kind);
        let Some(first) = matrices.next() else { return Self::F32 };
        let same = matrices.all(|kind| kind == first);
        match first {
            F32 if same => Self::F32,
            F16 if same => Self::F16,
            _ => Self::Bf16,
        }
    }

    /// Bytes of a weight.
    pub(crate) fn bytes(self) -> u64 {
        if self == Self::F32 { 4 } else { 2 }
    }

    /// What transformers calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::F16 => "float16",
            Self::Bf16 => "bfloat16",
        }
    }
}

/// What a GGUF file becomes.
#[derive(Debug)]
pub struct Plan<'a> {
    gguf: &'a Gguf,
    config: Map<String, Value>,
    tokenizer: Tokenizer,
    targets: Vec<Target<'a>>,
    /// A weight file is begun where the one before would grow larger than this.
    pub shard_bytes: u64,
}

impl<'a> Plan<'a> {
    /// Reads what the file says. Errors: an architecture, a tokenizer, a tensor or a key that is not supported.
    pub fn new(gguf: &'a Gguf) -> Result<Self> {
        let shape = Shape::read(gguf)?;
        let mut config = config(gguf, &shape)?;
        let targets = targets(gguf, &shape)?;
        let positions = config.get("max_position_embeddings").and_then(Value::as_u64).unwrap_or_default();
        let tokenizer = Tokenizer::read(&gguf.keys(), shape.vocabulary, positions)?;
        config.extend(tokenizer.ids.clone());
        Ok(Self { gguf, config, tokenizer, targets, shard_bytes: SHARD_BYTES })
    }

    /// Number of weights.
    pub fn weights(&self) -> u64 {
        self.targets.iter().map(|target| target.source.weights).sum()
    }

    /// The type of weights that loses nothing that matters.
    pub fn auto_dtype(&self) -> Dtype {
        Dtype::auto(&self.targets)
    }

    /// What stands in `config.json`, but for the type of the weights.
    pub fn config(&self) -> &Map<String, Value> {
        &self.config
    }

    pub(crate) fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Writes the folder. `progress` hears how many weights are done, and may ask to stop. Errors: a folder that is not
    /// empty, a weight that is no number, a disk that is full. After an error nothing is left behind.
    pub fn write(&self, folder: &Path, dtype: Dtype, mut progress: impl FnMut(u64) -> ControlFlow<()>) -> Result<()> {
        let place = Place::new(folder)?;
        let mut config = self.config.clone();
        config.insert("torch_dtype".to_owned(), json!(dtype.name()));
        write_json(&place.inside("config.json"), &Value::Object(config))?;
        write_json(&place.inside("generation_config.json"), &Value::Object(self.tokenizer.generation.clone()))?;
        write_json(&place.inside("tokenizer.json"), &self.tokenizer.tokenizer)?;
        write_json(&place.inside("tokenizer_config.json"), &Value::Object(self.tokenizer.config.clone()))?;
        let shards = shards(&self.targets, dtype, self.shard_bytes);
        if shards.len() > 1 {
            write_json(&place.inside("model.safetensors.index.json"), &index(&shards, dtype))?;
        }
        let mut done = 0;
        for shard in &shards {
            self.write_shard(&place.inside(&shard.file), shard, dtype, &mut |weights| {
                done += weights;
                progress(done)
            })?;
        }
        place.finish()
    }

    fn write_shard(
        &self,
        path: &Path,
        shard: &Shard,
        dtype: Dtype,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<()> {
        let io = |e| Error::io(path, e);
        let mut file = BufWriter::new(File::create(path).map_err(io)?);
        file.write_all(&shard.header(path, dtype)?).map_err(io)?;
        let (mut weights, mut encoded) = (Vec::with_capacity(CHUNK), Vec::new());
        for target in shard.targets {
            let source = self.gguf.bytes(target.source);
            let rows = target.rows();
            let row_bytes = source.len() / rows as usize;
            for row in 0..rows {
                let start = target.source_row(row) as usize * row_bytes;
                dequantize(target.source.kind, &source[start..start + row_bytes], &mut weights);
                if weights.len() >= CHUNK || row + 1 == rows {
                    encode(&weights, dtype, &mut encoded)
                        .map_err(|message| Error::tensor(self.gguf.path(), &target.source.name, message))?;
                    file.write_all(&encoded).map_err(io)?;
                    if progress(weights.len() as u64).is_break() {
                        return Err(Error::Stopped);
                    }
                    weights.clear();
                }
            }
        }
        file.into_inner().map_err(|e| io(e.into_error()))?.sync_all().map_err(io)
    }
}

/// The bytes of weights. Errors: one that is no number, or too large for the type.
fn encode(weights: &[f32], dtype: Dtype, out: &mut Vec<u8>) -> Result<(), String> {
    if let Some(weight) = weights.iter().find(|weight| !weight.is_finite()) {
        return Err(format!("has a weight that is {weight}; the file is damaged"));
    }
    out.clear();
    let mut halves = vec![0_u16; if dtype == Dtype::F32 { 0 } else { weights.len() }];
    let infinity = match dtype {
        Dtype::F32 => {
            out.extend(weights.iter().flat_map(|weight| weight.to_le_bytes()));
            return Ok(());
        }
        Dtype::F16 => {
            halves.reinterpret_cast_mut::<f16>().convert_from_f32_slice(weights);
            f16::INFINITY.to_bits()
        }
        Dtype::Bf16 => {
            halves.reinterpret_cast_mut::<bf16>().convert_from_f32_slice(weights);
            bf16::INFINITY.to_bits()
        }
    };
    for (half, weight) in halves.into_iter().zip(weights) {
        if half & infinity == infinity {
            return Err(format!("has a weight of {weight}, which {} cannot hold; f32 can", dtype.name()));
        }
        out.extend(half.to_le_bytes());
    }
    Ok(())
}

fn write_json(path: &Path, value: &Value) -> Result<()> {
    let write = || {
        let mut file = File::create(path)?;
        file.write_all(format!("{value:#}\n").as_bytes())?;
        file.sync_all()
    };
    write().map_err(|e| Error::io(path, e))
}

/// The folder that is being written, beside its place. What is not finished is removed.
struct Place {
    folder: PathBuf,
    aside: PathBuf,
    scratch: tempfile::TempDir,
}

impl Place {
    fn new(folder: &Path) -> Result<Self> {
        let name = folder.file_name().ok_or_else(|| Error::file(folder, "has no name, expected a folder to make"))?;
        match fs::read_dir(folder).map(|mut entries| entries.next().is_none()) {
            Ok(true) => {}
            Ok(false) => {
                return Err(Error::file(folder, "is there already and not empty; give another folder, or remove it"));
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(Error::io(folder, e)),
        }
        let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(parent).map_err(|e| Error::io(parent, e))?;
        let scratch =
            tempfile::Builder::new().prefix(".import-").tempdir_in(parent).map_err(|e| Error::io(parent, e))?;
        // The scratch folder is its owner's alone; the model's is like any other.
        let aside = scratch.path().join(name);
        fs::create_dir(&aside).map_err(|e| Error::io(&aside, e))?;
        Ok(Self { folder: folder.to_owned(), aside, scratch })
    }

    fn inside(&self, name: &str) -> PathBuf {
        self.aside.join(name)
    }

    fn finish(self) -> Result<()> {
        let sync = |folder: &Path| File::open(folder).and_then(|f| f.sync_all()).map_err(|e| Error::io(folder, e));
        sync(&self.aside)?;
        fs::rename(&self.aside, &self.folder).map_err(|e| Error::io(&self.folder, e))?;
        let parent = self.scratch.path().parent().map(Path::to_owned);
        self.scratch.close().map_err(|e| Error::io(&self.folder, e))?;
        parent.map_or(Ok(()), |parent| sync(&parent))
    }
}
