//! What SERL's teacher is shown of a step's aftermath.

use accredit_plugin_api::{AnyColumn, TextColumn, prelude::*};

use crate::{
    anchor::Anchors,
    success::Successes,
    text::{Show, section},
};

choices! {
    /// What the teacher is shown of the environment's answer.
    pub enum Feedback {
        /// Nothing.
        None = "none",
        /// The answer to this step.
        Immediate = "immediate",
        /// The next user turn: what was observed next, with all that the host writes around it.
        Next = "next",
    }
}

choices! {
    /// How a successful episode of the same task takes part.
    pub enum Success {
        /// Not at all.
        None = "none",
        /// It is shown together with the rest.
        And = "and",
        /// It is shown in place of the rest; the rest is shown where there is no such episode.
        Or = "or",
    }
}

choices! {
    /// What the teacher is shown of what a judge says about the episode.
    pub enum Judge {
        /// Nothing.
        None = "none",
        /// What it says about the episode alone.
        Alone = "alone",
        /// What it says about the episode compared with a successful one of the same task.
        WithSuccess = "with-success",
    }
}

impl Judge {
    /// The column that it reads.
    fn column(self) -> Option<TextColumn> {
        match self {
            Self::None => None,
            Self::Alone => Some(JUDGEMENT),
            Self::WithSuccess => Some(JUDGEMENT_WITH_SUCCESS),
        }
    }
}

choices! {
    /// What hindsight belongs to.
    pub enum Scope {
        /// The step itself.
        Step = "step",
        /// Its state: what the whole group tried from it.
        Anchor = "anchor",
    }
}

/// What hindsight is made of.
#[derive(Clone, Debug)]
pub struct Source {
    /// The environment's answer.
    pub feedback: Feedback,
    /// The later steps of the same episode.
    pub future: bool,
    /// A successful episode of the same task.
    pub success: Success,
    /// What a judge says about the episode.
    pub judge: Judge,
    /// What it belongs to.
    pub scope: Scope,
    /// How episodes are shown.
    pub show: Show,
}

/// What the steps of one group share.
#[derive(Debug, Default)]
pub struct Shared {
    successes: Successes,
    anchors: Anchors,
    /// At the level of states, where a successful episode stands in for feedback.
    anchors_without_feedback: Anchors,
}

impl Source {
    /// Refuses a source that shows nothing.
    pub fn check(&self) -> Result<()> {
        if self.scope == Scope::Anchor && self.judge != Judge::None {
            return Err(Error::parameter("judge", "a judge speaks of an episode; choose `scope = \"step\"`"));
        }
        let of_step = self.feedback != Feedback::None || self.future || self.judge != Judge::None;
        let message = match self.success {
            _ if self.scope == Scope::Anchor || of_step => return Ok(()),
            Success::And => return Ok(()),
            Success::None => "nothing is shown to the teacher; choose `feedback`, `future`, `success` or `judge`",
            Success::Or => {
                "`success = \"or\"` needs `feedback`, `future` or `judge` for tasks without a successful episode"
            }
        };
        Err(Error::parameter(if self.success == Success::Or { "success" } else { "feedback" }, message))
    }

    /// The columns that it reads.
    pub fn reads(&self) -> Vec<AnyColumn> {
        let mut columns: Vec<AnyColumn> = match self.feedback {
            Feedback::None => Vec::new(),
            Feedback::Immediate => vec![FEEDBACK.any(), OBSERVATION.any()],
            Feedback::Next => vec![PROMPT.any(), OBSERVATION.any(), FEEDBACK.any()],
        };
        if self.future {
            columns.extend(self.show.reads());
        }
        if self.success != Success::None {
            columns.extend(Successes::reads(&self.show));
        }
        columns.extend(self.judge.column().map(TextColumn::any));
        if self.scope == Scope::Anchor {
            columns.extend([STATE.any(), ACTION_TEXT.any()]);
            if !self.pairs_only() {
                columns.push(SUCCESS.any());
            }
        }
        let mut distinct: Vec<AnyColumn> = Vec::new();
        for column in columns {
            if !distinct.contains(&column) {
                distinct.push(column);
            }
        }
        distinct
    }

