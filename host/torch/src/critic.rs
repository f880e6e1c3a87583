//! The critic: a value for every response token, which a linear head reads off hidden states.
//!
//! The value of a token is that of the state before it, `v = w · h + b`, where h is the hidden state that predicts the
//! token, after the last norm. The head stands on the policy's own trunk, or on a copy of it that is trained apart. It
//! begins at 0, so a critic that has learnt nothing says 0 everywhere.
//!
//! Axes: N targets, D hidden size.

use std::path::Path;

use tch::{Kind, Tensor};

use crate::config::Shape;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::head::{Head, extend};
use crate::layout::Layout;
use crate::linear::converted;
use crate::model::{Layer, Model, Pass, Trunk};
use crate::rows::{self, Row};
use crate::score::{Scores, Wanted, check_temperature, in_passes};
use crate::train::{Fresh, check_column};
use crate::weights::Weights;

/// A value head, with a trunk of its own or on the policy's. It always keeps gradients.
#[derive(Debug)]
pub struct Critic {
    shape: Shape,
    device: Device,
    /// What the trunk computes with.
    dtype: DType,
    /// None where the head stands on the policy's trunk.
    trunk: Option<Trunk>,
    /// The trunk, where there is one, then the head: `[1, D]` and `[1]`.
    weights: Weights,
}

impl Critic {
    /// A head on the policy's own trunk.
    pub fn shared(policy: &Model) -> Result<Self> {
        Self::new(policy, Weights::critic(Layout::value_head(policy.config().shape()), policy.weights())?, false)
    }

    /// A head on a copy of the policy's trunk as it is now.
    pub fn copy(policy: &Model) -> Result<Self> {
        let critic =
            Self::new(policy, Weights::critic(Layout::critic(policy.config().shape()), policy.weights())?, true)?;
        if let (Some(trunk), Some(_)) = (&critic.trunk, policy.adapter()) {
            let _no_grad = tch::no_grad_guard();
            let from = policy.layers().iter().flat_map(Layer::matrices);
            for (to, from) in trunk.layers().iter().flat_map(Layer::matrices).zip(from) {
                to.weight.shallow_clone().f_copy_(&from.merged()?)?;
            }
        }
        Ok(critic)
    }

    /// Reads what [`Critic::save`] wrote for a head on the trunk of this policy. Errors: a file that is missing, broken,
    /// or of another critic.
    pub fn load_shared(policy: &Model, folder: &Path) -> Result<Self> {
        let weights = Weights::read(Layout::value_head(policy.config().shape()), false, folder)?;
        Self::new(policy, weights, false)
    }

    /// As [`Critic::load_shared`], for a critic with a trunk of its own, of the policy's shape.
    pub fn load_copy(policy: &Model, folder: &Path) -> Result<Self> {
        let weights = Weights::read(Layout::critic(policy.config().shape()), false, folder)?;
        Self::new(policy, weights, true)
    }

    fn new(policy: &Model, weights: Weights, own_trunk: bool) -> Result<Self> {
        let (shape, device) = (policy.config().shape().clone(), policy.device());
        let mut weights = weights.placed(device, Kind::Float)?;
        weights.keep_gradients()?;
        let mut trunk = own_trunk.then(|| Trunk::new(&shape, &weights, device, policy.dtype())).transpose()?;
        if let Some(trunk) = &mut trunk {
            trunk.set_checkpointing(policy.trunk().checkpointing());
        }
        Ok(Self { shape, device, dtype: policy.dtype(), trunk, weights })
    }

    /// Writes `model.safetensors` into a folder that is there: Hugging Face's names of the trunk, where it is the
    /// critic's own, and `score.weight` and `score.bias`.
    pub fn save(&self, folder: &Path) -> Result<()> {
        self.snapshot(false)?.save(folder)
    }

    /// Number of weights of its own.
    pub fn weight_count(&self) -> usize {
        self.weights.layout().count()
    }

