//! `process`: an environment that a program of yours plays.
//!
//! The program reads requests from stdin and writes answers to stdout, one line of JSON each, as `PROTOCOL.md` says;
//! `environments/python/accredit_env.py` does that for Python. One process plays many episodes. What it writes to stderr
//! is kept for the message of a failure. A process that ends, hangs, writes what is no answer or too much of it is
//! killed; its episodes fail, and another process is started for the next ones. All processes end with the host.
//!
//! ```toml
//! [environment]
//! name = "process"
//! command = ["python3", "-m", "accredit_env", "gymnasium"]
//! settings = { id = "FrozenLake-v1", actions = ["Left", "Down", "Right", "Up"] }
//! supplies = { states = true }
//! workers = 4
//! threads = 64
//! ```

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Outside;
use super::child::ChildLink;
use super::link::{Connect, Link};
use super::settings::{Limits, Supplies, check_workers};
use super::workers::{Plan, Workers};
use crate::{Environment, EnvironmentError, Traits, registry};

/// The settings of `process`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_field_names, reason = "the program has settings too")]
pub(crate) struct Settings {
    /// The program and its arguments. A program without a slash is looked for in `PATH`.
    command: Vec<String>,
    /// The folder that the program is started in; empty is the host's own.
    cwd: String,
    /// Variables that are added to the host's environment.
    env: BTreeMap<String, String>,
    /// How many processes play; each holds a part of the episodes.
    workers: usize,
    /// Handed to the program as they are.
    settings: Map<String, Value>,
    /// What the program is asked for beside observations and rewards.
    supplies: Supplies,
    /// Times, sizes and tries.
    limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            command: Vec::new(),
            cwd: String::new(),
            env: BTreeMap::new(),
            workers: 1,
            settings: Map::new(),
            supplies: Supplies::default(),
            limits: Limits::default(),
        }
    }
}

impl registry::Settings for Settings {
    const NAME: &'static str = "process";
    const SUMMARY: &'static str = "What a program of yours plays, in any language, over stdin and stdout.";

    fn check(&self) -> Result<(), EnvironmentError> {
        check_command(&self.command).map_err(|message| Self::misfit("command", message))?;
        let fits = |(name, value): (&String, &String)| {
            !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0')
        };
        if let Some((name, _)) = self.env.iter().find(|variable| !fits(*variable)) {
            let message = format!("`{}` cannot be the name of a variable, or its value holds NUL", name.escape_debug());
            return Err(Self::misfit("env", message));
        }
        check_workers(self.workers)
            .and_then(|()| self.limits.check())
            .map_err(|(key, message)| Self::misfit(key, message))
    }

    fn traits(&self) -> Traits {
        self.supplies.traits()
    }

    fn build(self) -> Result<Box<dyn Environment>, EnvironmentError> {
        if !self.cwd.is_empty() && !Path::new(&self.cwd).is_dir() {
            return Err(Self::misfit("cwd", format!("there is no folder `{}`", self.cwd)));
        }
        let start = Start {
            command: self.command.clone(),
            cwd: self.cwd.clone(),
            env: self.env.clone(),
            limit: self.limits.max_message_bytes,
        };
        let workers = Workers::of(Plan {
            settings: format!("process {}", serde_json::to_string(&self).expect("settings came from JSON")),
            count: self.workers,
            connect: Box::new(start),
            server_settings: &self.settings,
            supplies: &self.supplies,
            limits: &self.limits,
        })
        .map_err(|error| Self::misfit(error.key.unwrap_or("command"), error.message))?;
        Ok(Outside::boxed(workers, self.supplies))
    }
}

/// Refuses what names no program.
pub(super) fn check_command(command: &[String]) -> Result<(), &'static str> {
    if command.first().is_none_or(String::is_empty) {
        return Err("must name a program, such as [\"python3\", \"server.py\"]");
    }
    if command.iter().any(|part| part.contains('\0')) {
        return Err("must not hold the character NUL");
    }
    Ok(())
}

/// Starts processes.
pub(super) struct Start {
    pub(super) command: Vec<String>,
    pub(super) cwd: String,
    pub(super) env: BTreeMap<String, String>,
    pub(super) limit: usize,
}

impl Connect for Start {
    fn connect(&self, worker: usize) -> Result<Box<dyn Link>, String> {
        let [program, arguments @ ..] = self.command.as_slice() else { return Err("there is no program".to_owned()) };
        let mut command = Command::new(program);
        command.args(arguments).envs(&self.env).env("ACCREDIT_WORKER", worker.to_string());
        if !self.cwd.is_empty() {
            command.current_dir(&self.cwd);
        }
        let link = ChildLink::start(command, self.limit);
        Ok(Box::new(link.map_err(|error| format!("cannot start `{program}`: {error}"))?))
    }
}
