//! Fresh columns with gradients, and the way back from their derivatives.

use tch::Tensor;

use crate::critic::TrunkGradient;
use crate::error::{Error, Result};
use crate::head::{ColumnsBack, Head};
use crate::listed::Listed;
use crate::model::{Model, Pass};
use crate::rows::{self, Row};
use crate::score::{Scores, Wanted, check_temperature};

/// Derivatives of a loss with respect to the columns of a [`Fresh`], one per target.
#[derive(Clone, Copy, Debug, Default)]
pub struct Derivatives<'a> {
    /// With respect to the log-probs.
    pub logprob: &'a [f32],
    /// With respect to the entropies, where they were wanted.
    pub entropy: Option<&'a [f32]>,
    /// With respect to the log-probs of the listed tokens, where there is a list: as many for each target as it lists.
    pub listed: Option<&'a [f32]>,
}

/// The columns of one forward pass that recorded gradients.
#[derive(Debug)]
pub struct Fresh<'a> {
    model: &'a Model,
    version: u64,
    temperature: f64,
    scores: Scores,
    listed: Vec<f32>,
    /// What the backward pass needs; none where no row had a target.
    recorded: Option<Recorded>,
}

#[derive(Debug)]
struct Recorded {
    pass: Pass,
    /// `[N]`.
    targets: Tensor,
    /// `[N, k]`, where tokens are listed.
    ids: Option<Tensor>,
    /// Log-probabilities over the vocabulary, where they were kept.
    kept: Vec<Tensor>,
}

impl Model {
    /// Runs the rows forward in one pass and records gradients. Log-probs are always computed,
    /// entropies if they are wanted.
    ///
    /// How many rows fit in memory is the caller's to know; [`crate::passes`] cuts. Errors: a frozen model, rows that
    /// are not valid, a temperature that is not positive, energies wanted (they have no gradient).
    pub fn forward(&self, rows: &[Row], temperature: f32, wanted: Wanted) -> Result<Fresh<'_>> {
        self.forward_listed(rows, temperature, wanted, None)
    }

    /// As [`Model::forward`], with the log-probs of listed tokens at each target. Errors: also a list that does not fit
    /// the rows.
    pub fn forward_listed(
        &self,
        rows: &[Row],
        temperature: f32,
        wanted: Wanted,
        listed: Option<Listed<'_>>,
    ) -> Result<Fresh<'_>> {
        rows::check(rows, self.config().shape())?;
        if let Some(listed) = &listed {
            listed.check(rows.iter().map(|row| row.targets.len()).sum(), self.config().shape().vocab_size)?;
        }
        check_temperature(temperature)?;
        if wanted.energy {
            return Err(Error::argument("wanted", "energies have no gradient: score them"));
        }
        if self.weights().gradient.is_none() {
            return Err(Error::Frozen);
        }
        let temperature = f64::from(temperature);
        let mut fresh = Fresh {
            model: self,
            version: self.weights().version(),
            temperature,
            scores: Scores::default(),
            listed: Vec::new(),
            recorded: None,
        };
        let trained: Vec<Row> = rows.iter().filter(|row| !row.targets.is_empty()).copied().collect();
        if trained.is_empty() {
            return Ok(fresh);
        }
        let batch = self.trunk().batch(trained.iter().copied())?;
        let pass = self.trunk().pass(&batch)?;
        let _no_grad = tch::no_grad_guard();
        let head = Head::new(self.head(), temperature, self.dtype())?;
        let wanted = Wanted { logprob: true, ..wanted };
        let ids = listed.map(|listed| listed.tensor(self.device())).transpose()?;
        let (scores, listed, kept) =
            head.columns_for_backward(&pass.hidden.f_detach()?, &batch.targets, wanted, ids.as_ref())?;
        fresh.scores = scores;
        fresh.listed = listed;
        fresh.recorded = Some(Recorded { pass, targets: batch.targets, ids, kept });
        Ok(fresh)
    }
}

