//! All weights of a model in flat buffers, and their gradients in another.
//!
//! One buffer is the model's own: what is trained, in f32. The other holds what nothing changes, in the type that the
//! model computes with, and is shared with its copies. The optimiser, the gradient norm and a copy of a model are then one
//! operation over one buffer. A parameter is a detached view of a buffer, and its gradient a view of the gradient buffer:
//! slices of one autograd leaf would make every backward pass fill buffers of full size.
//!
//! q, k and v share a slot, stacked by rows, since they are multiplied with the same input and rotated together. Hugging
//! Face's tensors are contiguous parts of the slots.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use accredit_core::rng::{Purpose, Stream};
use tch::{Kind, Tensor};

use crate::config::Shape;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::{Buffer, Initial, Layout, Named, Slot, Trained};
use crate::lora::{ADAPTER_FILE, PREFIX};
use crate::shim;
use crate::snapshot::on_cpu;
use crate::tensors::{self, Place, Source};

/// The flat buffers and the views into them.
#[derive(Debug)]
pub(crate) struct Weights {
    layout: Layout,
    /// `[layout.own]`; f32 where it is trained.
    pub(crate) own: Tensor,
    /// `[layout.shared]`.
    shared: Tensor,
    /// Views, one per slot, in the layout's order.
    pub(crate) parameters: Vec<Tensor>,
    /// None in a frozen model.
    pub(crate) gradient: Option<Gradient>,
    /// Counts changes of the weights, so that what was derived from older ones can be refused.
    pub(crate) version: Arc<AtomicU64>,
}

/// Where backward passes add up the gradient of what is trained.
#[derive(Debug)]
pub(crate) struct Gradient {
    /// `[layout.own]`.
    pub(crate) flat: Tensor,
    /// Views, one per slot; none for what is not trained.
    pub(crate) slots: Vec<Option<Tensor>>,
}

/// How new weights are drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw {
    pub(crate) seed: u64,
    /// Standard deviation of matrices.
    pub(crate) deviation: f64,
}

impl Weights {
    fn new(layout: Layout, own: Tensor, shared: Tensor) -> Result<Self> {
        let parameters = layout.slots.iter().map(|slot| view(slot, &own, &shared)).collect::<Result<_>>()?;
        Ok(Self { layout, own, shared, parameters, gradient: None, version: Arc::default() })
    }

    /// All 0, on the CPU in f32.
    fn zeros(layout: Layout) -> Result<Self> {
        let zeros = |len: usize| Tensor::f_zeros([len as i64], (Kind::Float, tch::Device::Cpu));
        let (own, shared) = (zeros(layout.own)?, zeros(layout.shared)?);
        Self::new(layout, own, shared)
    }

    /// New weights: matrices normal with `shape.initializer_range` as their standard deviation, biases 0, norms 1. A
    /// function of the seed and the shape alone.
    pub(crate) fn create(shape: &Shape, seed: u64) -> Result<Self> {
        let weights = Self::zeros(Layout::new(shape, &Trained::Nothing)?)?;
        let draw = Draw { seed, deviation: shape.initializer_range };
        for (index, tensor) in weights.layout.tensors.iter().enumerate() {
            weights.numbers(tensor)?.f_copy_(&new_numbers(tensor, index, draw)?)?;
        }
        Ok(weights)
    }

    /// A language model of a folder.
    pub(crate) fn load(shape: &Shape, folder: &Path) -> Result<Self> {
        Self::read(Layout::new(shape, &Trained::Nothing)?, shape.tied, folder)
    }

    /// A critic with a copy of a model's trunk, see [`Layout::critic`], or a value head alone. The value head is 0.
    pub(crate) fn critic(layout: Layout, model: &Self) -> Result<Self> {
        let weights = Self::zeros(layout)?.placed(Device(model.own.device()), Kind::Float)?;
        weights.take(model)?;
        Ok(weights)
    }

    /// Reads a model folder, in f32 to the CPU. F32, F16 and BF16 become f32. With `tied`, a file may hold a copy of the
    /// embedding as output layer. Errors: tensors that are missing, not expected, or of another shape, by name.
    pub(crate) fn read(layout: Layout, tied: bool, folder: &Path) -> Result<Self> {
        let source = Source::model(folder)?;
        // Before there is room for the weights: a configuration may ask for any number of them.
        let wanted = layout.tensors.iter().map(|tensor| (tensor.name.as_str().into(), tensor.shape.as_slice()));
        tensors::check(&source, wanted, tied)?;
        let weights = Self::zeros(layout)?;
        let places = weights.layout.tensors.iter().map(|tensor| weights.place(tensor, ""));
        let places = places.collect::<Result<Vec<_>>>()?;
        tensors::read(&source, &places, tied.then_some(0))?;
        drop(places);
        Ok(weights)
    }

