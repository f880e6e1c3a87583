//! Advantages and targets of the tokens of one response.

use accredit_plugin_api::math::Kernel;
use accredit_steps::recursion::{BLOCK, Recursion};

/// A response; every slice has one element for each of its tokens.
pub struct Residuals<'a> {
    /// What a reward is worth one token earlier.
    pub gamma: f64,
    /// What an advantage is worth one token earlier.
    pub decay: f64,
    /// Rewards of tokens.
    pub token_reward: &'a [f32],
    /// The critic's values.
    pub values: &'a [f32],
    /// Where the advantages go.
    pub advantages: &'a mut [f32],
    /// Where the critic's targets go.
    pub targets: &'a mut [f32],
    /// What comes to the last token: its reward, and what the token after it hands back.
    pub last: f64,
    /// Room for numbers.
    pub recursion: &'a mut Recursion,
}

impl Kernel for Residuals<'_> {
    /// What the first token hands back.
    type Output = f64;

    #[inline(always)]
    fn run(self) -> f64 {
        let Self { gamma, decay, token_reward, values, advantages, targets, recursion, .. } = self;
        let mut handed_back = self.last;
        let mut end = values.len();
        while end > 0 {
            let block = end.saturating_sub(BLOCK)..end;
            let values = &values[block.clone()];
            let count = values.len();
            let rewards = &token_reward[block.clone()];
            let terms = recursion.numbers(count);
            // What each token but the first is worth to the one before it stands in that one's term.
            for (((term, reward), value), next) in terms.iter_mut().zip(rewards).zip(values).zip(&values[1..]) {
                *term = (f64::from(*reward) - f64::from(*value)) + gamma * f64::from(*next);
            }
            let last = count - 1;
            terms[last] = (f64::from(rewards[last]) - f64::from(values[last])) + handed_back;
            recursion.run(count, decay);
            let advantage = &*recursion.numbers(count);
            handed_back = gamma * f64::from(values[0]) + decay * advantage[0];
            let written = advantages[block.clone()].iter_mut().zip(&mut targets[block.clone()]);
            for (((out, target), advantage), value) in written.zip(advantage).zip(values) {
                *out = *advantage as f32;
                *target = (advantage + f64::from(*value)) as f32;
            }
            end = block.start;
        }
        handed_back
    }
}
