//! `kl-reward`: the divergence from the reference, taken off the reward of every token.
//!
//! # What it does
//!
//! A token that the policy finds likelier than the frozen reference does costs reward, in proportion to an estimate of
//! the divergence there. So the pull towards the reference becomes a part of the credit, and later tokens count for
//! earlier ones, in place of (or beside) a divergence term in the loss.
//!
//! # The formula
//!
//! ```text
//! r'_k = r_k - coefficient kl_k        with d = old_logprob - ref_logprob of token k (nats):
//! k1 = d    k2 = d^2 / 2    k3 = exp(-d) - 1 + d    abs = |d|        Schulman, "Approximating KL Divergence", 2020
//! ```
//!
//! It is the penalty of InstructGPT (Ouyang et al. 2022, arXiv 2203.02155, equation 2), with k1.
//!
//! # Fidelity
//!
//! Equal to verl's KL in the reward with a fixed coefficient, and to OpenRLHF's with k1. For k3 verl cuts the exponent at
//! 20 and the estimate at 10; `clamp = 0` cuts neither. A coefficient that adapts to a target is not here.
//!
//! The outcome of a trajectory moves by the sum over its tokens. An estimator that reads outcomes alone compares that sum
//! (verl); `grpo` and `rloo` with `token_rewards = "to-go"`, and `gae` and `reinforce` always, leave each token its own.
//!
//! # Parameters
//!
//! | name | default | what |
//! | --- | --- | --- |
//! | `estimate` | `"k1"` | `"k1"`, `"k2"`, `"k3"` or `"abs"` |
//! | `coefficient` | `0.001` | what one nat costs; verl's default |
//! | `clamp` | `10.0` | where k3 is cut, with its exponent at 20; 0 cuts neither |
//!
//! The scripts of verl-agent, GiGPO and SERL have no KL in the reward; they have 0.01 times k3 in the loss (`clip` with
//! `kl = "k3"`, `kl_coef = 0.01`), or none.
//!
//! # What it needs
//!
//! `old_logprob` and `ref_logprob`: a reference model is loaded for it.
//!
//! # When it goes wrong
//!
//! - With k1 a token that the policy finds unlikelier than the reference is *rewarded*. Only the mean over many samples is a
//!   divergence; k2, k3 and abs are never negative.
//! - The reward of a long episode is dominated by the sum over its tokens; compare `kl_per_trajectory` with the task's
//!   rewards.
//! - In a group whose outcomes are equal the divergence is then the only difference, and a deviation in the estimator
//!   blows it up to full size. `token_rewards = "to-go"` keeps it out of the comparison.
//!
//! # Metrics
//!
//! `kl` (mean estimate over tokens, nats), `kl_per_trajectory` (mean of the sums).
//!
//! # Example
//!
//! ```toml
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
//! [[credit]]
//! plugin = "kl-reward"
//! params = { estimate = "k1", coefficient = 0.001 }
//!
//! [[credit]]
//! plugin = "rloo"
//! params = { token_rewards = "to-go" }
//! ```
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]
#![expect(clippy::inline_always, reason = "what a loop calls must become a part of it to be vectorised")]

use accredit_plugin_api::{
    math::{self, Kernel},
    prelude::*,
};

choices! {
    /// How the divergence is estimated from one sampled token. With `d = old - reference`:
    pub enum Estimate {
        /// `d`.
        K1 = "k1",
        /// `d^2 / 2`.
        K2 = "k2",
        /// `exp(-d) - 1 + d`, cut where it is large.
        K3 = "k3",
        /// `|d|`.
        Abs = "abs",
    }
}

params! {
    /// Parameters of `kl-reward`.
    pub struct Params {
        /// How the divergence is estimated.
        estimate: Estimate = Estimate::K1,
        /// What one nat costs.
        #[range(0.0..)]
        coefficient: f64 = 0.001,
        /// Where k3 is cut, with its exponent at 20; 0 cuts neither.
        #[range(0.0..)]
        clamp: f64 = 10.0,
    }
}

struct KlReward(Params);

