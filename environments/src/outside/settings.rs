//! Settings that `process` and `http` share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Traits;

/// What is expected of the other side. It is asked for no more than this, and refused if it has less.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Supplies {
    /// Every turn comes with a key of its state, for schemes that compare steps from equal states.
    pub(super) states: bool,
    /// Every turn comes with what a scripted expert does, for a warm start.
    pub(super) expert: bool,
    /// Every task comes with its known answer.
    pub(super) answers: bool,
    /// How many tasks there are; 0 means that any seed may give another one.
    pub(super) tasks: u64,
}

impl Supplies {
    pub(super) fn traits(&self) -> Traits {
        let tasks = Some(self.tasks).filter(|tasks| *tasks > 0);
        Traits { states: self.states, expert: self.expert, answers: self.answers, tasks, apart: true }
    }
}

/// How long and how large things may get, and how often something is tried again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Seconds that may pass until the next line of an answer. Over HTTP: until the whole answer to a message. Less than
    /// the host's `timeout_seconds`, so that the reason is told.
    pub(super) answer_seconds: f64,
    /// Seconds that may pass from the start of a process, or from connecting, to the answer to `hello`.
    pub(super) start_seconds: f64,
    /// Bytes of a line, in both directions.
    pub(super) max_message_bytes: usize,
    /// The most requests in one message.
    pub(super) max_batch: usize,
    /// How often in a row a broken process or connection is replaced, after waits of 0.1 s that double up to 10 s. One
    /// that played an episode to its end, or worked for a minute, begins the count again.
    pub(super) max_restarts: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            answer_seconds: 50.0,
            start_seconds: 120.0,
            max_message_bytes: 16 << 20,
            max_batch: 64,
            max_restarts: 10,
        }
    }
}

impl Limits {
    /// The key that does not fit and what would.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        for (key, seconds) in
            [("limits.answer_seconds", self.answer_seconds), ("limits.start_seconds", self.start_seconds)]
        {
            if !(seconds > 0.0 && seconds <= 1e6) {
                return Err((key, format!("must be more than 0 and at most 1000000 seconds, not {seconds}")));
            }
        }
        if !(1024..=1 << 30).contains(&self.max_message_bytes) {
            let message = format!("must be 1024 to {} bytes, not {}", 1 << 30, self.max_message_bytes);
            return Err(("limits.max_message_bytes", message));
        }
        if !(1..=4096).contains(&self.max_batch) {
            return Err(("limits.max_batch", format!("must be 1 to 4096, not {}", self.max_batch)));
        }
        Ok(())
    }
}

/// Refuses a number of workers that no machine has a use for.
pub(super) fn check_workers(workers: usize) -> Result<(), (&'static str, String)> {
    match workers {
        1..=1024 => Ok(()),
        _ => Err(("workers", format!("must be 1 to 1024, not {workers}"))),
    }
}
