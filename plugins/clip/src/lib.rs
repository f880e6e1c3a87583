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
#![expect(clippy::inline_always, reason = "what a loop calls must become a part of it to be vectorised")]
#![expect(clippy::needless_bitwise_bool, reason = "a short circuit in a loop would be a jump")]

mod aggregate;
mod distill;
mod geometric;
mod kl;
mod mismatch;
mod params;
mod policy;
mod ratio;
mod surrogate;
mod value;

use accredit_plugin_api::{math, prelude::*};

use crate::{
    aggregate::{Count, Run},
    geometric::geometric_mean,
    kl::{Divergence, Kl},
    params::{Chosen, GspoParams, Params, Settings},
    policy::{Columns, Policy, Sums},
    ratio::{Ratio, mean_log_ratios},
    surrogate::{Plain, Surrogate},
    value::Values,
};

/// The objective under its general name.
pub struct ClipObjective(Objective);

impl Scheme for ClipObjective {
    type Params = Params;
    const NAME: &'static str = "clip";
    const ABOUT: &'static str =
        "The clipped policy loss of PPO, GRPO and DAPO and its relatives, with divergence, entropy and value terms.";

    fn new(params: Params, _host: Host) -> Result<Self> {
        Objective::new(params).map(Self)
    }

    fn needs(&self) -> Needs {
        self.0.needs()
    }

    fn objective(&mut self, batch: &Batch<'_>, out: &mut Loss<'_>, context: &Context) -> Result<()> {
        self.0.evaluate(batch, out, &context.host)
    }
}

/// The objective with the defaults of GSPO.
pub struct GspoObjective(Objective);

impl Scheme for GspoObjective {
    type Params = GspoParams;
    const NAME: &'static str = "gspo";
    const ABOUT: &'static str =
        "The clipped policy loss with one ratio for each row: `clip` with the defaults of GSPO.";

    fn new(params: GspoParams, _host: Host) -> Result<Self> {
        Objective::new(params.into()).map(Self)
    }

    fn needs(&self) -> Needs {
        self.0.needs()
    }

    fn objective(&mut self, batch: &Batch<'_>, out: &mut Loss<'_>, context: &Context) -> Result<()> {
        self.0.evaluate(batch, out, &context.host)
    }
}

/// Settings, and buffers that are used again in the next call.
struct Objective {
    settings: Settings,
    runs: Vec<Run>,
    log_ratio: Vec<f64>,
    correction: Vec<f64>,
    geometric: geometric::Buffers,
}

impl Objective {
    fn new(params: Params) -> Result<Self> {
        Ok(Self {
            settings: Settings::of(params)?,
            runs: Vec::new(),
            log_ratio: Vec::new(),
            correction: Vec::new(),
            geometric: geometric::Buffers::default(),
        })
    }

    fn needs(&self) -> Needs {
        let settings = &self.settings;
        let value = [VALUE.any(), NEW_VALUE.any(), VALUE_TARGET.any()];
        let needs = Needs::hooks(&[Hook::Objective])
            .reads(&[NEW_LOGPROB.any(), OLD_LOGPROB.any(), ADVANTAGE.any(), WEIGHT.any()])
            .reads_if(settings.kl != Kl::None, &[REF_LOGPROB.any()])
            .reads_if(settings.entropy_coef != 0.0, &[NEW_ENTROPY.any()])
            .reads_if(settings.value_coef != 0.0, &value)
            .reads_if(settings.mismatch.is_some(), &[SAMPLER_LOGPROB.any()]);
        match &settings.distillation {
            None => needs,
            Some(distillation) => {
                let part = distillation.part();
                needs
                    .reads_if(!part.kinds.is_empty(), &[KIND.any()])
                    .reads_named::<f32>(&distillation.column)
                    .part(part)
            }
        }
    }

    fn evaluate(&mut self, batch: &Batch<'_>, out: &mut Loss<'_>, host: &Host) -> Result<()> {
        let sums = self.policy(batch, out.d_logprob, host)?;
        sums.report(host);
        *out.loss = sums.loss;
        let Settings { kl, entropy_coef, value_coef, mode, .. } = self.settings;
        if kl != Kl::None || entropy_coef != 0.0 || value_coef != 0.0 {
            mode.runs(batch, Count::One, &mut self.runs)?;
        }
        if kl != Kl::None {
            *out.loss += self.divergence(batch, out.d_logprob, host)?;
        }
        if entropy_coef != 0.0 {
            let Some(slopes) = out.d_entropy.as_deref_mut() else {
                fail!("this host offers no output `d_entropy`, and `entropy_coef` is not 0");
            };
            *out.loss += self.entropy(batch, slopes, host)?;
        }
        if value_coef != 0.0 {
            let Some(slopes) = out.d_value.as_deref_mut() else {
                fail!("this host offers no output `d_value`, and `value_coef` is not 0");
            };
            *out.loss += self.value(batch, slopes, host)?;
        }
        if let Some(distillation) = &self.settings.distillation {
            *out.loss += distillation.add(batch, out.d_logprob, host)?;
        }
        Ok(())
    }

