//! Demonstrations: episodes of the environment's scripted expert, who thinks before it acts. Noise is on its action and
//! not on its thinking: that is what reinforcement can remove.

use accredit_core::episode::{Layout, Step, Tokens, Trajectory};
use accredit_environments::{Environment, EnvironmentError};

use super::{
    prompt::{Past, Prompter},
    scripted::{self, Episode, Script, Scripted},
    tokenizer::{Tokenizer, TokenizerError},
};

/// One turn of a demonstration, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// What the expert saw, as the user's turn.
    pub user: String,
    /// What it wrote.
    pub response: String,
}

/// Plays one episode of the expert. In a share `noise` of its steps it acts at random instead.
pub fn play(
    environment: &mut dyn Environment,
    prompter: &Prompter,
    seed: u64,
    script: Script,
) -> Result<Vec<Shown>, EnvironmentError> {
    let mut past: Vec<Past> = Vec::new();
    let respond = |think: &str, action: &str| prompter.tags.response(think, action);
    let Episode { task, turns } = scripted::play(environment, seed, script, &respond)?;
    let shown = turns.into_iter().map(|Scripted { turn, action, response, outcome, .. }| {
        let user = prompter.user_turn(&task.text, &past, &turn);
        past.push(Past { observation: turn.observation, action: Some(action), reward: outcome.reward });
        Shown { user, response }
    });
    Ok(shown.collect())
}

/// A demonstration as tokens: an episode whose responses are to be imitated.
pub fn tokenize(
    shown: &[Shown],
    tokenizer: &Tokenizer,
    prompter: &Prompter,
    name: String,
) -> Result<Trajectory, TokenizerError> {
    let end = tokenizer.stop()[0];
    let layout = if prompter.step_rows() { Layout::Step } else { Layout::Trajectory };
    let mut steps = Vec::with_capacity(shown.len());
    for (index, turn) in shown.iter().enumerate() {
        let context = prompter.context(tokenizer, &turn.user, index, Some(end))?;
        let mut ids = tokenizer.encode_plain(&turn.response)?;
        ids.push(end);
        let kinds = prompter.tags.parse(tokenizer, &context, &ids).kinds;
        steps.push(Step {
            reward: Some(0.0),
            response: turn.response.clone(),
            tokens: Tokens { token_id: ids, kind: kinds, ..Tokens::default() },
            context,
            ..Step::default()
        });
    }
    Ok(Trajectory { layout, group: name.clone(), trajectory: name, steps, ..Trajectory::default() })
}
