//! `gae`: advantages against a learned critic (Generalised Advantage Estimation), the estimator of PPO.
//!
//! # What it does
//!
//! A critic says for every response token what the rest of the episode is worth. A token's advantage is what came after
//! it, rewards and the critic's next values, less what the critic had expected. The critic learns from the value targets
//! that the scheme writes beside the advantages.
//!
//! # The formula
//!
//! Over the response tokens `k` of a row, from the last to the first, with `V` after the last token 0,
//!
//! ```text
//! delta_k = r_k + gamma V_{k+1} - V_k
//! A_k     = delta_k + gamma lambda A_{k+1}        Schulman et al. 2016 (arXiv 1506.02438), equation 16
//! target_k = A_k + V_k
//! A'      = (A - mean(A)) / sqrt(var(A) + eps)    whitening, over all response tokens of the batch
//! ```
//!
//! `r_k` is 0 but for the last token of a row, which has the outcome (`reward = "outcome"`), or the last token of each
//! step, which has the step's reward (`"steps"`); what `shape` gave to single tokens is added. The environment's tokens
//! are skipped: the value and the advantage of the next response token stand right behind a response.
//!
//! # Fidelity
//!
//! Equal to verl's estimator with its whitening (sample deviation, `eps` inside the root). verl-agent's is the same with
//! step rows, where each row has the whole outcome and credit ends at the row. OpenRLHF's, which lets every token of the
//! environment cost a step of `gamma lambda`, is `observation_steps = true` and `ddof = 0`; its lower limit of 1e-8 for
//! the variance is a sum here, which makes no difference above it. RAGEN's bi-level estimate is not here.
//!
//! - An episode that a limit cut off is treated like one that ended: the value after it is 0, as in all of these.
//! - The reward of a response without a token stands on the last response token before it in its sequence; with no such
//!   token nothing is there to be credited.
//! - Advantages that are all equal become 0 by whitening. Means and deviations do not depend, in any bit, on the order of
//!   trajectories and groups.
//!
//! # Parameters
//!
//! | name | default | what |
//! | --- | --- | --- |
//! | `gamma` | `1.0` | what a reward is worth one token earlier |
//! | `lambda` | `1.0` | 0 trusts the critic's next value, 1 the rewards that came |
//! | `reward` | `"outcome"` | `"outcome"`: the episode's reward on the last token of each row; `"steps"`: each step's on its last token |
//! | `within` | `"rows"` | how far credit runs back: `"rows"`, `"steps"`, or `"trajectories"` across step rows |
//! | `observation_steps` | `false` | the environment's tokens between two responses of a row cost time steps |
//! | `whiten` | `true` | bring the batch's advantages to mean 0 and deviation 1 |
//! | `ddof` | `1` | 1 the sample deviation, 0 the population's |
//! | `eps` | `1e-8` | added to the variance, inside the root |
//!
//! The papers set `gamma` and `lambda` to 1: verl-agent (ALFWorld, WebShop, Sokoban: step rows, 128 groups of one) and
//! RAGEN and ActFocus (FrozenLake, Sokoban, Sudoku, WebShop: trajectory rows).
//!
//! With step rows and `within = "rows"` every row is credited with the whole outcome. `within = "trajectories"` lets
//! the rows of an episode be one sequence, whose outcome stands once, at its end.
//!
//! # What it needs
//!
//! The critic's `value` of every token, and an objective that trains the critic (`value_coef` of `clip`). Groups of any
//! size.
//!
//! # When it goes wrong
//!
//! - A critic that has learned nothing gives noise with `lambda` below 1. `explained_variance` says how much of the
//!   targets it explains: near 0 or below, warm it up, or set `lambda = 1`.
//! - `gamma` below 1 counts tokens, so a long thought costs reward: with 0.99 a reward is down to a third after 110 tokens.
//! - Whitening takes the mean off: in a batch where every episode fails, some tokens are credited all the same.
//!
//! # Metrics
//!
//! `advantage_mean`, `advantage_std` (before whitening), `value_mean`, `value_target_mean`, and `explained_variance`: 1 less
//! the variance of target less value over that of the target; absent where all targets are equal.
//!
//! # Example
//!
//! ```toml
//! seed = 7
//! iterations = 100
//!
//! [model.create]
//! hidden_size = 128
//! intermediate_size = 256
//! layers = 2
//! heads = 4
//! kv_heads = 2
//! vocab_size = 512
//! max_positions = 1024
//!
//! [environment]
//! name = "frozen-lake"
//!
//! [rollout]
//! groups = 64
//! group_size = 1
//!
//! [[credit]]
//! plugin = "gae"
//! params = { gamma = 1.0, lambda = 1.0 }
//!
//! [objective]
//! plugin = "clip"
//! params = { low = 0.2, high = 0.2, value_coef = 1.0, value_clip = 0.5 }
//! ```
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]
#![expect(clippy::inline_always, reason = "what a loop calls must become a part of it to be vectorised")]

mod residuals;

use std::ops::Range;

use accredit_plugin_api::{math, prelude::*};
use accredit_steps::{
    recursion::Recursion,
    to_go::ToGo,
    tokens::{Returns, Reward, Walker, Within, outcomes},
    whiten::{Moments, Whitening},
};

use crate::residuals::{FromResiduals, FromReturns, Response};