    /// The surrogate's term; writes its derivatives.
    fn policy(&mut self, batch: &Batch<'_>, slopes: &mut [f32], host: &Host) -> Result<Sums> {
        let Self { settings, runs, log_ratio, correction, geometric } = self;
        let (new, old) = (batch.get(NEW_LOGPROB)?, batch.get(OLD_LOGPROB)?);
        let (advantage, weight) = (batch.get(ADVANTAGE)?, batch.get(WEIGHT)?);
        settings.mode.runs(batch, Count::Weight(weight), runs)?;
        let correction = match settings.mismatch {
            Some(mismatch) => {
                mismatch.factors(batch, old, host, correction)?;
                Some(correction.as_slice())
            }
            None => None,
        };
        let columns = Columns { new, old, advantage, weight, correction };
        if let Chosen::GeometricMean(form) = settings.surrogate {
            let (ratio, clamp) = (settings.ratio, settings.clamp);
            return Ok(geometric_mean(batch, ratio, form, clamp, columns, runs, geometric, slopes));
        }
        let log_ratio = if settings.ratio == Ratio::Token {
            None
        } else {
            mean_log_ratios(batch, settings.ratio, new, old, log_ratio);
            Some(log_ratio.as_slice())
        };
        let term = Term { clamp: settings.clamp, columns, log_ratio, runs, slopes };
        Ok(match settings.surrogate {
            Chosen::Clip(clip) => term.of(clip),
            Chosen::Cispo(cispo) => term.of(cispo),
            Chosen::Plain | Chosen::GeometricMean(_) => term.of(Plain),
            Chosen::Sapo(sapo) => term.of(sapo),
            Chosen::Dro(dro) => term.of(dro),
        })
    }

    /// The divergence from the reference: its share in the loss; adds its derivatives.
    fn divergence(&self, batch: &Batch<'_>, slopes: &mut [f32], host: &Host) -> Result<f64> {
        let Settings { kl, kl_coef, kl_clamp, .. } = self.settings;
        let (new, reference) = (batch.get(NEW_LOGPROB)?, batch.get(REF_LOGPROB)?);
        let divergence =
            Divergence { kl, coefficient: kl_coef, clamp: kl_clamp, new, reference, runs: &self.runs, slopes };
        let (loss, sum) = divergence.add();
        mean_metric(host, "ref_kl", sum, new.len());
        Ok(kl_coef * loss)
    }

    /// Minus the entropy: its share in the loss; writes its derivatives.
    fn entropy(&self, batch: &Batch<'_>, slopes: &mut [f32], host: &Host) -> Result<f64> {
        let coefficient = self.settings.entropy_coef;
        let entropy = batch.get(NEW_ENTROPY)?;
        let (mut loss, mut sum) = (0.0, 0.0);
        for run in &self.runs {
            let own: f64 = entropy[run.tokens.clone()].iter().map(|entropy| f64::from(*entropy)).sum();
            sum += own;
            loss -= run.share * own;
            slopes[run.tokens.clone()].fill((-coefficient * run.share) as f32);
        }
        mean_metric(host, "entropy", sum, entropy.len());
        Ok(coefficient * loss)
    }

    /// The critic's loss: its share; writes its derivatives.
    fn value(&self, batch: &Batch<'_>, slopes: &mut [f32], host: &Host) -> Result<f64> {
        let Settings { value_coef, value_clip, .. } = self.settings;
        let (new, old) = (batch.get(NEW_VALUE)?, batch.get(VALUE)?);
        let target = batch.get(VALUE_TARGET)?;
        let runs = &self.runs;
        let sums = math::run(Values { coefficient: value_coef, clip: value_clip, new, old, target, runs, slopes });
        mean_metric(host, "value_loss", sums.sum, new.len());
        mean_metric(host, "value_clip_fraction", sums.clipped, new.len());
        Ok(value_coef * sums.loss)
    }
}

/// The policy's term before its surrogate is chosen.
struct Term<'a> {
    clamp: ratio::LogRatioClamp,
    columns: Columns<'a>,
    log_ratio: Option<&'a [f64]>,
    runs: &'a [Run],
    slopes: &'a mut [f32],
}

impl Term<'_> {
    fn of<S: Surrogate>(self, surrogate: S) -> Sums {
        let Self { clamp, columns, log_ratio, runs, slopes } = self;
        math::run(Policy { surrogate, clamp, columns, log_ratio, runs, slopes })
    }
}

/// Pushes a mean over the micro-batch's tokens, which counts by their number.
fn mean_metric(host: &Host, name: &str, sum: f64, count: usize) {
    if count > 0 {
        host.metric_weighted(name, sum / count as f64, count as f64);
    }
}

export_plugin!(ClipObjective, GspoObjective);

#[cfg(test)]
mod tests;
