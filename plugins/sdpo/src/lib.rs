//! `sdpo`: no policy gradient; the policy learns from itself, once it has been told how the task is solved (Self-Distillation
//! Policy Optimisation).
//!
//! # What it does
//!
//! After the rollouts, a teacher reads the same responses again, with something added to the prompt that the policy did
//! not know: another attempt of the group that succeeded, or, where there is none, what the environment answered. The
//! teacher is the policy itself, or a slow average of it. The loss pulls the policy's distribution at every token of the
//! response towards the teacher's. So a failed episode teaches too, token by token; rewards only decide what is shown.
//!
//! # The formula
//!
//! After arXiv 2601.20802 and its authors' code. With `S` the policy's and `T` the teacher's distribution at one place
//! (`T` is constant), `a = alpha` and `M = (1 - a) S + a T`:
//!
//! ```text
//! a = 0        l = KL(T || S)
//! a = 1        l = KL(S || T)
//! 0 < a < 1    l = (1 - a) KL(S || M) + a KL(T || M)          a = 1/2 is the Jensen-Shannon divergence
//! sampled      l = sg(log S(y) - log T(y)) log S(y)           y is the token; the derivative is that of KL(S || T)
//! weight       r = min(exp(new - old), ratio_cap)             constant; the log-ratio is cut at +-20
//! loss         L = aggregate(r l) over the tokens that have a teacher
//! ```
//!
//! With `form = "top-k"` both distributions are taken at the `top_k` tokens that were likeliest to the policy before the
//! update. `tail = "bucket"` puts the rest of each into one more token, `1 - sum`; `"renormalise"` scales the listed ones
//! to 1.
//!
//! | `aggregate` | value, over tokens with a teacher |
//! | --- | --- |
//! | `token-mean` | `sum(r l) / count`, the count at least 1 |
//! | `token-sum` | `sum(r l)` |
//! | `seq-mean-token-sum`, `seq-mean-token-mean`, `seq-mean-token-sum-norm` | means over the rows that have such a token of their sum, mean, or sum divided by `norm_length` |
//! | `step-mean-token-mean` | the same over steps |
//!
//! # Fidelity
//!
//! Loss and derivative equal those of the authors' code (`compute_self_distillation_loss`) and of TRL's `sdpo`, for the
//! sampled token, for lists with either tail and for a list of the whole vocabulary. Ours:
//!
//! - Which successful attempt is shown: the one with the highest outcome, then the shortest, then the first in the order
//!   of texts, and never the trajectory's own; so the order of the group does not matter.
//! - An attempt of several steps is shown as the list of its responses. The words around it are our own.
//! - The paper's tasks have one step. With several, every step is a place to learn: it is shown the whole attempt, or its
//!   own answer of the environment.
//! - The teacher kept near by a trust region is not here; the moving average is.
//!
//! # Parameters
//!
//! | name | default | what |
//! | --- | --- | --- |
//! | `form` | `"top-k"` | what is compared: `"top-k"` or `"sampled"` |
//! | `alpha` | 0.5 with `top-k`, 1 with `sampled` | see above |
//! | `top_k` | `100` | how many tokens; the paper takes 20 where feedback is rich |
//! | `tail` | `"bucket"` | what happens to the rest: `"bucket"` or `"renormalise"` |
//! | `ratio_cap` | `2` | the largest importance weight; 0 does not weight |
//! | `aggregate`, `norm_length` | `"token-mean"` | see above |
//! | `teacher` | `"average"` | whose weights: `"average"`, `"copy"`, `"current"` |
//! | `teacher_rate` | `0.05` | of the average; the paper takes 0.01 where feedback is rich |
//! | `teacher_every` | `10` | optimiser steps between copies |
//! | `success_reward` | `0.5` | an outcome of at least this is a success |
//! | `feedback` | `true` | show the environment's answer where nobody else succeeded |
//! | `remove_thinking` | `true` | cut `<think>` out of the attempt that is shown |
//!
//! The paper's learning rate is 1e-5, with 32 groups of 8.
//!
//! # What it needs
//!
//! Old and new log-probabilities; the teacher's, by `queries`; with `top-k`, the likeliest tokens before the update and
//! their log-probabilities under policy and teacher. Texts of responses and, with `feedback`, of the environment's answers.
//! It reads neither advantages nor weights, so schemes that make them change nothing.
//!
//! # When it goes wrong
//!
//! - A step without a context has no part in the loss, and a minibatch without any has a loss of 0: the metric
//!   `teacher_tokens` is the share of tokens that have a teacher.
//! - Where nothing ever succeeds and the environment's answers say little, the teacher knows no more than the policy, and
//!   `teacher_gap` stays near 0.
//! - A teacher with the policy's own weights runs after it: what both believe grows. Keep the average slow.
//! - The value of the sampled form is no divergence and may be negative; its derivative is what counts.
//!
//! # Metrics
//!
//! From `queries`: `context_success`, `context_feedback`, `context_none` (steps). From the loss, as means over tokens with
//! a teacher: `divergence` (with `top-k`), `teacher_gap` (the policy's minus the teacher's log-probability of the sampled
//! token), `ratio_capped` (share whose weight is cut); over all tokens: `teacher_tokens`.
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
//! [objective]
//! plugin = "sdpo"
//! params = { form = "top-k", alpha = 0.5, top_k = 20 }
//! ```
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]
#![expect(clippy::inline_always, reason = "what a loop calls must become a part of it to be vectorised")]

mod context;
mod convex;
mod divergence;
mod pairs;
mod params;
mod shares;

use accredit_plugin_api::prelude::*;

use crate::{
    divergence::Scratch,
    params::{Params, Settings},
};