    /// At the level of states: only pairs of action and feedback are listed, without statistics.
    pub fn pairs_only(&self) -> bool {
        self.feedback == Feedback::Immediate && !self.future && self.success == Success::None
    }

    /// What the steps of a group share.
    pub fn shared(&self, batch: &Batch<'_>, group: &Group<'_>) -> Result<Shared> {
        let mut shared = Shared::default();
        if self.success != Success::None {
            shared.successes = Successes::of(batch, group, &self.show)?;
        }
        if self.scope == Scope::Anchor {
            shared.anchors = Anchors::of(batch, group, self, true)?;
            if self.success == Success::Or {
                shared.anchors_without_feedback = Anchors::of(batch, group, self, false)?;
            }
        }
        Ok(shared)
    }

    /// The sections for a step; none where a part is missing without which they would mislead.
    pub fn sections(
        &self,
        batch: &Batch<'_>,
        shared: &Shared,
        trajectory: &Trajectory<'_>,
        step: usize,
    ) -> Result<Option<Vec<String>>> {
        let success = shared
            .successes
            .other_than(trajectory.index())
            .map(|shown| section("A successful episode of the same task:", shown));
        match self.scope {
            Scope::Anchor => {
                let stands_in = self.success == Success::Or && success.is_some();
                let anchors = if stands_in { &shared.anchors_without_feedback } else { &shared.anchors };
                let anchor = anchors.section(batch.get(STATE)?[step]);
                Ok(anchor.map(|anchor| success.into_iter().chain([anchor.to_owned()]).collect()))
            }
            Scope::Step => match (self.success, success) {
                (Success::Or, Some(success)) => Ok(Some(vec![success])),
                (Success::And, None) => Ok(None),
                (_, success) => self.of_step(batch, success, trajectory, step),
            },
        }
    }

    /// The sections of a step: all of its parts, or none.
    fn of_step(
        &self,
        batch: &Batch<'_>,
        success: Option<String>,
        trajectory: &Trajectory<'_>,
        step: usize,
    ) -> Result<Option<Vec<String>>> {
        let steps = trajectory.step_range();
        let mut sections: Vec<String> = success.into_iter().collect();
        if self.future {
            let shown = self.show.steps(batch, steps.start, step + 1..steps.end)?;
            if shown.is_empty() {
                return Ok(None);
            }
            sections.push(section("What follows in this episode:", &shown));
        }
        if let Some(column) = self.judge.column() {
            let said = batch.texts(column)?.get(trajectory.index())?.trim();
            if said.is_empty() {
                return Ok(None);
            }
            sections.push(section("What a judge says about this episode:", said));
        }
        let title = match self.feedback {
            Feedback::None => return Ok(Some(sections)),
            Feedback::Immediate => "The environment's answer to this step:",
            Feedback::Next => "What comes next:",
        };
        let feedback = self.feedback_of(batch, step, steps.end)?;
        Ok(feedback.map(|feedback| {
            sections.push(section(title, feedback.trim()));
            sections
        }))
    }

    /// What the environment answered to a step of an episode that ends before `end`, or what it showed next, whichever is
    /// wanted and there.
    pub fn feedback_of(&self, batch: &Batch<'_>, step: usize, end: usize) -> Result<Option<String>> {
        let next = (step + 1 < end).then_some(step + 1);
        let candidates = match self.feedback {
            Feedback::None => return Ok(None),
            Feedback::Immediate => [(FEEDBACK, Some(step)), (OBSERVATION, next)].to_vec(),
            Feedback::Next => [(PROMPT, next), (OBSERVATION, next), (FEEDBACK, Some(step))].to_vec(),
        };
        for (column, at) in candidates {
            if let Some(at) = at {
                let text = batch.texts(column)?.get(at)?;
                if !text.trim().is_empty() {
                    return Ok(Some(text.to_owned()));
                }
            }
        }
        Ok(None)
    }
}
