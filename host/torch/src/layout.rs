//! Where every weight lies: named tensors of Hugging Face, stacked into slots, in one of two flat buffers.

use crate::config::Shape;
use crate::error::{Error, Result};
use crate::lora::{Group, Lora};

/// Slots begin at multiples of this many elements (128 bytes), so that vector loads are aligned. The gap after a slot
/// holds zeros, with zero gradients, so that norms and updates over the whole buffer are right.
const ALIGNMENT: usize = 32;

/// How a tensor of a new model is filled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Initial {
    /// With the deviation of the model's configuration.
    Normal,
    /// Between minus this and this.
    Uniform(f64),
    Zeros,
    Ones,
}

/// A flat buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Buffer {
    /// What belongs to this model alone: all that is trained, where something is.
    Own,
    /// What nothing changes, so that copies of the model share it.
    Shared,
}

/// One Hugging Face tensor: where it lies.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) buffer: Buffer,
    pub(crate) offset: usize,
    pub(crate) shape: Vec<usize>,
    pub(crate) initial: Initial,
}

impl Named {
    pub(crate) fn len(&self) -> usize {
        self.shape.iter().product()
    }
}

/// One parameter: a part of a flat buffer with a shape.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slot {
    pub(crate) buffer: Buffer,
    pub(crate) offset: usize,
    pub(crate) shape: Vec<i64>,
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

/// Which weights of a model are trained.
#[derive(Clone, Debug, PartialEq)]
pub enum Trained {
    /// None: a model that only scores and samples.
    Nothing,
    /// The weights themselves.
    Weights {
        /// Beginnings of the names of those that are not, such as `model.embed_tokens` or `model.layers.*.mlp`; `*`
        /// stands for any one part of a name.
        frozen: Vec<String>,
    },
    /// A low-rank adapter, beside weights that stay as they are.
    Adapter(Lora),
}

impl Trained {
    /// All weights.
    pub const ALL: Self = Self::Weights { frozen: Vec::new() };
}

/// Whether the parts of a name begin with those of a pattern.
fn begins(name: &str, pattern: &str) -> bool {
    let mut parts = name.split('.');
    pattern.split('.').all(|wanted| parts.next().is_some_and(|part| wanted == "*" || wanted == part))
}

/// Where everything lies in the flat buffers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Layout {
    pub(crate) slots: Vec<Slot>,
    pub(crate) tensors: Vec<Named>,
    /// Length of [`Buffer::Own`].
    pub(crate) own: usize,
    /// Length of [`Buffer::Shared`].
    pub(crate) shared: usize,
    /// The slot of the output layer, unless it is the embedding.
    pub(crate) head: Option<usize>,
    /// The first slot of adapters, which are the last ones.
    pub(crate) adapters: Option<usize>,
}

impl Layout {
    /// A language model: the trunk, the output layer unless it is tied, and adapters. Errors: a name of frozen weights
    /// that no weight has, or that freezes a part of q, k and v or everything.
    pub(crate) fn new(shape: &Shape, trained: &Trained) -> Result<Self> {
        let mut wanted = trunk(shape);
        let trunk_slots = wanted.len();
        if !shape.tied {
            wanted.push(Wanted::matrix([("lm_head.weight".to_owned(), shape.vocab_size)], shape.hidden_size));
        }
        let buffers = match trained {
            Trained::Nothing => vec![Buffer::Own; wanted.len()],
            Trained::Weights { frozen } => freeze(&wanted, frozen)?,
            Trained::Adapter(_) => vec![Buffer::Shared; wanted.len()],
        };
        let mut layout = Self::default();
        layout.add(wanted, &buffers);
        layout.head = (!shape.tied).then_some(trunk_slots);
        if let Trained::Adapter(lora) = trained {
            layout.adapters = Some(layout.slots.len());
            layout.add_own(adapters(shape, lora));
        }
        Ok(layout)
    }

    /// A critic with a trunk of its own, and the value head.
    pub(crate) fn critic(shape: &Shape) -> Self {
        let mut layout = Self::default();
        layout.add_own(trunk(shape));
        layout.add_value_head(shape);
        layout
    }

    /// A value head alone: `[1, D]`, then `[1]`.
    pub(crate) fn value_head(shape: &Shape) -> Self {
        let mut layout = Self::default();
        layout.add_value_head(shape);
        layout
    }

    /// Number of weights.
    pub(crate) fn count(&self) -> usize {
        self.tensors.iter().map(Named::len).sum()
    }

    /// Number of weights in [`Buffer::Own`].
    pub(crate) fn count_own(&self) -> usize {
        self.tensors.iter().filter(|tensor| tensor.buffer == Buffer::Own).map(Named::len).sum()
    }