params! {
    /// Parameters of `gae`.
    pub struct Params {
        /// What a reward is worth one token earlier.
        #[range(0.0..=1.0)]
        gamma: f64 = 1.0,
        /// How much of the next token's advantage is handed on, beside `gamma`.
        #[range(0.0..=1.0)]
        lambda: f64 = 1.0,
        /// Which rewards stand on the tokens.
        reward: Reward = Reward::Outcome,
        /// How far credit runs back.
        within: Within = Within::Rows,
        /// The environment's tokens between two responses of a row are time steps of value and reward 0.
        observation_steps: bool = false,
        /// Bring the batch's advantages to mean 0 and deviation 1.
        whiten: bool = true,
        /// The sum of squares is divided by the number of tokens less this: 1 the sample deviation, 0 the population's.
        #[range(0..=1)]
        ddof: u32 = 1,
        /// Added to the variance, inside the root.
        #[range(0.0..)]
        eps: f64 = 1e-8,
    }
}

struct Gae {
    returns: Returns,
    whitening: Option<Whitening>,
    outcomes: Vec<f64>,
    way: Way,
    advantages: Moments,
    targets: Moments,
    runs: Vec<(f32, u32)>,
}

/// How advantages are made.
#[expect(clippy::large_enum_variant, reason = "there is one of it, for the life of the scheme")]
enum Way {
    /// `lambda` is 1: from rewards to go.
    Returns(ToGo),
    /// From residuals.
    Residuals(Recursion),
}

impl Scheme for Gae {
    type Params = Params;
    const NAME: &'static str = "gae";
    const ABOUT: &'static str = "Advantages against a critic, token by token (PPO), and what the critic should say.";

    fn new(params: Params, _host: Host) -> Result<Self> {
        let returns = Returns {
            gamma: params.gamma,
            lambda: params.lambda,
            reward: params.reward,
            within: params.within,
            observation_steps: params.observation_steps,
        };
        returns.check()?;
        let whitening = Whitening { center: true, scale: true, ddof: params.ddof, eps: params.eps };
        let whitening = params.whiten.then_some(whitening);
        Ok(Self {
            returns,
            whitening,
            outcomes: Vec::new(),
            way: if params.lambda == 1.0 {
                Way::Returns(ToGo::new(params.gamma))
            } else {
                Way::Residuals(Recursion::default())
            },
            advantages: Moments::default(),
            targets: Moments::default(),
            runs: Vec::new(),
        })
    }

    fn needs(&self) -> Needs {
        let needs = Needs::hooks(&[Hook::Advantage]).reads(&[VALUE.any()]).value_target();
        self.returns.reads(needs).except_if(
            self.whitening.is_some(),
            "other-groups",
            "advantages are whitened over the batch (`whiten`)",
        )
    }

    fn advantage(&mut self, batch: &Batch<'_>, out: &mut Advantages<'_>, context: &Context) -> Result<()> {
        let values = batch.get(VALUE)?;
        let Some(targets) = out.value_target.as_deref_mut() else {
            fail!("this host offers no output `value_target`");
        };
        self.outcomes.clear();
        if self.returns.reward == Reward::Outcome {
            outcomes(batch, &mut self.outcomes)?;
        }
        self.advantages.clear();
        self.targets.clear();
        let mut critic = Critic {
            gamma: self.returns.gamma,
            decay: self.returns.decay(),
            token_reward: batch.get(TOKEN_REWARD)?,
            values,
            advantages: out.advantage,
            targets,
            way: &mut self.way,
            moments: [&mut self.advantages, &mut self.targets],
            runs: &mut self.runs,
            value: 0.0,
        };
        self.returns.walk(batch, &self.outcomes, &mut critic)?;
        let value = critic.value;
        let (Some(spread), Some(target)) = (self.advantages.spread(), self.targets.spread()) else {
            return Ok(());
        };
        let (host, count) = (&context.host, f64::from(spread.count));
        host.metric("advantage_mean", spread.mean);
        host.metric("advantage_std", spread.deviation(0));
        host.metric("value_mean", value / count);
        host.metric("value_target_mean", target.mean);
        if target.squares > 0.0 {
            host.metric("explained_variance", 1.0 - spread.squares / target.squares);
        }
        if let Some(whitening) = self.whitening {
            whitening.apply(out.advantage, &spread);
        }
        Ok(())
    }
}

/// What advantages and targets are made from, and where they go.
struct Critic<'a> {
    gamma: f64,
    decay: f64,
    token_reward: &'a [f32],
    values: &'a [f32],
    advantages: &'a mut [f32],
    targets: &'a mut [f32],
    way: &'a mut Way,
    /// Of advantages and of targets.
    moments: [&'a mut Moments; 2],
    /// Equal targets of neighbouring tokens of the trajectory, with their number.
    runs: &'a mut Vec<(f32, u32)>,
    /// The sum of all values so far.
    value: f64,
}

impl Walker for Critic<'_> {
    fn response(&mut self, tokens: Range<usize>, last: f64) -> f64 {
        let response = Response {
            token_reward: &self.token_reward[tokens.clone()],
            values: &self.values[tokens.clone()],
            advantages: &mut self.advantages[tokens.clone()],
            targets: &mut self.targets[tokens],
            last,
        };
        match self.way {
            Way::Returns(to_go) => math::run(FromReturns { response, to_go, runs: self.runs }),
            Way::Residuals(recursion) => {
                let (gamma, decay) = (self.gamma, self.decay);
                math::run(FromResiduals { response, gamma, decay, recursion })
            }
        }
    }

    fn trajectory(&mut self, tokens: Range<usize>) {
        let [advantages, targets] = &mut self.moments;
        advantages.push(&self.advantages[tokens.clone()]);
        targets.push_with_runs(&self.targets[tokens.clone()], self.runs);
        self.value += math::sum_f32_all(&self.values[tokens]);
    }
}

export_plugin!(Gae);

#[cfg(test)]
mod tests;
