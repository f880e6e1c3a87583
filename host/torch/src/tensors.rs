//! Files of tensors: safetensors in one piece or in shards, read and written.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use safetensors::tensor::{Dtype, SafeTensors, TensorView, View};
use serde_json::{Value, json};
use tch::{Kind, Tensor};

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::files::write_aside;

const WEIGHTS_FILE: &str = "model.safetensors";
const INDEX_FILE: &str = "model.safetensors.index.json";

/// A tensor that is looked for in files: its name there, its shape, and the flat f32 tensor on the CPU to put it into.
pub(crate) struct Place<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) shape: &'a [usize],
    pub(crate) to: Tensor,
}

/// Fills places from the files of a model folder, or from one file of an adapter. F32, F16 and BF16 become f32. `tied` is
/// the index of the embedding of a model whose files may hold a copy of it as output layer. Errors: tensors that are
/// missing, not expected, or of another shape, by name.
pub(crate) fn read(source: &Source, places: &[Place], tied: Option<usize>) -> Result<()> {
    let by_name: HashMap<&str, &Place> = places.iter().map(|place| (place.name.as_ref(), place)).collect();
    let mut seen = BTreeSet::new();
    let (mut extra, mut misshaped, mut tied_head) = (Vec::new(), Vec::new(), None);
    for path in &source.files {
        let file = File::open(path).map_err(|e| Error::io(path, e))?;
        // SAFETY: the map is read-only and lives for this loop only. A file that another program changes meanwhile
        // gives wrong numbers, as reading it in pieces would.
        let map = unsafe { Mmap::map(&file) }.map_err(|e| Error::io(path, e))?;
        let tensors = SafeTensors::deserialize(&map).map_err(|e| Error::file(path, e))?;
        for (name, view) in tensors.iter() {
            let Some(place) = by_name.get(name) else {
                if tied.is_some() && name == "lm_head.weight" {
                    tied_head = Some(as_f32(path, name, &view)?);
                } else {
                    extra.push(name.to_owned());
                }
                continue;
            };
            seen.insert(place.name.as_ref());
            if view.shape() != place.shape {
                misshaped.push((name.to_owned(), format!("{:?}", view.shape()), format!("{:?}", place.shape)));
                continue;
            }
            place.to.shallow_clone().f_copy_(&as_f32(path, name, &view)?.f_view([-1])?)?;
        }
    }
    let names = places.iter().map(|place| place.name.as_ref());
    let missing: Vec<String> = names.filter(|name| !seen.contains(name)).map(str::to_owned).collect();
    // Some tied models carry a copy of the embedding as their output layer.
    if let (Some(head), Some(embedding)) = (tied_head, tied)
        && missing.is_empty()
        && misshaped.is_empty()
        && !head.f_view([-1])?.f_equal(&places[embedding].to)?
    {
        extra.push("lm_head.weight (tie_word_embeddings is true, and it differs from the embedding)".to_owned());
    }
    if missing.is_empty() && extra.is_empty() && misshaped.is_empty() {
        return Ok(());
    }
    extra.sort_unstable();
    misshaped.sort_unstable();
    Err(Error::Tensors { path: source.named.clone(), missing, extra, misshaped })
}

/// Files that hold tensors together.
pub(crate) struct Source {
    /// What to name in errors.
    named: PathBuf,
    files: Vec<PathBuf>,
}

impl Source {
    pub(crate) fn file(path: PathBuf) -> Self {
        Self { named: path.clone(), files: vec![path] }
    }

    /// `model.safetensors` of a model folder, or the shards of `model.safetensors.index.json`.
    pub(crate) fn model(folder: &Path) -> Result<Self> {
        let single = folder.join(WEIGHTS_FILE);
        let index = folder.join(INDEX_FILE);
        if single.exists() || !index.exists() {
            return Ok(Self::file(single));
        }
        let text = fs::read_to_string(&index).map_err(|e| Error::io(&index, e))?;
        let value: Value = serde_json::from_str(&text).map_err(|e| Error::file(&index, e))?;
        let map = value.get("weight_map").and_then(Value::as_object);
        let map = map.ok_or_else(|| Error::file(&index, "no object `weight_map`"))?;
        let mut names = BTreeSet::new();
        for (tensor, file) in map {
            // A shard lies in the folder itself.
            let plain = file.as_str().filter(|file| Path::new(file).file_name().is_some_and(|name| name == *file));
            names.insert(
                plain.ok_or_else(|| Error::file(&index, format!("`weight_map`: {tensor}: {file} is no file name")))?,
            );
        }
        let files = names.into_iter().map(|name| folder.join(name)).collect();
        Ok(Self { named: index, files })
    }
}