    /// [`Buffer::Own`] cut where weight decay begins or ends: lengths, and whether it is for that part.
    pub(crate) fn decay_parts(&self) -> Vec<(usize, bool)> {
        let mut slots: Vec<&Slot> = self.slots.iter().filter(|slot| slot.buffer == Buffer::Own).collect();
        slots.sort_by_key(|slot| slot.offset);
        let mut begins: Vec<(usize, bool)> = slots.iter().map(|slot| (slot.offset, slot.decays())).collect();
        begins.dedup_by_key(|(_, decays)| *decays);
        let ends = begins.iter().skip(1).map(|(offset, _)| *offset).chain([self.own]);
        begins.iter().zip(ends).map(|((begin, decays), end)| (end - begin, *decays)).collect()
    }

    /// Hugging Face's names in a model that classifies tokens, which is what a critic is.
    fn add_value_head(&mut self, shape: &Shape) {
        let weight = Wanted::matrix([("score.weight".to_owned(), 1)], shape.hidden_size);
        let bias = Wanted::vector([("score.bias".to_owned(), 1)], Initial::Zeros);
        self.add_own(vec![Wanted { initial: Initial::Zeros, ..weight }, bias]);
    }

    fn add_own(&mut self, wanted: Vec<Wanted>) {
        let buffers = vec![Buffer::Own; wanted.len()];
        self.add(wanted, &buffers);
    }

    /// Adds slots in this order. In a buffer the vectors lie before the matrices, so that those without weight decay are
    /// one part.
    fn add(&mut self, wanted: Vec<Wanted>, buffers: &[Buffer]) {
        let room = |buffer: Buffer, vectors: bool| -> usize {
            let of_kind =
                wanted.iter().zip(buffers).filter(|(slot, b)| **b == buffer && slot.columns.is_none() == vectors);
            of_kind.map(|(slot, _)| slot.room()).sum()
        };
        let begin = |end: usize, buffer: Buffer| {
            let (vectors, matrices) = (room(buffer, true), room(buffer, false));
            ([end, end + vectors], end + vectors + matrices)
        };
        let (mut own, own_end) = begin(self.own, Buffer::Own);
        let (mut shared, shared_end) = begin(self.shared, Buffer::Shared);
        for (slot, buffer) in wanted.into_iter().zip(buffers) {
            let places = if *buffer == Buffer::Own { &mut own } else { &mut shared };
            let next = &mut places[usize::from(slot.columns.is_some())];
            let mut offset = *next;
            *next += slot.room();
            let shape = std::iter::once(slot.rows()).chain(slot.columns).map(|n| n as i64).collect();
            self.slots.push(Slot { buffer: *buffer, offset, shape });
            for (name, rows) in slot.parts {
                let shape = std::iter::once(rows).chain(slot.columns).collect();
                let tensor = Named { name, buffer: *buffer, offset, shape, initial: slot.initial };
                offset += tensor.len();
                self.tensors.push(tensor);
            }
        }
        (self.own, self.shared) = (own_end, shared_end);
    }
}

/// Slots of all but the output layer, in the order that [`crate::model`] takes them: embedding; per layer input norm, q/k/v
/// weight, q/k/v bias and q/k norm where the family has them, output, second norm, gate, up, down; last norm.
fn trunk(shape: &Shape) -> Vec<Wanted> {
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
    wanted
}

/// Slots of adapters, in the order that [`crate::model`] takes them: per layer and group of [`Group::ALL`] that has a
/// target, the matrices down to the rank, stacked, and then one up from it for each target of the group.
fn adapters(shape: &Shape, lora: &Lora) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    for layer in 0..shape.layers {
        for group in Group::ALL {
            let (columns, parts) = group.parts(shape);
            let targets: Vec<_> = parts.into_iter().filter(|(target, _)| lora.targets.contains(target)).collect();
            if targets.is_empty() {
                continue;
            }
            let name = |module: &str, part: &str| format!("model.layers.{layer}.{module}.lora_{part}.weight");
            let down = targets.iter().map(|(target, _)| (name(target.module(), "A"), lora.rank));
            // As PEFT: uniform as a linear layer's, and 0.
            let initial = Initial::Uniform(1.0 / (columns as f64).sqrt());
            wanted.push(Wanted { initial, ..Wanted::matrix(down, columns) });
            for (target, rows) in targets {
                let up = Wanted::matrix([(name(target.module(), "B"), rows)], lora.rank);
                wanted.push(Wanted { initial: Initial::Zeros, ..up });
            }
        }
    }
    wanted
}