impl Fresh<'_> {
    /// ln p of each target, in the order of the rows.
    pub fn logprob(&self) -> &[f32] {
        &self.scores.logprob
    }

    /// Entropy at each target, in the order of the rows; empty if it was not wanted.
    pub fn entropy(&self) -> &[f32] {
        &self.scores.entropy
    }

    /// ln p of the listed tokens, in the order of the list; empty without one.
    pub fn listed(&self) -> &[f32] {
        &self.listed
    }

    /// The hidden states that predict the targets, `[N, D]`, without the graph behind them; none without a target.
    pub(crate) fn hidden(&self) -> Result<Option<Tensor>> {
        Ok(self.recorded.as_ref().map(|recorded| recorded.pass.hidden.f_detach()).transpose()?)
    }

    /// Runs backward on Σ column × derivative, and adds the result to the model's gradient.
    ///
    /// Errors: a derivative column of another length or with a number that is not finite, one for entropies that were
    /// not wanted, or weights that changed since the forward pass. The gradient is then as it was.
    pub fn backward(self, derivatives: &Derivatives) -> Result<()> {
        self.backward_with(derivatives, TrunkGradient::default())
    }

    /// As [`Fresh::backward`], with what the values of a critic that shares this model's trunk add: the same pass gives
    /// the gradient of both.
    pub fn backward_with(self, derivatives: &Derivatives, values: TrunkGradient) -> Result<()> {
        check_column("derivatives.logprob", derivatives.logprob, self.scores.logprob.len())?;
        if let Some(by_entropy) = derivatives.entropy {
            check_column("derivatives.entropy", by_entropy, self.scores.entropy.len())?;
        }
        if let Some(by_listed) = derivatives.listed {
            check_column("derivatives.listed", by_listed, self.listed.len())?;
        }
        if self.version != self.model.weights().version() {
            return Err(Error::Stale { what: "forward pass" });
        }
        let Some(Recorded { pass, targets, ids, kept }) = self.recorded else {
            return Ok(());
        };
        let device = self.model.device().0;
        let column = |values: &[f32]| Tensor::f_from_slice(values)?.f_to_device(device);
        let gradient = {
            let _no_grad = tch::no_grad_guard();
            let by_entropy = derivatives.entropy.map(|by| Ok::<_, Error>((column(by)?, column(&self.scores.entropy)?)));
            let by_listed = match (derivatives.listed, ids) {
                (Some(by), Some(ids)) => Some((column(by)?.f_view_as(&ids)?, ids)),
                _ => None,
            };
            let columns = ColumnsBack {
                logprob: column(derivatives.logprob)?,
                entropy: by_entropy.transpose()?,
                listed: by_listed,
            };
            let head = Head::new(self.model.head(), self.temperature, self.model.dtype())?;
            let mut gradient = head.backward(
                &pass.hidden.f_detach()?,
                &targets,
                &columns,
                kept,
                self.model.head_gradient()?.as_ref(),
            )?;
            if let Some(by_values) = values.at_hidden {
                let _same = gradient.f_add_(&by_values)?;
            }
            gradient
        };
        pass.backward(self.model.trunk(), &gradient)
    }
}

