//! How a run begins: from a configuration, or from a checkpoint. And what runs without training: an evaluation, a plan.

use std::{
    fs::File,
    path::{Path, PathBuf},
    time::Duration,
};

use accredit_core::rng::{Purpose, Stream};
use accredit_environments::{Environment, EnvironmentError, Traits};
use accredit_plugin_api::Hook;
use accredit_torch::{Critic, Device, Model, Optimizer, Sampling, Shape};
use anyhow::{Context, Result, bail};

use super::{
    Run,
    changes::{self, Changes},
    policy::{self, Form},
    summary,
    unfinished::Unfinished,
    warm_start,
};
use crate::{
    checkpoint::{self, Checkpoint, Writer},
    config::{Config, ConfigError, CriticTrunk, Loaded, Parameters, StateKey},
    credit::{
        Pipeline, Supply,
        plan::{self, Gives, Signals},
    },
    critic::Learner,
    judge::{self, Judge},
    memory,
    plugin::{SearchPath, Services},
    rollout::{
        chat::ChatTemplate,
        collect::{Collector, Failures, Limits, Play},
        prompt::Prompter,
        stop::StopTexts,
        tasks::{HeldOut, Tasks},
        tokenizer::Tokenizer,
    },
    scoring::Teachers,
    telemetry::{Metrics, MetricsFile, RunFolder, environment, log, progress},
    update::{adamw, planned_updates},
};

/// What the command line adds to a configuration.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// More folders that are searched for plugins.
    pub plugin_path: Vec<PathBuf>,
    /// The name of the run, in place of the configuration's.
    pub name: Option<String>,
}

/// The environment of a configuration.
#[derive(Clone, Debug)]
pub struct Setting {
    name: String,
    parameters: Parameters,
    /// What it supplies.
    pub traits: Traits,
}

impl Setting {
    /// Checks the environment's own keys.
    fn of(loaded: &Loaded) -> Result<Self, ConfigError> {
        let environment = loaded.for_training()?;
        Self::check(loaded, &environment.name, environment.parameters.clone(), &Parameters::new())
    }

    /// The environment of the held-out tasks, where it is another one.
    fn of_evaluation(&self, loaded: &Loaded) -> Result<Option<Self>, ConfigError> {
        let others = &loaded.config.evaluation.environment;
        if others.is_empty() {
            return Ok(None);
        }
        let mut parameters = self.parameters.clone();
        parameters.extend(others.clone());
        Self::check(loaded, &self.name, parameters, others).map(Some)
    }

    /// `others` are the keys that stand in the evaluation's table.
    fn check(loaded: &Loaded, name: &str, parameters: Parameters, others: &Parameters) -> Result<Self, ConfigError> {
        let value = serde_json::Value::Object(parameters.clone());
        let traits = accredit_environments::traits(name, &value)
            .and_then(|traits| accredit_environments::make(name, &parameters).map(|_| traits))
            .map_err(|error| {
                let path = match error.key() {
                    Some(key) if others.contains_key(key) => format!("evaluation.environment.{key}"),
                    Some(key) => format!("environment.{key}"),
                    None if others.is_empty() => "environment".to_owned(),
                    None => "evaluation.environment".to_owned(),
                };
                loaded.error_at(&path, error.to_string(), None)
            })?;
        Ok(Self { name: name.to_owned(), parameters, traits })
    }

    /// Makes an environment.
    pub fn make(&self) -> Result<Box<dyn Environment>, EnvironmentError> {
        accredit_environments::make(&self.name, &self.parameters)
    }
}

/// The schemes of a configuration, held against what a run can give.
fn load_pipeline(loaded: &Loaded, setting: &Setting, options: &Options) -> Result<Pipeline> {
    let config = &loaded.config;
    let search = SearchPath::new(options.plugin_path.iter().chain(&config.plugins.path).cloned());
    let keyed = config.rollout.state_key == StateKey::Observation;
    let gives = Gives {
        states: setting.traits.states || keyed,
        answers: setting.traits.answers,
        judgements: config.judge.is_some(),
    };
    let supply = Supply::playing(gives, config.rollout.group_size);
    let services = Services { threads: config.run.threads as u32 };
    Ok(plan::load(loaded, &search, &supply, services)?)
}