    /// Number of weights of a critic for a policy of this shape, with a trunk of its own or without.
    pub fn weight_count_of(shape: &Shape, own_trunk: bool) -> usize {
        let layout = if own_trunk { Layout::critic(shape) } else { Layout::value_head(shape) };
        layout.count()
    }

    /// A copy of the gradient that backward passes have added up, over all its weights in their layout.
    pub fn gradient(&self) -> Result<Vec<f32>> {
        let gradient = self.weights.gradient.as_ref().ok_or(Error::Frozen)?;
        Ok(Vec::try_from(&gradient.flat.f_to_device(tch::Device::Cpu)?)?)
    }

    pub(crate) fn weights(&self) -> &Weights {
        &self.weights
    }

    /// The head's `[1, D]` and `[1]`.
    fn head(&self) -> Result<(&Tensor, &Tensor)> {
        last_two(&self.weights.parameters)
    }

    /// Values of hidden states `[N, D]` that carry no graph.
    fn values(&self, hidden_nd: &Tensor) -> Result<Vec<f32>> {
        let (weight, bias) = self.head()?;
        let mut values = Vec::new();
        extend(&mut values, &converted(hidden_nd, Kind::Float)?.f_linear(weight, Some(bias))?)?;
        Ok(values)
    }

    /// The wanted columns of the policy, as [`Model::score`] gives them, and the value of each target, without recording
    /// gradients. A head on the policy's trunk reads the same pass; a trunk of its own makes one more.
    pub fn score(
        &self,
        policy: &Model,
        rows: &[Row],
        wanted: Wanted,
        temperature: f32,
        tokens_per_pass: usize,
    ) -> Result<(Scores, Vec<f32>)> {
        if let Some(trunk) = &self.trunk {
            let scores = policy.score(rows, wanted, temperature, tokens_per_pass)?;
            let _no_grad = tch::no_grad_guard();
            let [values] = in_passes(rows, tokens_per_pass, trunk, |batch, _| {
                Ok([self.values(&trunk.hidden_of_targets(batch)?)?])
            })?;
            return Ok((scores, values));
        }
        rows::check(rows, &self.shape)?;
        check_temperature(temperature)?;
        let _no_grad = tch::no_grad_guard();
        let head = Head::new(policy.head(), f64::from(temperature), policy.dtype())?;
        let [logprob, entropy, energy, values] = in_passes(rows, tokens_per_pass, policy.trunk(), |batch, _| {
            let hidden = policy.trunk().hidden_of_targets(batch)?;
            let [logprob, entropy, energy] = head.columns(&hidden, &batch.targets, wanted)?.into_columns();
            Ok([logprob, entropy, energy, self.values(&hidden)?])
        })?;
        Ok((Scores::of_columns([logprob, entropy, energy]), values))
    }

    /// Fresh values, with what their derivatives need. `rows` are those of `policy`, the policy's own forward pass: a
    /// head on its trunk reads that pass, a trunk of its own makes one more. Errors: rows that are not valid, or others.
    pub fn forward(&self, rows: &[Row], policy: &Fresh) -> Result<Values<'_>> {
        let states = match &self.trunk {
            None => policy.hidden()?.map(States::OfPolicy),
            Some(trunk) => {
                rows::check(rows, &self.shape)?;
                let trained: Vec<Row> = rows.iter().filter(|row| !row.targets.is_empty()).copied().collect();
                let targets: usize = trained.iter().map(|row| row.targets.len()).sum();
                if targets != policy.logprob().len() {
                    let found = format!("{targets} targets, and the policy's pass has {}", policy.logprob().len());
                    return Err(Error::argument("rows", found));
                }
                let batch = (targets > 0).then(|| trunk.batch(trained.iter().copied())).transpose()?;
                batch.map(|batch| trunk.pass(&batch)).transpose()?.map(States::OfOwn)
            }
        };
        let _no_grad = tch::no_grad_guard();
        let column = states.as_ref().map(|states| self.values(&states.hidden()?)).transpose()?;
        Ok(Values { critic: self, version: self.weights.version(), column: column.unwrap_or_default(), states })
    }
}

