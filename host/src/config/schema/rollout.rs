//! `[rollout]`: how episodes are played.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Parameters;

/// How episodes are played.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Rollout {
    /// Groups per iteration: one task each.
    #[schemars(range(min = 1, max = 65_536))]
    pub groups: usize,
    /// Trajectories per group, all from the group's task.
    #[schemars(range(min = 1, max = 65_536))]
    pub group_size: usize,
    /// The most steps of an episode.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_steps: usize,
    /// What the policy sees of the steps so far.
    pub context: Context,
    /// With `context = "window"`: how many earlier turns a prompt shows.
    pub window: usize,
    /// The sampling temperature; 0 takes the likeliest token.
    #[schemars(range(min = 0.0, max = 1000.0))]
    pub temperature: f64,
    /// Nucleus sampling: the smallest set of tokens that has this probability; left out, all tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1.0), extend("exclusiveMinimum" = 0))]
    pub top_p: Option<f64>,
    /// Sampling among this many of the likeliest tokens; left out, all tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub top_k: Option<usize>,
    /// Sampling among tokens that are at least this many times as likely as the likeliest; left out, all tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub min_p: Option<f64>,
    /// Texts that end a response, beside the stop tokens of the model; they stay a part of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// The most tokens of one response.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub max_tokens: usize,
    /// The most tokens of a row, prompts included; left out, the model's limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2))]
    pub max_context: Option<usize>,
    /// What happens where a prompt leaves no room for a response.
    pub overlong_prompt: OverlongPrompt,
    /// The most tokens of all responses of an episode; left out, no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_episode_tokens: Option<usize>,
    /// The most episodes that are sampled at once, for which the cache has room; left out, all of them. The others begin
    /// as soon as one is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_num_seqs: Option<usize>,
    /// The tag around reasoning, without brackets.
    #[schemars(length(min = 1))]
    pub think_tag: String,
    /// The tag around what is executed, without brackets.
    #[schemars(length(min = 1))]
    pub action_tag: String,
    /// How observations become prompts.
    pub prompt: Prompt,
    /// A system text in place of the one that `prompt` brings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Variables of the model's chat template, such as `{ enable_thinking = false }` for Qwen3 or `{ date_string = "26 Jul
    /// 2024" }` for Llama 3.2, which otherwise says the day on which the run was started or resumed. One that the template
    /// does not read is refused.
    #[serde(skip_serializing_if = "Parameters::is_empty")]
    pub chat_template_kwargs: Parameters,
    /// What counts as the state of a step, by which schemes group steps: the key that the environment gives, or its
    /// observation as text, as verl-agent's anchors are.
    pub state_key: StateKey,
    /// How often a `select` hook may ask for more groups in one iteration.
    pub refill_rounds: usize,
}

impl Default for Rollout {
    fn default() -> Self {
        Self {
            groups: 8,
            group_size: 8,
            max_steps: 10,
            context: Context::Concat,
            window: 0,
            temperature: 1.0,
            top_p: None,
            top_k: None,
            min_p: None,
            stop: Vec::new(),
            max_tokens: 256,
            max_context: None,
            overlong_prompt: OverlongPrompt::EndEpisode,
            max_episode_tokens: None,
            max_num_seqs: None,
            think_tag: "think".to_owned(),
            action_tag: "answer".to_owned(),
            prompt: Prompt::Ragen,
            system: None,
            chat_template_kwargs: Parameters::new(),
            state_key: StateKey::State,
            refill_rounds: 0,
        }
    }
}

/// What the policy sees of the steps so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Context {
    /// One growing conversation; a row is a trajectory.
    Concat,
    /// A prompt per step, with the last `window` turns; a row is a step.
    Window,
}

/// What happens where a prompt leaves no room for a response. Either way it is counted in the metrics
/// `rollout/overlong_prompts/...`, and no id that was sampled or read is ever tokenised again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OverlongPrompt {
    /// The episode ends there, as one that the limit of length truncated; a response has as many tokens as are left. An
    /// episode whose first prompt is too long has no response, and is left out of the batch.
    EndEpisode,
    /// The oldest turns are left out until a response of `max_tokens` fits: with `context = "window"` turns of the window;
    /// with `context = "concat"` a response and the observation that followed it, while the system text, the first
    /// observation and the last response stay. A conversation then goes on in a new row, since its next response was
    /// sampled after other ids than the row so far; responses are trained once, in the row in which they were sampled.
    /// Where nothing more can be left out, it is as with `end_episode`.
    DropOldest,
}

/// How observations become prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Prompt {
    /// A system text, and turns with state, steps left and reward, after the RAGEN project.
    Ragen,
    /// A prompt for each step with the task, the steps so far, the actions that would be executed now and the form of the
    /// answer, and no system text, after the verl-agent project. It goes with `context = "window"`.
    VerlAgent,
    /// The observation alone as the user's turn, and no system text.
    Bare,
}

/// What counts as the state of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StateKey {
    /// The environment's key of its whole state.
    State,
    /// The observation, letter by letter.
    Observation,
}
