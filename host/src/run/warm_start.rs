//! The warm start: a model made from scratch learns to imitate the environment's scripted expert, so that it has
//! something to improve on. Its tokenizer is trained on the same texts.

use std::path::Path;

use accredit_core::{
    batch::Batch,
    episode::Trajectory,
    rng::{Purpose, Stream},
};
use accredit_environments::EnvironmentError;
use accredit_torch::{AdamW, Device, Family, Model, ModelConfig, Optimizer, Shape, SpecialIds};
use anyhow::{Context, Result, bail};

use super::{start::Setting, stop};
use crate::{
    config::{self, Config, Create, WarmStart},
    rollout::{
        demonstrate::{self, Shown},
        prompt::Prompter,
        scripted::Script,
        tasks::Tasks,
        tokenizer::Tokenizer,
    },
    scoring::Rows,
    telemetry::Progress,
    update::imitate::imitate,
};

/// Demonstrations whose texts a new tokenizer is trained on, where the configuration has no warm start.
const TEXTS: usize = 200;

/// How often an episode that breaks its environment is played.
const TRIES: usize = 2;

/// Plays the expert's episodes. As in training, those that break their environment may be a share of them, and no more.
pub fn demonstrations(
    setting: &Setting,
    config: &Config,
    prompter: &Prompter,
    tasks: &mut Tasks,
) -> Result<Vec<Vec<Shown>>> {
    let (episodes, noise) = config.warm_start.as_ref().map_or((TEXTS, 0.0), |warm| (warm.episodes, warm.expert_noise));
    let mut environment = setting.make()?;
    let stream = Stream::new(config.seed, Purpose::WarmStart);
    let share = config.environment.as_ref().map_or(0.0, |environment| environment.max_failed_share);
    let mut shown = Vec::with_capacity(episodes);
    let mut failed = 0_usize;
    for index in 0..episodes as u64 {
        let seed = tasks.draw(stream.with(0).with(index))?;
        let script = Script { noise, max_steps: config.rollout.max_steps, stream: stream.with(1).with(index) };
        let mut play = || demonstrate::play(&mut *environment, prompter, seed, script);
        let mut played = play();
        for _ in 1..TRIES {
            if matches!(played, Err(EnvironmentError::Failed(_))) {
                played = play();
            }
        }
        match played {
            Ok(turns) => shown.push(turns),
            Err(EnvironmentError::Failed(why)) => {
                failed += 1;
                if failed as f64 > share * episodes as f64 {
                    bail!(
                        "{failed} of {episodes} episodes of the expert failed, more than \
                         `environment.max_failed_share` ({share}) allows; the last: {why}"
                    );
                }
                tracing::warn!("an episode of the expert failed and is left out: {why}");
            }
            Err(error) => return Err(error.into()),
        }
    }
    if shown.iter().all(Vec::is_empty) {
        bail!("the environment has no scripted expert, and a model made from scratch needs one to imitate");
    }
    Ok(shown)
}

/// Trains a tokenizer on the texts of demonstrations.
pub fn make_tokenizer(
    folder: &Path,
    create: &Create,
    tags: &[String],
    system: &str,
    shown: &[Vec<Shown>],
) -> Result<Tokenizer> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    // The words of the chat template are learned as well.
    let frame = "system\nuser\nassistant\n";
    let mut texts = vec![frame.to_owned(), system.to_owned(), frame.to_owned(), system.to_owned()];
    for turn in shown.iter().flatten() {
        texts.push(turn.user.clone());
        // Tags are tokens of their own, so the words between them are learned without them.
        let response = tags.iter().fold(turn.response.clone(), |text, tag| text.replace(tag.as_str(), "\n"));
        texts.push(response);
    }
    Ok(Tokenizer::create(folder, &texts, tags, create.vocab_size)?)
}

/// The shape of a new model with so many token ids.
pub fn shape(create: &Create, vocab_size: usize) -> Shape {
    Shape {
        family: match create.family {
            config::Family::Qwen2 => Family::Qwen2,
            config::Family::Qwen3 => Family::Qwen3,
            config::Family::Llama => Family::Llama,
        },
        vocab_size,
        hidden_size: create.hidden_size,
        intermediate_size: create.intermediate_size,
        layers: create.layers,
        heads: create.heads,
        kv_heads: create.kv_heads,
        tied: create.tied,
        max_positions: create.max_positions,
        initializer_range: create.initializer_range,
        ..Shape::default()
    }
}

/// A new model for a tokenizer.
pub fn make_model(create: &Create, tokenizer: &Tokenizer, seed: u64) -> Result<Model> {
    let shape = shape(create, tokenizer.vocabulary());
    let special = SpecialIds { bos: None, eos: tokenizer.stop().to_vec(), pad: tokenizer.pad() };
    let seed = Stream::new(seed, Purpose::Weights).seed();
    Ok(Model::create(ModelConfig::new(shape, special)?, seed, Device::CPU)?)
}

/// Clones the demonstrations into the model, and gives the loss of the last step.
pub fn clone_expert(
    model: &Model,
    warm: &WarmStart,
    config: &Config,
    tokenizer: &Tokenizer,
    prompter: &Prompter,
    shown: &[Vec<Shown>],
) -> Result<f64> {
    let episodes: Vec<Trajectory> = shown
        .iter()
        .enumerate()
        .map(|(index, turns)| demonstrate::tokenize(turns, tokenizer, prompter, format!("d{index}")))
        .collect::<Result<_, _>>()?;
    let batch = Batch::build(&episodes, &[], &[])?;
    let rows = Rows::of(&batch, &episodes);
    let adamw = AdamW { lr: warm.lr, weight_decay: warm.weight_decay, beta2: warm.beta2, ..AdamW::default() };
    let mut optimizer = Optimizer::new(model, adamw)?;
    let order = Stream::new(config.seed, Purpose::WarmStart).with(2);
    let mut progress = Progress::new("warm start", 0, warm.updates);
    let mut stopped = false;
    let loss = imitate(model, &mut optimizer, &rows.all(), warm, config.update.micro_batch_tokens, order, |_, loss| {
        progress.step(&format!("loss {loss:.3}"));
        stopped = stop::asked();
        !stopped
    })
    .context("the policy cannot imitate the demonstrations of `[warm_start]`")?;
    progress.finish();
    if stopped {
        bail!("stopped during the warm start, of which nothing is kept; start the run again");
    }
    Ok(loss)
}
