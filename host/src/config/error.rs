//! Errors of a configuration, shown where they are: file, line, caret, what was expected, and a hint.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// Everything that is wrong with a configuration, as far as could be seen at once.
///
/// Its text has one paragraph per problem:
///
/// ```text
/// error: unknown key `gruops` in `rollout`
///   --> configs/quickstart.toml:12:1
///    |
/// 12 | gruops = 8
///    | ^^^^^^
///    = expected one of `groups`, `group_size`, `max_steps`
///    = hint: did you mean `groups`?
/// ```
#[derive(Debug)]
pub struct ConfigError {
    problems: Vec<Problem>,
}

impl ConfigError {
    /// The error that consists of these problems, of which there must be one at least.
    pub(super) fn new(problems: Vec<Problem>) -> Self {
        debug_assert!(!problems.is_empty(), "an error without a problem");
        Self { problems }
    }
}

impl ConfigError {
    /// Its problems, to say more about them.
    pub(super) fn problems_mut(&mut self) -> &mut [Problem] {
        &mut self.problems
    }
}

impl From<Problem> for ConfigError {
    fn from(problem: Problem) -> Self {
        Self::new(vec![problem])
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            if i > 0 {
                f.write_str("\n\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// A text that values come from.
#[derive(Debug)]
pub(super) struct Source {
    /// The file, or none for a `--set` on the command line.
    pub(super) file: Option<PathBuf>,
    /// All of the file, or the flag with its argument.
    pub(super) text: String,
}

/// A piece of a source, in bytes.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) source: Arc<Source>,
    pub(super) range: Range<usize>,
}

impl Place {
    /// The line on which it begins, counted from 1.
    pub(super) fn line(&self) -> usize {
        1 + self.source.text[..self.start()].matches('\n').count()
    }

    /// Where it begins, inside the text and between two characters whatever the range says.
    fn start(&self) -> usize {
        self.source.text.floor_char_boundary(self.range.start)
    }

    /// Whether it ends on the line on which it begins.
    pub(super) fn one_line(&self) -> bool {
        self.source.text.get(self.range.clone()).is_some_and(|text| !text.contains('\n'))
    }
}

/// One thing that is wrong.
#[derive(Debug)]
pub(super) struct Problem {
    /// What is wrong, in one line.
    pub(super) message: String,
    /// Where; none where no text has it.
    pub(super) place: Option<Place>,
    /// What was expected and what may help, a line each.
    pub(super) notes: Vec<String>,
}

impl Problem {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), place: None, notes: Vec::new() }
    }

    #[must_use]
    pub(super) fn at(mut self, place: impl Into<Option<Place>>) -> Self {
        self.place = place.into();
        self
    }

    #[must_use]
    pub(super) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    #[must_use]
    pub(super) fn hint(self, hint: Option<impl fmt::Display>) -> Self {
        match hint {
            Some(hint) => self.note(format!("hint: {hint}")),
            None => self,
        }
    }

    /// The hint that asks for the nearest name, where there is one.
    #[must_use]
    pub(super) fn did_you_mean(self, name: Option<&str>) -> Self {
        self.hint(name.map(|name| format!("did you mean `{name}`?")))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        let mut margin = String::from(" ");
        if let Some(place) = &self.place {
            let text = &place.source.text;
            let start = place.start();
            let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
            let line = text[line_start..].lines().next().unwrap_or_default();
            let column = text[line_start..start].chars().count();
            let number = place.source.file.as_ref().map(|_| place.line().to_string());
            let number = number.unwrap_or_default();
            margin = " ".repeat(number.len().max(1));

            match &place.source.file {
                Some(file) => write!(f, "\n{margin}--> {}:{number}:{}", file.display(), column + 1)?,
                None => write!(f, "\n{margin}--> command line")?,
            }
            write!(f, "\n{margin} |\n{number:width$} | {line}", width = margin.len())?;

            // Tabs stay tabs, so that the caret stands right at every width of a tab.
            let indent: String = line
                .chars()
                .map(|c| if c == '\t' { '\t' } else { ' ' })
                .chain(std::iter::repeat(' '))
                .take(column)
                .collect();
            let end = place.range.end.min(line_start + line.len());
            let marked = text.get(start..end).map_or(0, |marked| marked.chars().count());
            write!(f, "\n{margin} | {indent}{}", "^".repeat(marked.max(1)))?;
        }
        for note in &self.notes {
            write!(f, "\n{margin} = {note}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, range: Range<usize>) -> String {
        let source = Arc::new(Source { file: Some(PathBuf::from("a.toml")), text: text.to_owned() });
        Problem::new("wrong").at(Place { source, range }).to_string()
    }

    #[test]
    fn the_caret_stands_under_characters_not_bytes() {
        let text = "a = 1\n\tä = 'ö' # x\r\n";
        let start = text.find('\'').unwrap();
        assert_eq!(
            shown(text, start..start + 4),
            "error: wrong\n --> a.toml:2:6\n  |\n2 | \tä = 'ö' # x\n  | \t    ^^^"
        );
    }

    #[test]
    fn a_place_at_or_past_the_end_still_has_a_caret() {
        for range in [3..3, 9..12] {
            assert_eq!(shown("a =", range), "error: wrong\n --> a.toml:1:4\n  |\n1 | a =\n  |    ^");
        }
    }

    #[test]
    fn a_place_of_many_lines_is_marked_on_its_first() {
        assert_eq!(shown("a = [\n1,\n]", 4..9), "error: wrong\n --> a.toml:1:5\n  |\n1 | a = [\n  |     ^");
    }
}
