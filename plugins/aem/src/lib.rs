//! `aem`: scales each response's advantage by how uncertain the policy was while writing it (Adaptive Entropy Modulation).
//!
//! # What it does
//!
//! A response that the policy wrote with little doubt gets more credit or blame, one of high entropy less. The coefficient
//! is the same for good and bad advantages, never negative, and 1 in the mean of a group, so that the credit's sign and
//! its overall size stay. Early in a run, when most advantages are negative, this keeps entropy up; later, when most are
//! positive, it lets it fall; no schedule is needed.
//!
//! # The formula
//!
//! After arXiv 2605.00425. With `H` the mean entropy of a response's tokens under the policy before the update, and
//! minimum, maximum and mean over all responses of a group, every turn of every trajectory:
//!
//! ```text
//! h     = (H - min H) / (max H - min H)
//! u     = exp(-lambda h)
//! alpha = u / mean(u)                  1 for all, if max H - min H < min_range
//! A'    = alpha A                      on every token of the response
//! ```
//!
//! # Fidelity
//!
//! To notes about the paper; no code of its authors was found. Our reading, where they are silent:
//!
//! - The mean that calibrates is over responses, not tokens, so that the mean of `alpha` is 1.
//! - `min_range` is in nats, and a range of just that size counts.
//! - A response is a step, whether or not the row is one.
//! - The entropy is that of the distribution that was sampled from, at the rollout's temperature; the paper's is 1.
//! - Trajectories that count in a baseline only take part in minimum, maximum and mean; those that a filter dropped do not.
//!   A response without a token takes no part.
//!
//! # Parameters
//!
//! | name | default | what |
//! | --- | --- | --- |
//! | `lambda` | `1.0` | how strongly entropy counts; 0 changes nothing |
//! | `min_range` | `0.1` | smallest distance of minimum and maximum, in nats, that is used |
//! | `over` | `"group"` | what minimum, maximum and mean are over: `"group"`, `"trajectory"` or `"batch"` |
//! | `reverse` | `false` | more for high entropy: `u = exp(-lambda (1 - h))` |
//!
//! The paper has the defaults in all its environments: ALFWorld and WebShop with groups of 8 in batches of 16, and SWE with
//! DeepSWE's recipe. Its ablations are `over = "trajectory"`, `over = "batch"` and `reverse = true`, all worse than the
//! default; for shuffled coefficients see the plugin `shuffle`.
//!
//! # What it needs
//!
//! The entropy of each token, and advantages of some other scheme, which stands before this one. The paper's bases are
//! GRPO, DAPO, GSPO and DeepSWE's leave-one-out. With `old_logprob`, which every run has, one more metric.
//!
//! # When it goes wrong
//!
//! - Minimum and maximum hang on single responses: one of a few sure tokens, or one that rambles, squeezes all others
//!   together.
//! - Once entropy has collapsed, no group reaches `min_range`: `groups_below_range` counts those, and nothing is scaled.
//! - The coefficients have a mean of 1, not those of the products: advantages of a group that summed to 0 no longer do.
//!   Nothing is normalised again afterwards.
//!
//! # Metrics
//!
//! `groups` (what `over` says), `groups_below_range`, `coefficient_min`, `coefficient_max`, and, if `old_logprob` is there
//! and both vary, `coefficient_surprisal_correlation`: Pearson's correlation, over responses, of the coefficient with
//! the relative surprisal, which is the mean of minus the log-probability less the mean entropy.
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
//! [[credit]]
//! plugin = "aem"
//! params = { lambda = 1.0, min_range = 0.1 }
//!
//! [objective]
//! plugin = "clip"
//! params = { low = 0.2, high = 0.28 }
//! ```
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]
#![expect(clippy::inline_always, reason = "what a loop calls must become a part of it to be vectorised")]

mod correlation;

use std::ops::Range;

use accredit_plugin_api::{
    math::{self, Kernel},
    prelude::*,
};
use accredit_steps::Responses;

choices! {
    /// What minimum, maximum and mean are over.
    pub enum Over {
        /// All responses of a group.
        Group = "group",
        /// The responses of one trajectory.
        Trajectory = "trajectory",
        /// All responses of the batch.
        Batch = "batch",
    }
}

params! {
    /// Parameters of `aem`.
    pub struct Params {
        /// How strongly entropy counts; 0 changes nothing.
        #[range(0.0..)]
        lambda: f64 = 1.0,
        /// Smallest distance of minimum and maximum, in nats, that is used.
        #[range(0.0..)]
        min_range: f64 = 0.1,
        /// What minimum, maximum and mean are over.
        over: Over = Over::Group,
        /// More for high entropy.
        reverse: bool = false,
    }
}

/// The scheme.
pub struct Aem {
    params: Params,
    /// Mean entropy of each step's response; 0 where there is none.
    entropy: Vec<f64>,
    /// Mean log-probability of each step's response.
    logprob: Vec<f64>,
    /// Coefficient of each step.
    coefficient: Vec<f64>,
    scores: Scores,
    /// Pairs whose correlation is reported.
    pairs: Vec<(f64, f64)>,
}