    /// Fills the adapter from a folder as PEFT writes it. Errors: as [`Weights::read`].
    pub(crate) fn read_adapter(&self, folder: &Path) -> Result<()> {
        let _no_grad = tch::no_grad_guard();
        let places = self.adapter_tensors().map(|tensor| self.place(tensor, PREFIX)).collect::<Result<Vec<_>>>()?;
        tensors::read(&Source::file(folder.join(ADAPTER_FILE)), &places, None)?;
        self.version.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Fills what is this model's own from a whole model of the same shape.
    pub(crate) fn take(&self, other: &Self) -> Result<()> {
        let _no_grad = tch::no_grad_guard();
        let theirs: HashMap<&str, &Named> = other.layout.tensors.iter().map(|t| (t.name.as_str(), t)).collect();
        for tensor in self.layout.tensors.iter().filter(|tensor| tensor.buffer == Buffer::Own) {
            if let Some(from) = theirs.get(tensor.name.as_str()) {
                self.numbers(tensor)?.f_copy_(&other.numbers(from)?)?;
            }
        }
        self.version.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// The same weights in another layout and elsewhere. What the old layout does not have is drawn anew, and what the
    /// new one does not have is left out.
    pub(crate) fn arranged(
        self,
        layout: Layout,
        device: Device,
        dtype: DType,
        trained: bool,
        draw: Draw,
    ) -> Result<Self> {
        let own = if trained { Kind::Float } else { dtype.kind() };
        if self.layout == layout {
            return self.moved(device, own, dtype.kind());
        }
        let _no_grad = tch::no_grad_guard();
        let zeros = |len: usize, kind| Tensor::f_zeros([len as i64], (kind, device.0));
        let (own, shared) = (zeros(layout.own, own)?, zeros(layout.shared, dtype.kind())?);
        let arranged = Self::new(layout, own, shared)?;
        let before: HashMap<&str, &Named> = self.layout.tensors.iter().map(|t| (t.name.as_str(), t)).collect();
        for (index, tensor) in arranged.layout.tensors.iter().enumerate() {
            let to = arranged.numbers(tensor)?;
            match before.get(tensor.name.as_str()) {
                Some(from) => to.shallow_clone().f_copy_(&self.numbers(from)?)?,
                None => to.shallow_clone().f_copy_(&new_numbers(tensor, index, draw)?)?,
            }
        }
        Ok(arranged)
    }

    /// The same weights elsewhere, all of one type.
    pub(crate) fn placed(self, device: Device, kind: Kind) -> Result<Self> {
        self.moved(device, kind, kind)
    }

    fn moved(self, device: Device, own: Kind, shared: Kind) -> Result<Self> {
        let moved = |flat: &Tensor, kind| flat.f_detach()?.f_to_device(device.0)?.f_to_kind(kind);
        let (own, shared) = (moved(&self.own, own)?, moved(&self.shared, shared)?);
        Self::new(self.layout, own, shared)
    }

    /// Writes a model's tensors into a folder; see [`tensors::write_model`].
    pub(crate) fn save(&self, folder: &Path, dtype: DType, shard_bytes: usize) -> Result<()> {
        let all: Vec<_> = self.layout.tensors.iter().map(|tensor| self.named(tensor, "")).collect::<Result<_>>()?;
        tensors::write_model(folder, &all, dtype, shard_bytes)
    }

    /// Writes the adapter into a folder as PEFT does, in f32.
    pub(crate) fn save_adapter(&self, folder: &Path) -> Result<()> {
        let all: Vec<_> = self.adapter_tensors().map(|tensor| self.named(tensor, PREFIX)).collect::<Result<_>>()?;
        tensors::write(&folder.join(ADAPTER_FILE), &all, DType::F32, [])
    }

    /// Makes room for gradients and lets backward passes add them up there.
    pub(crate) fn keep_gradients(&mut self) -> Result<()> {
        if self.gradient.is_some() {
            return Ok(());
        }
        let flat = self.own.f_zeros_like()?;
        let mut slots = Vec::with_capacity(self.parameters.len());
        for (slot, parameter) in self.layout.slots.iter().zip(&self.parameters) {
            if slot.buffer == Buffer::Shared {
                slots.push(None);
                continue;
            }
            let gradient = view(slot, &flat, &flat)?;
            let _same = parameter.f_set_requires_grad(true)?;
            shim::set_gradient(parameter, &gradient)?;
            slots.push(Some(gradient));
        }
        self.gradient = Some(Gradient { flat, slots });
        Ok(())
    }

    /// The same weights without gradients: its own in a buffer of this type, the shared ones shared.
    pub(crate) fn frozen_copy(&self, kind: Kind) -> Result<Self> {
        let own = self.own.f_detach_copy()?.f_to_kind(kind)?;
        Self::new(self.layout.clone(), own, self.shared.shallow_clone())
    }

    /// The same weights without gradients: its own on the CPU in f32, copied or as they are if they are so, the shared ones
    /// shared.
    pub(crate) fn on_cpu(&self, copied: bool) -> Result<Self> {
        Self::new(self.layout.clone(), on_cpu(&self.own, copied)?, self.shared.shallow_clone())
    }

    /// Moves the weights the share `rate` of the way to others of the same layout.
    pub(crate) fn follow(&self, other: &Self, rate: f64) -> Result<()> {
        let _no_grad = tch::no_grad_guard();
        let mut own = self.own.shallow_clone();
        if own.size() != other.own.size() {
            return Err(Error::argument("other", "a model of another shape"));
        }
        if rate < 1.0 {
            let _same = own.f_lerp_(&other.own.f_to_kind(own.f_kind()?)?, rate)?;
        } else {
            own.f_copy_(&other.own)?;
        }
        self.version.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn adapter_tensors(&self) -> impl Iterator<Item = &Named> {
        self.layout.tensors.iter().filter(|tensor| tensor.name.contains(".lora_"))
    }

    /// The numbers of a tensor, a view.
    fn numbers(&self, tensor: &Named) -> Result<Tensor> {
        let flat = if tensor.buffer == Buffer::Own { &self.own } else { &self.shared };
        Ok(flat.f_narrow(0, tensor.offset as i64, tensor.len() as i64)?)
    }

    fn place<'a>(&self, tensor: &'a Named, prefix: &str) -> Result<Place<'a>> {
        Ok(Place { name: with_prefix(prefix, &tensor.name), shape: &tensor.shape, to: self.numbers(tensor)? })
    }

    fn named<'a>(&self, tensor: &'a Named, prefix: &str) -> Result<tensors::Named<'a>> {
        let name = with_prefix(prefix, &tensor.name);
        Ok(tensors::Named { name, shape: &tensor.shape, numbers: self.numbers(tensor)? })
    }
}