fn device_of(loaded: &Loaded) -> Result<Device> {
    let selection = accredit_torch::select(&loaded.config.model.device)
        .map_err(|error| loaded.error_at("model.device", error.to_string(), None))?;
    if let Some(notice) = selection.notice {
        tracing::warn!("{notice}");
    }
    accredit_torch::set_threads(loaded.config.run.threads);
    Ok(selection.device)
}

/// Where tasks come from: those of `setting`, and held-out ones of `evaluation`, if that is another one.
fn tasks(loaded: &Loaded, setting: &Setting, evaluation: Option<&Setting>, count: usize) -> Result<Tasks> {
    let played = evaluation.unwrap_or(setting);
    if let (None, Some(tasks)) = (evaluation, setting.traits.tasks)
        && tasks <= count as u64
    {
        let message = format!("all of the {tasks} tasks would be held out, and none is left to train on");
        let hint =
            "fewer, or other tasks for the evaluation, such as `environment = { split = ... }` in `[evaluation]`";
        return Err(loaded.error_at("evaluation.tasks", message, Some(hint.to_owned())).into());
    }
    let held_out =
        HeldOut { environment: played.make()?, tasks: played.traits.tasks, seed: loaded.config.evaluation.seed, count };
    Ok(Tasks::new(setting.make()?, held_out)?)
}

fn collector(config: &Config, setting: &Setting) -> Result<Collector> {
    let environment = config.environment.as_ref().context("there is no environment")?;
    let setting = setting.clone();
    let threads = if environment.threads == 0 { config.run.threads } else { environment.threads };
    let failures = Failures {
        on_failure: environment.on_failure,
        max_share: environment.max_failed_share,
        timeout: Duration::from_secs_f64(environment.timeout_seconds),
    };
    let apart = setting.traits.apart;
    Ok(Collector::new(Box::new(move || setting.make()), threads, apart, failures))
}

/// Refuses a new model that this machine cannot hold, before anything is made.
fn check_memory(loaded: &Loaded, form: &Form, signals: Signals) -> Result<()> {
    let config = &loaded.config;
    let (None, Some(shape)) = (&config.model.path, shape(config)?) else { return Ok(()) };
    let weights = weights_of(&shape, form)?;
    let needed = bytes_of_weights(weights, signals) + bytes_of_checkpoint(config, weights, &shape, signals);
    match accredit_torch::memory(Device::CPU).map(|memory| memory.all).filter(|_| form.device == Device::CPU) {
        Some(memory) if needed > memory => {
            let gibibytes = |bytes: u64| bytes as f64 / f64::from(1 << 30);
            let message = format!(
                "a model of these sizes needs {:.1} GiB for training, and this machine has {:.1} GiB",
                gibibytes(needed),
                gibibytes(memory)
            );
            let hint = "`checkpoint.background = false` saves the copy that is written while training goes on";
            let hint = config.checkpoint.background.then(|| hint.to_owned());
            Err(loaded.error_at("model.create", message, hint).into())
        }
        _ => Ok(()),
    }
}

/// The policy's weights, as far as memory goes.
fn weights_of(shape: &Shape, form: &Form) -> Result<memory::Weights> {
    let (all, trained) = Model::weight_counts_of(shape, form.trained())?;
    Ok(memory::Weights { all: all as u64, trained: trained as u64, bytes: form.dtype.bytes() as u64 })
}

/// Bytes of the policy, its sampler, and the reference.
fn bytes_of_weights(weights: memory::Weights, signals: Signals) -> u64 {
    weights.policy() + weights.sampler() + if signals.reference() { weights.reference() } else { 0 }
}

