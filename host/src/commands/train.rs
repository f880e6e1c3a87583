//! `accredit train`, `resume`, `eval` and `plan`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::{ConfigArgs, PluginPath, print};
use crate::run::{Options, Run, evaluate_model, plan_text, watch_for_stop};

#[derive(Debug, Args)]
pub struct Train {
    #[command(flatten)]
    config: ConfigArgs,
    /// The name of the run and of its folder
    #[arg(long = "run-name")]
    name: Option<String>,
    /// Begin with the policy of this Hugging Face folder, in place of the configuration's model and warm start
    #[arg(long, value_name = "MODEL")]
    from: Option<PathBuf>,
    #[command(flatten)]
    plugins: PluginPath,
    /// Show the plan and the resolved configuration, and stop
    #[arg(long)]
    dry_run: bool,
}

impl Train {
    pub fn run(self) -> Result<()> {
        let mut loaded = self.config.load()?;
        if let Some(policy) = &self.from {
            loaded = loaded.with_policy(policy)?;
        }
        let options = Options { plugin_path: self.plugins.folders, name: self.name };
        if self.dry_run {
            return print(&format!("{}\n{}", plan_text(&loaded, &options)?, loaded.show()));
        }
        watch_for_stop();
        Run::start(&loaded, &options)?.train()
    }
}

#[derive(Debug, Args)]
pub struct Resume {
    /// The folder of the run
    run: PathBuf,
    /// Change a key of its configuration, such as `iterations=400`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    #[command(flatten)]
    plugins: PluginPath,
}

impl Resume {
    pub fn run(self) -> Result<()> {
        watch_for_stop();
        let options = Options { plugin_path: self.plugins.folders, name: None };
        Run::resume(&self.run, &self.sets, &options)?.train()
    }
}

#[derive(Debug, Args)]
pub struct Eval {
    #[command(flatten)]
    config: ConfigArgs,
    /// The model: a Hugging Face folder, such as `runs/NAME/checkpoints/iteration_000100/model`
    #[arg(long)]
    model: PathBuf,
}

impl Eval {
    pub fn run(self) -> Result<()> {
        let loaded = self.config.load()?;
        let metrics = evaluate_model(&loaded, &self.model)?;
        let lines: Vec<String> = metrics.iter().map(|(name, value)| format!("{name} {value}\n")).collect();
        print(&lines.concat())
    }
}

#[derive(Debug, Args)]
pub struct Plan {
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    plugins: PluginPath,
}

impl Plan {
    pub fn run(self) -> Result<()> {
        let options = Options { plugin_path: self.plugins.folders, name: None };
        print(&plan_text(&self.config.load()?, &options)?)
    }
}
