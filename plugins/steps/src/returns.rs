//! Rewards of steps, and their discounted sums.

use accredit_plugin_api::{
    math::{self, Kernel},
    prelude::*,
};

/// Writes the reward of each step: its own, with what `shape` gave to its tokens.
pub fn step_rewards(batch: &Batch<'_>, out: &mut Vec<f64>) -> Result<()> {
    let reward = batch.get(REWARD)?;
    out.clear();
    out.extend(reward.iter().map(|reward| f64::from(*reward)));
    // Without a scheme that shapes tokens all of these are 0, which is cheaper to see than to sum.
    let token_reward = batch.get_optional(TOKEN_REWARD).unwrap_or_default();
    if !math::run(AllZero(token_reward)) {
        for step in batch.steps() {
            out[step.index()] += math::sum_f32_all(&token_reward[step.tokens()]);
        }
    }
    Ok(())
}

/// Whether no number has a bit set.
struct AllZero<'a>(&'a [f32]);

impl Kernel for AllZero<'_> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        self.0.iter().fold(0, |bits, number| bits | number.to_bits()) == 0
    }
}

/// Turns the rewards of steps into their returns: `G_t = r_t + gamma G_{t+1}`, and 0 after the last one. A step without a
/// response is a step of time like any other.
pub fn discount(batch: &Batch<'_>, gamma: f64, rewards: &mut [f64]) {
    for trajectory in batch.trajectories() {
        let mut after = 0.0;
        for reward in rewards[trajectory.step_range()].iter_mut().rev() {
            after = *reward + gamma * after;
            *reward = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use accredit_plugin_api::testing::{TestBatch, TestScheme};

    use super::*;

    params! {
        /// Parameters.
        struct Params {
            /// The discount.
            gamma: f64 = 0.5,
        }
    }

    struct Returns(Params);

    impl Scheme for Returns {
        type Params = Params;
        const NAME: &'static str = "returns";
        const ABOUT: &'static str = "The return of its step on every token.";

        fn new(params: Params, _host: Host) -> Result<Self> {
            Ok(Self(params))
        }

        fn needs(&self) -> Needs {
            Needs::hooks(&[Hook::Advantage])
        }

        fn advantage(&mut self, batch: &Batch<'_>, out: &mut Advantages<'_>, _: &Context) -> Result<()> {
            let mut returns = Vec::new();
            step_rewards(batch, &mut returns)?;
            discount(batch, self.0.gamma, &mut returns);
            for step in batch.steps() {
                out.advantage[step.tokens()].fill(returns[step.index()] as f32);
            }
            Ok(())
        }
    }

    #[test]
    fn rewards_of_steps_and_tokens_are_discounted_by_step() {
        let mut batch = TestBatch::new(Layout::Step, &[&[&[2, 0, 1], &[1]]]);
        batch.set(REWARD, vec![1.0, 2.0, 4.0, 8.0]).set(TOKEN_REWARD, vec![0.25, 0.25, 0.0, 1.0]);
        let found = TestScheme::<Returns>::new("{}").unwrap().advantage(&batch);
        assert_eq!(found, Ok(vec![3.5, 3.5, 4.0, 9.0]));
    }
}
