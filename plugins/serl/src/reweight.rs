//! How a teacher's log-probabilities scale advantages: the rule that SERL and RLSD share.

use accredit_plugin_api::{math, prelude::*};

use crate::scale::Scale;

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
        let tokens = advantage.len();
        let positive_only = self.rollouts == Rollouts::Positive;
        let (share, low, high) = (share as f32, (1.0 - self.clip) as f32, (1.0 + self.clip) as f32);
        let counts = math::run(Scale { teacher, student, kind, advantage, share, low, high, positive_only });
        counts.report(&context.host, tokens);
        Ok(())
    }
}
