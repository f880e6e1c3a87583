//! Hindsight at the level of a state: what the whole group tried from it, and what came of it.

use accredit_plugin_api::prelude::*;

use crate::{
    hindsight::{Feedback, Source},
    text::{normalised, section},
};

/// Sections by state, in ascending order of the states' ids.
#[derive(Debug, Default)]
pub struct Anchors {
    sections: Vec<(u32, String)>,
}

/// One visit of a state.
#[derive(Debug)]
struct Visit {
    state: u32,
    action: String,
    step: usize,
    /// The first step of its episode, and the one after the last.
    first: usize,
    end: usize,
    outcome: f32,
    success: bool,
}

impl Anchors {
    /// The sections of a group's states. A state of which there is nothing to say has none.
    pub fn of(batch: &Batch<'_>, group: &Group<'_>, source: &Source, with_feedback: bool) -> Result<Self> {
        let mut visits = visits(batch, group, source)?;
        // The order of the visits of one action decides nothing: what is picked from them is picked by its text.
        visits.sort_unstable_by(|a, b| (a.state, &a.action).cmp(&(b.state, &b.action)));
        let mut sections = Vec::new();
        for of_state in visits.chunk_by(|a, b| a.state == b.state) {
            let lines = if source.pairs_only() {
                pairs(batch, source, of_state)?
            } else {
                let mut lines = Vec::new();
                for of_action in of_state.chunk_by(|a, b| a.action == b.action) {
                    statistics(batch, source, with_feedback, of_action, &mut lines)?;
                }
                lines
            };
            if !lines.is_empty() {
                let title = "What was tried from this very state, and what came of it:";
                sections.push((of_state[0].state, section(title, &lines.join("\n"))));
            }
        }
        Ok(Self { sections })
    }

    /// The section of a state.
    pub fn section(&self, state: u32) -> Option<&str> {
        let index = self.sections.binary_search_by_key(&state, |(state, _)| *state).ok()?;
        Some(&self.sections[index].1)
    }
}

fn visits(batch: &Batch<'_>, group: &Group<'_>, source: &Source) -> Result<Vec<Visit>> {
    let (state, actions) = (batch.get(STATE)?, batch.texts(ACTION_TEXT)?);
    let outcome = batch.get(RAW_OUTCOME)?;
    let success = if source.pairs_only() { None } else { Some(batch.get(SUCCESS)?) };
    let mut visits = Vec::with_capacity(group.step_range().len());
    for trajectory in group.trajectories() {
        let steps = trajectory.step_range();
        for step in steps.clone() {
            visits.push(Visit {
                state: state[step],
                action: normalised(actions.get(step)?),
                step,
                first: steps.start,
                end: steps.end,
                outcome: outcome[trajectory.index()],
                success: success.is_some_and(|success| success[trajectory.index()]),
            });
        }
    }
    Ok(visits)
}

/// One line for each distinct pair of action and feedback, in their order as texts.
fn pairs(batch: &Batch<'_>, source: &Source, visits: &[Visit]) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for visit in visits {
        if let Some(feedback) = source.feedback_of(batch, visit.step, visit.end)? {
            lines.push(format!("- {}: {}", visit.action, feedback.trim()));
        }
    }
    lines.sort_unstable();
    lines.dedup();
    Ok(lines)
}

/// How often an action was tried and how its episodes ended; then examples, as the source wants them.
fn statistics(
    batch: &Batch<'_>,
    source: &Source,
    with_feedback: bool,
    visits: &[Visit],
    lines: &mut Vec<String>,
) -> Result<()> {
    let mut returns = Scores::default();
    let (mut best, mut worst) = (f32::NEG_INFINITY, f32::INFINITY);
    for visit in visits {
        returns.push(f64::from(visit.outcome), 1);
        best = best.max(visit.outcome);
        worst = worst.min(visit.outcome);
    }
    let successes = visits.iter().filter(|visit| visit.success).count();
    let mean = returns.spread().map_or(0.0, |spread| spread.mean);
    lines.push(format!(
        "- {}: tried {}, succeeded {}, mean return {mean:.4}, best {best:.4}, worst {worst:.4}",
        visits[0].action,
        visits.len(),
        successes
    ));
    let mut example = |name: &str, wanted: &dyn Fn(&Visit) -> bool, text: &Text<'_>| -> Result<()> {
        if let Some(text) = smallest(visits, wanted, text)? {
            lines.push(format!("  {name}: {}", text.trim()));
        }
        Ok(())
    };
    if with_feedback && source.feedback != Feedback::None {
        let text = |visit: &Visit| source.feedback_of(batch, visit.step, visit.end);
        if source.feedback == Feedback::Next {
            example("next observation", &|visit| visit.outcome == best, &text)?;
        } else {
            example("best feedback", &|visit| visit.outcome == best, &text)?;
            example("worst feedback", &|visit| visit.outcome == worst, &text)?;
        }
    }
    if source.future {
        let text = |visit: &Visit| {
            let shown = source.show.steps(batch, visit.first, visit.step + 1..visit.end)?;
            Ok((!shown.is_empty()).then_some(shown))
        };
        example("what followed in a successful episode", &|visit| visit.success, &text)?;
        example("what followed in a failed episode", &|visit| !visit.success, &text)?;
    }
    Ok(())
}

type Text<'a> = dyn Fn(&Visit) -> Result<Option<String>> + 'a;

/// The shortest text of the wanted visits, the smallest of several.
fn smallest(visits: &[Visit], wanted: &dyn Fn(&Visit) -> bool, text: &Text<'_>) -> Result<Option<String>> {
    let mut found: Option<String> = None;
    for visit in visits.iter().filter(|visit| wanted(visit)) {
        if let Some(text) = text(visit)?
            && found.as_ref().is_none_or(|found| (text.len(), &text) < (found.len(), found))
        {
            found = Some(text);
        }
    }
    Ok(found)
}