impl Scheme for KlReward {
    type Params = Params;
    const NAME: &'static str = "kl-reward";
    const ABOUT: &'static str = "The divergence from the reference, taken off the reward of every token.";

    fn new(params: Params, _host: Host) -> Result<Self> {
        Ok(Self(params))
    }

    fn needs(&self) -> Needs {
        Needs::hooks(&[Hook::Shape]).reads(&[OLD_LOGPROB.any(), REF_LOGPROB.any(), TOKEN_REWARD.any()])
    }

    fn shape(&mut self, batch: &Batch<'_>, rewards: &mut Rewards<'_>, context: &Context) -> Result<()> {
        let (old, reference) = (batch.get(OLD_LOGPROB)?, batch.get(REF_LOGPROB)?);
        let Params { estimate, coefficient, clamp } = self.0;
        let costs = Costs { coefficient, old, reference, token_reward: rewards.token_reward };
        let sum = match estimate {
            Estimate::K1 => costs.take_off(k1),
            Estimate::K2 => costs.take_off(k2),
            Estimate::K3 if clamp > 0.0 => costs.take_off(
                #[inline(always)]
                |d| k3_cut(d, clamp),
            ),
            Estimate::K3 => costs.take_off(k3),
            Estimate::Abs => costs.take_off(f64::abs),
        };
        let host = &context.host;
        host.metric("kl", sum / batch.token_count().max(1) as f64);
        host.metric("kl_per_trajectory", sum / batch.trajectories().len().max(1) as f64);
        Ok(())
    }
}

/// What the rewards of tokens are charged for.
struct Costs<'a> {
    coefficient: f64,
    old: &'a [f32],
    reference: &'a [f32],
    token_reward: &'a mut [f32],
}

impl Costs<'_> {
    /// Charges an estimate at each difference of log-probabilities, and gives their sum in nats.
    fn take_off(self, estimate: impl Fn(f64) -> f64) -> f64 {
        math::run(Charge { costs: self, estimate })
    }
}

struct Charge<'a, E> {
    costs: Costs<'a>,
    estimate: E,
}

/// Tokens that are worked on together.
const BLOCK: usize = 256;

impl<E: Fn(f64) -> f64> Kernel for Charge<'_, E> {
    type Output = f64;

    #[inline(always)]
    fn run(self) -> f64 {
        let Self { costs: Costs { coefficient, old, reference, token_reward }, estimate } = self;
        let mut estimates = [0.0; BLOCK];
        let mut sum = 0.0;
        let blocks = token_reward.chunks_mut(BLOCK).zip(old.chunks(BLOCK).zip(reference.chunks(BLOCK)));
        for (rewards, (old, reference)) in blocks {
            let estimates = &mut estimates[..rewards.len()];
            let columns = rewards.iter_mut().zip(old.iter().zip(reference));
            for (own, (reward, (old, reference))) in estimates.iter_mut().zip(columns) {
                *own = estimate(f64::from(*old) - f64::from(*reference));
                *reward = (f64::from(*reward) - coefficient * *own) as f32;
            }
            sum += math::sum(estimates);
        }
        sum
    }
}

// The estimates in nats at a difference of log-probabilities.

#[inline(always)]
fn k1(d: f64) -> f64 {
    d
}

#[inline(always)]
fn k2(d: f64) -> f64 {
    d * d / 2.0
}

#[inline(always)]
fn k3(d: f64) -> f64 {
    math::exp(-d) - 1.0 + d
}

#[inline(always)]
fn k3_cut(d: f64, clamp: f64) -> f64 {
    let exponent = (-d).clamp(-20.0, 20.0);
    (math::exp(exponent) - 1.0 - exponent).min(clamp)
}

export_plugin!(KlReward);

#[cfg(test)]
mod tests {
    use accredit_plugin_api::{
        Layout,
        testing::{TestBatch, TestScheme, take_metrics},
    };
    use proptest::prelude::*;

    use super::*;