/// The objective.
pub struct Sdpo {
    settings: Settings,
    shares: Vec<f64>,
    scratch: Scratch,
}

impl Scheme for Sdpo {
    type Params = Params;
    const NAME: &'static str = "sdpo";
    const ABOUT: &'static str = "Distillation from the policy itself, shown a successful attempt or the feedback.";

    fn new(params: Params, _host: Host) -> Result<Self> {
        Ok(Self { settings: Settings::of(&params)?, shares: Vec::new(), scratch: Scratch::default() })
    }

    fn needs(&self) -> Needs {
        let Settings { top_k, hindsight, .. } = self.settings;
        let part = Part { kinds: Vec::new(), column: Some(TEACHER_LOGPROB.name().to_owned()) };
        let feedback = [FEEDBACK.any()];
        let likeliest = [TOP_K.any(), TOP_K_ID.any(), NEW_TOP_K_LOGPROB.any(), TEACHER_TOP_K_LOGPROB.any()];
        Needs::hooks(&[Hook::Queries, Hook::Objective])
            .reads(&[NEW_LOGPROB.any(), OLD_LOGPROB.any(), TEACHER_LOGPROB.any()])
            .reads_if(top_k.is_some(), &likeliest)
            // Only its queries look at these, and rollouts from a file have their answers already.
            .optional(&[OUTCOME.any(), TRAINED.any(), RESPONSE.any()])
            .optional(&feedback[..usize::from(hindsight.feedback)])
            .asks(&[TEACHER_LOGPROB.any(), TEACHER_TOP_K_LOGPROB.any()][..=usize::from(top_k.is_some())])
            .top_k(top_k.map_or(0, |(_, k)| k))
            .part(part)
            .except("left-out", "it reads no weights: what counts is whether a token has a teacher")
            .except("derivative", "importance weights are held constant, as in the authors' code")
    }

    fn queries(&mut self, batch: &Batch<'_>, queries: &mut Queries, context: &Context) -> Result<()> {
        let policy = self.settings.policy;
        let found = self.settings.hindsight.each(batch, |step, added| {
            queries.push(Query { step, added, target: None, policy, column: TEACHER_LOGPROB.name().to_owned() });
        })?;
        let host = &context.host;
        host.metric("context_success", found.success as f64);
        host.metric("context_feedback", found.feedback as f64);
        host.metric("context_none", found.nothing as f64);
        Ok(())
    }

    fn objective(&mut self, batch: &Batch<'_>, out: &mut Loss<'_>, context: &Context) -> Result<()> {
        let Self { settings, shares, scratch } = self;
        let (new, old) = (batch.get(NEW_LOGPROB)?, batch.get(OLD_LOGPROB)?);
        let teacher = batch.get(TEACHER_LOGPROB)?;
        settings.mode.shares(batch, teacher, shares)?;
        let mut lists = match settings.top_k {
            None => None,
            Some((divergence, _)) => {
                let Some(slopes) = out.d_top_k_logprob.as_deref_mut() else {
                    fail!("this host offers no output `d_top_k_logprob`, and `form` is \"top-k\"");
                };
                let k = batch.scalar(TOP_K)? as usize;
                let (student, teacher) = (batch.get(NEW_TOP_K_LOGPROB)?, batch.get(TEACHER_TOP_K_LOGPROB)?);
                if slopes.len() != new.len() * k {
                    fail!("{} tokens have {} derivatives of {k} likeliest tokens each", new.len(), slopes.len());
                }
                Some((divergence, k, student, teacher, slopes))
            }
        };
        out.d_logprob.fill(0.0);

        let mut sums = Sums::default();
        for (token, teacher) in teacher.iter().enumerate() {
            if teacher.is_nan() {
                if let Some((_, k, .., slopes)) = &mut lists {
                    slopes[token * *k..(token + 1) * *k].fill(0.0);
                }
                continue;
            }
            let gap = f64::from(new[token]) - f64::from(*teacher);
            let mut factor = shares[token];
            if let Some(cap) = settings.ratio_cap {
                let ratio = (f64::from(new[token]) - f64::from(old[token])).clamp(-20.0, 20.0).exp();
                sums.capped += f64::from(u8::from(ratio > cap));
                factor *= ratio.min(cap);
            }
            let value = match &mut lists {
                None => {
                    out.d_logprob[token] = (factor * gap) as f32;
                    gap * f64::from(new[token])
                }
                Some((divergence, k, student, teacher, slopes)) => {
                    let own = token * *k..(token + 1) * *k;
                    divergence.at(&student[own.clone()], &teacher[own.clone()], factor, scratch, &mut slopes[own])
                }
            };
            sums.loss += factor * value;
            sums.divergence += value;
            sums.gap += gap;
            sums.count += 1.0;
        }
        *out.loss = sums.loss;
        sums.report(&context.host, new.len(), settings.top_k.is_some());
        Ok(())
    }
}

/// Sums over the tokens with a teacher.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    loss: f64,
    divergence: f64,
    gap: f64,
    capped: f64,
    count: f64,
}

impl Sums {
    fn report(&self, host: &Host, tokens: usize, lists: bool) {
        if tokens > 0 {
            host.metric_weighted("teacher_tokens", self.count / tokens as f64, tokens as f64);
        }
        if self.count > 0.0 {
            host.metric_weighted("teacher_gap", self.gap / self.count, self.count);
            host.metric_weighted("ratio_capped", self.capped / self.count, self.count);
            if lists {
                host.metric_weighted("divergence", self.divergence / self.count, self.count);
            }
        }
    }
}

export_plugin!(Sdpo);

#[cfg(test)]
mod tests;
