//! From files and `--set` to a [`Loaded`] configuration, which still knows where every value comes from.

use std::fmt;
use std::path::{Path as FilePath, PathBuf};

use serde_json::Value as Json;

use super::error::{ConfigError, Problem};
use super::path::{Path, Segment};
use super::schema::{Config, Credit, Environment};
use super::tree::Node;
use super::{check, layers, set, validate, write};

/// A configuration that was read, checked and decoded.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings.
    pub config: Config,
    /// What was written, with its places.
    written: Node,
    /// All settings, defaults included, in the order of the schema.
    resolved: serde_json::Map<String, Json>,
}

/// A setting that two configurations differ in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its key, as `--set` writes it; `credit` is the order of the schemes, and `credit.NAME` one that came or went.
    pub key: String,
    /// Its value before, as TOML; none where it was not set.
    pub old: Option<String>,
    /// Its value now.
    pub new: Option<String>,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A file.
    File {
        /// The file, as it was named.
        file: PathBuf,
        /// The line of the key, counted from 1.
        line: usize,
    },
    /// A `--set`, with its argument.
    Set(String),
    /// Nobody wrote it.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, line } => write!(f, "{}:{line}", file.display()),
            Self::Set(_) => f.write_str("--set"),
            Self::Default => f.write_str("default"),
        }
    }
}

impl Loaded {
    /// Reads files, each after what it extends, lays them over each other left to right, then the `KEY=VALUE` of
    /// `sets`, and checks the result.
    ///
    /// The error shows every problem that could be seen at once: unreadable files and bad TOML first, then unknown
    /// keys, wrong types and values out of range, then values that do not fit each other.
    pub fn read(files: &[PathBuf], sets: &[String]) -> Result<Self, ConfigError> {
        let mut tree = layers::read_files(files)?;
        let problems: Vec<Problem> =
            sets.iter().filter_map(|argument| set::apply(&mut tree, argument).err()).flatten().collect();
        if !problems.is_empty() {
            return Err(ConfigError::new(problems));
        }
        Self::from_tree(tree)
    }

    /// Reads a text as if it stood in `file`.
    pub fn from_text(file: &FilePath, text: impl Into<String>) -> Result<Self, ConfigError> {
        Self::from_tree(layers::read_text(file, text.into())?)
    }

    /// The same configuration with the policy of a Hugging Face folder, in place of its own model and warm start.
    pub fn with_policy(mut self, folder: &FilePath) -> Result<Self, ConfigError> {
        self.written.remove("warm_start");
        if let Some(model) = self.written.get_mut("model") {
            model.remove("create");
        }
        let path = Json::String(folder.display().to_string());
        set::apply(&mut self.written, &format!("model.path={path}")).map_err(ConfigError::new)?;
        Self::from_tree(self.written)
    }

    fn from_tree(written: Node) -> Result<Self, ConfigError> {
        let problems = check::check(&written);
        if !problems.is_empty() {
            return Err(ConfigError::new(problems));
        }
        // The check leaves nothing that serde should refuse; if it does, that is still shown at its place.
        let config: Config = serde_path_to_error::deserialize(written.to_json())
            .map_err(|error| problem_at(&written, &error.path().to_string(), error.inner().to_string()))?;
        let resolved = match serde_json::to_value(&config) {
            Ok(Json::Object(resolved)) => resolved,
            Ok(_) => return Err(Problem::new("a configuration that is no table").into()),
            Err(error) => {
                return Err(Problem::new(format!("a configuration that JSON cannot hold: {error}")).into());
            }
        };
        let loaded = Self { config, written, resolved };
        let problems = validate::validate(&loaded);
        if problems.is_empty() { Ok(loaded) } else { Err(ConfigError::new(problems)) }
    }

    /// What a run cannot do without and offline credit can: an environment (which is returned), a model, and a scheme
    /// that trains.
    pub fn for_training(&self) -> Result<&Environment, ConfigError> {
        let source = self.written.key_place().source;
        let wanted = |what: &str| match &source.file {
            Some(file) => format!("expected {what} in {}", file.display()),
            None => format!("expected {what}"),
        };
        let mut problems = Vec::new();
        if self.config.environment.is_none() {
            problems
                .push(Problem::new("there is no environment to play in").note(wanted("`[environment]` with a `name`")));
        }
        if self.config.model.path.is_none() && self.config.model.create.is_none() {
            problems.push(
                problem_at(&self.written, "model", "there is no model to train".to_owned())
                    .note(wanted("`[model]` with a `path`, or `[model.create]`")),
            );
        }
        match &self.config.environment {
            Some(environment) if problems.is_empty() => Ok(environment),
            _ => Err(ConfigError::new(problems)),
        }
    }

    /// Where the value at a path (`rollout.groups`, `credit[1].params.alpha`, `credit.acme.mix`) comes from. For a
    /// table that is its header.
    pub fn origin(&self, path: &str) -> Origin {
        match Path::parse(path) {
            Ok(path) => self.origin_of(&path),
            Err(_) => Origin::Default,
        }
    }

    fn origin_of(&self, path: &Path) -> Origin {
        let Some(node) = self.written.find(path) else {
            return Origin::Default;
        };
        let place = node.key_place();
        match &place.source.file {
            Some(file) => Origin::File { file: file.clone(), line: place.line() },
            None => Origin::Set(place.source.text.replacen(set::FLAG, "", 1)),
        }
    }

    /// What somebody else, a plugin or an environment, has against the value at a path, shown where it is written. A
    /// value that nobody wrote is shown at the table that it would stand in.
    pub fn error_at(&self, path: &str, message: impl Into<String>, hint: Option<String>) -> ConfigError {
        self.problem_at(path, message.into()).hint(hint).into()
    }

