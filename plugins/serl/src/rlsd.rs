//! The scheme `rlsd`.

use accredit_plugin_api::prelude::*;

use crate::{
    ask::{Asked, ask},
    reweight::{DecayOver, Reweight, Rollouts, Student},
    success::Successes,
    teacher::{Teacher, policy},
    text::{Format, Show, added, section},
};

choices! {
    /// What the teacher knows.
    pub enum Privileged {
        /// The known answer of the task.
        Answer = "answer",
        /// A successful episode of the same task.
        Success = "success",
        /// The known answer where there is one, else a successful episode.
        AnswerOrSuccess = "answer-or-success",
    }
}

params! {
    /// Parameters of `rlsd`.
    pub struct Params {
        /// What the teacher knows.
        privileged: Privileged = Privileged::AnswerOrSuccess,
        /// What is shown of each step of a successful episode.
        format: Format = Format::Response,
        /// At most so many steps of a successful episode are shown; 0 shows all.
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
        /// Which tokens are reweighted.
        rollouts: Rollouts = Rollouts::All,
        /// Whose log-probabilities the teacher's are compared with.
        student: Student = Student::New,
        /// The model that knows more.
        teacher: Teacher = Teacher::Copy,
        /// Optimiser steps between synchronisations of the copy; 20 if it is not given.
        #[range(1..)]
        sync_every: Option<u64> = None,
        /// The share of the policy in its moving average, for each optimiser step; 0.05 if it is not given.
        #[range(0.0..=1.0)]
        rate: Option<f64> = None,
    }
}

/// The scheme.
pub struct Rlsd {
    privileged: Privileged,
    show: Show,
    max_characters: usize,
    policy: QueryPolicy,
    reweight: Reweight,
}

impl Scheme for Rlsd {
    type Params = Params;
    const NAME: &'static str = "rlsd";
    const ABOUT: &'static str = "Scales the advantages of all tokens by a teacher that knows the answer.";

    fn new(params: Params, _host: Host) -> Result<Self> {
        Ok(Self {
            privileged: params.privileged,
            show: Show { format: params.format, max_steps: params.max_steps as usize, think_tag: params.think_tag },
            max_characters: params.max_characters as usize,
            policy: policy(params.teacher, params.sync_every, params.rate, 20)?,
            reweight: Reweight {
                lambda: params.lambda,
                decay: params.decay,
                over: params.decay_over,
                clip: params.weight_clip,
                student: params.student,
                rollouts: params.rollouts,
                actions_only: false,
            },
        })
    }

    fn needs(&self) -> Needs {
        let needs = Needs::hooks(&[Hook::Queries, Hook::Refresh])
            .reads(&self.reweight.reads())
            .reads_if(self.privileged == Privileged::Answer, &[ANSWER.any()])
            .reads_if(self.privileged != Privileged::Answer, &Successes::reads(&self.show))
            .optional(&[TRAINED.any(), TEACHER_LOGPROB.any()])
            .asks(&[TEACHER_LOGPROB.any()]);
        if self.privileged == Privileged::AnswerOrSuccess { needs.optional(&[ANSWER.any()]) } else { needs }
    }

    fn queries(&mut self, batch: &Batch<'_>, queries: &mut Queries, context: &Context) -> Result<()> {
        if self.reweight.share(context) == 0.0 {
            return Ok(());
        }
        let mut asked = Asked::default();
        for group in batch.groups() {
            let answer = self.answer(batch, &group)?;
            let successes = if answer.is_none() && self.privileged != Privileged::Answer {
                Successes::of(batch, &group, &self.show)?
            } else {
                Successes::default()
            };
            ask(batch, &group, queries, &self.policy, &mut asked, |trajectory, _| {
                let known = answer.clone().or_else(|| {
                    let shown = successes.other_than(trajectory.index())?;
                    Some(section("A successful episode of the same task:", shown))
                });
                Ok(known.map(|known| added(&[known], self.max_characters)))
            })?;
        }
        asked.report(&context.host);
        Ok(())
    }

    fn refresh(&mut self, batch: &Batch<'_>, refreshed: &mut Refreshed<'_>, context: &Context) -> Result<()> {
        self.reweight.apply(batch, refreshed.advantage, context)
    }
}

impl Rlsd {
    /// The section with the known answer of a group's task, where it is wanted and known.
    fn answer(&self, batch: &Batch<'_>, group: &Group<'_>) -> Result<Option<String>> {
        let texts = match self.privileged {
            Privileged::Success => return Ok(None),
            Privileged::Answer => batch.texts(ANSWER)?,
            Privileged::AnswerOrSuccess => match batch.texts(ANSWER) {
                Ok(texts) => texts,
                Err(_) => return Ok(None),
            },
        };
        let answer = texts.get(group.index())?.trim();
        Ok((!answer.is_empty()).then(|| section("The known answer of this task:", answer)))
    }
}
