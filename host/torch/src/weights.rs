//! All weights of a model in one flat f32 buffer, and their gradients in another of the same layout.
//!
//! The optimiser, the gradient norm and a copy of the model are then one operation over one buffer. A parameter is a
//! detached view of the buffer, and its gradient a view of the gradient buffer: slices of one autograd leaf would make
//! every backward pass fill buffers of full size.
//!
//! q, k and v share a slot, stacked by rows, since they are multiplied with the same input and rotated together. Hugging
//! Face's tensors are contiguous parts of the slots.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use accredit_core::rng::{Purpose, Stream};
use memmap2::Mmap;
use safetensors::tensor::{Dtype, SafeTensors, TensorView, View};
use serde_json::Value;
use tch::{Kind, Tensor};

use crate::config::Shape;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::files::write_aside;
use crate::shim;
use crate::snapshot::on_cpu;

const WEIGHTS_FILE: &str = "model.safetensors";
const INDEX_FILE: &str = "model.safetensors.index.json";

/// Slots begin at multiples of this many elements (128 bytes), so that vector loads are aligned. The gap after a slot
/// holds zeros, with zero gradients, so that norms and updates over the whole buffer are right.
const ALIGNMENT: usize = 32;

/// How a tensor of a new model is filled.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Initial {
    Normal,
    Zeros,
    Ones,
}

/// One Hugging Face tensor: where it lies in the flat buffer.
#[derive(Clone, Debug)]
struct Named {
    name: String,
    offset: usize,
    shape: Vec<usize>,
    initial: Initial,
}

impl Named {
    fn len(&self) -> usize {
        self.shape.iter().product()
    }
}

/// One parameter: a part of the flat buffer with a shape.
#[derive(Clone, Debug)]
struct Slot {
    offset: usize,
    shape: Vec<i64>,
}

impl Slot {
    /// Whether weight decay is for it: for matrices, and not for norms and biases.
    fn decays(&self) -> bool {
        self.shape.len() > 1
    }
}

/// What is to become a slot: named tensors, stacked by rows.
struct Wanted {
    /// Names, with the number of rows of each.
    parts: Vec<(String, usize)>,
    /// Columns of matrices; none for vectors.
    columns: Option<usize>,
    initial: Initial,
}

impl Wanted {
    fn matrix(parts: impl IntoIterator<Item = (String, usize)>, columns: usize) -> Self {
        Self { parts: parts.into_iter().collect(), columns: Some(columns), initial: Initial::Normal }
    }

    fn vector(parts: impl IntoIterator<Item = (String, usize)>, initial: Initial) -> Self {
        Self { parts: parts.into_iter().collect(), columns: None, initial }
    }

    fn rows(&self) -> usize {
        self.parts.iter().map(|(_, rows)| rows).sum()
    }

    /// Its room in the flat buffer.
    fn room(&self) -> usize {
        (self.rows() * self.columns.unwrap_or(1)).next_multiple_of(ALIGNMENT)
    }
}

/// Where everything lies in the flat buffer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    slots: Vec<Slot>,
    tensors: Vec<Named>,
    len: usize,
}

impl Layout {
    /// A language model: the trunk, then the output layer unless it is tied.
    pub(crate) fn new(shape: &Shape) -> Self {
        let mut layout = Self::trunk(shape);
        if !shape.tied {
            layout.add(vec![Wanted::matrix([("lm_head.weight".to_owned(), shape.vocab_size)], shape.hidden_size)]);
        }
        layout
    }

    /// A critic with a trunk of its own: the trunk, at the same places as in a language model of the same shape, then
    /// the value head.
    pub(crate) fn critic(shape: &Shape) -> Self {
        let mut layout = Self::trunk(shape);
        layout.add_value_head(shape);
        layout
    }

    /// A value head alone: `[1, D]`, then `[1]`.
    pub(crate) fn value_head(shape: &Shape) -> Self {
        let mut layout = Self::default();
        layout.add_value_head(shape);
        layout
    }

