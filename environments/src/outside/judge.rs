//! A judge: a program or a model behind a server that reads an episode and says in words what was good and bad about it.
//!
//! A program speaks the protocol of `PROTOCOL.md`, with the operation `judge` alone, and is started, watched and started
//! again as an environment's is. A model is asked as `chat.rs` says.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::chat::Chat;
use super::message::{self, Request};
use super::process::{Start, check_command};
use super::settings::{Limits, Supplies, check_workers};
use super::worker::wait_after;
use super::workers::{Plan, Workers};

/// Who judges, and within which limits.
#[derive(Clone, Debug)]
pub struct JudgeSettings {
    /// Who judges.
    pub judges: Judges,
    /// Handed over as they are: to a program in `hello`, to a model as keys of every request.
    pub settings: Map<String, Value>,
    /// How many processes of a program there are, which is how many questions are under way at once.
    pub workers: usize,
    /// How often a question that failed is asked again.
    pub retries: u32,
    /// Times, sizes and tries.
    pub limits: Limits,
}

/// Who judges.
#[derive(Clone, Debug)]
pub enum Judges {
    /// A program on its stdin and stdout.
    Process {
        /// The program and its arguments.
        command: Vec<String>,
    },
    /// A model behind a server with OpenAI's chat completions.
    Chat {
        /// The address of the completions.
        url: String,
        /// What the server calls the model.
        model: String,
        /// What the server knows its user by.
        key: Option<String>,
    },
}

/// Why there is no judge.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct JudgeError {
    /// The setting that is to blame, if one is.
    pub key: Option<&'static str>,
    /// What is wrong and what would fit.
    pub message: String,
}

impl JudgeError {
    pub(super) fn of(key: &'static str, message: impl Into<String>) -> Self {
        Self { key: Some(key), message: message.into() }
    }
}

/// What is asked about one episode.
#[derive(Clone, Debug)]
pub struct Question {
    /// The question in words: all that a model is told.
    pub prompt: String,
    /// The episode, for programs.
    pub episode: Value,
    /// A successful episode of the same task, for programs.
    pub successful: Option<Value>,
}

/// Answers questions about episodes, several at once.
pub struct Judge {
    asked: Asked,
    retries: u32,
}

enum Asked {
    Process(Arc<Workers>),
    Chat(Chat),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Judged {
    text: String,
}

impl Judge {
    /// Makes a judge. A program is started, so that one that is none is refused here; a server is not asked before the
    /// first question.
    pub fn new(settings: JudgeSettings) -> Result<Self, JudgeError> {
        let JudgeSettings { judges, settings, workers, retries, limits } = settings;
        check_workers(workers).and_then(|()| limits.check()).map_err(|(key, message)| JudgeError::of(key, message))?;
        let asked = match judges {
            Judges::Process { command } => Asked::Process(start(command, &settings, workers, &limits)?),
            Judges::Chat { url, model, key } => Asked::Chat(Chat::new(url, model, key, settings, limits)?),
        };
        Ok(Self { asked, retries })
    }

    /// What the judge says, in its own words and at its own length; an error in words where all tries failed.
    pub fn ask(&self, question: &Question) -> Result<String, String> {
        let mut failures = 0;
        loop {
            let error = match self.try_once(question) {
                Ok(text) => return Ok(text),
                Err(error) => error,
            };
            failures += 1;
            if failures > self.retries {
                return Err(error);
            }
            thread::sleep(wait_after(failures));
        }
    }

    fn try_once(&self, question: &Question) -> Result<String, String> {
        match &self.asked {
            Asked::Process(workers) => {
                let id = workers.name();
                let Question { prompt, episode, successful } = question;
                let request = Request::Judge { id: &id, prompt, episode, successful: successful.as_ref() };
                let fields = workers.ask(&id, request.text())?;
                let judged: Judged =
                    message::read(fields).map_err(|message| format!("the answer to `judge`: {message}"))?;
                Ok(judged.text)
            }
            Asked::Chat(chat) => chat.ask(&question.prompt),
        }
    }
}

/// Starts a program that says that it judges.
fn start(
    command: Vec<String>,
    settings: &Map<String, Value>,
    count: usize,
    limits: &Limits,
) -> Result<Arc<Workers>, JudgeError> {
    check_command(&command).map_err(|message| JudgeError::of("command", message))?;
    let all = format!("judge {command:?} {} {count} {limits:?}", Value::Object(settings.clone()));
    let workers = Workers::of(Plan {
        settings: all,
        count,
        connect: Box::new(Start { command, cwd: String::new(), env: BTreeMap::new(), limit: limits.max_message_bytes }),
        server_settings: settings,
        supplies: &Supplies::default(),
        limits,
    })
    .map_err(|error| JudgeError::of(error.key.unwrap_or("command"), error.message))?;
    if !workers.description().judges {
        return Err(JudgeError::of("command", "the program does not say in `hello` that it judges"));
    }
    Ok(workers)
}