/// Bytes of what is written while training goes on; 0 where it waits for that.
fn bytes_of_checkpoint(config: &Config, weights: memory::Weights, shape: &Shape, signals: Signals) -> u64 {
    if !config.checkpoint.background {
        return 0;
    }
    let critic =
        if signals.critic { Critic::weight_count_of(shape, config.critic.trunk == CriticTrunk::Copy) } else { 0 };
    memory::checkpoint(weights.trained + critic as u64)
}

/// How the policy of a configuration plays.
pub fn limits(config: &Config, policy: &Model) -> Limits {
    let rollout = &config.rollout;
    let limit = policy.config().shape().max_positions;
    Limits {
        sampling: Sampling {
            temperature: rollout.temperature as f32,
            top_k: rollout.top_k,
            top_p: rollout.top_p.map(|p| p as f32),
            min_p: rollout.min_p.map(|p| p as f32),
        },
        stop: StopTexts::new(&rollout.stop),
        max_tokens: rollout.max_tokens,
        max_episode_tokens: rollout.max_episode_tokens,
        max_context: rollout.max_context.unwrap_or(limit).min(limit),
        overlong_prompt: rollout.overlong_prompt,
        max_steps: rollout.max_steps,
        max_num_seqs: rollout.max_num_seqs,
        threads: config.run.threads,
    }
}

/// Plays held-out tasks once each, with the same noise every time.
pub fn evaluate(
    config: &Config,
    policy: &Model,
    tokenizer: &Tokenizer,
    prompter: &Prompter,
    collector: &mut Collector,
    seeds: &[u64],
) -> Result<Metrics> {
    let sampler = policy.sampler()?;
    let noise = Stream::new(config.evaluation.seed, Purpose::Evaluation).with(1);
    let mut limits = limits(config, policy);
    limits.sampling.temperature = config.evaluation.temperature as f32;
    let plays: Vec<Play> =
        seeds.iter().enumerate().map(|(i, seed)| Play { group: i as u64, member: 0, seed: *seed }).collect();
    // As many at once as in training, so that no more environments are needed than for that.
    let at_once = config.rollout.groups * config.rollout.group_size;
    let mut episodes = Vec::with_capacity(plays.len());
    for part in plays.chunks(at_once) {
        episodes.extend(collector.play(&sampler, tokenizer, prompter, part, &limits, noise)?.episodes);
    }
    let mut metrics = Metrics::default();
    summary::held_out(&mut metrics, &episodes);
    Ok(metrics)
}

impl Run {
    /// Sets a new run up: everything is checked before anything is written. If it fails before there is a checkpoint to
    /// go on from, its folder is removed again.
    pub fn start(loaded: &Loaded, options: &Options) -> Result<Self> {
        let config = loaded.config.clone();
        let setting = Setting::of(loaded)?;
        let pipeline = load_pipeline(loaded, &setting, options)?;
        let signals = Signals::of(&pipeline);
        let device = device_of(loaded)?;
        let evaluation = setting.of_evaluation(loaded)?;
        let tasks = tasks(loaded, &setting, evaluation.as_ref(), held_out_count(&config))?;
        let name = options.name.clone().or_else(|| config.run.name.clone());
        let name = name.unwrap_or_else(|| jiff::Timestamp::now().strftime("%Y-%m-%d_%H-%M-%S").to_string());
        let existing = match &config.model.path {
            Some(path) => {
                let model = Model::load(path, Device::CPU)?;
                Some((tokenizer_of(&policy::tokenizer_folder(path)?, &model)?, model))
            }
            None => None,
        };
        let form = Form::of(&config, device, config.model.path.as_deref())?;
        check_memory(loaded, &form, signals)?;
        let judge = Judge::of(loaded, &pipeline)?;
        let folder = RunFolder::create(&config.run.folder, &name)?;
        let lock = folder.lock()?;
        let settings = (&setting, evaluation.as_ref());
        let set_up =
            Self::set_up(loaded, settings, folder.clone(), existing, pipeline, judge, signals, tasks, &form, lock);
        if set_up.is_err()
            && let Err(error) = folder.remove()
        {
            // What failed first is what the user is told as the error.
            tracing::warn!("{error:#}");
        }
        set_up
    }