    /// Slots in the order that [`crate::model`] takes them: embedding; per layer input norm, q/k/v weight, q/k/v bias and
    /// q/k norm where the family has them, output, second norm, gate, up, down; last norm.
    pub(crate) fn trunk(shape: &Shape) -> Self {
        let (hidden, inner, width) = (shape.hidden_size, shape.intermediate_size, shape.head_dim());
        let query = shape.heads * width;
        let key = shape.kv_heads * width;
        let mut wanted = vec![Wanted::matrix([("model.embed_tokens.weight".to_owned(), shape.vocab_size)], hidden)];
        for layer in 0..shape.layers {
            let named = |name: &str| format!("model.layers.{layer}.{name}");
            let norm = |name: &str| Wanted::vector([(named(name), hidden)], Initial::Ones);
            let matrix = |name: &str, rows, columns| Wanted::matrix([(named(name), rows)], columns);
            let qkv = |kind: &str| {
                [("q", query), ("k", key), ("v", key)]
                    .map(|(part, rows)| (named(&format!("self_attn.{part}_proj.{kind}")), rows))
            };
            wanted.push(norm("input_layernorm.weight"));
            wanted.push(Wanted::matrix(qkv("weight"), hidden));
            if shape.qkv_bias() {
                wanted.push(Wanted::vector(qkv("bias"), Initial::Zeros));
            }
            if shape.qk_norm() {
                let parts = ["q", "k"].map(|part| (named(&format!("self_attn.{part}_norm.weight")), width));
                wanted.push(Wanted::vector(parts, Initial::Ones));
            }
            wanted.push(matrix("self_attn.o_proj.weight", hidden, query));
            wanted.push(norm("post_attention_layernorm.weight"));
            wanted.push(matrix("mlp.gate_proj.weight", inner, hidden));
            wanted.push(matrix("mlp.up_proj.weight", inner, hidden));
            wanted.push(matrix("mlp.down_proj.weight", hidden, inner));
        }
        wanted.push(Wanted::vector([("model.norm.weight".to_owned(), hidden)], Initial::Ones));
        let mut layout = Self::default();
        layout.add(wanted);
        layout
    }

    /// Number of weights.
    pub(crate) fn count(&self) -> usize {
        self.tensors.iter().map(Named::len).sum()
    }

    /// The flat buffer cut where weight decay begins or ends: lengths, and whether it is for that part.
    pub(crate) fn decay_parts(&self) -> Vec<(usize, bool)> {
        let mut slots: Vec<&Slot> = self.slots.iter().collect();
        slots.sort_by_key(|slot| slot.offset);
        let mut begins: Vec<(usize, bool)> = slots.iter().map(|slot| (slot.offset, slot.decays())).collect();
        begins.dedup_by_key(|(_, decays)| *decays);
        let ends = begins.iter().skip(1).map(|(offset, _)| *offset).chain([self.len]);
        begins.iter().zip(ends).map(|((begin, decays), end)| (end - begin, *decays)).collect()
    }

    /// Hugging Face's names in a model that classifies tokens, which is what a critic is.
    fn add_value_head(&mut self, shape: &Shape) {
        let weight = Wanted::matrix([("score.weight".to_owned(), 1)], shape.hidden_size);
        let bias = Wanted::vector([("score.bias".to_owned(), 1)], Initial::Zeros);
        self.add(vec![Wanted { initial: Initial::Zeros, ..weight }, bias]);
    }

    /// Adds slots in this order. In the buffer the vectors lie before the matrices, so that those without weight decay
    /// are one part.
    fn add(&mut self, wanted: Vec<Wanted>) {
        let vectors: usize = wanted.iter().filter(|slot| slot.columns.is_none()).map(Wanted::room).sum();
        let (mut vector, mut matrix) = (self.len, self.len + vectors);
        for slot in wanted {
            let next = if slot.columns.is_none() { &mut vector } else { &mut matrix };
            let mut offset = *next;
            *next += slot.room();
            let shape = std::iter::once(slot.rows()).chain(slot.columns).map(|n| n as i64).collect();
            self.slots.push(Slot { offset, shape });
            for (name, rows) in slot.parts {
                let shape = std::iter::once(rows).chain(slot.columns).collect();
                let tensor = Named { name, offset, shape, initial: slot.initial };
                offset += tensor.len();
                self.tensors.push(tensor);
            }
        }
        self.len = matrix;
    }
}

