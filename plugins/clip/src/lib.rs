//! `clip`: the clipped policy loss, with what is usually added to it: divergence, entropy, a critic's loss.
//!
//! # What it does
//!
//! The advantages and weights that the schemes left become a loss on the policy's fresh log-probabilities. The policy
//! gains by making good tokens likelier and bad ones less likely, up to a limit of its ratio to the policy that sampled
//! them. PPO, GRPO, Dr. GRPO, DAPO and GSPO share this loss and differ in its parameters.
//!
//! # The formula
//!
//! For token `t` with advantage `A`, weight `w` and `d_t = new - old` log-probability:
//!
//! ```text
//! ratio  r = exp(d_t)                                      token
//!        r = exp(mean of d over the step or the row)       step, row: GSPO, Zheng et al. 2025 (arXiv 2507.18071), eq. 7
//! loss   l = max(-A r, -A min(max(r, 1 - low), 1 + high))  PPO, Schulman et al. 2017 (arXiv 1707.06347), eq. 7
//!        l = min(l, -A dual)  where A < 0                  Ye et al. 2020 (arXiv 1912.09729), eq. 5
//! loss   L = aggregate(w l) + kl_coef aggregate(kl) - entropy_coef aggregate(H) + value_coef aggregate(v)
//! ```
//!
//! With a ratio of a step or row, the derivative goes through every token's own log-probability, by its own advantage
//! and weight and 1 over the number of tokens: GSPO-token of the same paper, which equals GSPO where a row has one
//! advantage and one weight.
//!
//! Divergence from the reference, per token, with `d = new - reference`: `k1 = d`, `k2 = d^2 / 2`,
//! `k3 = exp(-d) - 1 + d` with its result cut at `kl_clamp` and its exponent at 20, `abs = |d|`. `v` is half the larger of the
//! squared errors of the value and of the value cut to `value_clip` around the old one.
//!
//! | `aggregate` | value | as in |
//! | --- | --- | --- |
//! | `token-mean` | `sum(w l) / sum(w)` over the minibatch | DAPO, TRL's `bnpo` |
//! | `token-sum` | `sum(w l)` | |
//! | `seq-mean-token-sum` | mean over rows of `sum(w l)` | |
//! | `seq-mean-token-mean` | mean over rows of `sum(w l) / sum(w)` | GRPO's paper, GSPO |
//! | `seq-mean-token-sum-norm` | mean over rows of `sum(w l) / norm_length` | Dr. GRPO |
//! | `step-mean-token-mean` | mean over steps of `sum(w l) / sum(w)` | |
//! | `trajectory-mean-token-mean` | mean over trajectories of `sum(w l) / sum(w)` | |
//!
//! The mean over rows, steps or trajectories counts those that have a response token. Divergence, entropy and value
//! are not weighted: their denominators are counts. All denominators belong to the whole minibatch, so that the gradient does
//! not depend on how it is cut into micro-batches; a zero denominator gives 0.
//!
//! # Fidelity
//!
//! Value and derivative equal verl's (its `vanilla` and `gspo` losses, `kl_penalty`, `compute_value_loss`, its
//! aggregates; where two losses tie, half of each derivative), and by parameters those of TRL and OpenRLHF with their
//! clipped losses. Weights are ours: with weights of 1 the usual forms come out; with those of ActFocus, `token-mean` is
//! that paper's normaliser. The paper has no rule for the other aggregates with weights; the row's sum of weights in
//! place of its count is our reading.
//!
//! # Parameters
//!
//! | name | default | what |
//! | --- | --- | --- |
//! | `low`, `high` | `0.2`, `0.2` | the ratio counts from `1 - low` to `1 + high`; DAPO's `high` is 0.28 |
//! | `ratio` | `"token"` | what one ratio belongs to: `"token"`, `"step"`, `"row"` |
//! | `dual` | 3 with `token`, else 0 | the limit for negative advantages, more than 1; 0 is none |
//! | `log_ratio_clamp` | 20 with `token`, else 10 | where the log-ratio is cut (from above only with `step`, `row`); 0 does not cut |
//! | `aggregate` | `token-mean` with `token`, `step-mean-token-mean` with `step`, `seq-mean-token-mean` with `row` | see above |
//! | `norm_length` | | the constant of `seq-mean-token-sum-norm`, for example the longest response |
//! | `kl`, `kl_coef` | `"none"`, `0` | `"k1"`, `"k2"`, `"k3"`, `"abs"`; with a factor of 0 it is only reported |
//! | `kl_clamp` | `10` | where `k3` is cut, as in verl; 0 cuts neither result nor exponent, as in TRL |
//! | `entropy_coef` | `0` | rewards entropy |
//! | `value_coef`, `value_clip` | `0`, `0.5` | trains the critic; a clip of 0 cuts nothing |
//!
//! The defaults that depend on `ratio` are verl's. GSPO's paper uses `low = 3e-4, high = 4e-4`. ActFocus has no dual
//! clip: `dual = 0`.
//!
//! # What it needs
//!
//! Old and new log-probabilities, advantages, weights; the reference's log-probabilities if `kl` is not `"none"`; the
//! entropy if `entropy_coef` is not 0; old and new values and value targets if `value_coef` is not 0. What is not needed
//! is not computed.
//!
//! # When it goes wrong
//!
//! - `clip_fraction` near 0 with several minibatches: the limits never bind; near 1: the policy moved too far for one
//!   batch, so take a smaller learning rate or fewer epochs.
//! - With `ratio = "row"` and limits of 0.2 nothing is ever cut: a geometric mean moves far less than a token.
//! - `seq-mean-token-mean` gives a token of a short response more weight than one of a long response, which rewards
//!   long wrong answers; `token-mean` and `seq-mean-token-sum-norm` do not.
//! - `kl = "k1"` in the loss has an expected gradient of 0; `k2` and `k3` pull towards the reference.
//!
//! # Metrics
//!
//! Means over the tokens with a weight: `clip_fraction` (the cut decides), `clip_fraction_lower` (the dual limit
//! decides), `ppo_kl` (old minus new log-probability). Means over all tokens: `ref_kl`, `entropy`, `value_loss`,
//! `value_clip_fraction`.
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
//! groups = 8
//! group_size = 8
//!
//! [[credit]]
//! plugin = "grpo"
//!
//! [objective]
//! plugin = "clip"
//! params = { low = 0.2, high = 0.28, aggregate = "token-mean", kl = "k3", kl_coef = 0.01 }
//! ```
//!
//! GSPO is
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
//! groups = 8
//! group_size = 8
//!
//! [[credit]]
//! plugin = "grpo"
//!
//! [objective]
//! plugin = "clip"
//! params = { ratio = "row", low = 3e-4, high = 4e-4 }
//! ```
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod aggregate;
mod kl;
mod params;
mod ratio;
mod surrogate;
mod value;

