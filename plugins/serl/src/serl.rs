//! The scheme `serl`.

use accredit_plugin_api::prelude::*;

use crate::{
    ask::{Asked, ask},
    hindsight::{Feedback, Judge, Scope, Source, Success},
    reweight::{DecayOver, Reweight, Rollouts, Student},
    teacher::{Teacher, policy},
    text::{Format, Show, added},
};

params! {
    /// Parameters of `serl`.
    pub struct Params {
        /// What the teacher is shown of the environment's answer.
        feedback: Feedback = Feedback::Immediate,
        /// The teacher is shown the later steps of the same episode.
        future: bool = false,
        /// How a successful episode of the same task takes part.
        success: Success = Success::None,
        /// What the teacher is shown of what a judge says about the episode.
        judge: Judge = Judge::None,
        /// What hindsight belongs to: the step, or its state in the whole group.
        scope: Scope = Scope::Step,
        /// What is shown of each step of an episode.
        format: Format = Format::Response,
        /// At most so many steps of an episode are shown; 0 shows all.
        max_steps: u64 = 0,
        /// What is shown is cut at its end to so many characters; 0 cuts nothing.
        max_characters: u64 = 0,
        /// Reasoning in this tag is not shown; empty shows it.
        think_tag: String = "think".to_owned(),
        /// The share of the teacher's weight at the start.
        #[range(0.0..=1.0)]
        lambda: f64 = 0.5,
        /// After so many iterations or optimiser steps the share is 0; 0 never decays.
        decay: u64 = 50,
        /// What `decay` counts.
        decay_over: DecayOver = DecayOver::Iterations,
        /// The teacher's weight stays within 1 plus or minus this.
        #[range(0.0..=1.0)]
        weight_clip: f64 = 0.2,
        /// Whose log-probabilities the teacher's are compared with.
        student: Student = Student::New,
        /// The model that sees the hindsight.
        teacher: Teacher = Teacher::Copy,
        /// Optimiser steps between synchronisations of the copy; 10 if it is not given.
        #[range(1..)]
        sync_every: Option<u64> = None,
        /// The share of the policy in its moving average, for each optimiser step; 0.05 if it is not given.
        #[range(0.0..=1.0)]
        rate: Option<f64> = None,
    }
}

/// The scheme.
pub struct Serl {
    source: Source,
    max_characters: usize,
    policy: QueryPolicy,
    reweight: Reweight,
}

impl Scheme for Serl {
    type Params = Params;
    const NAME: &'static str = "serl";
    const ABOUT: &'static str = "Scales the advantages of action tokens by a teacher that knows what came of them.";

    fn new(params: Params, _host: Host) -> Result<Self> {
        let show = Show { format: params.format, max_steps: params.max_steps as usize, think_tag: params.think_tag };
        let source = Source {
            feedback: params.feedback,
            future: params.future,
            success: params.success,
            judge: params.judge,
            scope: params.scope,
            show,
        };
        source.check()?;
        Ok(Self {
            source,
            max_characters: params.max_characters as usize,
            policy: policy(params.teacher, params.sync_every, params.rate, 10)?,
            reweight: Reweight {
                lambda: params.lambda,
                decay: params.decay,
                over: params.decay_over,
                clip: params.weight_clip,
                student: params.student,
                rollouts: Rollouts::All,
                actions_only: true,
            },
        })
    }

    fn needs(&self) -> Needs {
        Needs::hooks(&[Hook::Queries, Hook::Refresh])
            .reads(&self.reweight.reads())
            .reads(&self.source.reads())
            .optional(&[TRAINED.any(), TEACHER_LOGPROB.any()])
            .asks(&[TEACHER_LOGPROB.any()])
    }

    fn queries(&mut self, batch: &Batch<'_>, queries: &mut Queries, context: &Context) -> Result<()> {
        if self.reweight.share(context) == 0.0 {
            return Ok(());
        }
        let kind = batch.get(KIND)?;
        let mut asked = Asked::default();
        for group in batch.groups() {
            let shared = self.source.shared(batch, &group)?;
            ask(batch, &group, queries, &self.policy, &mut asked, |trajectory, step| {
                // Only action tokens are reweighted, so nothing would come of the others.
                if !kind[step.tokens()].contains(&ACTION) {
                    return Ok(None);
                }
                let sections = self.source.sections(batch, &shared, trajectory, step.index())?;
                Ok(sections.map(|sections| added(&sections, self.max_characters)))
            })?;
        }
        asked.report(&context.host);
        Ok(())
    }

    fn refresh(&mut self, batch: &Batch<'_>, refreshed: &mut Refreshed<'_>, context: &Context) -> Result<()> {
        self.reweight.apply(batch, refreshed.advantage, context)
    }
}
