//! The command line: one file for each command. Results go to standard output, everything else to standard error.

mod colour;
mod config;
mod credit;
#[cfg(feature = "torch")]
mod device;
mod environment;
mod model;
mod plugin;
mod settings;
#[cfg(feature = "torch")]
mod study;
#[cfg(feature = "torch")]
mod train;

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Result;
use clap::{Args, CommandFactory, Parser, Subcommand};

#[cfg(feature = "torch")]
use crate::rollout::collect::CollectError;
use crate::{
    config::{ConfigError, Loaded},
    telemetry::log,
};

/// Exit code of a command that failed.
const FAILED: u8 = 1;
/// Exit code of a command line or a configuration that does not fit.
const USAGE: u8 = 2;

/// Trains LLM agents by reinforcement learning; who gets the credit for a reward is decided by plugins.
#[derive(Debug, Parser)]
#[command(name = "accredit", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Train a policy as a configuration says
    #[cfg(feature = "torch")]
    Train(train::Train),
    /// Go on from the newest checkpoint of a run
    #[cfg(feature = "torch")]
    Resume(train::Resume),
    /// Play the held-out tasks of a configuration with a model, without training
    #[cfg(feature = "torch")]
    Eval(train::Eval),
    /// Show what a run would do: hooks, signals, passes over the model, memory
    #[cfg(feature = "torch")]
    Plan(train::Plan),
    /// Run configurations with several seeds, side by side, and report what came out
    #[cfg(feature = "torch")]
    Study(study::Study),
    /// Check and measure the device that models compute on
    #[cfg(feature = "torch")]
    #[command(subcommand)]
    Device(device::Device),
    #[cfg(not(feature = "torch"))]
    #[command(flatten)]
    Absent(Absent),
    /// Compute the credit of rollouts that were read from a file
    Credit(credit::Credit),
    /// List, describe, play and time environments
    #[command(subcommand)]
    Env(environment::Env),
    /// Import models and describe them
    #[command(subcommand)]
    Model(model::Model),
    /// List, inspect and make plugins
    #[command(subcommand)]
    Plugin(plugin::Plugin),
    /// Show a configuration with the origin of every value, or the schema of all of them
    #[command(subcommand)]
    Config(config::Config),
    /// Write a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// The commands that this program was built without.
#[cfg(not(feature = "torch"))]
#[derive(Debug, Subcommand)]
enum Absent {
    /// Not in this program: it was built without libtorch
    #[command(aliases = ["resume", "eval", "plan", "study", "device"], disable_help_flag = true)]
    Train {
        /// Whatever the command would have been given
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        rest: Vec<String>,
    },
}

/// The configuration of a command.
#[derive(Debug, Args)]
struct ConfigArgs {
    /// Configuration files; later ones win
    #[arg(required = true)]
    config: Vec<PathBuf>,
    /// Set any key, such as `rollout.groups=4` or `credit.NAME.params.KEY=0.3`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
}

impl ConfigArgs {
    fn load(&self) -> Result<Loaded, ConfigError> {
        Loaded::read(&self.config, &self.sets)
    }
}

/// Where plugins are looked for.
#[derive(Debug, Args)]
struct PluginPath {
    /// A folder with plugins, before those of ACCREDIT_PLUGIN_PATH and the program's own
    #[arg(long = "plugin-path", value_name = "FOLDER")]
    folders: Vec<PathBuf>,
}

/// Runs the program.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    log::init();
    match run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let code = if error.downcast_ref::<ConfigError>().is_some() { USAGE } else { FAILED };
            // The reader of a pipe may be gone; there is nobody left to tell.
            let _ = match error.downcast_ref::<ConfigError>() {
                Some(error) => writeln!(io::stderr(), "{error}"),
                None => writeln!(io::stderr(), "error: {}{}", said_once(&error), hint(&error)),
            };
            ExitCode::from(code)
        }
    }
}

/// An error and its causes, but for those that the error before them has said already.
fn said_once(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.ends_with(&cause) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&cause);
    }
    text
}

/// What to do about an error, on lines of its own.
#[cfg(feature = "torch")]
fn hint(error: &anyhow::Error) -> &'static str {
    use accredit_torch::Error::Memory;
    let memory = |cause: &(dyn std::error::Error + 'static)| {
        // This one stands in the place of its cause.
        matches!(cause.downcast_ref(), Some(CollectError::Model(Memory { .. })))
            || matches!(cause.downcast_ref(), Some(Memory { .. }))
    };
    if error.chain().any(memory) {
        return "\n  = hint: lower `update.micro_batch_tokens` where training failed, `rollout.max_num_seqs` or \
                `rollout.max_context` where sampling did; set `update.gradient_checkpointing = true`; or take a smaller \
                model: `accredit model info FOLDER` says what one takes";
    }
    ""
}

#[cfg(not(feature = "torch"))]
fn hint(_: &anyhow::Error) -> &'static str {
    ""
}

fn run(command: Command) -> Result<()> {
    match command {
        #[cfg(feature = "torch")]
        Command::Train(train) => train.run(),
        #[cfg(feature = "torch")]
        Command::Resume(resume) => resume.run(),
        #[cfg(feature = "torch")]
        Command::Eval(eval) => eval.run(),
        #[cfg(feature = "torch")]
        Command::Plan(plan) => plan.run(),
        #[cfg(feature = "torch")]
        Command::Study(study) => study.run(),
        #[cfg(feature = "torch")]
        Command::Device(device) => device.run(),
        #[cfg(not(feature = "torch"))]
        Command::Absent(Absent::Train { .. }) => {
            anyhow::bail!(
                "train, resume, eval, plan, study and device need libtorch, which this program was built without; \
                 `cargo xtask quickstart` fetches it and builds the rest"
            )
        }
        Command::Credit(credit) => credit.run(),
        Command::Env(env) => env.run(),
        Command::Model(model) => model.run(),
        Command::Plugin(plugin) => plugin.run(),
        Command::Config(config) => config.run(),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "accredit", &mut script);
            print(&String::from_utf8_lossy(&script))
        }
    }
}

/// Writes a result to standard output. A reader that has gone away, such as `head`, is no failure.
fn print(text: &str) -> Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "torch")]
    #[test]
    fn a_device_without_room_comes_with_what_to_lower() {
        let full = || accredit_torch::Error::Memory { message: "2 GiB".to_owned() };
        let training = anyhow::Error::from(full()).context("the update failed");
        let sampling = anyhow::Error::from(CollectError::from(full()));
        for error in [training, sampling] {
            assert!(hint(&error).contains("`update.micro_batch_tokens`"), "{error:#}");
        }
        assert_eq!(hint(&anyhow::Error::from(accredit_torch::Error::Frozen)), "");
    }

    #[test]
    fn a_cause_that_an_error_ends_with_is_not_said_again() {
        let error =
            anyhow::anyhow!("no such file").context("config.json: no such file").context("cannot read the model");
        assert_eq!(said_once(&error), "cannot read the model: config.json: no such file");
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
