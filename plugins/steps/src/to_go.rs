//! Rewards to go: what comes at a token of a response and after it, `G_t = r_t + gamma G_{t+1}`.

use crate::recursion::{BLOCK, Recursion};

/// The discount, with its powers and with room for numbers.
pub struct ToGo {
    gamma: f64,
    /// `gamma^(BLOCK - 1)` to 1: what the last token's return is worth to each of a block.
    powers: [f64; BLOCK],
    recursion: Recursion,
}

/// Rewards to go of the tokens of a block.
pub enum Block<'a> {
    /// All have this.
    Equal(f64),
    /// Each has its own.
    Each(&'a [f64]),
}

impl ToGo {
    /// With a `gamma`.
    pub fn new(gamma: f64) -> Self {
        let mut powers = [1.0; BLOCK];
        for i in (1..BLOCK).rev() {
            powers[i - 1] = gamma * powers[i];
        }
        Self { gamma, powers, recursion: Recursion::default() }
    }

    /// Those of at most [`BLOCK`] tokens with these rewards. `carry` comes to the last of them beside its own reward, and
    /// is afterwards what the first hands back.
    #[inline(always)]
    pub fn block(&mut self, rewards: &[f32], carry: &mut f64) -> Block<'_> {
        let Self { gamma, powers, recursion } = self;
        let count = rewards.len();
        // Most responses have a reward on their last token alone. Minus 0 is no reward either.
        let bare = rewards.iter().fold(0, |bits, reward| bits | reward.to_bits() << 1) == 0;
        if bare && *gamma == 1.0 {
            return Block::Equal(*carry);
        }
        let numbers = recursion.numbers(count);
        if bare {
            for (number, power) in numbers.iter_mut().zip(&powers[BLOCK - count..]) {
                *number = *carry * power;
            }
        } else {
            for (number, reward) in numbers.iter_mut().zip(rewards) {
                *number = f64::from(*reward);
            }
            numbers[count - 1] += *carry;
            recursion.run(count, *gamma);
        }
        let numbers = &*recursion.numbers(count);
        *carry = *gamma * numbers[0];
        Block::Each(numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_plain_sum_with_and_without_rewards() {
        for gamma in [0.0, 0.75, 1.0] {
            let mut to_go = ToGo::new(gamma);
            for (count, every) in [(1, 0), (7, 3), (40, 0), (BLOCK, 5), (BLOCK, 0)] {
                let reward = |i: usize| if every > 0 && i.is_multiple_of(every) { 2.0 } else { -0.0 };
                let rewards: Vec<f32> = (0..count).map(reward).collect();
                let mut carry = 4.0;
                let found: Vec<f64> = match to_go.block(&rewards, &mut carry) {
                    Block::Equal(number) => vec![number; count],
                    Block::Each(numbers) => numbers.to_vec(),
                };
                let mut expected = 4.0;
                for (reward, found) in rewards.iter().zip(&found).rev() {
                    let own = f64::from(*reward) + expected;
                    assert!((found - own).abs() < 1e-9, "{gamma} {count}: {found} and not {own}");
                    expected = gamma * own;
                }
                assert!((carry - expected).abs() < 1e-9);
            }
        }
    }
}
