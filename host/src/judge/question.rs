//! What a judge is asked: an episode in words, put into a prompt, and as JSON for programs.

use accredit_core::episode::Trajectory;
use accredit_environments::Question;
use serde_json::{Value, json};

/// What a prompt can hold of an episode.
pub const EPISODE: [&str; 3] = ["task", "episode", "outcome"];
/// What a prompt can hold of a successful episode of the same task.
pub const SUCCESSFUL: &str = "successful";

/// The question about an episode, and a successful one to compare it with.
pub fn question(prompt: &str, episode: &Trajectory, successful: Option<&Trajectory>) -> Question {
    let prompt = filled(prompt, |name| match name {
        "task" => Some(episode.task.trim().to_owned()),
        "episode" => Some(steps_in_words(episode)),
        "outcome" => Some(outcome_in_words(episode)),
        SUCCESSFUL => successful.map(steps_in_words),
        _ => None,
    });
    Question { prompt, episode: as_json(episode), successful: successful.map(as_json) }
}

/// The steps of an episode, numbered from 1.
pub fn steps_in_words(episode: &Trajectory) -> String {
    let mut lines = Vec::new();
    for (index, step) in episode.steps.iter().enumerate() {
        for (what, text) in
            [("observation", &step.observation), ("response", &step.response), ("feedback", &step.feedback)]
        {
            if !text.trim().is_empty() {
                lines.push(format!("Step {}, {what}: {}", index + 1, text.trim()));
            }
        }
    }
    lines.join("\n")
}

fn outcome_in_words(episode: &Trajectory) -> String {
    let solved = match episode.success {
        Some(true) => "the task was solved",
        Some(false) => "the task was not solved",
        None => "nobody knows whether the task was solved",
    };
    match reward(episode) {
        Some(reward) => format!("{solved}; the reward is {reward}."),
        None => format!("{solved}."),
    }
}

/// The reward of the whole episode, where all of it was scored.
fn reward(episode: &Trajectory) -> Option<f32> {
    episode.outcome.or_else(|| {
        let sum: Option<f64> = episode.steps.iter().map(|step| step.reward.map(f64::from)).sum();
        // A sum of nothing is -0.
        sum.map(|sum| sum as f32 + 0.0)
    })
}

fn as_json(episode: &Trajectory) -> Value {
    let steps: Vec<Value> = episode
        .steps
        .iter()
        .map(|step| {
            json!({
                "observation": step.observation, "response": step.response, "action": step.action,
                "feedback": step.feedback, "reward": step.reward, "valid_action": step.valid_action,
            })
        })
        .collect();
    json!({ "task": episode.task, "success": episode.success, "reward": reward(episode), "steps": steps })
}

/// A prompt with its placeholders filled; one that has nothing to stand for stays as it is.
fn filled(prompt: &str, text_of: impl Fn(&str) -> Option<String>) -> String {
    let mut filled = String::new();
    let mut end = 0;
    for (start, name) in placeholders(prompt) {
        if let Some(text) = text_of(name) {
            filled.push_str(&prompt[end..start]);
            filled.push_str(&text);
            end = start + name.len() + 2;
        }
    }
    filled + &prompt[end..]
}

/// The words in braces in a prompt, and where their braces begin. Other braces are text.
pub fn placeholders(prompt: &str) -> impl Iterator<Item = (usize, &str)> {
    prompt.match_indices('{').filter_map(move |(start, _)| {
        let name = &prompt[start + 1..];
        let name = &name[..name.find('}')?];
        let word = !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        word.then_some((start, name))
    })
}

#[cfg(test)]
mod tests {
    use accredit_core::episode::Step;

    use super::*;

    fn episode(reward: Option<f32>) -> Trajectory {
        let step = |response: &str, feedback: &str| Step {
            observation: "a door\n".to_owned(),
            response: response.to_owned(),
            feedback: feedback.to_owned(),
            reward,
            ..Step::default()
        };
        let steps = vec![step("open {task}", "locked"), step("", "")];
        Trajectory { task: "leave".to_owned(), success: Some(false), steps, ..Trajectory::default() }
    }

    #[test]
    fn placeholders_are_filled_once_and_other_braces_stay() {
        let shown = question("{task}: {episode} {\"a\": {}} {outcome}", &episode(Some(0.5)), None).prompt;
        let expected = "leave: Step 1, observation: a door\nStep 1, response: open {task}\nStep 1, feedback: locked\n\
                        Step 2, observation: a door {\"a\": {}} the task was not solved; the reward is 1.";
        assert_eq!(shown, expected);
        let asked = question("{successful}|{outcome}", &Trajectory::default(), Some(&episode(None)));
        assert!(asked.prompt.starts_with("Step 1, observation: a door"), "{}", asked.prompt);
        assert!(
            asked.prompt.ends_with("|nobody knows whether the task was solved; the reward is 0."),
            "{}",
            asked.prompt
        );
    }

    #[test]
    fn a_program_gets_the_episode_as_it_was() {
        let asked = question("", &episode(None), Some(&episode(Some(1.0))));
        assert_eq!((&asked.episode["reward"], &asked.episode["success"]), (&Value::Null, &json!(false)));
        assert_eq!(asked.episode["steps"][0]["response"], "open {task}");
        assert_eq!(asked.successful.unwrap()["reward"], 2.0);
    }

    #[test]
    fn a_placeholder_is_a_word_in_braces() {
        let found = |prompt: &'static str| placeholders(prompt).collect::<Vec<_>>();
        assert_eq!(found("{a} {b_c} {D} {} {e f} {{g}} {h"), [(0, "a"), (4, "b_c"), (24, "g")]);
        assert_eq!(found("é{a}"), [(2, "a")]);
    }
}
