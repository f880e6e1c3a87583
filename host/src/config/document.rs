//! A TOML file of another kind than a configuration, with the same errors: it is held against a schema, and every value
//! knows its place.

use std::{fs, path::Path as FilePath, sync::Arc};

use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::{
    check,
    error::{ConfigError, Place, Source},
    layers,
    load::problem_at,
    path::Path,
    set,
    tree::{Content, Node},
};

/// What was written in such a file.
#[derive(Clone, Debug)]
pub struct Document {
    written: Node,
}

impl Default for Document {
    /// A document in which nothing is written.
    fn default() -> Self {
        Self { written: Node::root() }
    }
}

impl Document {
    /// Reads a file that the schema describes, and decodes it.
    pub fn read<T: DeserializeOwned>(file: &FilePath, schema: &'static Json) -> Result<(Self, T), ConfigError> {
        let text = fs::read_to_string(file).map_err(|error| layers::unreadable(file, None, &error))?;
        let written = layers::parse(&Arc::new(Source { file: Some(file.to_owned()), text }))?;
        let problems = check::check_against(schema, &written);
        if !problems.is_empty() {
            return Err(ConfigError::new(problems));
        }
        let value = serde_path_to_error::deserialize(written.to_json())
            .map_err(|error| problem_at(&written, &error.path().to_string(), error.inner().to_string()))?;
        Ok((Self { written }, value))
    }

    /// What somebody has against the value at a path, shown where it is written, or at the top of the file.
    pub fn error_at(&self, path: &str, message: impl Into<String>, hint: Option<String>) -> ConfigError {
        let mut problem = problem_at(&self.written, path, message.into());
        if problem.place.is_none() {
            problem = problem.at(self.written.key_place());
        }
        problem.hint(hint).into()
    }

    /// Whether something is written at a path.
    pub fn has(&self, path: &str) -> bool {
        Path::parse(path).is_ok_and(|path| self.written.find(&path).is_some())
    }

    /// Refuses a file that the value at a path names and that cannot be read.
    pub fn check_file(&self, path: &str, file: &FilePath) -> Result<(), ConfigError> {
        let place = Path::parse(path).ok().and_then(|path| Some(self.written.find(&path)?.value_place()));
        let read = fs::read_to_string(file).map(drop);
        Ok(read.map_err(|error| layers::unreadable(file, place, &error))?)
    }

    /// The error of a configuration that was given the `KEY=VALUE` of these lists: what is wrong with one of them is shown
    /// where the list has it.
    #[must_use]
    pub fn with_sets(&self, mut error: ConfigError, lists: &[&str], config: &FilePath) -> ConfigError {
        for problem in error.problems_mut() {
            let found = problem
                .place
                .as_ref()
                .and_then(|place| lists.iter().find_map(|list| self.element(&Path::parse(list).ok()?, place)));
            if let Some(found) = found {
                problem.place = Some(found);
                problem.notes.push(format!("in the configuration {}", config.display()));
            }
        }
        error
    }

    /// Where a list has the argument of the `--set` that a place is in.
    fn element(&self, list: &Path, place: &Place) -> Option<Place> {
        let argument = place.source.text.strip_prefix(set::FLAG).filter(|_| place.source.file.is_none())?;
        let Content::Array(elements) = &self.written.find(list)?.content else { return None };
        let has_it = |node: &&Node| matches!(&node.content, Content::Value(Json::String(text)) if text == argument);
        let mut found = elements.iter().find(has_it)?.value_place();
        // The part of it, where it is written without escapes.
        let written = found.source.text.get(found.range.clone())?;
        if let Some(start) = written.find(argument) {
            let shift = |at: usize| found.range.start + start + at.saturating_sub(set::FLAG.len());
            found.range = shift(place.range.start)..shift(place.range.end);
        }
        Some(found)
    }
}