pub(crate) fn check_column(name: &'static str, column: &[f32], expected: usize) -> Result<()> {
    if column.len() != expected {
        return Err(Error::argument(name, format!("{} numbers for {expected} targets", column.len())));
    }
    match column.iter().position(|number| !number.is_finite()) {
        Some(index) => Err(Error::argument(name, format!("{} at target {index}", column[index]))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use tch::Kind;

    use super::*;
    use crate::device::Device;
    use crate::{ModelConfig, Shape, SpecialIds};

    const ENTROPY: Wanted = Wanted { logprob: true, entropy: true, energy: false };

    fn model(tied: bool) -> Model {
        crate::testing::model(tied).with_gradients().unwrap()
    }

    /// Eight rows of different lengths with targets, and derivatives for each target.
    struct Data {
        tokens: Vec<Vec<u32>>,
        targets: Vec<Vec<u32>>,
        by_logprob: Vec<Vec<f32>>,
        by_entropy: Vec<Vec<f32>>,
    }

    impl Data {
        fn new() -> Self {
            let tokens: Vec<Vec<u32>> =
                (0..8).map(|r| (0..5 + 2 * (r % 5)).map(|i| (11 * r + 3 * i) % 23).collect()).collect();
            let targets: Vec<Vec<u32>> = tokens.iter().map(|t| (2..t.len() as u32).collect()).collect();
            let numbers = |f: fn(f32) -> f32| {
                targets
                    .iter()
                    .enumerate()
                    .map(|(r, t)| t.iter().map(|i| f(*i as f32 + 7.0 * r as f32)).collect())
                    .collect()
            };
            Self { by_logprob: numbers(f32::sin), by_entropy: numbers(f32::cos), tokens, targets }
        }

        fn rows(&self) -> Vec<Row<'_>> {
            self.tokens.iter().zip(&self.targets).map(|(tokens, targets)| Row { tokens, targets }).collect()
        }
    }

    /// The flat gradient after micro-batches of `size` rows.
    fn gradient(model: &Model, data: &Data, size: usize) -> Tensor {
        let flat = &model.weights().gradient.as_ref().unwrap().flat;
        let _ = flat.shallow_clone().zero_();
        let rows = data.rows();
        for start in (0..rows.len()).step_by(size) {
            let range = start..rows.len().min(start + size);
            let fresh = model.forward(&rows[range.clone()], 0.9, ENTROPY).unwrap();
            let (by_logprob, by_entropy) = (data.by_logprob[range.clone()].concat(), data.by_entropy[range].concat());
            fresh
                .backward(&Derivatives { logprob: &by_logprob, entropy: Some(&by_entropy), ..Derivatives::default() })
                .unwrap();
        }
        flat.copy()
    }

    #[test]
    fn the_gradient_is_the_same_for_every_cut_into_micro_batches() {
        for tied in [false, true] {
            let (model, data) = (model(tied), Data::new());
            let whole = gradient(&model, &data, 8);
            assert!(whole.norm().double_value(&[]) > 0.1);
            for size in 1..8 {
                let off = (gradient(&model, &data, size) - &whole).norm() / whole.norm();
                assert!(off.double_value(&[]) < 1e-5, "cut into {size}: {off:?}");
            }
        }
    }

    #[test]
    fn the_gradient_is_that_of_the_loss_by_autograd() {
        for tied in [false, true] {
            let (model, data) = (model(tied), Data::new());
            let ours = gradient(&model, &data, 8);
            let flat = &model.weights().gradient.as_ref().unwrap().flat;
            let _ = flat.shallow_clone().zero_();
            let batch = model.trunk().batch(data.rows().into_iter()).unwrap();
            let logits = model.hidden_of_targets(&batch).unwrap().matmul(&model.head().tr());
            let log_p = (logits / f64::from(0.9_f32)).log_softmax(-1, Kind::Float);
            let logprob = log_p.gather(-1, &batch.targets.unsqueeze(-1), false).view([-1]);
            let entropy = -(log_p.exp() * &log_p).sum_dim_intlist(-1, false, Kind::Float);
            let by_logprob = Tensor::from_slice(&data.by_logprob.concat());
            let by_entropy = Tensor::from_slice(&data.by_entropy.concat());
            (logprob * by_logprob + entropy * by_entropy).sum(Kind::Float).backward();
            let off = (&ours - flat).norm() / flat.norm();
            assert!(off.double_value(&[]) < 1e-5, "{off:?}");
        }
    }

    /// Rows that are far from each other in length, so that there are several blocks although a small model's padding is
    /// cheap.
    #[test]
    fn no_row_sees_another_and_padding_is_seen_by_none() {
        let model = model(true);
        let tokens: Vec<Vec<u32>> =
            [2000_u32, 9, 1990, 8, 2, 1995].map(|n| (0..n).map(|i| (5 * i + n) % 23).collect()).into();
        let targets: Vec<Vec<u32>> = tokens.iter().map(|t| (1..t.len() as u32).collect()).collect();
        let rows: Vec<Row> = tokens.iter().zip(&targets).map(|(tokens, targets)| Row { tokens, targets }).collect();
        let run = |rows: &[Row]| {
            let _ = model.weights().gradient.as_ref().unwrap().flat.shallow_clone().zero_();
            let fresh = model.forward(rows, 1.0, ENTROPY).unwrap();
            let logprob = fresh.logprob().to_vec();
            let derivatives: Vec<f32> = logprob.iter().map(|logprob| logprob.sin()).collect();
            fresh.backward(&Derivatives { logprob: &derivatives, ..Derivatives::default() }).unwrap();
            (logprob, model.weights().gradient.as_ref().unwrap().flat.copy())
        };
        assert!(model.trunk().batch(rows.iter().copied()).unwrap().blocks.len() > 2);
        let (together, gradient) = run(&rows);
        let alone: Vec<_> = rows.iter().map(|row| run(&[*row])).collect();
        for (a, b) in together.iter().zip(alone.iter().flat_map(|(logprob, _)| logprob)) {
            assert!((a - b).abs() < 1e-5, "{a} {b}");
        }
        let sum = alone.iter().fold(gradient.zeros_like(), |sum, (_, gradient)| sum + gradient);
        let off = ((&gradient - sum).norm() / gradient.norm()).double_value(&[]);
        assert!(off < 1e-5, "{off}");
    }

    #[test]
    fn checkpointing_changes_memory_and_no_number() {
        for family in crate::Family::ALL {
            let shape = Shape { family, ..model(false).config().shape().clone() };
            let config = ModelConfig::new(shape, SpecialIds::default()).unwrap();
            let model = Model::create(config, 5, Device::CPU).unwrap().with_gradients().unwrap();
            let data = Data::new();
            let plain = gradient(&model, &data, 3);
            let model = model.with_gradient_checkpointing(true);
            let again = gradient(&model, &data, 3);
            let off = ((&again - &plain).norm() / plain.norm()).double_value(&[]);
            assert!(plain.norm().double_value(&[]) > 0.1 && off < 1e-6, "{off}");
        }
    }

    #[test]
    fn fresh_columns_are_those_of_score() {
        let (model, data) = (model(false), Data::new());
        let fresh = model.forward(&data.rows(), 0.9, ENTROPY).unwrap();
        let scores = model.score(&data.rows(), ENTROPY, 0.9, 1000).unwrap();
        for (a, b) in fresh.logprob().iter().zip(&scores.logprob).chain(fresh.entropy().iter().zip(&scores.entropy)) {
            assert!((a - b).abs() < 1e-5);
        }
    }

    #[test]
    fn rows_without_targets_train_nothing() {
        let model = model(true);
        let fresh = model.forward(&[Row { tokens: &[1, 2], targets: &[] }], 1.0, ENTROPY).unwrap();
        assert!(fresh.logprob().is_empty() && fresh.entropy().is_empty());
        fresh.backward(&Derivatives { logprob: &[], ..Derivatives::default() }).unwrap();
        assert_eq!(model.weights().gradient.as_ref().unwrap().flat.norm().double_value(&[]), 0.0);
    }

    #[test]
    fn bad_derivatives_are_refused_with_their_place() {
        let (model, row) = (model(true), Row { tokens: &[1, 2, 3], targets: &[1, 2] });
        let error = |wanted, logprob: &[f32], entropy: Option<&[f32]>| {
            let fresh = model.forward(&[row], 1.0, wanted).unwrap();
            fresh.backward(&Derivatives { logprob, entropy, ..Derivatives::default() }).unwrap_err().to_string()
        };
        assert_eq!(error(ENTROPY, &[1.0], None), "derivatives.logprob: 1 numbers for 2 targets");
        assert_eq!(error(ENTROPY, &[1.0, f32::NAN], None), "derivatives.logprob: NaN at target 1");
        assert_eq!(
            error(Wanted::default(), &[1.0, 1.0], Some(&[0.0, 0.0])),
            "derivatives.entropy: 2 numbers for 0 targets"
        );
    }

    #[test]
    fn a_frozen_model_is_not_trained() {
        let frozen = model(true).frozen_copy().unwrap();
        assert!(matches!(frozen.forward(&[], 1.0, ENTROPY), Err(Error::Frozen)));
    }
}