/// The flat buffers and the views into them.
#[derive(Debug)]
pub(crate) struct Weights {
    layout: Layout,
    /// `[layout.len]`, f32.
    pub(crate) flat: Tensor,
    /// Views of `flat`, one per slot, in the layout's order.
    pub(crate) parameters: Vec<Tensor>,
    /// The gradient buffer, `[layout.len]`, and its views; none in a frozen model.
    pub(crate) gradient: Option<(Tensor, Vec<Tensor>)>,
    /// Counts changes of the weights, so that what was derived from older ones can be refused.
    pub(crate) version: Arc<AtomicU64>,
}

impl Weights {
    fn new(layout: Layout, flat: Tensor) -> Result<Self> {
        let parameters = views(&layout, &flat)?;
        Ok(Self { layout, flat, parameters, gradient: None, version: Arc::default() })
    }

    /// New weights: matrices normal with `shape.initializer_range` as their standard deviation, biases 0, norms 1. A
    /// function of the seed and the shape alone.
    pub(crate) fn create(shape: &Shape, seed: u64, device: Device) -> Result<Self> {
        let layout = Layout::new(shape);
        let mut values = vec![0.0_f32; layout.len];
        for (index, tensor) in layout.tensors.iter().enumerate() {
            let values = &mut values[tensor.offset..tensor.offset + tensor.len()];
            match tensor.initial {
                Initial::Normal => {
                    fill_normal(
                        values,
                        Stream::new(seed, Purpose::Weights).with(index as u64),
                        shape.initializer_range,
                    );
                }
                Initial::Zeros => values.fill(0.0),
                Initial::Ones => values.fill(1.0),
            }
        }
        let flat = Tensor::f_from_slice(&values)?.f_to_device(device.0)?;
        Self::new(layout, flat)
    }

    /// A language model of a folder; see [`Weights::read`].
    pub(crate) fn load(shape: &Shape, folder: &Path, device: Device) -> Result<Self> {
        Self::read(Layout::new(shape), shape.tied, folder, device)
    }

    /// A critic with a copy of a model's trunk; see [`Layout::critic`]. Its value head is 0.
    pub(crate) fn critic(shape: &Shape, model: &Self) -> Result<Self> {
        let (layout, trunk) = (Layout::critic(shape), Layout::trunk(shape).len as i64);
        let flat = Tensor::f_zeros([layout.len as i64], (Kind::Float, model.flat.device()))?;
        flat.f_narrow(0, 0, trunk)?.f_copy_(&model.flat.f_narrow(0, 0, trunk)?)?;
        Self::new(layout, flat)
    }

    /// A value head that is 0; see [`Layout::value_head`].
    pub(crate) fn value_head(shape: &Shape, device: Device) -> Result<Self> {
        let layout = Layout::value_head(shape);
        let flat = Tensor::f_zeros([layout.len as i64], (Kind::Float, device.0))?;
        Self::new(layout, flat)
    }

    /// Reads `model.safetensors`, or the shards of `model.safetensors.index.json`, of a model folder. F32, F16 and BF16
    /// become f32. With `tied`, a file may hold a copy of the embedding as output layer. Errors: tensors that are
    /// missing, not expected, or of another shape, by name.
    pub(crate) fn read(layout: Layout, tied: bool, folder: &Path, device: Device) -> Result<Self> {
        let flat = Tensor::f_zeros([layout.len as i64], (Kind::Float, tch::Device::Cpu))?;
        let (source, files) = weight_files(folder)?;
        let by_name: HashMap<&str, &Named> =
            layout.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
        let mut seen = BTreeSet::new();
        let (mut extra, mut misshaped, mut tied_head) = (Vec::new(), Vec::new(), None);
        for path in files {
            let file = File::open(&path).map_err(|e| Error::io(&path, e))?;
            // SAFETY: the map is read-only and lives for this loop only. A file that another program changes meanwhile
            // gives wrong numbers, as reading it in pieces would.
            let map = unsafe { Mmap::map(&file) }.map_err(|e| Error::io(&path, e))?;
            let tensors = SafeTensors::deserialize(&map).map_err(|e| Error::file(&path, e))?;
            for (name, view) in tensors.iter() {
                let Some(place) = by_name.get(name) else {
                    if tied && name == "lm_head.weight" {
                        tied_head = Some(as_f32(&path, name, &view)?);
                    } else {
                        extra.push(name.to_owned());
                    }
                    continue;
                };
                seen.insert(place.name.as_str());
                if view.shape() != place.shape {
                    misshaped.push((name.to_owned(), format!("{:?}", view.shape()), format!("{:?}", place.shape)));
                    continue;
                }
                let values = as_f32(&path, name, &view)?;
                flat.f_narrow(0, place.offset as i64, place.len() as i64)?.f_copy_(&values.f_view([-1])?)?;
            }
        }
        let missing: Vec<String> = layout
            .tensors
            .iter()
            .map(|tensor| &tensor.name)
            .filter(|name| !seen.contains(name.as_str()))
            .cloned()
            .collect();
        // Some tied models carry a copy of the embedding as their output layer.
        if let Some(head) = tied_head
            && missing.is_empty()
            && misshaped.is_empty()
            && !head.f_equal(&views(&layout, &flat)?[0])?
        {
            extra.push("lm_head.weight (tie_word_embeddings is true, and it differs from the embedding)".to_owned());
        }
        if !(missing.is_empty() && extra.is_empty() && misshaped.is_empty()) {
            extra.sort_unstable();
            misshaped.sort_unstable();
            return Err(Error::Tensors { path: source, missing, extra, misshaped });
        }
        Self::new(layout, flat.f_to_device(device.0)?)
    }