    fn shaped(params: &str, old: &[f32], reference: &[f32]) -> Vec<f32> {
        let mut batch = TestBatch::new(Layout::Trajectory, &[&[&[old.len()]]]);
        batch.set(OLD_LOGPROB, old.to_vec()).set(REF_LOGPROB, reference.to_vec());
        let (reward, token_reward) = TestScheme::<KlReward>::new(params).unwrap().shape(&batch).unwrap();
        assert_eq!(reward, [0.0]);
        token_reward
    }

    fn check(estimate: &str, d: f32, expected: f64) {
        let params = format!(r#"{{"estimate": "{estimate}", "coefficient": 1}}"#);
        let found = -f64::from(shaped(&params, &[d], &[0.0])[0]);
        assert!((found - expected).abs() < 1e-6 * expected.abs().max(1.0), "{estimate} {d}: {found}, not {expected}");
    }

    #[test]
    fn the_four_estimates() {
        for (estimate, at_03, at_minus_03) in
            [("k1", 0.3, -0.3), ("k2", 0.045, 0.045), ("k3", 0.040_818, 0.049_859), ("abs", 0.3, 0.3)]
        {
            check(estimate, 0.3, at_03);
            check(estimate, -0.3, at_minus_03);
            check(estimate, 0.0, 0.0);
        }
    }

    #[test]
    fn k3_is_cut_where_it_is_large() {
        check("k3", -5.0, 10.0);
        check("k3", -100.0, 10.0);
        check("k3", 100.0, 10.0);
        let uncut = shaped(r#"{"estimate": "k3", "coefficient": 1, "clamp": 0}"#, &[-5.0], &[0.0])[0];
        assert!((uncut + 142.413_16).abs() < 1e-3, "{uncut}");
    }

    #[test]
    fn it_comes_off_what_earlier_schemes_gave() {
        let mut batch = TestBatch::new(Layout::Step, &[&[&[1, 0, 2]], &[&[1]]]);
        batch.set(OLD_LOGPROB, vec![-1.0, -2.0, -1.0, -0.5]).set(REF_LOGPROB, vec![-2.0; 4]);
        batch.set(REWARD, vec![0.5; 4]).set(TOKEN_REWARD, vec![0.25, 0.0, 0.0, 0.0]);
        take_metrics();
        let shaped = TestScheme::<KlReward>::new(r#"{"coefficient": 0.125}"#).unwrap().shape(&batch).unwrap();
        assert_eq!(shaped, (vec![0.5; 4], vec![0.125, 0.0, -0.125, -0.1875]));
        let metrics = take_metrics();
        assert_eq!((metrics["kl"][0].0, metrics["kl_per_trajectory"][0].0), (0.875, 1.75));
    }

    #[test]
    fn bad_parameters_are_refused() {
        for (params, key) in [
            (r#"{"coefficient": -1}"#, "coefficient"),
            (r#"{"clamp": -1}"#, "clamp"),
            (r#"{"estimate": "kl"}"#, "estimate"),
            (r#"{"coef": 1}"#, "coef"),
        ] {
            assert_eq!(TestScheme::<KlReward>::new(params).err().map(|e| e.location).as_deref(), Some(key));
        }
    }

    proptest! {
        #[test]
        fn all_but_k1_only_cost(
            old in prop::collection::vec(-30.0_f32..0.0, 1..20),
            estimate in prop::sample::select(vec!["k2", "k3", "abs"]),
        ) {
            let reference = vec![-15.0; old.len()];
            let params = format!(r#"{{"estimate": "{estimate}", "coefficient": 0.5}}"#);
            let cost = shaped(&params, &old, &reference);
            prop_assert!(cost.iter().all(|reward| *reward <= 0.0 && reward.is_finite()), "{cost:?}");
        }

        #[test]
        fn half_the_coefficient_is_half_the_cost(old in prop::collection::vec(-30.0_f32..0.0, 1..20)) {
            let reference = vec![-15.0; old.len()];
            let whole = shaped(r#"{"coefficient": 0.5}"#, &old, &reference);
            let half = shaped(r#"{"coefficient": 0.25}"#, &old, &reference);
            prop_assert!(whole.iter().zip(&half).all(|(whole, half)| *whole == 2.0 * half));
        }
    }
}
