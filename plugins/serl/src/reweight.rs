//! How a teacher's log-probabilities scale advantages: the rule that SERL and RLSD share.

use std::cmp::Ordering;

use accredit_plugin_api::{math, prelude::*};

choices! {
    /// What the decay of lambda counts.
    pub enum DecayOver {
        /// Iterations: one for each batch of rollouts.
        Iterations = "iterations",
        /// Optimiser steps.
        Updates = "updates",
    }
}

choices! {
    /// Whose log-probabilities the teacher's are compared with.
    pub enum Student {
        /// The policy as it is in this micro-batch.
        New = "new",
        /// The policy before the update.
        Old = "old",
    }
}

choices! {
    /// Which tokens are reweighted.
    pub enum Rollouts {
        /// All that have a teacher.
        All = "all",
        /// Only those with a positive advantage.
        Positive = "positive",
    }
}

/// The teacher's and the student's difference is cut here before it is exponentiated, in nats.
const LOG_RATIO_LIMIT: f64 = 20.0;

/// The rule with its settings.
#[derive(Clone, Copy, Debug)]
pub struct Reweight {
    /// The share of the teacher's weight at the start.
    pub lambda: f64,
    /// After so many iterations or optimiser steps the share is 0; 0 never decays.
    pub decay: u64,
    /// What `decay` counts.
    pub over: DecayOver,
    /// The teacher's weight stays within 1 plus or minus this.
    pub clip: f64,
    /// What the teacher is compared with.
    pub student: Student,
    /// Which tokens are reweighted.
    pub rollouts: Rollouts,
    /// Only action tokens are reweighted.
    pub actions_only: bool,
}

/// Numbers of one micro-batch.
struct Counts {
    with_teacher: f64,
    selected: f64,
    clipped: f64,
    weights: f64,
    least: f64,
    most: f64,
    differences: f64,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            with_teacher: 0.0,
            selected: 0.0,
            clipped: 0.0,
            weights: 0.0,
            least: f64::INFINITY,
            most: f64::NEG_INFINITY,
            differences: 0.0,
        }
    }
}

impl Reweight {
    /// The columns that it reads; the teacher's aside, which its queries give.
    pub fn reads(&self) -> Vec<accredit_plugin_api::AnyColumn> {
        let student = match self.student {
            Student::New => NEW_LOGPROB.any(),
            Student::Old => OLD_LOGPROB.any(),
        };
        if self.actions_only { vec![student, KIND.any()] } else { vec![student] }
    }

    /// The share of the teacher's weight as the run stands: `lambda * max(0, 1 - k / decay)`.
    pub fn share(&self, context: &Context) -> f64 {
        if self.decay == 0 {
            return self.lambda;
        }
        let count = match self.over {
            DecayOver::Iterations => context.iteration,
            DecayOver::Updates => context.update,
        };
        self.lambda * (1.0 - count as f64 / self.decay as f64).max(0.0)
    }

    /// Scales the advantages of a micro-batch in place. A token whose teacher is NaN, which means that nobody asked, keeps
    /// its advantage.
    pub fn apply(&self, batch: &Batch<'_>, advantage: &mut [f32], context: &Context) -> Result<()> {
        let share = self.share(context);
        context.host.metric("effective_lambda", share);
        let Some(teacher) = batch.get_optional(TEACHER_LOGPROB) else {
            if share == 0.0 {
                return Ok(());
            }
            fail!(
                "the column `{}` is absent, and the teacher's share is {share} in iteration {}: these rollouts bring no \
                 teacher, and nothing scored the queries of this scheme",
                TEACHER_LOGPROB.name(),
                context.iteration
            );
        };
        let student = match self.student {
            Student::New => batch.get(NEW_LOGPROB)?,
            Student::Old => batch.get(OLD_LOGPROB)?,
        };
        let kind = if self.actions_only { Some(batch.get(KIND)?) } else { None };
        let mut counts = Counts::default();
        let mut block = Block::new();
        for first in (0..advantage.len()).step_by(BLOCK) {
            let end = advantage.len().min(first + BLOCK);
            let kind = kind.map(|kind| &kind[first..end]);
            let advantage = &mut advantage[first..end];
            let selected = self.select(&teacher[first..end], &student[first..end], kind, advantage, &mut block);
            counts.with_teacher += block.with_teacher as f64;
            let (tokens, weights) = (&block.tokens[..selected], &mut block.weights[..selected]);
            math::exp_all(weights);
            counts.bound(weights, 1.0 - self.clip, 1.0 + self.clip);
            counts.differences += math::sum(&block.differences[..selected]);
            for (token, weight) in tokens.iter().zip(weights) {
                let advantage = &mut advantage[usize::from(*token)];
                *advantage = (f64::from(*advantage) * (1.0 - share + share * *weight)) as f32;
            }
        }
        counts.report(&context.host, advantage.len() as f64);
        Ok(())
    }