impl Scheme for Aem {
    type Params = Params;
    const NAME: &'static str = "aem";
    const ABOUT: &'static str = "Scales each response's advantage by its entropy among those of its group.";

    fn new(params: Params, _host: Host) -> Result<Self> {
        Ok(Self {
            params,
            entropy: Vec::new(),
            logprob: Vec::new(),
            coefficient: Vec::new(),
            scores: Scores::default(),
            pairs: Vec::new(),
        })
    }

    fn needs(&self) -> Needs {
        Needs::hooks(&[Hook::Weigh]).reads(&[ENTROPY.any()]).optional(&[OLD_LOGPROB.any()])
    }

    fn weigh(&mut self, batch: &Batch<'_>, credit: &mut Credit<'_>, context: &Context) -> Result<()> {
        let entropy = batch.get(ENTROPY)?;
        let responses = Responses::of(batch)?;
        means(batch, entropy, &mut self.entropy);
        self.coefficient.clear();
        self.coefficient.resize(self.entropy.len(), 1.0);
        let over = self.params.over;
        let (mut groups, mut below_range) = (0_u32, 0_u32);
        let mut calibrate = |steps: Range<usize>| {
            groups += 1;
            below_range += u32::from(!self.calibrate(steps, responses));
        };
        match over {
            Over::Group => batch.groups().for_each(|group| calibrate(group.step_range())),
            Over::Trajectory => batch.trajectories().for_each(|trajectory| calibrate(trajectory.step_range())),
            Over::Batch => calibrate(0..batch.steps().len()),
        }
        math::run(Scale { batch, coefficient: &self.coefficient, advantage: credit.advantage });
        let host = &context.host;
        host.metric("groups", f64::from(groups));
        host.metric("groups_below_range", f64::from(below_range));
        self.report(batch, host);
        Ok(())
    }
}

impl Aem {
    /// Sets the coefficients of steps that are compared with each other. Says whether their range is wide enough; if not,
    /// all stay 1.
    fn calibrate(&mut self, steps: Range<usize>, responses: Responses<'_>) -> bool {
        let counted = || steps.clone().filter(|step| responses.has(*step));
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for step in counted() {
            low = low.min(self.entropy[step]);
            high = high.max(self.entropy[step]);
        }
        let range = high - low;
        // Without a step the range is minus infinity.
        if range < self.params.min_range || range <= 0.0 {
            return false;
        }
        self.scores.clear();
        for step in counted() {
            let relative = (self.entropy[step] - low) / range;
            let exponent = if self.params.reverse { 1.0 - relative } else { relative };
            let unscaled = (-self.params.lambda * exponent).exp();
            self.coefficient[step] = unscaled;
            self.scores.push(unscaled, 1);
        }
        // One of the terms is 1, so the mean is above 0.
        if let Some(spread) = self.scores.spread() {
            for step in counted() {
                self.coefficient[step] /= spread.mean;
            }
        }
        true
    }

    fn report(&mut self, batch: &Batch<'_>, host: &Host) {
        let of_responses = || batch.steps().filter(|step| !step.tokens().is_empty());
        let coefficients = || of_responses().map(|step| self.coefficient[step.index()]);
        if coefficients().next().is_none() {
            return;
        }
        host.metric("coefficient_min", coefficients().fold(f64::INFINITY, f64::min));
        host.metric("coefficient_max", coefficients().fold(0.0, f64::max));
        let Some(logprob) = batch.get_optional(OLD_LOGPROB) else {
            return;
        };
        let mut logprobs = std::mem::take(&mut self.logprob);
        means(batch, logprob, &mut logprobs);
        self.pairs.clear();
        self.pairs.extend(of_responses().map(|step| {
            let relative_surprisal = -logprobs[step.index()] - self.entropy[step.index()];
            (self.coefficient[step.index()], relative_surprisal)
        }));
        self.logprob = logprobs;
        if let Some(correlation) = correlation::pearson(&self.pairs) {
            host.metric("coefficient_surprisal_correlation", correlation);
        }
    }
}

/// The mean over each step's tokens; 0 of none.
fn means(batch: &Batch<'_>, column: &[f32], out: &mut Vec<f64>) {
    struct Means<'a> {
        batch: &'a Batch<'a>,
        column: &'a [f32],
        out: &'a mut Vec<f64>,
    }
    impl Kernel for Means<'_> {
        type Output = ();
        #[inline(always)]
        fn run(self) {
            self.out.clear();
            for step in self.batch.steps() {
                let values = &self.column[step.tokens()];
                self.out.push(math::sum_f32(values) / values.len().max(1) as f64);
            }
        }
    }
    math::run(Means { batch, column, out });
}

/// Multiplies the advantages of each step by its coefficient. In 32 bits, as the columns are: a step of 64 bits in between
/// would cost more than the rest of the hook.
struct Scale<'a> {
    batch: &'a Batch<'a>,
    coefficient: &'a [f64],
    advantage: &'a mut [f32],
}

impl Kernel for Scale<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for step in self.batch.steps() {
            let coefficient = self.coefficient[step.index()] as f32;
            for advantage in &mut self.advantage[step.tokens()] {
                *advantage *= coefficient;
            }
        }
    }
}

export_plugin!(Aem);

#[cfg(test)]
mod tests;
