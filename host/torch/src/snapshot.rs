//! Weights and moments as they are at one moment, on the CPU, to be written while training goes on.

use std::fs;
use std::path::Path;

use tch::{Kind, Tensor};

use crate::config::CONFIG_FILE;
use crate::critic::Critic;
use crate::error::{Error, Result};
use crate::files::write_aside;
use crate::model::Model;
use crate::optimizer::Optimizer;
use crate::weights::{F32View, Weights, f32_bytes, write_safetensors};

/// The weights of a model or of a critic. What is written is what [`Model::save`] and [`Critic::save`] write.
#[derive(Debug)]
pub struct Snapshot {
    /// `config.json` of a model.
    config: Option<String>,
    weights: Weights,
}

/// The moments of an optimiser and its number of steps.
#[derive(Debug)]
pub struct Moments {
    first: Tensor,
    second: Tensor,
    steps: u64,
}

impl Model {
    /// The weights as they are now. Not `copied`, they are those of the model and change with it.
    pub fn snapshot(&self, copied: bool) -> Result<Snapshot> {
        Ok(Snapshot { config: Some(self.config().to_json()), weights: self.weights().on_cpu(copied)? })
    }
}

impl Critic {
    /// As [`Model::snapshot`].
    pub fn snapshot(&self, copied: bool) -> Result<Snapshot> {
        Ok(Snapshot { config: None, weights: self.weights().on_cpu(copied)? })
    }
}

impl Optimizer {
    /// The moments as they are now; see [`Model::snapshot`].
    pub fn snapshot(&self, copied: bool) -> Result<Moments> {
        let [first, second] = self.moments();
        Ok(Moments { first: on_cpu(first, copied)?, second: on_cpu(second, copied)?, steps: self.steps() })
    }
}

impl Snapshot {
    /// Writes `model.safetensors`, and `config.json` of a model, into a folder, which is made if it is not there. Each file
    /// is written aside and renamed.
    pub fn save(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder).map_err(|e| Error::io(folder, e))?;
        if let Some(config) = &self.config {
            write_aside(&folder.join(CONFIG_FILE), |to| fs::write(to, config).map_err(|e| Error::io(to, e)))?;
        }
        self.weights.save(folder)
    }
}

impl Moments {
    /// Writes the moments and the number of steps, bit for bit; [`Optimizer::load`] reads them.
    pub fn save(&self, path: &Path) -> Result<()> {
        let shape = [self.first.numel()];
        let tensors = [
            ("first_moment", F32View { shape: &shape, bytes: f32_bytes(&self.first)? }),
            ("second_moment", F32View { shape: &shape, bytes: f32_bytes(&self.second)? }),
        ];
        write_safetensors(path, tensors, [("format", "pt".to_owned()), ("steps", self.steps.to_string())])
    }
}

/// A tensor on the CPU, as a copy or as it is if it is there.
pub(crate) fn on_cpu(tensor: &Tensor, copied: bool) -> Result<Tensor> {
    let detached = tensor.f_detach()?;
    Ok(detached.f_to_device_(tch::Device::Cpu, Kind::Float, false, copied)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AdamW, Derivatives, Row, Wanted};

    #[test]
    fn a_copy_stays_as_it_was_while_training_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let model = crate::testing::model(false).with_gradients().unwrap();
        let critic = Critic::copy(&model).unwrap();
        let mut optimizers = [
            Optimizer::new(&model, AdamW::default()).unwrap(),
            Optimizer::of_critic(&critic, AdamW::default()).unwrap(),
        ];
        let row = Row { tokens: &[1, 2, 3, 4], targets: &[1, 2, 3] };
        let mut step = || {
            let pass = model.forward(&[row], 1.0, Wanted::default()).unwrap();
            critic.forward(&[row], &pass).unwrap().backward(&[1.0; 3]).unwrap();
            pass.backward(&Derivatives { logprob: &[-1.0; 3], ..Derivatives::default() }).unwrap();
            for optimizer in &mut optimizers {
                optimizer.step(1e-2).unwrap();
            }
            [optimizers[0].snapshot(true).unwrap(), optimizers[0].snapshot(false).unwrap()]
        };
        let copied_moments = step();
        let (copied, shared) = (model.snapshot(true).unwrap(), model.snapshot(false).unwrap());
        let of_critic = critic.snapshot(true).unwrap();
        // Entries of a header come in any order.
        let numbers = |mut file: Vec<u8>| {
            let header = u64::from_le_bytes(*file.first_chunk().unwrap()) as usize;
            file.split_off(8 + header)
        };
        let write = |snapshot: &Snapshot, name: &str| {
            let folder = folder.path().join(name);
            snapshot.save(&folder).unwrap();
            numbers(fs::read(folder.join("model.safetensors")).unwrap())
        };
        let write_moments = |moments: &Moments| {
            let file = folder.path().join("moments");
            moments.save(&file).unwrap();
            numbers(fs::read(file).unwrap())
        };
        let before = [write(&copied, "a"), write(&shared, "b"), write(&of_critic, "c")];
        let moments_before = copied_moments.each_ref().map(write_moments);
        assert!(before[0] == before[1]);
        model.save(&folder.path().join("saved")).unwrap();
        let read = |name: &str, file: &str| fs::read(folder.path().join(name).join(file)).unwrap();
        assert!(read("saved", "config.json") == read("a", "config.json"));
        assert!(numbers(read("saved", "model.safetensors")) == before[0]);

        step();
        // What is shared moves with the model, and what is copied does not.
        assert!(write(&copied, "a") == before[0] && write(&shared, "b") != before[0]);
        assert!(write(&of_critic, "c") == before[2] && write(&critic.snapshot(false).unwrap(), "d") != before[2]);
        assert!(write_moments(&copied_moments[0]) == moments_before[0]);
        assert!(write_moments(&copied_moments[1]) != moments_before[1]);
    }
}