    /// Gathers the tokens of a block that are reweighted, with the logarithms of their weights: their number.
    fn select(
        &self,
        teacher: &[f32],
        student: &[f32],
        kind: Option<&[u8]>,
        advantage: &[f32],
        block: &mut Block,
    ) -> usize {
        let (mut count, mut with_teacher) = (0, 0);
        for (token, ((teacher, student), advantage)) in teacher.iter().zip(student).zip(advantage).enumerate() {
            if teacher.is_nan() {
                continue;
            }
            with_teacher += 1;
            if kind.is_some_and(|kind| kind[token] != ACTION) || !self.rollouts.include(*advantage) {
                continue;
            }
            let difference = f64::from(*teacher) - f64::from(*student);
            block.tokens[count] = token as u16;
            block.differences[count] = difference;
            block.weights[count] = exponent(*advantage, difference);
            count += 1;
        }
        block.with_teacher = with_teacher;
        count
    }
}

/// Tokens that are reweighted together, so that the exponentials are computed as vectors.
const BLOCK: usize = 512;

/// The selected tokens of a block: their places in it, teacher minus student, and the weight or at first its logarithm.
struct Block {
    tokens: [u16; BLOCK],
    differences: [f64; BLOCK],
    weights: [f64; BLOCK],
    with_teacher: usize,
}

impl Block {
    fn new() -> Self {
        Self { tokens: [0; BLOCK], differences: [0.0; BLOCK], weights: [0.0; BLOCK], with_teacher: 0 }
    }
}

/// The logarithm of the teacher's weight of a token, before the bounds of the weight.
fn exponent(advantage: f32, difference: f64) -> f64 {
    let limited = difference.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT);
    match advantage.partial_cmp(&0.0) {
        Some(Ordering::Greater) => limited,
        Some(Ordering::Less) => -limited,
        _ => 0.0,
    }
}

impl Rollouts {
    fn include(self, advantage: f32) -> bool {
        match self {
            Self::All => true,
            Self::Positive => advantage > 0.0,
        }
    }
}

impl Counts {
    /// Puts weights within their bounds, and counts them; four at a time, so that no number waits for the one before it.
    fn bound(&mut self, weights: &mut [f64], low: f64, high: f64) {
        const LANES: usize = 4;
        let (mut clipped, mut least, mut most) = ([0.0; LANES], [self.least; LANES], [self.most; LANES]);
        for chunk in weights.chunks_mut(LANES) {
            for (lane, weight) in chunk.iter_mut().enumerate() {
                let free = *weight;
                *weight = free.max(low).min(high);
                clipped[lane] += f64::from(u8::from(*weight != free));
                least[lane] = least[lane].min(*weight);
                most[lane] = most[lane].max(*weight);
            }
        }
        self.clipped += clipped.iter().sum::<f64>();
        self.least = least.into_iter().fold(self.least, f64::min);
        self.most = most.into_iter().fold(self.most, f64::max);
        self.selected += weights.len() as f64;
        self.weights += math::sum(weights);
    }

    fn report(&self, host: &Host, tokens: f64) {
        if tokens > 0.0 {
            host.metric_weighted("teacher_fraction", self.with_teacher / tokens, tokens);
        }
        if self.with_teacher > 0.0 {
            host.metric_weighted("selected_fraction", self.selected / self.with_teacher, self.with_teacher);
        }
        if self.selected > 0.0 {
            let count = self.selected;
            host.metric_weighted("weight_mean", self.weights / count, count);
            host.metric_weighted("weight_min", self.least, count);
            host.metric_weighted("weight_max", self.most, count);
            host.metric_weighted("clipped_fraction", self.clipped / count, count);
            host.metric_weighted("teacher_gain", self.differences / count, count);
        }
    }
}
