//! Advantages and targets of the tokens of one response.

use accredit_plugin_api::math::Kernel;
use accredit_steps::{
    recursion::{BLOCK, Recursion},
    to_go::{Block, ToGo},
    whiten::Halves,
};

/// A response; every slice has one element for each of its tokens.
pub struct Response<'a> {
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
}

impl Response<'_> {
    /// From the last block of tokens to the first, with the rewards and values of each; gives what the first token hands
    /// back.
    #[inline(always)]
    fn blocks(self, mut each: impl FnMut([&[f32]; 2], [&mut [f32]; 2], &mut f64)) -> f64 {
        let Self { token_reward, values, advantages, targets, last } = self;
        let (mut carry, mut end) = (last, values.len());
        while end > 0 {
            let block = end.saturating_sub(BLOCK)..end;
            end = block.start;
            let out = [&mut advantages[block.clone()], &mut targets[block.clone()]];
            each([&token_reward[block.clone()], &values[block]], out, &mut carry);
        }
        carry
    }
}

/// With `lambda` 1 the targets are the rewards to go, and each advantage is one of them less its value: the values of later
/// tokens cancel out.
pub struct FromReturns<'a> {
    /// The response.
    pub response: Response<'a>,
    /// Makes the rewards to go.
    pub to_go: &'a mut ToGo,
    /// Where targets go that many neighbours share, each with their number.
    pub runs: &'a mut Vec<(f32, u32)>,
}

impl Kernel for FromReturns<'_> {
    /// What the first token hands back.
    type Output = f64;

    #[inline(always)]
    fn run(self) -> f64 {
        let Self { response, to_go, runs } = self;
        response.blocks(
            #[inline(always)]
            |[rewards, values], [advantages, targets], carry| match to_go.block(rewards, carry) {
                Block::Equal(number) => {
                    targets.fill(number as f32);
                    runs.push((number as f32, targets.len() as u32));
                    let number = Halves::from(number);
                    for (advantage, value) in advantages.iter_mut().zip(values) {
                        *advantage = number.less(*value);
                    }
                }
                Block::Each(numbers) => {
                    let written = advantages.iter_mut().zip(targets);
                    for ((advantage, target), (number, value)) in written.zip(numbers.iter().zip(values)) {
                        *advantage = (number - f64::from(*value)) as f32;
                        *target = *number as f32;
                    }
                }
            },
        )
    }
}

/// With any `lambda`: residuals, summed from the last token to the first.
pub struct FromResiduals<'a> {
    /// The response.
    pub response: Response<'a>,
    /// What a reward is worth one token earlier.
    pub gamma: f64,
    /// What an advantage is worth one token earlier.
    pub decay: f64,
    /// Room for numbers.
    pub recursion: &'a mut Recursion,
}

impl Kernel for FromResiduals<'_> {
    /// What the first token hands back.
    type Output = f64;

    #[inline(always)]
    fn run(self) -> f64 {
        let Self { response, gamma, decay, recursion } = self;
        response.blocks(
            #[inline(always)]
            |[rewards, values], [advantages, targets], carry| {
                let count = values.len();
                let terms = recursion.numbers(count);
                // What each token but the first is worth to the one before it stands in that one's term.
                for (((term, reward), value), next) in terms.iter_mut().zip(rewards).zip(values).zip(&values[1..]) {
                    *term = (f64::from(*reward) - f64::from(*value)) + gamma * f64::from(*next);
                }
                let last = count - 1;
                terms[last] = (f64::from(rewards[last]) - f64::from(values[last])) + *carry;
                recursion.run(count, decay);
                let sums = &*recursion.numbers(count);
                *carry = gamma * f64::from(values[0]) + decay * sums[0];
                let written = advantages.iter_mut().zip(targets);
                for ((advantage, target), (sum, value)) in written.zip(sums.iter().zip(values)) {
                    *advantage = *sum as f32;
                    *target = (sum + f64::from(*value)) as f32;
                }
            },
        )
    }
}