    /// Writes `model.safetensors` into a folder, in f32.
    pub(crate) fn save(&self, folder: &Path) -> Result<()> {
        let flat = self.flat.f_to_device(tch::Device::Cpu)?;
        let bytes = f32_bytes(&flat)?;
        let tensors = self.layout.tensors.iter().map(|tensor| {
            let bytes = &bytes[4 * tensor.offset..4 * (tensor.offset + tensor.len())];
            (&tensor.name, F32View { shape: &tensor.shape, bytes })
        });
        write_safetensors(&folder.join(WEIGHTS_FILE), tensors, [("format", "pt".to_owned())])
    }

    /// Makes room for gradients and lets backward passes add them up there.
    pub(crate) fn keep_gradients(&mut self) -> Result<()> {
        if self.gradient.is_some() {
            return Ok(());
        }
        let gradient = self.flat.f_zeros_like()?;
        let gradients = views(&self.layout, &gradient)?;
        for (parameter, gradient) in self.parameters.iter().zip(&gradients) {
            let _same = parameter.f_set_requires_grad(true)?;
            shim::set_gradient(parameter, gradient)?;
        }
        self.gradient = Some((gradient, gradients));
        Ok(())
    }

    /// The same weights in a buffer of their own, without gradients.
    pub(crate) fn frozen_copy(&self, shape: &Shape) -> Result<Self> {
        Self::new(Layout::new(shape), self.flat.f_detach_copy()?)
    }

    /// The same weights on the CPU, without gradients: in a buffer of their own, or in this one if it is there.
    pub(crate) fn on_cpu(&self, copied: bool) -> Result<Self> {
        Self::new(self.layout.clone(), on_cpu(&self.flat, copied)?)
    }