fn with_prefix<'a>(prefix: &str, name: &'a str) -> Cow<'a, str> {
    if prefix.is_empty() { name.into() } else { format!("{prefix}{name}").into() }
}

/// A detached view of a slot.
fn view(slot: &Slot, own: &Tensor, shared: &Tensor) -> Result<Tensor> {
    let flat = if slot.buffer == Buffer::Own { own } else { shared };
    let len = slot.shape.iter().product();
    Ok(flat.f_narrow(0, slot.offset as i64, len)?.f_view(slot.shape.as_slice())?.f_detach()?)
}

/// The numbers of a new tensor, which has this index in its layout.
fn new_numbers(tensor: &Named, index: usize, draw: Draw) -> Result<Tensor> {
    let mut values = vec![0.0_f32; tensor.len()];
    let stream = Stream::new(draw.seed, Purpose::Weights).with(index as u64);
    match tensor.initial {
        Initial::Normal => fill_normal(&mut values, stream, draw.deviation),
        Initial::Uniform(bound) => {
            for (position, value) in values.iter_mut().enumerate() {
                *value = ((2.0 * stream.uniform(position as u64) - 1.0) * bound) as f32;
            }
        }
        Initial::Zeros => {}
        Initial::Ones => values.fill(1.0),
    }
    Ok(Tensor::f_from_slice(&values)?)
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

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs;

    use safetensors::tensor::{Dtype, TensorView};

    use crate::testing::tiny;

    fn bits(weights: &Weights) -> Vec<u8> {
        tensors::bytes(&weights.own).unwrap().to_vec()
    }

    #[test]
    fn new_weights_are_a_function_of_the_seed() {
        let shape = Shape { vocab_size: 400, ..tiny(true) };
        let make = |seed| Weights::create(&shape, seed).unwrap();
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
            let weights = Weights::create(&tiny(tied), 3).unwrap();
            weights.save(folder.path(), DType::F32, usize::MAX).unwrap();
            let back = Weights::load(&tiny(tied), folder.path()).unwrap();
            assert_eq!(bits(&weights), bits(&back));
        }
    }

    #[test]
    fn tensors_that_do_not_fit_are_named() {
        let folder = tempfile::tempdir().unwrap();
        Weights::create(&tiny(false), 3).unwrap().save(folder.path(), DType::F32, usize::MAX).unwrap();
        let error = |shape: Shape| Weights::load(&shape, folder.path()).unwrap_err().to_string();
        assert!(error(Shape { layers: 3, ..tiny(false) }).contains("missing model.layers.2.input_layernorm.weight"));
        assert!(error(Shape { layers: 1, ..tiny(false) }).contains("not expected model.layers.1."));
        let misshaped = error(Shape { vocab_size: 12, ..tiny(false) });
        assert!(misshaped.contains("lm_head.weight ([11, 8], expected [12, 8])"), "{misshaped}");
        assert!(error(tiny(true)).contains("it differs from the embedding"));
    }

    #[test]
    fn a_truncated_file_and_a_missing_one_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        let error = || Weights::load(&tiny(false), folder.path()).unwrap_err().to_string();
        assert!(error().starts_with(&format!("{}: No such file", path.display())));
        Weights::create(&tiny(false), 3).unwrap().save(folder.path(), DType::F32, usize::MAX).unwrap();
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        let (half, whole) = (bytes.len() / 2, bytes.len());
        let cut = format!("{}: has {half} bytes, expected {whole}; is it cut short?", path.display());
        assert_eq!(error(), cut);
        fs::write(&path, &bytes[..5]).unwrap();
        assert!(error().starts_with(&format!("{}: not a safetensors file", path.display())), "{}", error());
    }

    #[test]
    fn sizes_that_no_memory_holds_are_compared_with_the_file_first() {
        let folder = tempfile::tempdir().unwrap();
        Weights::create(&tiny(false), 3).unwrap().save(folder.path(), DType::F32, usize::MAX).unwrap();
        let huge = Shape { intermediate_size: 1 << 30, hidden_size: 1 << 16, ..tiny(false) };
        let error = Weights::load(&huge, folder.path()).unwrap_err().to_string();
        assert!(error.contains("the weights do not fit the model: misshaped"), "{error}");
    }

    #[test]
    fn numbers_that_are_not_finite_are_neither_read_nor_written() {
        let folder = tempfile::tempdir().unwrap();
        let weights = Weights::create(&tiny(false), 3).unwrap();
        let tensor = weights.layout.tensors.last().unwrap();
        let set = |number: f64| {
            let _ = weights.numbers(tensor).unwrap().get(1).fill_(number);
        };
        // Large numbers, whose sum is infinite, are numbers.
        let _ = weights.numbers(tensor).unwrap().fill_(3e38);
        weights.save(folder.path(), DType::F32, usize::MAX).unwrap();
        Weights::load(&tiny(false), folder.path()).unwrap();
        let error = weights.save(folder.path(), DType::F16, usize::MAX).unwrap_err().to_string();
        assert!(error.contains(&format!("{} holds a number that is too large for float16", tensor.name)), "{error}");
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            set(number);
            weights.save(folder.path(), DType::F32, usize::MAX).unwrap();
            let error = Weights::load(&tiny(false), folder.path()).unwrap_err().to_string();
            assert!(error.ends_with(&format!("{} holds NaN or infinity", tensor.name)), "{error}");
        }
    }

    #[test]
    fn shards_and_half_precision_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let shape = tiny(true);
        let layout = Layout::new(&shape, &Trained::ALL).unwrap();
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
        fs::write(folder.path().join("model.safetensors.index.json"), index.to_string()).unwrap();
        let weights = Weights::load(&shape, folder.path()).unwrap();
        for parameter in &weights.parameters {
            assert_eq!(*parameter, parameter.ones_like() * 1.5);
        }
    }
}
