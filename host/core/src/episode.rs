//! Episodes: what was played, or what a rollout file says was played. One [`Trajectory`] is one line of such a file.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

/// How a batch's rows are cut: what the model sees as one sequence in training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// A row is a whole trajectory, one growing conversation.
    #[default]
    Trajectory,
    /// A row is one step, with its own prompt.
    Step,
}

/// How an episode ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The environment ended it.
    #[default]
    Completed,
    /// The limit of steps ended it.
    TruncatedSteps,
    /// The limit of tokens ended it.
    TruncatedLength,
    /// The environment broke; such an episode is counted and never scored.
    Failed,
}

/// What a token of a response is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum TokenKind {
    /// Reasoning: inside the think tags.
    Think = 0,
    /// What is executed: inside the action tags.
    Action = 1,
    /// Tags, separators, end of turn.
    Format = 2,
    /// A token of the environment. Allowed in rollout files, skipped when they are read, never trained.
    Observation = 3,
}

/// The tokens of one step, column by column, all of one length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tokens {
    /// The sampled ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub token_id: Vec<u32>,
    /// What each token is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kind: Vec<TokenKind>,
    /// The piece of the response that each token stands for; a piece that ends inside a character is empty, and the
    /// character stands with the token that completes it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub text: Vec<String>,
    /// The likeliest tokens at each place.
    #[serde(flatten)]
    pub top_k: TopK,
    /// Every other column by name: `old_logprob`, `ref_energy`, `entropy`, ... NaN, in a file `null`, stands where a
    /// column of query results has no result.
    #[serde(flatten, deserialize_with = "columns_with_nulls")]
    pub columns: BTreeMap<String, Vec<f32>>,
}

/// The likeliest tokens at each place, the same number `k` everywhere: one list of `k` for each token.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TopK {
    /// Their ids.
    #[serde(default, rename = "top_k_id", skip_serializing_if = "Vec::is_empty")]
    pub id: Vec<Vec<u32>>,
    /// Their log-probabilities under the policy as it is now.
    #[serde(default, rename = "new_top_k_logprob", skip_serializing_if = "Vec::is_empty")]
    pub new_logprob: Vec<Vec<f32>>,
    /// Their log-probabilities under a teacher; none where there is no teacher.
    #[serde(default, rename = "teacher_top_k_logprob", skip_serializing_if = "Vec::is_empty")]
    pub teacher_logprob: Vec<Option<Vec<f32>>>,
}

impl TopK {
    /// Whether there is no column of the likeliest tokens.
    pub fn is_empty(&self) -> bool {
        self.id.is_empty() && self.new_logprob.is_empty() && self.teacher_logprob.is_empty()
    }
}

/// Columns whose `null` is NaN, which is how NaN is written.
fn columns_with_nulls<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, Vec<f32>>, D::Error> {
    let columns: BTreeMap<String, Vec<Option<f32>>> = BTreeMap::deserialize(deserializer)?;
    let number = |number: Option<f32>| number.unwrap_or(f32::NAN);
    Ok(columns.into_iter().map(|(name, column)| (name, column.into_iter().map(number).collect())).collect())
}

/// One turn: observation, response, and the environment's answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The environment's state before the response, as a key that is equal for equal states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The state after it; none after a terminal step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_state: Option<String>,
    /// The environment's reward for this step; none means that it was not scored.
    pub reward: Option<f32>,
    /// The environment ended the episode here.
    #[serde(default)]
    pub terminal: bool,
    /// The response held an action that the environment could execute.
    #[serde(default = "yes")]
    pub valid_action: bool,
    /// What the environment showed before the response.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub observation: String,
    /// The user turn that the response answers, as text: the observation with what the host wrote around it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prompt: String,
    /// What the policy wrote.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub response: String,
    /// The action as parsed; none where the response holds none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// What the environment answered.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub feedback: String,
    /// In trajectory rows: a new row begins here, since the oldest turns were left out of what the policy read. It is no
    /// more the continuation of what was sampled before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub begins_row: bool,
    /// The response's tokens.
    #[serde(default)]
    pub tokens: Tokens,
    /// How many ids of `context` are an earlier part of the episode, where a row begins in its middle. Not written to
    /// files.
    #[serde(skip)]
    pub history: usize,
    /// Ids of the environment's tokens that stand before the response in its row: the whole prompt in step rows and
    /// where a row begins, what was added since the last response elsewhere. Not written to files.
    #[serde(skip)]
    pub context: Vec<u32>,
}

/// One episode.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trajectory {
    /// How rows are cut.
    #[serde(default)]
    pub layout: Layout,
    /// The iteration in which it was played.
    #[serde(default)]
    pub iteration: u64,
    /// Its group: trajectories of one group start from the same task.
    pub group: String,
    /// Its name, unique in the batch. Empty in a file means: the line's number.
    #[serde(default)]
    pub trajectory: String,
    /// How it ended.
    #[serde(default)]
    pub status: Status,
    /// Whether the task was solved, where the environment says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
    /// The environment's seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The task in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub task: String,
    /// The known answer, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// What a judge says about it; none where none was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judgement: Option<String>,
    /// What a judge says about it, compared with a successful trajectory of its group; none where none was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judgement_with_success: Option<String>,
    /// A reward for the whole episode that wins over the sum of its step rewards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<f32>,
    /// The turns, in order.
    pub steps: Vec<Step>,
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_null_is_not_a_number_and_is_written_as_null() {
        let text = r#"{"kind":["think","action"],"teacher_logprob":[null,-0.5]}"#;
        let tokens: Tokens = serde_json::from_str(text).unwrap();
        let column = &tokens.columns["teacher_logprob"];
        assert!(column[0].is_nan());
        assert_eq!(column[1], -0.5);
        assert_eq!(serde_json::to_string(&tokens).unwrap(), text);
    }

    #[test]
    fn the_likeliest_tokens_are_lists_in_lists() {
        let text = r#"{"kind":["think","action"],"top_k_id":[[3,1],[0,2]],"teacher_top_k_logprob":[null,[-1.0,-2.0]],"old_logprob":[-0.5,-1.5]}"#;
        let tokens: Tokens = serde_json::from_str(text).unwrap();
        assert_eq!(tokens.top_k.id, [[3, 1], [0, 2]]);
        assert_eq!(tokens.top_k.teacher_logprob, [None, Some(vec![-1.0, -2.0])]);
        assert_eq!(tokens.columns.keys().collect::<Vec<_>>(), ["old_logprob"]);
        assert_eq!(serde_json::to_string(&tokens).unwrap(), text);
    }
}