    /// Fills the folder of a new run, up to its first checkpoint.
    #[expect(clippy::too_many_arguments, reason = "what `start` checked before it wrote anything")]
    fn set_up(
        loaded: &Loaded,
        (setting, evaluation): (&Setting, Option<&Setting>),
        folder: RunFolder,
        existing: Option<(Tokenizer, Model)>,
        pipeline: Pipeline,
        judge: Option<Judge>,
        signals: Signals,
        tasks: Tasks,
        form: &Form,
        lock: File,
    ) -> Result<Self> {
        let config = loaded.config.clone();
        std::fs::write(folder.config(), loaded.to_toml())
            .with_context(|| format!("cannot write {}", folder.config().display()))?;
        let description = environment::describe(&pipeline, config.run.threads, &form.device.to_string())?;
        std::fs::write(folder.environment(), format!("{description:#}\n"))
            .with_context(|| format!("cannot write {}", folder.environment().display()))?;
        log::write_to(&folder.log())?;
        tracing::info!("run folder {}", folder.path().display());

        let (tokenizer, prompter, policy, mut tasks) = if let Some((tokenizer, policy)) = existing {
            let prompter = Prompter::new(&config.rollout, &tokenizer.chat, &setting.make()?.instructions())?;
            std::fs::create_dir_all(folder.tokenizer())?;
            if let Some(path) = &config.model.path {
                checkpoint::copy_tokenizer(&policy::tokenizer_folder(path)?, &folder.tokenizer())?;
            }
            (tokenizer, prompter, policy, tasks)
        } else {
            create(&config, setting, &folder, tasks, form)?
        };
        let mut policy = policy;
        if config.model.path.is_some() && config.warm_start.is_some() {
            policy = form.to_warm(policy)?;
            warm(&config, setting, &policy, &tokenizer, &prompter, &mut tasks)?;
        }
        // A warm start makes new weights, unless it trains an adapter.
        let whole = config.model.path.as_deref().map(policy::whole).transpose()?;
        let kept = whole.as_deref().filter(|_| config.warm_start.is_none() || policy.adapter().is_some());
        let base = form.keep_base(&policy, kept, &folder.tokenizer(), &folder)?;
        let policy = form.to_train(policy, &base)?;
        let reference = if signals.reference() {
            policy.save(&folder.reference())?;
            Some(policy.frozen_copy()?)
        } else {
            None
        };
        let optimizer = Optimizer::new(&policy, adamw(&config.optimizer))?;
        let updates = Updates::of(&config, signals);
        let critic = signals.critic.then(|| Learner::new(&policy, &config.critic, updates.critic)).transpose()?;
        let metrics = MetricsFile::open(&folder.metrics(), 0)?;
        let mut run = Self {
            collector: collector(&config, setting)?,
            evaluator: evaluation.map(|evaluation| collector(&config, evaluation)).transpose()?,
            updates: updates.policy,
            resolved: loaded.to_toml(),
            config,
            folder,
            _lock: lock,
            tokenizer,
            prompter,
            tasks,
            judge,
            policy,
            reference,
            teachers: Teachers::default(),
            critic,
            optimizer,
            pipeline,
            signals,
            metrics,
            writer: Writer::default(),
            saving: 0.0,
            unfinished: None,
            iteration: 0,
            update: 0,
        };
        run.save()?;
        run.writer.wait()?;
        Ok(run)
    }

