//! Environments that others play: `process` (a program of yours on stdin and stdout) and `http` (a server).
//!
//! Both speak the protocol of `environments/PROTOCOL.md`. What they share is here: the environment itself, which sends a
//! request and waits, and the settings that do not depend on how messages travel. All environments with equal settings
//! share workers, found again by the settings, because the host makes one environment per trajectory. A worker
//! (`worker.rs`) is a thread that owns one link: a child process (`child.rs`) or a server's address (`http.rs`). It sends
//! all requests that wait at that moment as one message. How many can wait is how many threads the host's pool has:
//! `threads` under `[environment]`.
//!
//! A judge (`judge.rs`) is played by nobody: it is asked about episodes. As a program it has workers like an environment's;
//! as a model behind a server it is asked over the same HTTP client.
//!
//! An episode lives in the link that started it. If that breaks, its episodes fail with the reason; the worker makes
//! another link for the next ones.

mod chat;
mod child;
pub(crate) mod http;
mod judge;
mod link;
mod message;
mod openenv;
pub(crate) mod process;
mod settings;
mod worker;
mod workers;

use std::sync::Arc;

pub use judge::{Judge, JudgeError, JudgeSettings, Judges, Question};
pub use settings::Limits;

use crate::{Demonstration, Environment, EnvironmentError, Outcome, Task, Turn};
use message::{Played, Request, Started};
use settings::Supplies;
use workers::{Binding, Workers};

/// An environment in somebody else's process.
struct Outside {
    workers: Arc<Workers>,
    supplies: Supplies,
    /// Its name in messages, which no other environment has.
    id: String,
    /// Where its episode is played; none before the first one and after a failure.
    binding: Option<Binding>,
    phase: Phase,
    expert: Option<Demonstration>,
    task: Task,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    NotStarted,
    Playing,
    Over,
}

impl Outside {
    fn boxed(workers: Arc<Workers>, supplies: Supplies) -> Box<dyn Environment> {
        Box::new(Self {
            id: workers.name(),
            workers,
            supplies,
            binding: None,
            phase: Phase::NotStarted,
            expert: None,
            task: Task::default(),
        })
    }
}

impl Environment for Outside {
    fn instructions(&self) -> String {
        self.workers.description().instructions.clone()
    }

    fn reset(&mut self, seed: u64) -> Result<Turn, EnvironmentError> {
        self.phase = Phase::NotStarted;
        self.expert = None;
        self.task = Task::default();
        let request = Request::Reset { id: &self.id, seed };
        let (binding, answer) = self.workers.reset(&self.id, self.binding.take(), request.text());
        self.binding = binding;
        let started = Started::read(answer.map_err(EnvironmentError::Failed)?, &self.supplies)
            .map_err(|message| EnvironmentError::Failed(format!("the answer to `reset`: {message}")))?;
        self.phase = Phase::Playing;
        self.expert = started.expert;
        self.task = started.task;
        Ok(started.turn)
    }

    fn step(&mut self, action: Option<&str>, response: &str) -> Result<Outcome, EnvironmentError> {
        let binding = match (self.phase, &self.binding) {
            (Phase::Over, _) => return Err(EnvironmentError::EpisodeOver),
            (Phase::Playing, Some(binding)) => binding,
            _ => return Err(EnvironmentError::NotStarted),
        };
        let request = Request::Step { id: &self.id, action, response };
        let answer = self.workers.step(&self.id, binding, request.text()).map_err(EnvironmentError::Failed);
        // What comes after a failure is not known, so the episode is not played on.
        self.phase = Phase::NotStarted;
        let played = Played::read(answer?, &self.supplies)
            .map_err(|message| EnvironmentError::Failed(format!("the answer to `step`: {message}")))?;
        self.phase = if played.outcome.terminal { Phase::Over } else { Phase::Playing };
        self.expert = played.expert;
        Ok(played.outcome)
    }

    fn expert(&mut self) -> Option<Demonstration> {
        self.expert.clone().filter(|_| self.phase == Phase::Playing)
    }

    fn task(&self) -> Task {
        self.task.clone()
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        if let Some(binding) = self.binding.take() {
            self.workers.close(&self.id, &binding);
        }
    }
}
