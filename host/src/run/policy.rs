//! The policy as the configuration wants it: where it computes and with what, and which of its weights are trained.

use std::{
    fs,
    path::{Path, PathBuf},
};

use accredit_torch::{AdapterConfig, DType, Device, Lora, Model, Target, Trained};
use anyhow::{Context, Result};

use crate::{
    checkpoint,
    config::{self, Config},
    telemetry::RunFolder,
};

/// What `[model]` says, for a device.
#[derive(Clone, Debug)]
pub struct Form {
    pub device: Device,
    pub dtype: DType,
    trained: Trained,
    seed: u64,
    checkpointing: Option<bool>,
}

impl Form {
    /// Of a configuration, for the model in a folder; one that is an adapter already goes on with it.
    pub fn of(config: &Config, device: Device, folder: Option<&Path>) -> Result<Self> {
        let model = &config.model;
        let dtype = match model.dtype {
            config::DType::Auto => DType::of_device(device),
            config::DType::Float32 => DType::F32,
            config::DType::Bfloat16 => DType::BF16,
        };
        let own = folder.filter(|folder| AdapterConfig::is_in(folder)).map(AdapterConfig::load).transpose()?;
        let trained = match (&model.lora, own) {
            (Some(lora), _) => Trained::Adapter(adapter(lora)),
            (None, Some(own)) => Trained::Adapter(own.lora),
            (None, None) => Trained::Weights { frozen: model.frozen.clone() },
        };
        let checkpointing = config.update.gradient_checkpointing;
        Ok(Self { device, dtype, trained, seed: config.seed, checkpointing })
    }

    /// Which weights are trained.
    pub fn trained(&self) -> &Trained {
        &self.trained
    }

    /// A model with all its weights trained, for a warm start; one that is an adapter keeps its own.
    pub fn to_warm(&self, model: Model) -> Result<Model> {
        let trained = match model.adapter() {
            Some(adapter) => Trained::Adapter(adapter.lora.clone()),
            None => Trained::ALL,
        };
        self.arrange(model, &trained, Path::new(""))
    }

    /// A model as the run trains it. What lies under an adapter is kept in the run's folder.
    pub fn to_train(&self, model: Model, base: &Path) -> Result<Model> {
        self.arrange(model, &self.trained, base)
    }

    /// A model that only scores and samples.
    pub fn frozen(&self, model: Model) -> Result<Model> {
        self.arrange(model, &Trained::Nothing, Path::new(""))
    }

    fn arrange(&self, model: Model, trained: &Trained, base: &Path) -> Result<Model> {
        let checkpointing = config::gradient_checkpointing(self.checkpointing, model.weight_count());
        let model = model.arranged(self.device, self.dtype, trained, base, self.seed)?;
        Ok(model.with_gradient_checkpointing(checkpointing))
    }

    /// Keeps what lies under the adapter of a new run in its folder, and gives the place: hard links to the files of the
    /// user's model where nothing has changed it since, so that it takes no room.
    pub fn keep_base(
        &self,
        model: &Model,
        source: Option<&Path>,
        tokenizer: &Path,
        folder: &RunFolder,
    ) -> Result<PathBuf> {
        let base = std::path::absolute(folder.base()).context("cannot find the current folder")?;
        if !matches!(self.trained, Trained::Adapter(_)) {
            return Ok(base);
        }
        fs::create_dir_all(&base).with_context(|| format!("cannot make {}", base.display()))?;
        match source {
            Some(source) => link_model(source, &base)?,
            None => model.save(&base)?,
        }
        checkpoint::copy_tokenizer(tokenizer, &base)?;
        Ok(base)
    }
}

/// The adapter that `[model.lora]` describes.
pub fn adapter(lora: &config::Lora) -> Lora {
    let targets = match &lora.targets {
        config::Targets::AllLinear => Target::ALL.to_vec(),
        config::Targets::Only(names) => names.iter().filter_map(|name| Target::of_name(name)).collect(),
    };
    Lora { rank: lora.rank, alpha: lora.alpha, targets }
}

/// The folder of a user's model whose files are those of a whole model: itself, or the one under its adapter.
pub fn whole(path: &Path) -> Result<PathBuf> {
    Ok(if AdapterConfig::is_in(path) { AdapterConfig::load(path)?.base } else { path.to_owned() })
}

/// The folder that has a model's tokenizer: its own, or the one under its adapter.
pub fn tokenizer_folder(path: &Path) -> Result<PathBuf> {
    if path.join("tokenizer.json").is_file() { Ok(path.to_owned()) } else { whole(path) }
}

/// Gives a folder the weights and the configuration of another one.
fn link_model(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let path = entry.with_context(|| format!("cannot read {}", from.display()))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let weights = name.starts_with("model") && name.contains(".safetensors");
        if !path.is_file() || !(weights || name == "config.json") {
            continue;
        }
        // Links of links: what a cache keeps elsewhere is linked where it lies. Another disk has no hard links.
        let real = fs::canonicalize(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let target = to.join(&name);
        if fs::hard_link(&real, &target).is_err() {
            fs::copy(&real, &target).with_context(|| format!("cannot copy {} to {}", path.display(), to.display()))?;
        }
    }
    Ok(())
}