/// A tensor of a file as f32 on the CPU.
fn as_f32(path: &Path, name: &str, view: &TensorView) -> Result<Tensor> {
    let kind = match view.dtype() {
        Dtype::F32 => Kind::Float,
        Dtype::F16 => Kind::Half,
        Dtype::BF16 => Kind::BFloat16,
        other => {
            return Err(Error::file(path, format!("{name}: type {other:?} is not supported, only F32, F16, BF16")));
        }
    };
    let shape: Vec<i64> = view.shape().iter().map(|n| *n as i64).collect();
    Ok(Tensor::f_from_data_size(view.data(), &shape, kind)?.f_to_kind(Kind::Float)?)
}

/// The bytes of a contiguous tensor on the CPU, without a copy.
pub(crate) fn bytes(tensor: &Tensor) -> Result<&[u8]> {
    if tensor.device() != tch::Device::Cpu || !tensor.is_contiguous() {
        return Err(Error::torch("expected a contiguous tensor on the CPU"));
    }
    let len = tensor.numel() * tensor.f_kind()?.elt_size_in_bytes();
    // SAFETY: the storage holds `numel` numbers in a row, as was just checked, and lives as long as the borrowed tensor. No
    // one writes while `tensor` is borrowed: views of it are written by the optimiser and by gradients only, on the
    // thread that owns the model.
    Ok(unsafe { std::slice::from_raw_parts(tensor.data_ptr().cast(), len) })
}

/// A tensor to write: its name, its shape, and its numbers in a row.
pub(crate) struct Named<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) shape: &'a [usize],
    pub(crate) numbers: Tensor,
}

/// Writes a model's tensors into a folder: `model.safetensors`, or shards of at most `shard_bytes` with their index. Each
/// file is written aside first.
pub(crate) fn write_model(folder: &Path, tensors: &[Named], dtype: DType, shard_bytes: usize) -> Result<()> {
    let room = |tensor: &Named| tensor.numbers.numel() * dtype.bytes();
    let mut shards: Vec<&[Named]> = Vec::new();
    let (mut start, mut held) = (0, 0);
    for (index, tensor) in tensors.iter().enumerate() {
        if held > 0 && held + room(tensor) > shard_bytes {
            shards.push(&tensors[start..index]);
            (start, held) = (index, 0);
        }
        held += room(tensor);
    }
    shards.push(&tensors[start..]);
    let (single, index) = (folder.join(WEIGHTS_FILE), folder.join(INDEX_FILE));
    if let [all] = shards.as_slice() {
        write(&single, all, dtype, [])?;
        return remove(&index);
    }
    let mut weight_map = serde_json::Map::new();
    for (number, shard) in shards.iter().enumerate() {
        let file = format!("model-{:05}-of-{:05}.safetensors", number + 1, shards.len());
        write(&folder.join(&file), shard, dtype, [])?;
        weight_map.extend(shard.iter().map(|tensor| (tensor.name.to_string(), json!(file))));
    }
    let total: usize = tensors.iter().map(room).sum();
    let text = format!("{:#}\n", json!({ "metadata": { "total_size": total }, "weight_map": weight_map }));
    write_aside(&index, |to| fs::write(to, text).map_err(|e| Error::io(to, e)))?;
    remove(&single)
}

/// Removes what an earlier model in the same folder has left.
fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io(path, error)),
        _ => Ok(()),
    }
}

/// Writes tensors of one type to a file, aside first, with metadata beside `format`, which transformers wants to be `pt`.
pub(crate) fn write(
    path: &Path,
    tensors: &[Named],
    dtype: DType,
    metadata: impl IntoIterator<Item = (&'static str, String)>,
) -> Result<()> {
    let converted = tensors.iter().map(|tensor| {
        let numbers = tensor.numbers.f_to_device(tch::Device::Cpu)?.f_to_kind(dtype.kind())?;
        Ok(numbers.f_contiguous()?)
    });
    let converted = converted.collect::<Result<Vec<_>>>()?;
    let mut views = Vec::with_capacity(tensors.len());
    for (tensor, numbers) in tensors.iter().zip(&converted) {
        views.push((&tensor.name, Stored { dtype, shape: tensor.shape, bytes: bytes(numbers)? }));
    }
    let metadata = [("format", "pt".to_owned())].into_iter().chain(metadata);
    let metadata = metadata.map(|(key, value)| (key.to_owned(), value)).collect();
    write_aside(path, |partial| {
        // The file that safetensors makes can be read by its owner only; a model is as readable as any other file.
        let created = File::create(partial).and_then(|file| file.metadata()).map_err(|e| Error::io(partial, e))?;
        safetensors::serialize_to_file(views, Some(metadata), partial).map_err(|e| Error::file(partial, e))?;
        fs::set_permissions(partial, created.permissions()).map_err(|e| Error::io(partial, e))
    })
}

/// Numbers that are about to be written.
struct Stored<'a> {
    dtype: DType,
    shape: &'a [usize],
    bytes: &'a [u8],
}

impl View for Stored<'_> {
    fn dtype(&self) -> Dtype {
        self.dtype.in_files()
    }

    fn shape(&self) -> &[usize] {
        self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        self.bytes.into()
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}
