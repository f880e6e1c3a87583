//! Episodes without a policy: a scripted expert plays, with a share of random actions, or everything is random.

use accredit_core::rng::Stream;
use accredit_environments::{Demonstration, Environment, EnvironmentError, Outcome, Task, Turn};

/// How an episode is played.
#[derive(Clone, Copy, Debug)]
pub struct Script {
    /// The share of steps with a random action in place of the expert's.
    pub noise: f64,
    /// The most steps.
    pub max_steps: usize,
    /// What is random in it.
    pub stream: Stream,
}

/// Such an episode.
#[derive(Clone, Debug, PartialEq)]
pub struct Episode {
    /// What was to be done.
    pub task: Task,
    /// Its turns.
    pub turns: Vec<Scripted>,
}

/// One turn of such an episode.
#[derive(Clone, Debug, PartialEq)]
pub struct Scripted {
    /// What was seen.
    pub turn: Turn,
    /// What the expert thinks; empty where the environment has none.
    pub think: String,
    /// What was done.
    pub action: String,
    /// The whole response, as `respond` made it.
    pub response: String,
    /// What it led to.
    pub outcome: Outcome,
}

/// Plays one episode of this seed. It ends early where there is nothing to do: no expert, or no known action for a random
/// one. Noise is on the action and not on the thinking.
pub fn play(
    environment: &mut dyn Environment,
    seed: u64,
    script: Script,
    respond: &dyn Fn(&str, &str) -> String,
) -> Result<Episode, EnvironmentError> {
    let mut turn = environment.reset(seed)?;
    let task = environment.task();
    let mut turns = Vec::new();
    for step in 0..script.max_steps as u64 {
        let draw = script.stream.with(step);
        let random = (!turn.actions.is_empty() && draw.uniform(0) < script.noise)
            .then(|| turn.actions[draw.below(1, turn.actions.len() as u64) as usize].clone());
        let (think, action) = match (environment.expert(), random) {
            (expert, Some(action)) => (expert.map(|expert| expert.think).unwrap_or_default(), action),
            (Some(Demonstration { think, action }), None) => (think, action),
            (None, None) => break,
        };
        let response = respond(&think, &action);
        let outcome = environment.step(Some(&action), &response)?;
        let seen = std::mem::replace(&mut turn, outcome.turn.clone());
        let terminal = outcome.terminal;
        turns.push(Scripted { turn: seen, think, action, response, outcome });
        if terminal {
            break;
        }
    }
    Ok(Episode { task, turns })
}
