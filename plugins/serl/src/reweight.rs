//! How a teacher's log-probabilities scale advantages: the rule that SERL and RLSD share.

use accredit_plugin_api::prelude::*;

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
#[derive(Default)]
struct Counts {
    with_teacher: f64,
    selected: f64,
    clipped: f64,
    weights: f64,
    differences: f64,
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
        let (mut counts, mut least, mut most) = (Counts::default(), f64::INFINITY, f64::NEG_INFINITY);
        for (token, advantage) in advantage.iter_mut().enumerate() {
            if teacher[token].is_nan() {
                continue;
            }
            counts.with_teacher += 1.0;
            if kind.is_some_and(|kind| kind[token] != ACTION) || !self.rollouts.include(*advantage) {
                continue;
            }
            let difference = f64::from(teacher[token]) - f64::from(student[token]);
            let (weight, clipped) = self.weight(f64::from(*advantage), difference);
            *advantage = (f64::from(*advantage) * (1.0 - share + share * weight)) as f32;
            counts.selected += 1.0;
            counts.clipped += f64::from(u8::from(clipped));
            counts.weights += weight;
            counts.differences += difference;
            least = least.min(weight);
            most = most.max(weight);
        }
        counts.report(&context.host, advantage.len() as f64, least, most);
        Ok(())
    }

    /// The teacher's weight of a token, and whether a bound cut it.
    fn weight(&self, advantage: f64, difference: f64) -> (f64, bool) {
        let sign = if advantage == 0.0 { 0.0 } else { advantage.signum() };
        let free = (sign * difference).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp();
        let weight = free.clamp(1.0 - self.clip, 1.0 + self.clip);
        (weight, weight != free)
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
    fn report(&self, host: &Host, tokens: f64, least: f64, most: f64) {
        if tokens > 0.0 {
            host.metric_weighted("teacher_fraction", self.with_teacher / tokens, tokens);
        }
        if self.with_teacher > 0.0 {
            host.metric_weighted("selected_fraction", self.selected / self.with_teacher, self.with_teacher);
        }
        if self.selected > 0.0 {
            let count = self.selected;
            host.metric_weighted("weight_mean", self.weights / count, count);
            host.metric_weighted("weight_min", least, count);
            host.metric_weighted("weight_max", most, count);
            host.metric_weighted("clipped_fraction", self.clipped / count, count);
            host.metric_weighted("teacher_gain", self.differences / count, count);
        }
    }
}
