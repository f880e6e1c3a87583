//! AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101) over the flat buffer, with the gradient clipped by its global
//! norm.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use safetensors::tensor::{Dtype, SafeTensors};
use tch::{Kind, Tensor};

use crate::critic::Critic;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::shim::{self, AdamWStep};
use crate::tensors;
use crate::weights::Weights;

/// The constants of AdamW. Weight decay acts on matrices; norms and biases have none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
    /// Learning rate; each step may be given another one.
    pub lr: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Decoupled weight decay, times the learning rate.
    pub weight_decay: f64,
    /// Largest global norm of a gradient; longer ones are scaled down to it. Infinite means no clipping.
    pub max_grad_norm: f64,
}

impl Default for AdamW {
    fn default() -> Self {
        Self { lr: 1e-5, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.01, max_grad_norm: 1.0 }
    }
}

/// What one step did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepReport {
    /// Global norm of the gradient before clipping.
    pub grad_norm: f64,
    /// Whether it was scaled down.
    pub clipped: bool,
}

/// The optimiser of one model, or of one critic.
#[derive(Debug)]
pub struct Optimizer {
    constants: AdamW,
    /// Parts of the flat buffers in a row: their lengths, and whether weight decay is for them.
    parts: Vec<(usize, bool)>,
    /// Shared with the model, as is the gradient; all four of one length.
    weights: Tensor,
    gradient: Tensor,
    first_moment: Tensor,
    second_moment: Tensor,
    steps: u64,
    version: Arc<AtomicU64>,
}

impl Optimizer {
    /// An optimiser that has made no step. Errors: a frozen model, constants out of range.
    pub fn new(model: &Model, constants: AdamW) -> Result<Self> {
        Self::over(model.weights(), constants)
    }

    /// An optimiser of a critic: of its value head, and of its trunk where it has one of its own. Errors: constants out
    /// of range.
    pub fn of_critic(critic: &Critic, constants: AdamW) -> Result<Self> {
        Self::over(critic.weights(), constants)
    }

    fn over(weights: &Weights, constants: AdamW) -> Result<Self> {
        constants.check()?;
        let gradient = &weights.gradient.as_ref().ok_or(Error::Frozen)?.flat;
        let (version, parts) = (Arc::clone(&weights.version), weights.layout().decay_parts());
        let weights = weights.own.shallow_clone();
        Ok(Self {
            constants,
            parts,
            first_moment: weights.f_zeros_like()?,
            second_moment: weights.f_zeros_like()?,
            gradient: gradient.shallow_clone(),
            weights,
            steps: 0,
            version,
        })
    }

    /// The constants.
    pub fn constants(&self) -> &AdamW {
        &self.constants
    }

    /// Number of steps made.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Sets the model's gradient to 0.
    pub fn zero_grad(&mut self) -> Result<()> {
        let _same = self.gradient.f_zero_()?;
        Ok(())
    }

    /// One step with the gradient that backward passes have added up. Errors: a gradient with NaN or infinity, which
    /// leaves weights and moments as they were.
    pub fn step(&mut self, lr: f64) -> Result<StepReport> {
        check_not_negative("lr", lr)?;
        let grad_norm = self.gradient.f_norm()?.f_double_value(&[])?;
        if !grad_norm.is_finite() {
            return Err(Error::Gradient { norm: grad_norm });
        }
        let clipped = grad_norm > self.constants.max_grad_norm;
        if clipped {
            let _same = self.gradient.f_mul_scalar_(self.constants.max_grad_norm / grad_norm)?;
        }
        let AdamW { beta1, beta2, eps, weight_decay, .. } = self.constants;
        let mut start = 0;
        for (len, decays) in &self.parts {
            let part = |flat: &Tensor| flat.f_narrow(0, start, *len as i64);
            let weight_decay = if *decays { weight_decay } else { 0.0 };
            let constants = AdamWStep { step: self.steps + 1, lr, beta1, beta2, weight_decay, eps };
            let (weights, gradient) = (part(&self.weights)?, part(&self.gradient)?);
            shim::fused_adamw(
                &weights,
                &gradient,
                &part(&self.first_moment)?,
                &part(&self.second_moment)?,
                &constants,
            )?;
            start += *len as i64;
        }
        self.steps += 1;
        self.version.fetch_add(1, Ordering::AcqRel);
        Ok(StepReport { grad_norm, clipped })
    }

    /// Writes the moments and the number of steps, bit for bit.
    pub fn save(&self, path: &Path) -> Result<()> {
        self.snapshot(false)?.save(path)
    }

