//! Where rewards stand among the tokens, and the way over responses from the end of a sequence to its beginning.
//! Generalised advantages are summed on it with a critic, and discounted returns without one.

use std::ops::Range;

use accredit_plugin_api::prelude::*;

choices! {
    /// Which rewards stand on the tokens, beside those that `shape` gave to tokens.
    pub enum Reward {
        /// The outcome of the trajectory, on the last response token of each row.
        Outcome = "outcome",
        /// The reward of each step, on its last response token.
        Steps = "steps",
    }
}

choices! {
    /// How far credit runs back.
    pub enum Within {
        /// To the beginning of the row.
        Rows = "rows",
        /// To the beginning of the response.
        Steps = "steps",
        /// To the beginning of the trajectory, also where a row is a step.
        Trajectories = "trajectories",
    }
}

/// The settings of the recursion.
#[derive(Clone, Copy, Debug)]
pub struct Returns {
    /// What a reward is worth one token earlier.
    pub gamma: f64,
    /// How much of the next token's advantage is handed on, beside `gamma`.
    pub lambda: f64,
    /// Which rewards stand on the tokens.
    pub reward: Reward,
    /// How far credit runs back.
    pub within: Within,
    /// The environment's tokens between two responses of a row are time steps of value and reward 0.
    pub observation_steps: bool,
}

impl Returns {
    /// Refuses settings that contradict each other.
    pub fn check(&self) -> Result<()> {
        if self.observation_steps && self.within != Within::Rows {
            return Err(Error::parameter(
                "observation_steps",
                "`observation_steps` counts the environment's tokens between two responses of a row; \
                 it needs `within = \"rows\"`",
            ));
        }
        Ok(())
    }

    /// The columns that are read.
    pub fn reads(&self, needs: Needs) -> Needs {
        let outcome = self.reward == Reward::Outcome;
        needs
            .reads(&[REWARD.any(), TOKEN_REWARD.any()])
            .reads_if(outcome, &[RAW_OUTCOME.any(), RAW_REWARD.any()])
            .reads_if(self.observation_steps, &[OBSERVATION_TOKENS.any()])
    }

    /// Hands over all responses that have a token, within each sequence from the last to the first. `outcomes` has one
    /// number for each trajectory, as [`outcomes`] makes them.
    pub fn walk(&self, batch: &Batch<'_>, outcomes: &[f64], walker: &mut impl Walker) -> Result<()> {
        let reward = batch.get(REWARD)?;
        let observations = if self.observation_steps { Some(batch.get(OBSERVATION_TOKENS)?) } else { None };
        let step_rows = batch.layout() == Layout::Step;
        let cut = match self.within {
            Within::Rows => step_rows,
            Within::Steps => true,
            Within::Trajectories => false,
        };
        let outcome_in_each_step = step_rows && self.within != Within::Trajectories;
        let decay = self.decay();
        for trajectory in batch.trajectories() {
            // What the next token hands back, the reward that waits for a token, and the step that the next token is in.
            let mut carry = 0.0;
            let mut waiting = 0.0;
            let mut after: Option<usize> = None;
            for step in trajectory.steps().rev() {
                match self.reward {
                    Reward::Outcome if after.is_none() || outcome_in_each_step => {
                        waiting = outcomes[trajectory.index()];
                    }
                    Reward::Outcome => {}
                    Reward::Steps if cut => waiting = f64::from(reward[step.index()]),
                    Reward::Steps => waiting += f64::from(reward[step.index()]),
                }
                let tokens = step.tokens();
                if tokens.is_empty() {
                    continue;
                }
                if cut {
                    carry = 0.0;
                } else if let (Some(after), Some(observations)) = (after, observations) {
                    carry *= decay.powi(observations[after].saturating_sub(observations[step.index()]) as i32);
                }
                after = Some(step.index());
                carry = walker.response(tokens, waiting + carry);
                waiting = 0.0;
            }
            walker.trajectory(trajectory.tokens());
        }
        Ok(())
    }

    /// What an advantage is worth one token earlier.
    pub fn decay(&self) -> f64 {
        self.gamma * self.lambda
    }
}

/// What the recursion does with tokens.
pub trait Walker {
    /// Gives each token of a response its advantage. `last` comes to the last of them: the reward that stands there, and
    /// what the token after hands back. Returns what the first of them hands back.
    fn response(&mut self, tokens: Range<usize>, last: f64) -> f64;

    /// All responses of a trajectory, which has these tokens, are done.
    fn trajectory(&mut self, tokens: Range<usize>);
}

/// The outcome of each trajectory with what `shape` changed of its steps, and without what it gave to tokens.
pub fn outcomes(batch: &Batch<'_>, outcomes: &mut Vec<f64>) -> Result<()> {
    let (raw, reward, raw_reward) = (batch.get(RAW_OUTCOME)?, batch.get(REWARD)?, batch.get(RAW_REWARD)?);
    outcomes.clear();
    outcomes.extend(batch.trajectories().map(|trajectory| {
        let moved: f64 = trajectory.step_range().map(|s| f64::from(reward[s]) - f64::from(raw_reward[s])).sum();
        // Rounded as the host rounds outcomes, so that those that are equal there are equal here.
        f64::from((f64::from(raw[trajectory.index()]) + moved) as f32)
    }));
    Ok(())
}
