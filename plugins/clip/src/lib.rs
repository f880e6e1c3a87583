//! `clip` and `gspo`: the clipped policy loss, its relatives, and what is usually added to it: divergence, entropy, a
//! critic's loss, distillation.
//!
//! # What it does
//!
//! The advantages and weights that the schemes left become a loss on the policy's fresh log-probabilities. The policy
//! gains by making good tokens likelier and bad ones less likely, up to a limit of its ratio to the policy that sampled
//! them. PPO, GRPO, Dr. GRPO, DAPO, GSPO, GMPO and CISPO share this loss and differ in its parameters. `gspo` is the same
//! objective under a second name, with the defaults of GSPO.
//!
//! # The formula
//!
//! For token `t` with advantage `A`, weight `w` and `d_t = new - old` log-probability:
//!
//! ```text
//! ratio  r = exp(d_t)                                      token
//!        r = exp(mean of d over the step or the row)       step, row: GSPO, Zheng et al. 2025 (arXiv 2507.18071), eq. 7
//! loss   L = aggregate(w m l) + kl_coef aggregate(kl) - entropy_coef aggregate(H) + value_coef aggregate(v)
//!            + distill_coef mean(sg(new - teacher) new)
//! ```
//!
//! | `surrogate` | `l` | from |
//! | --- | --- | --- |
//! | `clip` | `max(-A r, -A min(max(r, 1 - low), 1 + high))`; where `A < 0` at most `-A dual` | PPO, Schulman et al. 2017 (arXiv 1707.06347), eq. 7; Ye et al. 2020 (arXiv 1912.09729), eq. 5 |
//! | `cispo` | `-A sg(min(max(r, 1 - low), 1 + high)) new` | MiniMax-M1 (arXiv 2506.13585), eq. 4 |
//! | `geometric-mean` | `-A exp(mean of c)` over the step or row, `c` is `d` cut to `-low..high`: from above where `A > 0`, from below where `A < 0` | GMPO (arXiv 2507.20673), eq. 4 |
//! | `plain` | `-A new` | the policy gradient; GPG (arXiv 2504.02546) |
//! | `sapo` | `-A (4 / tau) sigmoid(tau (r - 1))`, `tau` by the sign of `A` | SAPO (arXiv 2511.20347) |
//! | `dro` | `-A new + dro_beta / 2 d^2` | DRO (arXiv 2405.19107) |
//!
//! `sg` holds its argument constant. With a ratio of a step or row, the derivative goes through every token's own
//! log-probability, by its own advantage and weight and 1 over the number of tokens: GSPO-token of GSPO's paper, which
//! equals GSPO where a row has one advantage and one weight. The derivative of `geometric-mean` is that of the whole step
//! or row.
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
//! A token's ratio, loss and derivative are computed in 32 bits, as the columns are that they come from and go to; means and
//! sums over tokens, and divergence and value, in 64.
//!
//! The mean over rows, steps or trajectories counts those that have a response token. Divergence, entropy and value
//! are not weighted: their denominators are counts. All denominators belong to the whole minibatch, so that the gradient does
//! not depend on how it is cut into micro-batches; a zero denominator gives 0.
//!
//! `m` makes up for a sampler that is not quite the policy before the update. With `u = old - sampler`:
//!
//! | `mismatch_ratio` | the importance weight |
//! | --- | --- |
//! | `token` | `exp(u)` |
//! | `row` | `exp(sum of u)` over the row |
//! | `row-mean` | `exp(mean of u)` over the row |
//!
//! `mismatch = "none"` is `m = 1`; `"truncate"` is the weight, at most `mismatch_high`; `"mask"` is the weight where it
//! lies in `mismatch_low..=mismatch_high`, and else 0. The exponent is cut at 20 on both sides. No denominator changes.
//!
//! The distillation term is a mean over the tokens of `distill_kinds` that have a number in `distill_column`, which is a
//! column of query results (`teacher_logprob` unless a scheme's queries say otherwise): a reverse divergence from the
//! teacher, estimated from the sampled token.
//!
//! # Fidelity
//!
//! Value and derivative equal verl's (its losses `vanilla`, `gspo`, `cispo`, `geo_mean`, `gpg`, `sapo` and `dro`,
//! `kl_penalty`, `compute_value_loss`, its aggregates; where two losses tie, half of each derivative), and by parameters
//! those of TRL and OpenRLHF. TRL's `cispo` has its limit as the ratio itself and none below: `low = 1`, `high` one less.
//!
//! Ours:
//!
//! - Weights. With weights of 1 the usual forms come out; with those of ActFocus, `token-mean` is that paper's normaliser.
//!   The paper has no rule for the other aggregates with weights; the row's sum of weights in place of its count is our
//!   reading. A token without weight takes no part in a geometric mean.
//! - The sampler's correction follows the usual recipes of truncated and masked importance sampling; a masked token stays
//!   in the denominators.
//! - The distillation term is the optional loss of SERL's summary, which its authors' code does not have.
//!
//! # Parameters
//!
//! | name | default | what |
//! | --- | --- | --- |
//! | `surrogate` | `"clip"` | see above |
//! | `low`, `high` | `0.2`, `0.2`; `gspo`: `3e-4`, `4e-4` | the ratio counts from `1 - low` to `1 + high`; DAPO's `high` is 0.28; with `geometric-mean` of the log-ratio, 0.4 each in its paper |
//! | `ratio` | `"token"`; `gspo`: `"row"` | what one ratio belongs to: `"token"`, `"step"`, `"row"`; `geometric-mean` needs one of the last two |
//! | `dual` | 3 with `token`, else 0 | `clip`'s limit for negative advantages, more than 1; 0 is none |
//! | `log_ratio_clamp` | 20 with `token`, else 10 | where the log-ratio is cut (from above only with `step`, `row`); 0 does not cut |
//! | `tau_positive`, `tau_negative` | 1, 1.05 | of `sapo` |
//! | `dro_beta` | 0.1 | of `dro` |
//! | `aggregate` | `token-mean` with `token`, `step-mean-token-mean` with `step`, `seq-mean-token-mean` with `row` or `sapo` | see above |
//! | `norm_length` | | the constant of `seq-mean-token-sum-norm`, for example the longest response |
//! | `kl`, `kl_coef` | `"none"`, `0` | `"k1"`, `"k2"`, `"k3"`, `"abs"`; with a factor of 0 it is only reported |
//! | `kl_clamp` | `10` | where `k3` is cut, as in verl; 0 cuts neither result nor exponent, as in TRL |
//! | `entropy_coef` | `0` | rewards entropy |
//! | `value_coef`, `value_clip` | `0`, `0.5` | trains the critic; a clip of 0 cuts nothing |
//! | `mismatch`, `mismatch_ratio` | `"none"`, `"token"` | see above |
//! | `mismatch_low`, `mismatch_high` | `0.5`, `2` | the limits of its weight |
//! | `distill_coef`, `distill_column`, `distill_kinds` | `0`, `"teacher_logprob"`, `"action"` | the distillation term: factor, teacher, `"all"`, `"action"`, `"think"` or `"format"` |
//!
//! The defaults that depend on `ratio` are verl's. ActFocus has no dual clip: `dual = 0`. GAGPO's ratio is that of a step:
//! `ratio = "step"`.
//!
//! # What it needs
//!
//! Old and new log-probabilities, advantages, weights; the reference's log-probabilities if `kl` is not `"none"`; the
//! entropy if `entropy_coef` is not 0; old and new values and value targets if `value_coef` is not 0; the sampler's
//! log-probabilities if `mismatch` is not `"none"`; kinds and the teacher's column if `distill_coef` is not 0. What is not
//! needed is not computed.
//!
//! # When it goes wrong
//!
//! - `clip_fraction` near 0 with several minibatches: the limits never bind; near 1: the policy moved too far for one
//!   batch, so take a smaller learning rate or fewer epochs.
//! - With `ratio = "row"` and limits of 0.2 nothing is ever cut: a geometric mean moves far less than a token.
//! - `seq-mean-token-mean` gives a token of a short response more weight than one of a long response, which rewards
//!   long wrong answers; `token-mean` and `seq-mean-token-sum-norm` do not.
//! - `kl = "k1"` in the loss has an expected gradient of 0; `k2` and `k3` pull towards the reference.
//! - `plain` has no limit at all: one optimiser step for each batch, or the samples go stale.
//! - A `mismatch_kl` that grows from iteration to iteration is a fault of the sampler, and no correction saves the run.
//!   The weight of a whole row (`"row"`) leaves any limit soon: a product over hundreds of tokens.
//!
//! # Metrics
//!
//! Means over the tokens with a weight: `clip_fraction` (the cut decides), `clip_fraction_lower` (the dual limit
//! decides; with `geometric-mean`, cut tokens of a negative advantage), `ppo_kl` (old minus new log-probability). Means
//! over all tokens: `ref_kl`, `entropy`, `value_loss`, `value_clip_fraction`, `mismatch_kl` (the sampler's minus the old
//! log-probability), `mismatch_weight` (after the limit), `mismatch_cut` (share that a limit changes). Mean over the
//! distilled tokens: `distill_gap` (new minus teacher log-probability).
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
//! params = { low = 0.2, high = 0.28, aggregate = "token-mean", kl = "k3", kl_coef = 0.01, mismatch = "truncate" }
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
//! plugin = "gspo"
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
    geometric::GeometricTerm,
    kl::{Divergence, Kl},
    params::{Chosen, GspoParams, Params, Settings},
    policy::{Columns, Policy, Sums},
    ratio::{Piece, Ratio},
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
    ratios: ratio::Buffers,
    correction: mismatch::Buffers,
    factor: Vec<f64>,
}