    pub(crate) fn moments(&self) -> [&Tensor; 2] {
        [&self.first_moment, &self.second_moment]
    }

    /// Reads what [`Optimizer::save`] wrote for a model of the same shape. Errors: a file that is missing, broken, or of
    /// another model; the optimiser is then as it was.
    pub fn load(&mut self, path: &Path) -> Result<()> {
        let map = tensors::mapped(path)?;
        let tensors = tensors::parsed(path, &map)?;
        let (_, header) = SafeTensors::read_metadata(&map).map_err(|e| Error::file(path, e))?;
        let steps = header.metadata().as_ref().and_then(|metadata| metadata.get("steps")?.parse().ok());
        let steps = steps.ok_or_else(|| Error::file(path, "no number `steps` in the metadata"))?;
        let read = |name: &str| {
            let view = tensors.tensor(name).map_err(|e| Error::file(path, e))?;
            let len = self.weights.numel();
            if view.dtype() != Dtype::F32 || view.shape() != [len] {
                let found =
                    format!("{name}: {:?} {:?}, expected F32 [{len}]: another model's", view.dtype(), view.shape());
                return Err(Error::file(path, found));
            }
            let moments = Tensor::f_from_data_size(view.data(), &[len as i64], Kind::Float)?;
            tensors::check_finite(path, name, &moments)?;
            Ok(moments.f_to_device(self.weights.device())?)
        };
        let (first, second) = (read("first_moment")?, read("second_moment")?);
        (self.first_moment, self.second_moment, self.steps) = (first, second, steps);
        Ok(())
    }
}

impl AdamW {
    fn check(&self) -> Result<()> {
        for (name, decay) in [("beta1", self.beta1), ("beta2", self.beta2)] {
            if !(0.0..1.0).contains(&decay) {
                return Err(Error::argument(name, format!("{decay} must lie in [0, 1)")));
            }
        }
        for (name, number) in [("lr", self.lr), ("eps", self.eps), ("weight_decay", self.weight_decay)] {
            check_not_negative(name, number)?;
        }
        if self.max_grad_norm.is_nan() || self.max_grad_norm <= 0.0 {
            return Err(Error::argument("max_grad_norm", format!("{} must be positive", self.max_grad_norm)));
        }
        Ok(())
    }
}