use accredit_plugin_api::prelude::*;

use crate::{
    aggregate::Count,
    kl::Kl,
    params::{Params, Settings},
    ratio::log_ratios,
    value::value_loss,
};

/// The objective.
pub struct ClipObjective {
    settings: Settings,
    /// The log-ratio of each token of the micro-batch.
    log_ratio: Vec<f64>,
    /// The share of each token in a term of the loss.
    share: Vec<f64>,
}

impl Scheme for ClipObjective {
    type Params = Params;
    const NAME: &'static str = "clip";
    const ABOUT: &'static str =
        "The clipped policy loss of PPO, GRPO, DAPO and GSPO, with divergence, entropy and value terms.";

    fn new(params: Params, _host: Host) -> Result<Self> {
        Ok(Self { settings: Settings::of(&params)?, log_ratio: Vec::new(), share: Vec::new() })
    }

    fn needs(&self) -> Needs {
        let settings = &self.settings;
        let value = [VALUE.any(), NEW_VALUE.any(), VALUE_TARGET.any()];
        Needs::hooks(&[Hook::Objective])
            .reads(&[NEW_LOGPROB.any(), OLD_LOGPROB.any(), ADVANTAGE.any(), WEIGHT.any()])
            .reads_if(settings.kl != Kl::None, &[REF_LOGPROB.any()])
            .reads_if(settings.entropy_coef != 0.0, &[NEW_ENTROPY.any()])
            .reads_if(settings.value_coef != 0.0, &value)
    }

    fn objective(&mut self, batch: &Batch<'_>, out: &mut Loss<'_>, context: &Context) -> Result<()> {
        *out.loss = self.policy(batch, out.d_logprob, &context.host)?;
        let Settings { kl, entropy_coef, value_coef, mode, .. } = self.settings;
        if kl != Kl::None || entropy_coef != 0.0 || value_coef != 0.0 {
            mode.shares(batch, Count::One, &mut self.share)?;
        }
        if kl != Kl::None {
            *out.loss += self.divergence(batch, out.d_logprob, &context.host)?;
        }
        if entropy_coef != 0.0 {
            let Some(slopes) = out.d_entropy.as_deref_mut() else {
                fail!("this host offers no output `d_entropy`, and `entropy_coef` is not 0");
            };
            *out.loss += self.entropy(batch, slopes, &context.host)?;
        }
        if value_coef != 0.0 {
            let Some(slopes) = out.d_value.as_deref_mut() else {
                fail!("this host offers no output `d_value`, and `value_coef` is not 0");
            };
            *out.loss += self.value(batch, slopes, &context.host)?;
        }
        Ok(())
    }
}