    /// Goes on from the newest checkpoint of a run. `sets` change the configuration, such as `iterations=400`.
    pub fn resume(path: &Path, sets: &[String], options: &Options) -> Result<Self> {
        let folder = RunFolder::open(path)?;
        let lock = folder.lock()?;
        let checkpoint = Checkpoint::latest(&folder.checkpoints())?;
        let before = Loaded::read(&[checkpoint.config()], &[])?;
        let loaded = Loaded::read(&[folder.config()], sets)?;
        let config = loaded.config.clone();
        changes::check(&before, &loaded)?;
        let setting = Setting::of(&loaded)?;
        let mut pipeline = load_pipeline(&loaded, &setting, options)?;
        let signals = Signals::of(&pipeline);
        let device = device_of(&loaded)?;
        let iteration = checkpoint.progress.iteration;
        if config.iterations < iteration {
            bail!("the run has done {iteration} iterations already, and `iterations` is {}", config.iterations);
        }
        let damaged = || checkpoint.damaged();
        let (form, base) = (Form::of(&config, device, Some(&checkpoint.model())).with_context(damaged)?, folder.base());
        let policy = Model::load_over(&checkpoint.model(), Some(&base), Device::CPU).with_context(damaged)?;
        let tokenizer = tokenizer_of(&checkpoint.model(), &policy).with_context(damaged)?;
        let prompter = Prompter::new(&config.rollout, &tokenizer.chat, &setting.make()?.instructions())?;
        let policy = form.to_train(policy, &std::path::absolute(&base)?)?;
        let reference = if signals.reference() {
            let model = policy
                .load_beside(&folder.reference(), false)
                .with_context(|| format!("cannot read the reference model {}", folder.reference().display()))
                .context(
                    "a scheme needs the frozen reference, which a run keeps if it was started with such a scheme",
                )?;
            Some(model)
        } else {
            None
        };
        let mut optimizer = Optimizer::new(&policy, adamw(&config.optimizer))?;
        let fates = checkpoint.restore(&mut optimizer, &mut pipeline)?;
        let updates = Updates::of(&config, signals);
        let changes = Changes {
            before: &before,
            now: &loaded,
            progress: &checkpoint.progress,
            updates: [Updates::of(&before.config, signals).policy, updates.policy],
        };
        let critic = signals
            .critic
            .then(|| Learner::load(&checkpoint.critic(), &policy, &config.critic, updates.critic))
            .transpose()?;
        let teachers = Teachers::load(&checkpoint.teachers(), &policy).with_context(damaged)?;
        let evaluation = setting.of_evaluation(&loaded)?;
        let tasks = tasks(&loaded, &setting, evaluation.as_ref(), held_out_count(&config))?;
        let evaluator = evaluation.map(|evaluation| collector(&config, &evaluation)).transpose()?;
        let collector = collector(&config, &setting)?;
        let judge = Judge::of(&loaded, &pipeline)?;
        let mut unfinished = Unfinished::read(&checkpoint.unfinished()).with_context(damaged)?;
        if let Some(unfinished) = &mut unfinished {
            unfinished.put_back(&mut pipeline);
            if changes.end_update() {
                unfinished.update.leave_out_rest();
            }
        }
        let changes = changes.describe(&fates, unfinished.is_some());
        // Everything is read: from here on the folder is written.
        checkpoint::remove_partial(&folder.checkpoints())?;
        log::write_to(&folder.log())?;
        if !sets.is_empty() {
            // What the iterations so far were made with stays on record.
            folder.keep_config(iteration)?;
            std::fs::write(folder.config(), loaded.to_toml())
                .with_context(|| format!("cannot write {}", folder.config().display()))?;
        }
        for line in changes {
            tracing::info!("{line}");
            progress::line(&line);
        }
        tracing::info!("going on at iteration {iteration} of {}", config.iterations);
        Ok(Self {
            collector,
            evaluator,
            updates: updates.policy,
            resolved: loaded.to_toml(),
            metrics: MetricsFile::open(&folder.metrics(), iteration)?,
            config,
            folder,
            _lock: lock,
            tokenizer,
            prompter,
            tasks,
            judge,
            policy,
            reference,
            teachers,
            critic,
            optimizer,
            pipeline,
            signals,
            writer: Writer::default(),
            saving: 0.0,
            unfinished,
            iteration,
            update: checkpoint.progress.update,
        })
    }
}

fn held_out_count(config: &Config) -> usize {
    if config.evaluation.every == 0 { 0 } else { config.evaluation.tasks }
}

/// The optimiser steps that a run plans.
pub(super) struct Updates {
    pub(super) policy: u64,
    critic: u64,
}

