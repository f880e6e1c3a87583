//! `[judge]`: who says in words what was good and bad about an episode.

use accredit_environments::Limits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Parameters;

/// Who says in words what was good and bad about episodes: a program, or a model behind a server. It is asked only if a
/// scheme reads what it says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Judge {
    /// A program and its arguments, which speaks `environments/PROTOCOL.md` on its stdin and stdout.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The address of chat completions on a server that speaks OpenAI's protocol, such as
    /// `http://127.0.0.1:8000/v1/chat/completions`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// What the server calls its model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The environment variable that holds the key for the server; left out, it needs none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub key_env: Option<String>,
    /// Handed over as they are: to a program in `hello`, to a server with every request, such as `{ temperature = 0.0,
    /// max_tokens = 400 }`.
    #[serde(skip_serializing_if = "Parameters::is_empty")]
    pub settings: Parameters,
    /// How many questions are under way at once, each in a process of its own where a program judges.
    #[schemars(range(min = 1, max = 1024))]
    pub workers: usize,
    /// How often a question that failed is asked again, after waits of 0.1 s that double up to 10 s.
    pub retries: u32,
    /// Times, sizes and tries.
    pub limits: Limits,
    /// What the judge says is cut at its end to so many characters; 0 cuts nothing.
    pub max_characters: usize,
    /// The run stops when a larger share of an iteration's questions has failed.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub max_failed_share: f64,
    /// The question about an episode alone. `{task}`, `{episode}` and `{outcome}` stand for the task in words, the steps,
    /// and how it ended.
    pub prompt: String,
    /// The question about an episode and a successful one of the same task, for which `{successful}` stands.
    pub prompt_with_success: String,
}

impl Default for Judge {
    fn default() -> Self {
        Self {
            command: Vec::new(),
            url: None,
            model: None,
            key_env: None,
            settings: Parameters::new(),
            workers: 1,
            retries: 2,
            limits: Limits::default(),
            max_characters: 2000,
            max_failed_share: 0.5,
            prompt: PROMPT.to_owned(),
            prompt_with_success: PROMPT_WITH_SUCCESS.to_owned(),
        }
    }
}

const PROMPT: &str =
    "An agent has tried to solve a task, step by step. Judge what it did, so that it does better next time.

Task: {task}

{episode}

Outcome: {outcome}

Say in a few sentences which steps were good, which were not, and what would have been better in their place. Name \
                      steps by their numbers.";

const PROMPT_WITH_SUCCESS: &str =
    "An agent has tried to solve a task, step by step. Judge what it did, so that it does better next time.

Task: {task}

{episode}

Outcome: {outcome}

Another attempt at the same task, which succeeded:

{successful}

Compare the two. Say in a few sentences which steps of the first were good, which were not, and what would have been \
     better in their place. Name steps by their numbers.";