fn check_not_negative(name: &'static str, number: f64) -> Result<()> {
    if number.is_finite() && number >= 0.0 {
        return Ok(());
    }
    Err(Error::argument(name, format!("{number} must not be negative")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::tensors;
    use crate::{Derivatives, ModelConfig, Row, Shape, SpecialIds, Wanted};

    fn model() -> Model {
        let shape = Shape { vocab_size: 23, hidden_size: 16, intermediate_size: 24, ..Shape::default() };
        let config = ModelConfig::new(shape, SpecialIds::default()).unwrap();
        Model::create(config, 5, Device::CPU).unwrap().with_gradients().unwrap()
    }

    const ROW: Row = Row { tokens: &[1, 2, 3, 4], targets: &[1, 2, 3] };

    /// Adds a gradient that makes the row likelier, `scale` times.
    fn backward(model: &Model, scale: f32) {
        let fresh = model.forward(&[ROW], 1.0, Wanted::default()).unwrap();
        fresh.backward(&Derivatives { logprob: &[-scale; 3], ..Derivatives::default() }).unwrap();
    }

    fn bytes(tensor: &Tensor) -> Vec<u8> {
        tensors::bytes(tensor).unwrap().to_vec()
    }

    #[test]
    fn one_step_is_the_formula() {
        let model = model();
        let constants = AdamW { weight_decay: 0.1, max_grad_norm: f64::INFINITY, ..AdamW::default() };
        let mut optimizer = Optimizer::new(&model, constants).unwrap();
        backward(&model, 1.0);
        let (before, g) = (optimizer.weights.copy(), optimizer.gradient.copy());
        let report = optimizer.step(0.01).unwrap();
        assert!(!report.clipped && (report.grad_norm - g.norm().double_value(&[])).abs() < 1e-9);
        // At the first step both corrected moments are g and g^2.
        // Norms and biases lie first, and do not decay.
        let free = optimizer.parts[0].0 as i64;
        let decay = Tensor::full_like(&before, 0.01 * 0.1);
        let _ = decay.narrow(0, 0, free).zero_();
        let expected: Tensor = &before - &before * decay - &g * 0.01 / (g.abs() + 1e-8);
        let off = (&optimizer.weights - expected).abs().max().double_value(&[]);
        assert!(off < 1e-6, "{off}");
    }

    #[test]
    fn a_long_gradient_is_scaled_to_the_limit() {
        let model = model();
        let mut optimizer = Optimizer::new(&model, AdamW { max_grad_norm: 0.5, ..AdamW::default() }).unwrap();
        backward(&model, 100.0);
        let report = optimizer.step(1e-3).unwrap();
        assert!(report.clipped && report.grad_norm > 0.5);
        assert!((optimizer.gradient.norm().double_value(&[]) - 0.5).abs() < 1e-5);
        optimizer.zero_grad().unwrap();
        assert!(!optimizer.step(1e-3).unwrap().clipped);
    }

    #[test]
    fn a_gradient_that_is_not_finite_leaves_everything_as_it_was() {
        let model = model();
        let mut optimizer = Optimizer::new(&model, AdamW::default()).unwrap();
        let before = bytes(&optimizer.weights);
        for bad in [f64::NAN, f64::INFINITY] {
            let _ = optimizer.gradient.fill_(bad);
            assert!(matches!(optimizer.step(0.1), Err(Error::Gradient { .. })));
            assert_eq!((bytes(&optimizer.weights), optimizer.steps()), (before.clone(), 0));
        }
    }

    #[test]
    fn training_makes_the_row_likelier() {
        let model = model();
        let mut optimizer = Optimizer::new(&model, AdamW::default()).unwrap();
        let logprob = || model.score(&[ROW], Wanted { logprob: true, ..Wanted::default() }, 1.0, 10).unwrap().logprob;
        let before: f32 = logprob().iter().sum();
        for _ in 0..20 {
            optimizer.zero_grad().unwrap();
            backward(&model, 1.0);
            optimizer.step(1e-2).unwrap();
        }
        assert!(logprob().iter().sum::<f32>() > before + 5.0);
    }

    #[test]
    fn a_restored_optimiser_continues_bit_for_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("optimizer.safetensors");
        let step = |model: &Model, optimizer: &mut Optimizer| {
            optimizer.zero_grad().unwrap();
            backward(model, 1.0);
            optimizer.step(1e-2).unwrap();
        };
        let first = model();
        let mut optimizer = Optimizer::new(&first, AdamW::default()).unwrap();
        for _ in 0..3 {
            step(&first, &mut optimizer);
        }
        optimizer.save(&path).unwrap();
        first.save(folder.path()).unwrap();
        let second = Model::load(folder.path(), Device::CPU).unwrap().with_gradients().unwrap();
        let mut restored = Optimizer::new(&second, AdamW::default()).unwrap();
        restored.load(&path).unwrap();
        for _ in 0..3 {
            step(&first, &mut optimizer);
            step(&second, &mut restored);
        }
        assert_eq!(bytes(&optimizer.weights), bytes(&restored.weights));
        assert_eq!(bytes(&optimizer.second_moment), bytes(&restored.second_moment));
        assert_eq!(restored.steps(), 6);
    }

    #[test]
    fn another_models_state_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("optimizer.safetensors");
        Optimizer::new(&model(), AdamW::default()).unwrap().save(&path).unwrap();
        let config = ModelConfig::new(Shape::default(), SpecialIds::default()).unwrap();
        let other = Model::create(config, 5, Device::CPU).unwrap().with_gradients().unwrap();
        let error = Optimizer::new(&other, AdamW::default()).unwrap().load(&path).unwrap_err().to_string();
        assert!(error.contains("another model's"), "{error}");
    }

    #[test]
    fn a_forward_pass_from_before_a_step_is_refused() {
        let model = model();
        let mut optimizer = Optimizer::new(&model, AdamW::default()).unwrap();
        let fresh = model.forward(&[ROW], 1.0, Wanted::default()).unwrap();
        optimizer.step(1e-3).unwrap();
        let stale = fresh.backward(&Derivatives { logprob: &[1.0; 3], ..Derivatives::default() });
        assert!(matches!(stale, Err(Error::Stale { .. })));
    }

    #[test]
    fn constants_out_of_range_are_named() {
        let error = |constants| Optimizer::new(&model(), constants).unwrap_err().to_string();
        assert_eq!(error(AdamW { beta2: 1.0, ..AdamW::default() }), "beta2: 1 must lie in [0, 1)");
        assert_eq!(error(AdamW { lr: -1.0, ..AdamW::default() }), "lr: -1 must not be negative");
        assert_eq!(error(AdamW { max_grad_norm: f64::NAN, ..AdamW::default() }), "max_grad_norm: NaN must be positive");
    }
}