/// The values of one forward pass.
#[derive(Debug)]
pub struct Values<'a> {
    critic: &'a Critic,
    version: u64,
    column: Vec<f32>,
    /// None where no row had a target.
    states: Option<States>,
}

/// The hidden states that the values are of.
#[derive(Debug)]
enum States {
    /// `[N, D]`: the policy's, whose graph the policy's pass has.
    OfPolicy(Tensor),
    /// The critic's own.
    OfOwn(Pass),
}

impl States {
    /// `[N, D]`, without a graph.
    fn hidden(&self) -> Result<Tensor> {
        Ok(match self {
            Self::OfPolicy(hidden) => hidden.shallow_clone(),
            Self::OfOwn(pass) => pass.hidden.f_detach()?,
        })
    }
}

/// What the values of a critic on the policy's trunk add to the gradient at the policy's hidden states; nothing for a
/// critic with a trunk of its own. [`Fresh::backward_with`] takes it.
#[derive(Debug, Default)]
pub struct TrunkGradient {
    /// `[N, D]`.
    pub(crate) at_hidden: Option<Tensor>,
}

impl Values<'_> {
    /// The value of each target, in the order of the rows.
    pub fn value(&self) -> &[f32] {
        &self.column
    }

    /// Adds the gradient of Σ value × derivative to the critic's: to its head, and to its own trunk. What belongs to the
    /// policy's trunk comes back; dropped, the trunk learns nothing from the values.
    ///
    /// Errors: derivatives of another number or one that is not finite, or weights that changed since the forward pass.
    /// The gradient is then as it was.
    pub fn backward(self, by_value: &[f32]) -> Result<TrunkGradient> {
        check_column("by_value", by_value, self.column.len())?;
        let weights = &self.critic.weights;
        if self.version != weights.version() {
            return Err(Error::Stale { what: "forward pass" });
        }
        let Some(states) = self.states else {
            return Ok(TrunkGradient::default());
        };
        let gradient = {
            let _no_grad = tch::no_grad_guard();
            let by_value = Tensor::f_from_slice(by_value)?.f_to_device(self.critic.device.0)?.f_unsqueeze(-1)?;
            let gradient = weights.gradient.as_ref().ok_or(Error::Frozen)?;
            let gradients: Vec<&Tensor> = gradient.slots.iter().flatten().collect();
            let (by_weight, by_bias) = last_two(&gradients)?;
            let hidden = converted(&states.hidden()?, Kind::Float)?;
            let _same = by_weight.shallow_clone().f_addmm_(&by_value.f_tr()?, &hidden)?;
            let sum = by_value.f_sum_dim_intlist([0_i64].as_slice(), false, Kind::Float)?;
            let _same = by_bias.shallow_clone().f_add_(&sum)?;
            converted(&by_value.f_mm(self.critic.head()?.0)?, self.critic.dtype.kind())?
        };
        match (states, &self.critic.trunk) {
            (States::OfOwn(pass), Some(trunk)) => {
                pass.backward(trunk, &gradient)?;
                Ok(TrunkGradient::default())
            }
            _ => Ok(TrunkGradient { at_hidden: Some(gradient) }),
        }
    }
}

