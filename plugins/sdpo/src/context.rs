//! What the teacher sees and the student did not: another attempt at the task that succeeded, or else what the
//! environment answered.

use accredit_plugin_api::prelude::*;

/// What is shown, and when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hindsight {
    /// An outcome of at least this is a success.
    pub success_reward: f32,
    /// Where nobody succeeded, the environment's answer is shown.
    pub feedback: bool,
    /// Reasoning is cut out of the attempt that is shown.
    pub remove_thinking: bool,
}

/// How often which context was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Steps that are shown a successful attempt.
    pub success: usize,
    /// Steps that are shown the environment's answer.
    pub feedback: usize,
    /// Steps without a context.
    pub nothing: usize,
}

impl Hindsight {
    /// Calls a function with every step that has a context, and that context.
    pub fn each(self, batch: &Batch<'_>, mut ask: impl FnMut(usize, String)) -> Result<Found> {
        let outcome = batch.get(OUTCOME)?;
        let responses = batch.texts(RESPONSE)?;
        let feedback = if self.feedback { Some(batch.texts(FEEDBACK)?) } else { None };
        let trained = batch.get_optional(TRAINED);
        let mut found = Found::default();
        for group in batch.groups() {
            let best = self.best(group, outcome, responses)?;
            for trajectory in group.trajectories() {
                if trained.is_some_and(|trained| !trained[trajectory.index()]) {
                    continue;
                }
                let shown = best.iter().find(|attempt| attempt.trajectory != trajectory.index());
                for step in trajectory.steps().filter(|step| !step.tokens().is_empty()) {
                    let answer = match feedback {
                        Some(feedback) => feedback.get(step.index())?.trim(),
                        None => "",
                    };
                    if let Some(attempt) = shown {
                        found.success += 1;
                        ask(step.index(), section("A correct solution of this task:", &attempt.text));
                    } else if answer.is_empty() {
                        found.nothing += 1;
                    } else {
                        found.feedback += 1;
                        ask(step.index(), section("What the environment answered to an earlier attempt:", answer));
                    }
                }
            }
        }
        Ok(found)
    }

    /// The two best successful attempts of a group, the second for the trajectory that is itself the first. Best is what
    /// has the highest outcome, then the shortest text, then the first in the order of texts: whatever the order of
    /// trajectories is.
    fn best(self, group: Group<'_>, outcome: &[f32], responses: Texts<'_>) -> Result<Vec<Attempt>> {
        let mut attempts = Vec::new();
        for trajectory in group.trajectories() {
            let outcome = outcome[trajectory.index()];
            if outcome >= self.success_reward {
                let mut text = String::new();
                for (s, step) in trajectory.steps().enumerate() {
                    let response = responses.get(step.index())?;
                    let shown = if self.remove_thinking { without_thinking(response) } else { response.to_owned() };
                    if trajectory.step_range().len() > 1 {
                        text.push_str(&format!("Step {}\n", s + 1));
                    }
                    text.push_str(shown.trim());
                    text.push_str("\n\n");
                }
                attempts.push(Attempt { trajectory: trajectory.index(), outcome, text: text.trim_end().to_owned() });
            }
        }
        attempts.retain(|attempt| !attempt.text.is_empty());
        attempts.sort_by(|a, b| {
            let by_text = || a.text.len().cmp(&b.text.len()).then_with(|| a.text.cmp(&b.text));
            b.outcome.total_cmp(&a.outcome).then_with(by_text)
        });
        attempts.truncate(2);
        Ok(attempts)
    }
}

struct Attempt {
    trajectory: usize,
    outcome: f32,
    text: String,
}

fn section(title: &str, text: &str) -> String {
    format!("{title}\n\n{text}\n\nSolve the task correctly.\n")
}

/// A response without what stands between think tags; a tag that is never closed reaches to the end.
fn without_thinking(response: &str) -> String {
    const OPEN: &str = "<think>";
    const CLOSE: &str = "</think>";
    let mut out = String::new();
    let mut rest = response;
    while let Some((before, inside)) = rest.split_once(OPEN) {
        out.push_str(before);
        rest = inside.split_once(CLOSE).map_or("", |(_, after)| after);
    }
    // An opening tag may stand in the prompt: then the response begins inside.
    match rest.split_once(CLOSE) {
        Some((_, after)) if out.is_empty() => out.push_str(after),
        _ => out.push_str(rest),
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinking_is_cut_out() {
        for (response, expected) in [
            ("<think>a</think><answer>b</answer>", "<answer>b</answer>"),
            ("x <think>a</think> y <think>b</think> z", "x  y  z"),
            ("x <think>never closed", "x "),
            ("inside</think>after", "after"),
            ("nothing to cut", "nothing to cut"),
            ("", ""),
        ] {
            assert_eq!(without_thinking(response), expected, "{response}");
        }
    }
}
