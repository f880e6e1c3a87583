//! Demonstrations: episodes of the environment's scripted expert, who thinks before it acts. Noise is on its action and
//! not on its thinking: that is what reinforcement can remove.

use accredit_core::{
    episode::{Layout, Step, Tokens, Trajectory},
    rng::Stream,
};
use accredit_environments::{Demonstration, Environment, EnvironmentError};

use super::{
    prompt::{Past, Prompter},
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
    max_steps: usize,
    noise: f64,
    stream: Stream,
) -> Result<Vec<Shown>, EnvironmentError> {
    let mut turn = environment.reset(seed)?;
    let mut past: Vec<Past> = Vec::new();
    let mut shown = Vec::new();
    for step in 0..max_steps as u64 {
        let Some(Demonstration { think, mut action }) = environment.expert() else { break };
        let draw = stream.with(step);
        if !turn.actions.is_empty() && draw.uniform(0) < noise {
            action.clone_from(&turn.actions[draw.below(1, turn.actions.len() as u64) as usize]);
        }
        let response = prompter.tags.response(&think, &action);
        let outcome = environment.step(Some(&action), &response)?;
        shown.push(Shown { user: prompter.user_turn(&past, &turn.observation), response });
        past.push(Past { observation: turn.observation, action: Some(action), reward: outcome.reward });
        turn = outcome.turn;
        if outcome.terminal {
            break;
        }
    }
    Ok(shown)
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
        let context = prompter.context(tokenizer, &turn.user, (index > 0).then_some(Some(end)))?;
        let mut ids = tokenizer.encode_plain(&turn.response)?;
        ids.push(end);
        let kinds = prompter.tags.parse(tokenizer, &ids).kinds;
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