impl Objective {
    fn new(params: Params) -> Result<Self> {
        Ok(Self {
            settings: Settings::of(params)?,
            runs: Vec::new(),
            ratios: ratio::Buffers::default(),
            correction: mismatch::Buffers::default(),
            factor: Vec::new(),
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
            .reads_if(settings.mismatch.is_some(), &[SAMPLER_LOGPROB.any()])
            .except_if(
                settings.ratio != Ratio::Token || settings.kl != Kl::None || settings.entropy_coef != 0.0,
                "left-out",
                "the ratio of a step or row, the divergence from the reference and the entropy are over all tokens, those \
                 of weight 0 as well",
            )
            .except_if(
                settings.ratio != Ratio::Token || matches!(settings.surrogate, Chosen::Cispo { .. }),
                "derivative",
                "the ratio is held constant where its paper holds it so, and a token's derivative goes through its own \
                 log-probability alone",
            );
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
        let Self { settings, runs, ratios, correction, factor } = self;
        let (new, old) = (batch.get(NEW_LOGPROB)?, batch.get(OLD_LOGPROB)?);
        let (advantage, weight) = (batch.get(ADVANTAGE)?, batch.get(WEIGHT)?);
        settings.mode.runs(batch, Count::Weight(weight), runs)?;
        let correction = match settings.mismatch {
            Some(mismatch) => Some(mismatch.factors(batch, old, host, correction)?),
            None => None,
        };
        let columns = Columns { new, old, advantage, weight, correction };
        if let Chosen::GeometricMean(form) = settings.surrogate {
            ratio::units(batch, settings.ratio, &mut ratios.units);
            let (clamp, units) = (settings.clamp, &ratios.units);
            return Ok(math::run(GeometricTerm { form, clamp, columns, runs, units, factor, slopes }));
        }
        ratio::pieces(batch, settings.ratio, new, old, runs, ratios);
        let term = Term { clamp: settings.clamp, columns, pieces: &ratios.pieces, slopes };
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
    pieces: &'a [Piece],
    slopes: &'a mut [f32],
}

impl Term<'_> {
    fn of<S: Surrogate>(self, surrogate: S) -> Sums {
        let Self { clamp, columns, pieces, slopes } = self;
        math::run(Policy { surrogate, clamp, columns, pieces, slopes })
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