    pub(super) fn problem_at(&self, path: &str, message: String) -> Problem {
        let problem = problem_at(&self.written, path, message);
        let Ok(path) = Path::parse(path) else {
            return problem;
        };
        match (self.written.find(&path), value_at(&self.resolved, &path)) {
            (None, Some(default)) => {
                problem.note(format!("`{path}` is not set; its default is {}", write::inline(default)))
            }
            _ => problem,
        }
    }

    /// All settings as TOML, which [`Loaded::read`] reads to an equal configuration. Equal settings give equal text.
    pub fn to_toml(&self) -> String {
        write::toml(&self.resolved, &|_| None)
    }

    /// The same, with the origin of each value behind it.
    pub fn show(&self) -> String {
        write::toml(&self.resolved, &|path| Some(self.origin_of(path).to_string()))
    }

    /// The settings that differ from those of an earlier configuration, in the order of the schema, then those that only
    /// the earlier one has. Schemes are compared by what they are called, wherever they stand in the list.
    pub fn changes_since(&self, earlier: &Self) -> Vec<Change> {
        let (now, before) = (self.settings(earlier), earlier.settings(self));
        let gone = before.iter().filter(|(key, _)| !now.iter().any(|(known, _)| known == key));
        now.iter()
            .chain(gone)
            .filter_map(|(key, _)| {
                let text = |settings: &[(String, Json)]| {
                    let found = settings.iter().find(|(name, _)| name == key);
                    found.map(|(_, value)| write::inline(value))
                };
                let change = Change { key: key.clone(), old: text(&before), new: text(&now) };
                (change.old != change.new).then_some(change)
            })
            .collect()
    }

    /// All settings with their keys. A scheme that the other configuration has as well, of the same plugin, is one setting
    /// for each of its keys, and every other scheme is one as a whole.
    fn settings(&self, other: &Self) -> Vec<(String, Json)> {
        let (mut settings, mut tables) = (Vec::new(), self.resolved.clone());
        let entries = tables.remove("credit");
        settings.extend(leaves(&tables));
        let labels: Vec<&str> = self.config.credit.iter().map(Credit::label).collect();
        settings.push(("credit".to_owned(), Json::from(labels)));
        for (credit, entry) in
            self.config.credit.iter().zip(entries.as_ref().and_then(Json::as_array).into_iter().flatten())
        {
            let path = Path::default().key("credit").key(credit.label());
            let same = |theirs: &Credit| theirs.label() == credit.label() && theirs.plugin == credit.plugin;
            match entry {
                Json::Object(table) if other.config.credit.iter().any(same) => {
                    settings.extend(leaves(table).into_iter().map(|(key, value)| (format!("{path}.{key}"), value)));
                }
                entry => settings.push((path.to_string(), entry.clone())),
            }
        }
        settings
    }

    /// The keys whose values differ from those of another resolved configuration, in the order of the schema, then
    /// keys that only the other one has.
    pub fn differences(&self, other_toml: &str) -> Result<Vec<String>, ConfigError> {
        let other = Self::from_text(FilePath::new("resolved configuration"), other_toml)?;
        let mine = leaves(&self.resolved);
        let theirs = leaves(&other.resolved);
        let differ = |a: &[(String, Json)], (key, value): &(String, Json)| {
            a.iter().find(|(name, _)| name == key).is_none_or(|(_, found)| found != value)
        };
        let mut keys: Vec<String> = Vec::new();
        for (leaf, others) in mine.iter().map(|leaf| (leaf, &theirs)).chain(theirs.iter().map(|leaf| (leaf, &mine))) {
            if differ(others, leaf) && !keys.contains(&leaf.0) {
                keys.push(leaf.0.clone());
            }
        }
        Ok(keys)
    }
}

/// A problem at the node of a path, or at the nearest table above it that is written somewhere.
pub(super) fn problem_at(written: &Node, path: &str, message: String) -> Problem {
    let problem = Problem::new(message);
    let Ok(mut path) = Path::parse(path) else {
        return problem;
    };
    while !path.0.is_empty() {
        if let Some(node) = written.find(&path) {
            return problem.at(node.entry_place());
        }
        path.0.pop();
    }
    problem
}

/// The resolved value at a path.
fn value_at<'a>(resolved: &'a serde_json::Map<String, Json>, path: &Path) -> Option<&'a Json> {
    let mut segments = path.0.iter();
    let Some(Segment::Key(first)) = segments.next() else {
        return None;
    };
    segments.try_fold(resolved.get(first)?, |value, segment| match segment {
        Segment::Key(key) => value.get(key),
        Segment::Index(index) => value.get(index),
    })
}

/// Every value that is no table, with its path.
fn leaves(table: &serde_json::Map<String, Json>) -> Vec<(String, Json)> {
    fn visit(value: &Json, path: &Path, leaves: &mut Vec<(String, Json)>) {
        match value {
            Json::Object(table) if !table.is_empty() => {
                for (key, value) in table {
                    visit(value, &path.key(key), leaves);
                }
            }
            Json::Array(elements) if elements.iter().any(Json::is_object) => {
                for (index, element) in elements.iter().enumerate() {
                    visit(element, &path.index(index), leaves);
                }
            }
            _ => leaves.push((path.to_string(), value.clone())),
        }
    }
    let mut leaves = Vec::new();
    for (key, value) in table {
        visit(value, &Path::default().key(key), &mut leaves);
    }
    leaves
}
