//! The returns of the tokens of one response.

use accredit_plugin_api::math::Kernel;
use accredit_steps::recursion::{BLOCK, Recursion};

/// The discount, with its powers and with room for numbers.
pub struct Discount {
    gamma: f64,
    /// `gamma^(BLOCK - 1)` to 1: what the last token's return is worth to each of a block.
    powers: [f64; BLOCK],
    recursion: Recursion,
}

impl Discount {
    /// That of a `gamma`.
    pub fn new(gamma: f64) -> Self {
        let mut powers = [1.0; BLOCK];
        for i in (1..BLOCK).rev() {
            powers[i - 1] = gamma * powers[i];
        }
        Self { gamma, powers, recursion: Recursion::default() }
    }
}

/// A response; both slices have one element for each of its tokens.
pub struct Discounted<'a> {
    /// The discount.
    pub discount: &'a mut Discount,
    /// Rewards of tokens.
    pub token_reward: &'a [f32],
    /// Where the returns go.
    pub returns: &'a mut [f32],
    /// What comes to the last token: its reward, and what the token after it hands back.
    pub last: f64,
}

impl Kernel for Discounted<'_> {
    /// What the first token hands back.
    type Output = f64;

    #[inline(always)]
    fn run(self) -> f64 {
        let Self { discount: Discount { gamma, powers, recursion }, token_reward, returns, .. } = self;
        let mut handed_back = self.last;
        let mut end = returns.len();
        while end > 0 {
            let block = end.saturating_sub(BLOCK)..end;
            let (rewards, returns) = (&token_reward[block.clone()], &mut returns[block.clone()]);
            let count = returns.len();
            // Most responses have a reward on their last token alone. Minus 0 is no reward either.
            if rewards.iter().fold(0, |bits, reward| bits | reward.to_bits() << 1) == 0 {
                if *gamma == 1.0 {
                    returns.fill(handed_back as f32);
                } else {
                    let powers = &powers[BLOCK - count..];
                    for (out, power) in returns.iter_mut().zip(powers) {
                        *out = (handed_back * power) as f32;
                    }
                    handed_back *= *gamma * powers[0];
                }
            } else {
                let terms = recursion.numbers(count);
                for (term, reward) in terms.iter_mut().zip(rewards) {
                    *term = f64::from(*reward);
                }
                terms[count - 1] += handed_back;
                recursion.run(count, *gamma);
                let sums = &*recursion.numbers(count);
                for (out, sum) in returns.iter_mut().zip(sums) {
                    *out = *sum as f32;
                }
                handed_back = *gamma * sums[0];
            }
            end = block.start;
        }
        handed_back
    }
}
