//! Pieces of the teacher's prompt: what may be shown of a step, and how sections become one text.

use accredit_plugin_api::prelude::*;

choices! {
    /// What is shown of each step of an episode.
    pub enum Format {
        /// The response.
        Response = "response",
        /// The observation and the action.
        ObservationAction = "observation-action",
    }
}

/// The last line of the teacher's prompt.
const INSTRUCTION: &str = "Take this into account and do the current task correctly.";

/// How the steps of an episode are shown.
#[derive(Clone, Debug)]
pub struct Show {
    /// What is shown of each.
    pub format: Format,
    /// At most so many steps; 0 shows all.
    pub max_steps: usize,
    /// Reasoning in this tag is taken out; empty leaves it in.
    pub think_tag: String,
}

impl Show {
    /// The columns that it reads.
    pub fn reads(&self) -> &'static [accredit_plugin_api::AnyColumn] {
        const RESPONSE_ALONE: &[accredit_plugin_api::AnyColumn] = &[RESPONSE.any()];
        const OBSERVATION_AND_ACTION: &[accredit_plugin_api::AnyColumn] = &[OBSERVATION.any(), ACTION_TEXT.any()];
        match self.format {
            Format::Response => RESPONSE_ALONE,
            Format::ObservationAction => OBSERVATION_AND_ACTION,
        }
    }

    /// Steps of an episode as text, with their numbers in it from 1; empty where nothing is left to show. `first` is the
    /// index of the episode's first step; of too many steps the first are shown.
    pub fn steps(&self, batch: &Batch<'_>, first: usize, steps: std::ops::Range<usize>) -> Result<String> {
        let limit = if self.max_steps == 0 { usize::MAX } else { self.max_steps };
        let mut lines: Vec<String> = Vec::new();
        for step in steps.take(limit) {
            let number = step - first + 1;
            match self.format {
                Format::Response => {
                    let response = without_tag(batch.texts(RESPONSE)?.get(step)?, &self.think_tag);
                    if !response.trim().is_empty() {
                        lines.push(format!("Step {number}: {}", response.trim()));
                    }
                }
                Format::ObservationAction => {
                    let observation = batch.texts(OBSERVATION)?.get(step)?.trim();
                    let action = batch.texts(ACTION_TEXT)?.get(step)?.trim();
                    let action = if action.is_empty() { NO_ACTION } else { action };
                    lines.push(format!("Step {number}, observation: {observation}\nStep {number}, action: {action}"));
                }
            }
        }
        Ok(lines.join("\n"))
    }
}

/// What stands for a response without an action.
pub const NO_ACTION: &str = "(no action)";

/// A title line and its text.
pub fn section(title: &str, text: &str) -> String {
    format!("{title}\n{text}")
}

/// What is added to the user turn: the sections and the instruction, with blank lines between them. The sections
/// together are cut at their end to so many characters, the instruction is not; 0 cuts nothing.
pub fn added(sections: &[String], max_characters: usize) -> String {
    let mut shown = sections.join("\n\n");
    if max_characters > 0
        && let Some((end, _)) = shown.char_indices().nth(max_characters)
    {
        shown.truncate(end);
    }
    format!("\n\n{shown}\n\n{INSTRUCTION}\n")
}

/// A text without what stands in a tag, and without the tag. One that is not closed reaches to the end; one that is only
/// closed begins at the start.
fn without_tag(text: &str, tag: &str) -> String {
    if tag.is_empty() {
        return text.to_owned();
    }
    let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
    let mut left = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        match (rest.find(&open), rest.find(&close)) {
            (Some(start), Some(end)) if start < end => {
                left.push_str(&rest[..start]);
                rest = &rest[end + close.len()..];
            }
            (_, Some(end)) => rest = &rest[end + close.len()..],
            (Some(start), None) => {
                left.push_str(&rest[..start]);
                rest = "";
            }
            (None, None) => {
                left.push_str(rest);
                rest = "";
            }
        }
    }
    left
}

/// An action as it is compared: white space collapsed, in lower case; a placeholder if there is none.
pub fn normalised(action: &str) -> String {
    let words: Vec<&str> = action.split_whitespace().collect();
    if words.is_empty() { NO_ACTION.to_owned() } else { words.join(" ").to_lowercase() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasoning_is_taken_out() {
        for (text, expected) in [
            ("<think>a</think><answer>b</answer>", "<answer>b</answer>"),
            ("x<think>a</think>y<think>b</think>z", "xyz"),
            ("x<think>a", "x"),
            ("a</think>b", "b"),
            ("plain", "plain"),
            ("", ""),
        ] {
            assert_eq!(without_tag(text, "think"), expected, "{text}");
        }
        assert_eq!(without_tag("<think>a</think>b", ""), "<think>a</think>b");
    }

    #[test]
    fn a_cut_falls_between_characters_and_spares_the_instruction() {
        let sections = ["äöü".to_owned(), "second".to_owned()];
        assert_eq!(added(&sections, 2), format!("\n\näö\n\n{INSTRUCTION}\n"));
        assert_eq!(added(&sections, 0), format!("\n\näöü\n\nsecond\n\n{INSTRUCTION}\n"));
        assert_eq!(added(&sections, 100), added(&sections, 0));
    }

    #[test]
    fn actions_are_compared_without_case_and_space() {
        assert_eq!(normalised("  Go\n  LEFT "), "go left");
        assert_eq!(normalised(" "), NO_ACTION);
    }
}
