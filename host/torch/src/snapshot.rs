//! Weights and moments as they are at one moment, on the CPU, to be written while training goes on.

use std::fs;
use std::path::Path;

use tch::{Kind, Tensor};

use crate::config::{CONFIG_FILE, ModelConfig};
use crate::critic::Critic;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::files::write_aside;
use crate::lora::AdapterConfig;
use crate::model::Model;
use crate::optimizer::Optimizer;
use crate::tensors::{self, Named};
use crate::weights::Weights;

/// Largest weights file of a saved model, as transformers cuts them.
const SHARD_BYTES: usize = 5_000_000_000;

/// The weights of a model or of a critic. What is written is what [`Model::save`] and [`Critic::save`] write.
#[derive(Debug)]
pub struct Snapshot {
    of: Of,
    weights: Weights,
}

/// What the weights are those of.
#[derive(Debug)]
enum Of {
    Model(Box<ModelConfig>),
    Adapter(AdapterConfig),
    Critic,
}

/// The moments of an optimiser and its number of steps.
#[derive(Debug)]
pub struct Moments {
    first: Tensor,
    second: Tensor,
    steps: u64,
}

impl Model {
    /// The weights as they are now. Not `copied`, they are those of the model and change with it. Weights that are not
    /// trained are never copied.
    pub fn snapshot(&self, copied: bool) -> Result<Snapshot> {
        let of = match self.adapter() {
            Some(adapter) => Of::Adapter(adapter.clone()),
            None => Of::Model(Box::new(self.config().clone())),
        };
        Ok(Snapshot { of, weights: self.weights().on_cpu(copied)? })
    }
}

impl Critic {
    /// As [`Model::snapshot`].
    pub fn snapshot(&self, copied: bool) -> Result<Snapshot> {
        Ok(Snapshot { of: Of::Critic, weights: self.weights().on_cpu(copied)? })
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
    /// Writes the files into a folder, which is made if it is not there: in f32, so that nothing is lost, each written
    /// aside and renamed.
    pub fn save(&self, folder: &Path) -> Result<()> {
        self.write(folder, DType::F32, SHARD_BYTES)
    }

    /// As [`Snapshot::save`], a whole model in a type of numbers and in files of at most `shard_bytes`, where one tensor is
    /// not larger.
    pub(crate) fn write(&self, folder: &Path, dtype: DType, shard_bytes: usize) -> Result<()> {
        fs::create_dir_all(folder).map_err(|e| Error::io(folder, e))?;
        match &self.of {
            Of::Adapter(adapter) => {
                adapter.save(folder)?;
                return self.weights.save_adapter(folder);
            }
            Of::Model(config) => write_aside(&folder.join(CONFIG_FILE), |to| {
                fs::write(to, config.to_json(dtype)).map_err(|e| Error::io(to, e))
            })?,
            Of::Critic => {}
        }
        self.weights.save(folder, dtype, shard_bytes)
    }
}

impl Moments {
    /// Writes the moments and the number of steps, bit for bit; [`Optimizer::load`] reads them.
    pub fn save(&self, path: &Path) -> Result<()> {
        let shape = [self.first.numel()];
        let moments = [("first_moment", &self.first), ("second_moment", &self.second)];
        let moments =
            moments.map(|(name, moment)| Named { name: name.into(), shape: &shape, numbers: moment.shallow_clone() });
        tensors::write(path, &moments, DType::F32, [("steps", self.steps.to_string())])
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