impl Updates {
    /// The policy makes none in the critic's warm-up.
    pub(super) fn of(config: &Config, signals: Signals) -> Self {
        let warmup = if signals.critic { config.critic.warmup } else { 0 };
        Self {
            policy: planned_updates(config.iterations.saturating_sub(warmup), &config.update),
            critic: planned_updates(config.iterations, &config.update),
        }
    }
}

/// Makes a model and its tokenizer from scratch, and warms it up where the configuration says so.
fn create(
    config: &Config,
    setting: &Setting,
    folder: &RunFolder,
    mut tasks: Tasks,
    form: &Form,
) -> Result<(Tokenizer, Prompter, Model, Tasks)> {
    let create = config.model.create.as_ref().context("there is no model")?;
    let instructions = setting.make()?.instructions();
    let prompter = Prompter::new(&config.rollout, &ChatTemplate::chatml()?, &instructions)?;
    let shown = warm_start::demonstrations(setting, config, &prompter, &mut tasks)?;
    let system = config.rollout.system.clone().unwrap_or(instructions.clone());
    let tokenizer = warm_start::make_tokenizer(&folder.tokenizer(), create, &prompter.tags.all(), &system, &shown)?;
    let mut policy = warm_start::make_model(create, &tokenizer, config.seed)?;
    if let Some(warm) = &config.warm_start {
        policy = form.to_warm(policy)?;
        warm_start::clone_expert(&policy, warm, config, &tokenizer, &prompter, &shown)?;
    }
    Ok((tokenizer, prompter, policy, tasks))
}

/// Warms an existing model up.
fn warm(
    config: &Config,
    setting: &Setting,
    policy: &Model,
    tokenizer: &Tokenizer,
    prompter: &Prompter,
    tasks: &mut Tasks,
) -> Result<()> {
    if let Some(warm) = &config.warm_start {
        let shown = warm_start::demonstrations(setting, config, prompter, tasks)?;
        warm_start::clone_expert(policy, warm, config, tokenizer, prompter, &shown)?;
    }
    Ok(())
}

/// The tokenizer in a folder, for a model.
fn tokenizer_of(folder: &Path, model: &Model) -> Result<Tokenizer> {
    Ok(Tokenizer::load(folder, model.config().shape().vocab_size)?)
}

/// Evaluates a model on the held-out tasks of a configuration.
pub fn evaluate_model(loaded: &Loaded, model: &Path) -> Result<Metrics> {
    let config = &loaded.config;
    let setting = Setting::of(loaded)?;
    let device = device_of(loaded)?;
    if !model.join("config.json").is_file() && model.join("model").is_dir() {
        bail!("{} is a checkpoint; its model is in {}", model.display(), model.join("model").display());
    }
    let policy = Form::of(config, device, Some(model))?.frozen(Model::load(model, Device::CPU)?)?;
    let tokenizer = tokenizer_of(&policy::tokenizer_folder(model)?, &policy)?;
    let prompter = Prompter::new(&config.rollout, &tokenizer.chat, &setting.make()?.instructions())?;
    let evaluation = setting.of_evaluation(loaded)?;
    let played = evaluation.as_ref().unwrap_or(&setting);
    let tasks = tasks(loaded, played, Some(played), config.evaluation.tasks)?;
    let mut collector = collector(config, played)?;
    let mut metrics = evaluate(config, &policy, &tokenizer, &prompter, &mut collector, tasks.held_out())?;
    metrics.put("val/tasks", tasks.held_out().len() as f64);
    Ok(metrics)
}