impl ClipObjective {
    /// The clipped surrogate: its share in the loss; writes its derivatives.
    fn policy(&mut self, batch: &Batch<'_>, slopes: &mut [f32], host: &Host) -> Result<f64> {
        let settings = self.settings;
        let (new, old) = (batch.get(NEW_LOGPROB)?, batch.get(OLD_LOGPROB)?);
        let (advantage, weight) = (batch.get(ADVANTAGE)?, batch.get(WEIGHT)?);
        log_ratios(batch, settings.ratio, new, old, &mut self.log_ratio);
        settings.mode.shares(batch, Count::Weight(weight), &mut self.share)?;

        let (mut loss, mut count) = (0.0, 0.0);
        let (mut clipped, mut clipped_lower, mut moved) = (0.0, 0.0, 0.0);
        for token in 0..new.len() {
            // What has no weight has no part, whatever its numbers are.
            if weight[token] == 0.0 {
                slopes[token] = 0.0;
                continue;
            }
            let factor = f64::from(weight[token]) * self.share[token];
            let (ratio, passes) = settings.clamp.ratio(self.log_ratio[token]);
            let surrogate = settings.clip.surrogate(ratio, f64::from(advantage[token]));
            let slope = if passes { surrogate.slope } else { 0.0 };
            loss += factor * surrogate.loss;
            slopes[token] = (factor * slope) as f32;
            count += 1.0;
            clipped += f64::from(u8::from(surrogate.clipped));
            clipped_lower += f64::from(u8::from(surrogate.clipped_lower));
            moved += f64::from(old[token]) - f64::from(new[token]);
        }
        if count > 0.0 {
            host.metric_weighted("clip_fraction", clipped / count, count);
            host.metric_weighted("clip_fraction_lower", clipped_lower / count, count);
            host.metric_weighted("ppo_kl", moved / count, count);
        }
        Ok(loss)
    }

    /// The divergence from the reference: its share in the loss; adds its derivatives.
    fn divergence(&self, batch: &Batch<'_>, slopes: &mut [f32], host: &Host) -> Result<f64> {
        let Settings { kl, kl_coef, kl_clamp, .. } = self.settings;
        let (new, reference) = (batch.get(NEW_LOGPROB)?, batch.get(REF_LOGPROB)?);
        let (mut loss, mut sum) = (0.0, 0.0);
        for (token, share) in self.share.iter().enumerate() {
            let (estimate, slope) = kl.estimate(f64::from(new[token]), f64::from(reference[token]), kl_clamp);
            sum += estimate;
            loss += share * estimate;
            slopes[token] = (f64::from(slopes[token]) + kl_coef * share * slope) as f32;
        }
        mean_metric(host, "ref_kl", sum, self.share.len());
        Ok(kl_coef * loss)
    }

    /// Minus the entropy: its share in the loss; writes its derivatives.
    fn entropy(&self, batch: &Batch<'_>, slopes: &mut [f32], host: &Host) -> Result<f64> {
        let coefficient = self.settings.entropy_coef;
        let entropy = batch.get(NEW_ENTROPY)?;
        let (mut loss, mut sum) = (0.0, 0.0);
        for (token, share) in self.share.iter().enumerate() {
            sum += f64::from(entropy[token]);
            loss -= share * f64::from(entropy[token]);
            slopes[token] = (-coefficient * share) as f32;
        }
        mean_metric(host, "entropy", sum, self.share.len());
        Ok(coefficient * loss)
    }

    /// The critic's loss: its share; writes its derivatives.
    fn value(&self, batch: &Batch<'_>, slopes: &mut [f32], host: &Host) -> Result<f64> {
        let Settings { value_coef, value_clip, .. } = self.settings;
        let (new, old) = (batch.get(NEW_VALUE)?, batch.get(VALUE)?);
        let target = batch.get(VALUE_TARGET)?;
        let (mut loss, mut sum, mut clipped) = (0.0, 0.0, 0.0);
        for (token, share) in self.share.iter().enumerate() {
            let term = value_loss(f64::from(new[token]), f64::from(old[token]), f64::from(target[token]), value_clip);
            sum += term.loss;
            clipped += f64::from(u8::from(term.clipped));
            loss += share * term.loss;
            slopes[token] = (value_coef * share * term.slope) as f32;
        }
        mean_metric(host, "value_loss", sum, self.share.len());
        mean_metric(host, "value_clip_fraction", clipped, self.share.len());
        Ok(value_coef * loss)
    }
}

/// Pushes a mean over the micro-batch's tokens, which counts by their number.
fn mean_metric(host: &Host, name: &str, sum: f64, count: usize) {
    if count > 0 {
        host.metric_weighted(name, sum / count as f64, count as f64);
    }
}

export_plugin!(ClipObjective);

#[cfg(test)]
mod tests;