fn last_two<T: std::borrow::Borrow<Tensor>>(slots: &[T]) -> Result<(&Tensor, &Tensor)> {
    match slots {
        [.., weight, bias] => Ok((weight.borrow(), bias.borrow())),
        _ => Err(Error::torch("the layout of a critic has too few slots")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AdamW, Derivatives, Optimizer};

    const WANTED: Wanted = Wanted { logprob: true, entropy: true, energy: false };
    const TEMPERATURE: f32 = 0.9;

    fn policy() -> Model {
        crate::set_threads(1);
        crate::testing::model(false).with_gradients().unwrap()
    }

    /// Both kinds of critic, with a head that is not 0.
    fn critics(policy: &Model) -> [Critic; 2] {
        [Critic::shared(policy).unwrap(), Critic::copy(policy).unwrap()].map(|critic| {
            let (weight, bias) = critic.head().unwrap();
            let _no_grad = tch::no_grad_guard();
            let numbers: Vec<f32> = (0..16).map(|i| (0.7 * i as f32).sin()).collect();
            weight.shallow_clone().copy_(&Tensor::from_slice(&numbers).view([1, 16]));
            let _ = bias.shallow_clone().fill_(0.25);
            critic
        })
    }

    /// Seven rows of different lengths, one without a target, and a derivative for each target.
    struct Data {
        tokens: Vec<Vec<u32>>,
        targets: Vec<Vec<u32>>,
    }

    impl Data {
        fn new() -> Self {
            let tokens: Vec<Vec<u32>> =
                (0..7).map(|r| (0..5 + 2 * (r % 5)).map(|i| (11 * r + 3 * i) % 23).collect()).collect();
            let mut targets: Vec<Vec<u32>> = tokens.iter().map(|t| (2..t.len() as u32).collect()).collect();
            targets[3].clear();
            Self { tokens, targets }
        }

        fn rows(&self) -> Vec<Row<'_>> {
            self.tokens.iter().zip(&self.targets).map(|(tokens, targets)| Row { tokens, targets }).collect()
        }

        /// Derivatives of the rows in a range.
        fn derivatives(&self, range: std::ops::Range<usize>, f: fn(f32) -> f32) -> Vec<f32> {
            range.flat_map(|r| self.targets[r].iter().map(move |i| f(*i as f32 + 7.0 * r as f32))).collect()
        }
    }

    fn flat_gradient(weights: &Weights) -> &Tensor {
        &weights.gradient.as_ref().unwrap().flat
    }

    fn off(a: &Tensor, b: &Tensor) -> f64 {
        ((a - b).norm() / b.norm()).double_value(&[])
    }

    /// Gradients of the critic and of the policy, after micro-batches of `size` rows.
    fn gradients(policy: &Model, critic: &Critic, data: &Data, size: usize) -> [Tensor; 2] {
        let all = [flat_gradient(&critic.weights), flat_gradient(policy.weights())];
        let _ = all.map(|flat| flat.shallow_clone().zero_());
        let rows = data.rows();
        for start in (0..rows.len()).step_by(size) {
            let range = start..rows.len().min(start + size);
            let pass = policy.forward(&rows[range.clone()], TEMPERATURE, WANTED).unwrap();
            let values = critic.forward(&rows[range.clone()], &pass).unwrap();
            let to_trunk = values.backward(&data.derivatives(range.clone(), f32::cos)).unwrap();
            let logprob = data.derivatives(range, f32::sin);
            pass.backward_with(&Derivatives { logprob: &logprob, ..Derivatives::default() }, to_trunk).unwrap();
        }
        all.map(Tensor::copy)
    }

    #[test]
    fn the_gradient_is_that_of_the_loss_by_autograd() {
        let (policy, data) = (policy(), Data::new());
        for critic in critics(&policy) {
            let ours = gradients(&policy, &critic, &data, 7);
            for flat in [flat_gradient(&critic.weights), flat_gradient(policy.weights())] {
                let _ = flat.shallow_clone().zero_();
            }
            let trained = data.rows().into_iter().filter(|row| !row.targets.is_empty()).collect::<Vec<_>>();
            let batch = policy.trunk().batch(trained.into_iter()).unwrap();
            let hidden = policy.hidden_of_targets(&batch).unwrap();
            let log_p = (hidden.matmul(&policy.head().tr()) / f64::from(TEMPERATURE)).log_softmax(-1, Kind::Float);
            let logprob = log_p.gather(-1, &batch.targets.unsqueeze(-1), false).view([-1]);
            let (weight, bias) = critic.head().unwrap();
            let hidden = critic.trunk.as_ref().map_or(hidden, |trunk| trunk.hidden_of_targets(&batch).unwrap());
            let value = hidden.linear(weight, Some(bias)).view([-1]);
            let by_logprob = Tensor::from_slice(&data.derivatives(0..7, f32::sin));
            let by_value = Tensor::from_slice(&data.derivatives(0..7, f32::cos));
            (logprob * by_logprob + value * by_value).sum(Kind::Float).backward();
            for (ours, theirs) in ours.iter().zip([flat_gradient(&critic.weights), flat_gradient(policy.weights())]) {
                assert!(theirs.norm().double_value(&[]) > 0.1);
                assert!(off(ours, theirs) < 1e-5, "{}", off(ours, theirs));
            }
        }
    }

    #[test]
    fn the_gradient_is_the_same_for_every_cut_into_micro_batches() {
        let (policy, data) = (policy(), Data::new());
        for critic in critics(&policy) {
            let whole = gradients(&policy, &critic, &data, 7);
            for size in 1..7 {
                let cut = gradients(&policy, &critic, &data, size);
                for (cut, whole) in cut.iter().zip(&whole) {
                    assert!(off(cut, whole) < 1e-5, "cut into {size}: {}", off(cut, whole));
                }
            }
        }
    }

    #[test]
    fn a_copy_leaves_the_policys_gradient_alone_and_a_shared_trunk_does_not() {
        let (policy, data) = (policy(), Data::new());
        let [with_shared, with_copy] = critics(&policy).map(|critic| {
            let [_, of_policy] = gradients(&policy, &critic, &data, 7);
            of_policy
        });
        let _ = flat_gradient(policy.weights()).shallow_clone().zero_();
        let pass = policy.forward(&data.rows(), TEMPERATURE, WANTED).unwrap();
        pass.backward(&Derivatives { logprob: &data.derivatives(0..7, f32::sin), ..Derivatives::default() }).unwrap();
        let alone = flat_gradient(policy.weights());
        assert_eq!(with_copy, *alone);
        assert!(off(&with_shared, alone) > 0.01);
    }

    #[test]
    fn values_are_the_heads_product_with_the_hidden_states_before_the_targets() {
        let (policy, data) = (policy(), Data::new());
        let rows = data.rows();
        for critic in critics(&policy) {
            let (weight, bias) = critic.head().unwrap();
            let trunk = critic.trunk.as_ref().unwrap_or(policy.trunk());
            let mut expected: Vec<f32> = Vec::new();
            for row in &rows {
                let Some(last) = row.targets.last() else { continue };
                let every: Vec<u32> = (1..=*last).collect();
                let batch = trunk.batch([Row { targets: &every, ..*row }].into_iter()).unwrap();
                let hidden = trunk.hidden_of_targets(&batch).unwrap();
                let all = Vec::<f32>::try_from(hidden.linear(weight, Some(bias)).view([-1])).unwrap();
                expected.extend(row.targets.iter().map(|target| all[*target as usize - 1]));
            }
            let close = |found: &[f32]| {
                assert_eq!(found.len(), expected.len());
                for (a, b) in found.iter().zip(&expected) {
                    assert!((a - b).abs() < 1e-5, "{a} {b}");
                }
            };
            for tokens_per_pass in [0, 20, 1000] {
                let (scores, values) = critic.score(&policy, &rows, WANTED, TEMPERATURE, tokens_per_pass).unwrap();
                assert_eq!(scores, policy.score(&rows, WANTED, TEMPERATURE, tokens_per_pass).unwrap());
                close(&values);
            }
            let pass = policy.forward(&rows, TEMPERATURE, WANTED).unwrap();
            close(critic.forward(&rows, &pass).unwrap().value());
        }
    }

    #[test]
    fn a_new_critic_says_0_and_learns_its_target() {
        let (policy, data) = (policy(), Data::new());
        let rows = data.rows();
        for critic in [Critic::shared(&policy).unwrap(), Critic::copy(&policy).unwrap()] {
            let mut optimizer = Optimizer::of_critic(&critic, AdamW::default()).unwrap();
            let mut first = None;
            for _ in 0..30 {
                optimizer.zero_grad().unwrap();
                let pass = policy.forward(&rows, TEMPERATURE, WANTED).unwrap();
                let values = critic.forward(&rows, &pass).unwrap();
                first.get_or_insert_with(|| values.value().to_vec());
                let error: Vec<f32> = values.value().iter().map(|value| value - 1.0).collect();
                values.backward(&error).unwrap();
                optimizer.step(1e-2).unwrap();
            }
            assert!(first.unwrap().iter().all(|value| *value == 0.0));
            let (_, values) = critic.score(&policy, &rows, WANTED, TEMPERATURE, 1000).unwrap();
            let error = values.iter().map(|value| (value - 1.0).abs()).sum::<f32>() / values.len() as f32;
            assert!(error < 0.3, "{error}");
        }
        // Nothing of it went into the policy.
        assert_eq!(flat_gradient(policy.weights()).norm().double_value(&[]), 0.0);
    }

    #[test]
    fn a_saved_critic_comes_back_bit_for_bit_and_not_as_another_kind() {
        let policy = policy();
        let [shared, copy] = critics(&policy);
        let folder = |critic: &Critic| {
            let folder = tempfile::tempdir().unwrap();
            critic.save(folder.path()).unwrap();
            folder
        };
        let (of_shared, of_copy) = (folder(&shared), folder(&copy));
        let back = Critic::load_shared(&policy, of_shared.path()).unwrap();
        assert_eq!(back.weights.own, shared.weights.own);
        assert!(back.trunk.is_none());
        let back = Critic::load_copy(&policy, of_copy.path()).unwrap();
        assert_eq!(back.weights.own, copy.weights.own);
        assert_eq!(back.weight_count(), Critic::weight_count_of(policy.config().shape(), true));
        assert_eq!(shared.weight_count(), 17);
        let error = Critic::load_copy(&policy, of_shared.path()).unwrap_err().to_string();
        assert!(error.contains("missing model.embed_tokens.weight"), "{error}");
        let error = Critic::load_shared(&policy, of_copy.path()).unwrap_err().to_string();
        assert!(error.contains("not expected model.embed_tokens.weight"), "{error}");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let (policy, row) = (policy(), Row { tokens: &[1, 2, 3], targets: &[1, 2] });
        for critic in critics(&policy) {
            let pass = policy.forward(&[row], 1.0, WANTED).unwrap();
            let error = critic.forward(&[row], &pass).unwrap().backward(&[1.0]).unwrap_err().to_string();
            assert_eq!(error, "by_value: 1 numbers for 2 targets");
            let error = critic.forward(&[row], &pass).unwrap().backward(&[1.0, f32::NAN]).unwrap_err().to_string();
            assert_eq!(error, "by_value: NaN at target 1");
            let values = critic.forward(&[row], &pass).unwrap();
            Optimizer::of_critic(&critic, AdamW::default()).unwrap().step(1e-3).unwrap();
            assert!(matches!(values.backward(&[1.0, 1.0]), Err(Error::Stale { .. })));
        }
        let [_, copy] = critics(&policy);
        let pass = policy.forward(&[], 1.0, WANTED).unwrap();
        let error = copy.forward(&[row], &pass).unwrap_err().to_string();
        assert_eq!(error, "rows: 2 targets, and the policy's pass has 0");
        assert!(copy.forward(&[], &pass).unwrap().backward(&[]).is_ok());
    }
}