/// What a run would do, without doing it: hooks, signals, passes over the model, memory.
pub fn plan_text(loaded: &Loaded, options: &Options) -> Result<String> {
    let config = &loaded.config;
    let setting = Setting::of(loaded)?;
    let pipeline = load_pipeline(loaded, &setting, options)?;
    let signals = Signals::of(&pipeline);
    let mut text = String::from("hooks, in the order of an iteration\n");
    for hook in Hook::ALL {
        let names: Vec<&str> = pipeline
            .schemes()
            .filter(|scheme| scheme.needs().hooks.contains(&hook))
            .map(|scheme| if hook == Hook::Objective { scheme.name() } else { scheme.label() })
            .collect();
        if !names.is_empty() {
            text.push_str(&format!("  {:<10} {}\n", hook.name(), names.join(", ")));
        }
    }
    text.push_str(&format!("signals\n  {}\n", signals.names().join(", ")));
    if signals.critic {
        text.push_str(&format!("critic\n  {}\n", describe_critic(config)));
    }
    let rollout = &config.rollout;
    let (episodes, updates) = (rollout.groups * rollout.group_size, planned_updates(1, &config.update));
    text.push_str(&format!(
        "iteration\n  {} groups of {}: {episodes} episodes of at most {} steps\n  {updates} optimiser steps\n",
        rollout.groups, rollout.group_size, rollout.max_steps
    ));
    let judging = judge::COLUMNS.iter().filter(|column| pipeline.schemes().any(|scheme| scheme.reads(column.name())));
    if let (Some(_), questions @ 1..) = (&config.judge, judging.count()) {
        text.push_str(&format!("  {} questions to the judge at most\n", questions * episodes));
    }
    text.push_str("passes over the batch's tokens\n  sampling: 1\n  policy before the update: 1\n");
    if signals.reference() {
        text.push_str("  reference: 1\n");
    }
    if signals.value && config.critic.trunk == CriticTrunk::Copy {
        text.push_str("  critic: 1\n");
    }
    let asking: Vec<&str> = pipeline
        .schemes()
        .filter(|scheme| scheme.needs().hooks.contains(&Hook::Queries))
        .map(crate::plugin::Scheme::label)
        .collect();
    if !asking.is_empty() {
        text.push_str(&format!("  queries: what {} asks for, a row each\n", asking.join(" and ")));
    }
    text.push_str(&format!("  forward and backward: {}\n", config.update.epochs));
    let Some(shape) = shape(config)? else {
        text.push_str("memory\n  not known before the model is read\n");
        return Ok(text);
    };
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    // Whether there is a GPU is found out when the run begins.
    let device = if config.model.device == "auto" { Device::CPU } else { device_of(loaded)? };
    let form = Form::of(config, device, config.model.path.as_deref())?;
    let weights = weights_of(&shape, &form)?;
    text.push_str(&format!(
        "memory\n  {} weights, {} of them trained, computing in {}: {:.1} MiB, and what {} tokens need at once\n",
        weights.all,
        weights.trained,
        form.dtype,
        mebibytes(bytes_of_weights(weights, signals)),
        config.update.micro_batch_tokens
    ));
    if signals.critic {
        let weights = Critic::weight_count_of(&shape, config.critic.trunk == CriticTrunk::Copy);
        text.push_str(&format!("  critic: {weights} weights: {:.1} MiB\n", mebibytes(memory::critic(weights as u64))));
    }
    if config.checkpoint.background {
        text.push_str(&format!(
            "  a checkpoint while it is written: {:.1} MiB more\n",
            mebibytes(bytes_of_checkpoint(config, weights, &shape, signals))
        ));
    }
    Ok(text)
}

/// What the critic is, and when it is trained.
fn describe_critic(config: &Config) -> String {
    let trunk = match config.critic.trunk {
        CriticTrunk::Copy => "a copy of the policy's trunk",
        CriticTrunk::Shared => "the policy's own trunk",
    };
    match config.critic.warmup {
        0 => format!("a value head on {trunk}"),
        warmup => format!("a value head on {trunk}, trained alone in the first {warmup} iterations"),
    }
}

/// The shape of the configuration's model. The tokenizer of a new model may turn out smaller.
fn shape(config: &Config) -> Result<Option<Shape>> {
    Ok(match (&config.model.path, &config.model.create) {
        (Some(path), _) => Some(accredit_torch::ModelConfig::load(&policy::whole(path)?)?.shape().clone()),
        (None, Some(create)) => Some(warm_start::shape(create, create.vocab_size)),
        (None, None) => None,
    })
}