    /// Moves the weights the share `rate` of the way to others of the same layout.
    pub(crate) fn follow(&self, other: &Self, rate: f64) -> Result<()> {
        let _no_grad = tch::no_grad_guard();
        let mut flat = self.flat.shallow_clone();
        if flat.size() != other.flat.size() {
            return Err(Error::argument("other", "a model of another shape"));
        }
        if rate < 1.0 {
            let _same = flat.f_lerp_(&other.flat, rate)?;
        } else {
            flat.f_copy_(&other.flat)?;
        }
        self.version.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Number of weights.
    pub(crate) fn count(&self) -> usize {
        self.layout.count()
    }

    /// See [`Layout::decay_parts`].
    pub(crate) fn decay_parts(&self) -> Vec<(usize, bool)> {
        self.layout.decay_parts()
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }
}

/// One detached view of a flat buffer per slot.
fn views(layout: &Layout, flat: &Tensor) -> Result<Vec<Tensor>> {
    let view = |slot: &Slot| {
        let len = slot.shape.iter().product();
        Ok(flat.f_narrow(0, slot.offset as i64, len)?.f_view(slot.shape.as_slice())?.f_detach()?)
    };
    layout.slots.iter().map(view).collect()
}

/// Normal numbers of mean 0 from pairs of uniform ones (Box and Muller, 1958).
fn fill_normal(values: &mut [f32], stream: Stream, deviation: f64) {
    for (pair, values) in values.chunks_mut(2).enumerate() {
        let position = 2 * pair as u64;
        // 1 - u lies in (0, 1], so the logarithm is finite.
        let radius = (-2.0 * (1.0 - stream.uniform(position)).ln()).sqrt() * deviation;
        let (sine, cosine) = (std::f64::consts::TAU * stream.uniform(position + 1)).sin_cos();
        for (value, part) in values.iter_mut().zip([cosine, sine]) {
            *value = (radius * part) as f32;
        }
    }
}

/// What to name in errors, and the files that hold the weights of a model folder.
fn weight_files(folder: &Path) -> Result<(PathBuf, Vec<PathBuf>)> {
    let single = folder.join(WEIGHTS_FILE);
    let index = folder.join(INDEX_FILE);
    if single.exists() || !index.exists() {
        return Ok((single.clone(), vec![single]));
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
    Ok((index, files))
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

/// A tensor that is about to be written.
pub(crate) struct F32View<'a> {
    pub(crate) shape: &'a [usize],
    pub(crate) bytes: &'a [u8],
}

impl View for F32View<'_> {
    fn dtype(&self) -> Dtype {
        Dtype::F32
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

/// The bytes of a contiguous f32 tensor on the CPU, without a copy.
pub(crate) fn f32_bytes(tensor: &Tensor) -> Result<&[u8]> {
    if tensor.device() != tch::Device::Cpu || tensor.f_kind()? != Kind::Float || !tensor.is_contiguous() {
        return Err(Error::torch("expected a contiguous f32 tensor on the CPU"));
    }
    // SAFETY: the storage holds `numel` f32 in a row, as was just checked, and lives as long as the borrowed tensor. No
    // one writes while `tensor` is borrowed: views of it are written by the optimiser and by gradients only, on the
    // thread that owns the model.
    Ok(unsafe { std::slice::from_raw_parts(tensor.data_ptr().cast(), 4 * tensor.numel()) })
}

/// Writes tensors with metadata, aside first. transformers wants `format` to be `pt`.
pub(crate) fn write_safetensors<'a, N: AsRef<str> + Ord + std::fmt::Display>(
    path: &Path,
    tensors: impl IntoIterator<Item = (N, F32View<'a>)>,
    metadata: impl IntoIterator<Item = (&'static str, String)>,
) -> Result<()> {
    let metadata = metadata.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    write_aside(path, |partial| {
        // The file that safetensors makes can be read by its owner only; a model is as readable as any other file.
        let created = File::create(partial).and_then(|file| file.metadata()).map_err(|e| Error::io(partial, e))?;
        safetensors::serialize_to_file(tensors, Some(metadata), partial).map_err(|e| Error::file(partial, e))?;
        fs::set_permissions(partial, created.permissions()).map_err(|e| Error::io(partial, e))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::families::Family;

    fn tiny(tied: bool) -> Shape {
        Shape {
            vocab_size: 11,
            hidden_size: 8,
            intermediate_size: 6,
            layers: 2,
            heads: 2,
            kv_heads: 1,
            tied,
            ..Shape::default()
        }
    }

    fn bits(weights: &Weights) -> Vec<u8> {
        f32_bytes(&weights.flat).unwrap().to_vec()
    }

    #[test]
    fn slots_are_aligned_and_do_not_overlap() {
        let mut layout = Layout::new(&tiny(false));
        layout.slots.sort_by_key(|slot| slot.offset);
        let mut end = 0;
        for slot in &layout.slots {
            assert!(slot.offset >= end && slot.offset.is_multiple_of(ALIGNMENT));
            end = slot.offset + slot.shape.iter().product::<i64>() as usize;
        }
        assert!(end <= layout.len);
        let parts: usize = layout.tensors.iter().map(Named::len).sum();
        let slots: i64 = layout.slots.iter().map(|slot| slot.shape.iter().product::<i64>()).sum();
        assert_eq!(parts as i64, slots);
    }

    #[test]
    fn weight_decay_is_for_matrices_and_cuts_the_buffer_once() {
        for family in Family::ALL {
            let shape = Shape { family, ..tiny(false) };
            let layout = Layout::new(&shape);
            let parts = layout.decay_parts();
            assert_eq!(parts.iter().map(|(_, decays)| *decays).collect::<Vec<_>>(), [false, true]);
            assert_eq!(parts.iter().map(|(len, _)| len).sum::<usize>(), layout.len);
            for slot in &layout.slots {
                assert_eq!(slot.offset >= parts[0].0, slot.shape.len() == 2);
            }
            // The critic's trunk is a copy of the beginning.
            let trunk = Layout::trunk(&shape);
            assert!(trunk.slots.iter().zip(&layout.slots).all(|(a, b)| a.offset == b.offset && a.shape == b.shape));
        }
    }

    #[test]
    fn new_weights_are_a_function_of_the_seed() {
        let shape = Shape { vocab_size: 400, ..tiny(true) };
        let make = |seed| Weights::create(&shape, seed, Device::CPU).unwrap();
        assert_eq!(bits(&make(1)), bits(&make(1)));
        assert_ne!(bits(&make(1)), bits(&make(2)));
        let embedding = &make(1).parameters[0];
        assert!((embedding.std(false).double_value(&[]) - 0.02).abs() < 0.001);
        assert!(embedding.mean(Kind::Float).double_value(&[]).abs() < 0.001);
        assert_eq!(make(1).parameters[1], Tensor::ones([8], (Kind::Float, tch::Device::Cpu)));
        assert_eq!(make(1).parameters[3], Tensor::zeros([16], (Kind::Float, tch::Device::Cpu)));
    }

    #[test]
    fn save_and_load_are_bitwise() {
        for tied in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let weights = Weights::create(&tiny(tied), 3, Device::CPU).unwrap();
            weights.save(folder.path()).unwrap();
            let back = Weights::load(&tiny(tied), folder.path(), Device::CPU).unwrap();
            assert_eq!(bits(&weights), bits(&back));
        }
    }

    #[test]
    fn tensors_that_do_not_fit_are_named() {
        let folder = tempfile::tempdir().unwrap();
        Weights::create(&tiny(false), 3, Device::CPU).unwrap().save(folder.path()).unwrap();
        let error = |shape: Shape| Weights::load(&shape, folder.path(), Device::CPU).unwrap_err().to_string();
        assert!(error(Shape { layers: 3, ..tiny(false) }).contains("missing model.layers.2.input_layernorm.weight"));
        assert!(error(Shape { layers: 1, ..tiny(false) }).contains("not expected model.layers.1."));
        let misshaped = error(Shape { vocab_size: 12, ..tiny(false) });
        assert!(misshaped.contains("lm_head.weight ([11, 8], expected [12, 8])"), "{misshaped}");
        assert!(error(tiny(true)).contains("it differs from the embedding"));
    }

    #[test]
    fn a_truncated_file_and_a_missing_one_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(WEIGHTS_FILE);
        let error = || Weights::load(&tiny(false), folder.path(), Device::CPU).unwrap_err().to_string();
        assert!(error().starts_with(&format!("{}: No such file", path.display())));
        Weights::create(&tiny(false), 3, Device::CPU).unwrap().save(folder.path()).unwrap();
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        assert!(error().starts_with(&path.display().to_string()));
    }

    #[test]
    fn shards_and_half_precision_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let shape = tiny(true);
        let layout = Layout::new(&shape);
        // 1.5 in both halves of the model, once as F16 and once as BF16.
        let (half, brain) = (0x3E00_u16.to_le_bytes(), 0x3FC0_u16.to_le_bytes());
        let middle = layout.tensors.len() / 2;
        let mut weight_map = serde_json::Map::new();
        for (file, dtype, bytes, part) in [
            ("a.safetensors", Dtype::F16, half, &layout.tensors[..middle]),
            ("b.safetensors", Dtype::BF16, brain, &layout.tensors[middle..]),
        ] {
            let data: Vec<_> = part.iter().map(|t| (t.name.clone(), bytes.repeat(t.len()), t.shape.clone())).collect();
            let views = data.iter().map(|(n, b, s)| (n.clone(), TensorView::new(dtype, s.clone(), b).unwrap()));
            safetensors::serialize_to_file(views, None, &folder.path().join(file)).unwrap();
            weight_map.extend(part.iter().map(|t| (t.name.clone(), file.into())));
        }
        let index = serde_json::json!({"metadata": {}, "weight_map": weight_map});
        fs::write(folder.path().join(INDEX_FILE), index.to_string()).unwrap();
        let weights = Weights::load(&shape, folder.path(), Device::CPU).unwrap();
        for parameter in &weights.parameters {
            assert_eq!(*parameter, parameter.ones_like() * 1.5);
        }
    }
}
