//! Files of tensors: safetensors in one piece or in shards, read and written.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use safetensors::tensor::{Dtype, Metadata, SafeTensorError, SafeTensors, TensorView, View};
use serde_json::{Value, json};
use tch::{Kind, Tensor};

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::files::write_aside;

const WEIGHTS_FILE: &str = "model.safetensors";
const INDEX_FILE: &str = "model.safetensors.index.json";
/// The output layer.
const HEAD: &str = "lm_head.weight";

/// A tensor that is looked for in files: its name there, its shape, and the flat f32 tensor on the CPU to put it into.
pub(crate) struct Place<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) shape: &'a [usize],
    pub(crate) to: Tensor,
}

/// What is looked for in files: the names there and the shapes, and whether there may be a copy of the embedding as output
/// layer. Errors: tensors that are missing, not expected, or of another shape, by name; a file that is cut. Only what
/// stands before the numbers is read, so that nothing has to be made room for first.
pub(crate) fn check<'a>(
    source: &Source,
    wanted: impl IntoIterator<Item = (Cow<'a, str>, &'a [usize])>,
    tied: bool,
) -> Result<()> {
    let wanted: Vec<(Cow<str>, &[usize])> = wanted.into_iter().collect();
    let by_name: HashMap<&str, &[usize]> = wanted.iter().map(|(name, shape)| (name.as_ref(), *shape)).collect();
    let mut seen = BTreeSet::new();
    let (mut extra, mut misshaped) = (Vec::new(), Vec::new());
    for path in &source.files {
        let map = mapped(path)?;
        for (name, view) in parsed(path, &map)?.iter() {
            let Some((known, shape)) = by_name.get_key_value(name) else {
                if !(tied && name == HEAD) {
                    extra.push(name.to_owned());
                }
                continue;
            };
            seen.insert(*known);
            if view.shape() != *shape {
                misshaped.push((name.to_owned(), format!("{:?}", view.shape()), format!("{shape:?}")));
            }
        }
    }
    let names = wanted.iter().map(|(name, _)| name.as_ref());
    let missing: Vec<String> = names.filter(|name| !seen.contains(name)).map(str::to_owned).collect();
    if missing.is_empty() && extra.is_empty() && misshaped.is_empty() {
        return Ok(());
    }
    extra.sort_unstable();
    misshaped.sort_unstable();
    Err(Error::Tensors { path: source.named.clone(), missing, extra, misshaped })
}

/// Fills places from the files of a model folder, or from one file of an adapter. F32, F16 and BF16 become f32. `tied` is
/// the index of the embedding of a model whose files may hold a copy of it as output layer. Errors: as [`check`], which is
/// done first, and numbers that are not finite.
pub(crate) fn read(source: &Source, places: &[Place], tied: Option<usize>) -> Result<()> {
    check(source, places.iter().map(|place| (place.name.clone(), place.shape)), tied.is_some())?;
    let by_name: HashMap<&str, &Place> = places.iter().map(|place| (place.name.as_ref(), place)).collect();
    let mut tied_head = None;
    for path in &source.files {
        let map = mapped(path)?;
        for (name, view) in parsed(path, &map)?.iter() {
            let numbers = as_f32(path, name, &view)?;
            check_finite(path, name, &numbers)?;
            match by_name.get(name) {
                Some(place) => place.to.shallow_clone().f_copy_(&numbers.f_view([-1])?)?,
                None => tied_head = Some(numbers),
            }
        }
    }
    // Some tied models carry a copy of the embedding as their output layer.
    if let (Some(head), Some(embedding)) = (tied_head, tied) {
        let embedding = &places[embedding].to;
        if head.numel() != embedding.numel() || !head.f_view([-1])?.f_equal(embedding)? {
            let extra = vec![format!("{HEAD} (tie_word_embeddings is true, and it differs from the embedding)")];
            return Err(Error::Tensors { path: source.named.clone(), missing: vec![], extra, misshaped: vec![] });
        }
    }
    Ok(())
}

pub(crate) fn mapped(path: &Path) -> Result<Mmap> {
    let file = File::open(path).map_err(|e| Error::io(path, e))?;
    // SAFETY: the map is read-only and lives for a loop only. A file that another program changes meanwhile gives wrong
    // numbers, as reading it in pieces would.
    unsafe { Mmap::map(&file) }.map_err(|e| Error::io(path, e))
}

/// A file's tensors. Errors: none of them, or cut.
pub(crate) fn parsed<'a>(path: &Path, bytes: &'a [u8]) -> Result<SafeTensors<'a>> {
    SafeTensors::deserialize(bytes).map_err(|error| {
        let cut = matches!(error, SafeTensorError::MetadataIncompleteBuffer);
        let message = match declared(bytes).filter(|_| cut) {
            Some(expected) => format!("has {} bytes, expected {expected}; is it cut short?", bytes.len()),
            None => format!("not a safetensors file: {error}"),
        };
        Error::file(path, message)
    })
}

/// The length that a file should have, as its header says.
fn declared(bytes: &[u8]) -> Option<usize> {
    let length = usize::try_from(u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?)).ok()?;
    let begin = length.checked_add(8)?;
    let header: Metadata = serde_json::from_slice(bytes.get(8..begin)?).ok()?;
    begin.checked_add(header.data_len())
}

/// Refuses NaN and infinity, which would spread.
pub(crate) fn check_finite(path: &Path, name: &str, numbers: &Tensor) -> Result<()> {
    if finite(numbers)? { Ok(()) } else { Err(Error::file(path, format!("{name} holds NaN or infinity"))) }
}

/// Whether all numbers are.
fn finite(numbers: &Tensor) -> Result<bool> {
    // A sum is one pass without a buffer; finite numbers can have an infinite one.
    if numbers.f_sum(Kind::Float)?.f_double_value(&[])?.is_finite() {
        return Ok(true);
    }
    Ok(numbers.f_isfinite()?.f_all()?.f_int64_value(&[])? != 0)
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
/// Errors: a number that the type cannot hold.
pub(crate) fn write(
    path: &Path,
    tensors: &[Named],
    dtype: DType,
    metadata: impl IntoIterator<Item = (&'static str, String)>,
) -> Result<()> {
    let converted = tensors.iter().map(|tensor| {
        let numbers = tensor.numbers.f_to_device(tch::Device::Cpu)?.f_to_kind(dtype.kind())?;
        if dtype != DType::F32 && !finite(&numbers)? {
            let message = format!("{} holds a number that is too large for {}", tensor.name, dtype.name());
            return Err(Error::file(path, message));
        }
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
