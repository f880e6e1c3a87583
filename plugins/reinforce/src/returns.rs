//! The returns of the tokens of one response.

use accredit_plugin_api::math::Kernel;
use accredit_steps::{
    recursion::BLOCK,
    to_go::{Block, ToGo},
};

/// A response; both slices have one element for each of its tokens.
pub struct Discounted<'a> {
    /// Makes the returns.
    pub to_go: &'a mut ToGo,
    /// Rewards of tokens.
    pub token_reward: &'a [f32],
    /// Where the returns go.
    pub returns: &'a mut [f32],
    /// What comes to the last token: its reward, and what the token after it hands back.
    pub last: f64,
    /// Where returns go that many neighbours share, each with their number.
    pub runs: &'a mut Vec<(f32, u32)>,
}

impl Kernel for Discounted<'_> {
    /// What the first token hands back.
    type Output = f64;

    #[inline(always)]
    fn run(self) -> f64 {
        let Self { to_go, token_reward, returns, runs, .. } = self;
        let mut carry = self.last;
        let mut end = returns.len();
        while end > 0 {
            let block = end.saturating_sub(BLOCK)..end;
            end = block.start;
            let returns = &mut returns[block.clone()];
            match to_go.block(&token_reward[block], &mut carry) {
                Block::Equal(number) => {
                    returns.fill(number as f32);
                    runs.push((number as f32, returns.len() as u32));
                }
                Block::Each(numbers) => {
                    for (out, number) in returns.iter_mut().zip(numbers) {
                        *out = *number as f32;
                    }
                }
            }
        }
        carry
    }
}