/// Where each slot lies when the weights under these names are not trained.
fn freeze(wanted: &[Wanted], frozen: &[String]) -> Result<Vec<Buffer>> {
    let wrong = |pattern: &str, why: &str| Err(Error::argument("frozen", format!("`{pattern}` {why}")));
    let mut buffers = vec![Buffer::Own; wanted.len()];
    for pattern in frozen {
        let mut found = false;
        for (slot, buffer) in wanted.iter().zip(&mut buffers) {
            let matching = slot.parts.iter().filter(|(name, _)| begins(name, pattern)).count();
            if matching == slot.parts.len() {
                (*buffer, found) = (Buffer::Shared, true);
            } else if matching > 0 {
                return wrong(
                    pattern,
                    "names a part of q, k and v, or of their norms, which are frozen together or not",
                );
            }
        }
        if !found {
            return wrong(pattern, "is the beginning of no weight's name");
        }
    }
    if !buffers.contains(&Buffer::Own) {
        return wrong(&frozen.join(", "), "leaves nothing to train");
    }
    Ok(buffers)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::families::Family;
    use crate::lora::Target;
    use crate::testing::tiny;

    #[test]
    fn slots_are_aligned_and_do_not_overlap() {
        let mut layout = Layout::new(&tiny(false), &Trained::ALL).unwrap();
        layout.slots.sort_by_key(|slot| slot.offset);
        let mut end = 0;
        for slot in &layout.slots {
            assert!(slot.offset >= end && slot.offset.is_multiple_of(ALIGNMENT));
            end = slot.offset + slot.shape.iter().product::<i64>() as usize;
        }
        assert!(end <= layout.own);
        let parts: usize = layout.tensors.iter().map(Named::len).sum();
        let slots: i64 = layout.slots.iter().map(|slot| slot.shape.iter().product::<i64>()).sum();
        assert_eq!(parts as i64, slots);
    }

    #[test]
    fn weight_decay_is_for_matrices_and_cuts_the_buffer_once() {
        for family in Family::ALL {
            let shape = Shape { family, ..tiny(false) };
            let layout = Layout::new(&shape, &Trained::ALL).unwrap();
            let parts = layout.decay_parts();
            assert_eq!(parts.iter().map(|(_, decays)| *decays).collect::<Vec<_>>(), [false, true]);
            assert_eq!(parts.iter().map(|(len, _)| len).sum::<usize>(), layout.own);
            for slot in &layout.slots {
                assert_eq!(slot.offset >= parts[0].0, slot.shape.len() == 2);
            }
        }
    }

    #[test]
    fn frozen_weights_and_adapters_lie_apart_from_what_is_trained() {
        let lora = Lora { rank: 2, alpha: 4.0, targets: vec![Target::Q, Target::V, Target::Down] };
        let frozen = ["model.embed_tokens", "model.layers.0", "model.layers.*.mlp"].map(str::to_owned).to_vec();
        for trained in [Trained::Weights { frozen }, Trained::Adapter(lora)] {
            let layout = Layout::new(&tiny(false), &trained).unwrap();
            let whole = Layout::new(&tiny(false), &Trained::ALL).unwrap();
            for (buffer, len) in [(Buffer::Own, layout.own), (Buffer::Shared, layout.shared)] {
                let mut slots: Vec<_> = layout.slots.iter().filter(|slot| slot.buffer == buffer).collect();
                slots.sort_by_key(|slot| slot.offset);
                let ends = slots.iter().map(|slot| slot.offset + slot.shape.iter().product::<i64>() as usize);
                let begins = slots.iter().skip(1).map(|slot| slot.offset).chain([len]);
                assert!(!slots.is_empty() && ends.zip(begins).all(|(end, begin)| end <= begin));
            }
            let names = |layout: &Layout, buffer| -> Vec<String> {
                let of_buffer = layout.tensors.iter().filter(|tensor| tensor.buffer == buffer);
                of_buffer.map(|tensor| tensor.name.clone()).collect()
            };
            let own = names(&layout, Buffer::Own);
            if layout.adapters.is_some() {
                assert_eq!(names(&layout, Buffer::Shared), names(&whole, Buffer::Own));
                assert_eq!(own.len(), 2 * 2 * 3);
                assert!(own.contains(&"model.layers.1.self_attn.v_proj.lora_B.weight".to_owned()));
                // A: 2 x 8 twice and 2 x 6; B: 8, 4 and 8 rows of 2; in two layers.
                assert_eq!(layout.count_own(), 2 * (2 * 16 + 12 + 16 + 8 + 16));
            } else {
                assert!(own.iter().all(|name| !name.contains("layers.0") && !name.contains("mlp")));
                assert!(own.contains(&"model.layers.1.self_attn.q_proj.weight".to_owned()), "{own:?}");
                assert_eq!(layout.count(), whole.count());
            }
        }
    }

    #[test]
    fn names_of_frozen_weights_that_do_not_fit_are_refused() {
        let error = |pattern: &str| {
            let trained = Trained::Weights { frozen: vec![pattern.to_owned()] };
            Layout::new(&tiny(true), &trained).unwrap_err().to_string()
        };
        assert!(error("model.layer").contains("`model.layer` is the beginning of no weight's name"));
        assert!(error("model.layers.2").contains("no weight's name"));
        assert!(error("model.layers.*.self_attn.q_proj").contains("a part of q, k and v"));
        assert!(error("model").contains("leaves nothing to train"));
    }
}
