//! Files into one tree: what a file extends comes first, then the file; files are laid over each other left to right.

use std::fs;
use std::io;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use toml_edit::Document;

use super::check;
use super::error::{ConfigError, Place, Problem, Source};
use super::near::nearest;
use super::path::Path;
use super::tree::{Content, Node, Reader};

/// The most files that one configuration may be read from, each counted as often as it is extended.
const FILES: usize = 1000;

/// The chain of files that are being read, and how many were read in all.
#[derive(Default)]
struct Chain {
    open: Vec<PathBuf>,
    read: usize,
}

/// Reads files and all that they extend, and lays them over each other.
pub(super) fn read_files(files: &[PathBuf]) -> Result<Node, ConfigError> {
    let mut tree = Node::root();
    for file in files {
        tree.merge(read_file(file, None, &mut Chain::default())?);
    }
    Ok(tree)
}

/// Reads a text as if it stood in `file`.
pub(super) fn read_text(file: &FilePath, text: String) -> Result<Node, ConfigError> {
    layer(file, text, &mut Chain::default())
}

/// Reads one file, and first what it extends. `chain` holds the files that led to it, and `wanted_by` where the last of
/// them names it.
fn read_file(file: &FilePath, wanted_by: Option<Place>, chain: &mut Chain) -> Result<Node, ConfigError> {
    let identity = fs::canonicalize(file).map_err(|error| unreadable(file, wanted_by.clone(), &error))?;
    let open = &chain.open;
    if let Some(first) = open.iter().position(|earlier| *earlier == identity) {
        let names = open[first..].iter().chain([&identity]);
        let circle: Vec<String> = names.map(|file| file_name(file)).collect();
        return Err(Problem::new(format!("`extends` goes in a circle: {}", circle.join(" -> "))).at(wanted_by).into());
    }
    chain.read += 1;
    if chain.read > FILES {
        let message = format!("`extends` leads to more than {FILES} files, each counted as often as it is extended");
        return Err(Problem::new(message).at(wanted_by).into());
    }
    let text = fs::read_to_string(file).map_err(|error| unreadable(file, wanted_by, &error))?;
    chain.open.push(identity);
    let node = layer(file, text, chain)?;
    chain.open.pop();
    Ok(node)
}

/// Parses a text and lays it over what it extends.
fn layer(file: &FilePath, text: String, chain: &mut Chain) -> Result<Node, ConfigError> {
    let source = Arc::new(Source { file: Some(file.to_owned()), text });
    let mut own = parse(&source)?;
    let extends = take_extends(&mut own)?;
    let folder = file.parent().unwrap_or(FilePath::new(""));
    let mut tree = Node::root();
    for (base, place) in extends {
        tree.merge(read_file(&folder.join(base), Some(place), chain)?);
    }
    tree.merge(own);
    Ok(tree)
}

/// The problem that a file cannot be read, where it is named.
pub(super) fn unreadable(file: &FilePath, wanted_by: Option<Place>, error: &io::Error) -> Problem {
    let reason = match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        io::ErrorKind::IsADirectory => "it is a folder".to_owned(),
        io::ErrorKind::InvalidData => "it is not UTF-8 text".to_owned(),
        _ => error.to_string(),
    };
    let problem = Problem::new(format!("cannot read `{}`: {reason}", file.display())).at(wanted_by);
    match error.kind() {
        io::ErrorKind::NotFound => near_files(problem, file),
        _ => problem,
    }
}

/// The tree of a text.
pub(super) fn parse(source: &Arc<Source>) -> Result<Node, ConfigError> {
    let document = Document::parse(source.text.as_str()).map_err(|error| {
        let place = error.span().map(|range| Place { source: source.clone(), range });
        let message = error.message().lines().collect::<Vec<_>>().join(", ");
        ConfigError::from(Problem::new(format!("this is not TOML: {message}")).at(place))
    })?;
    let mut reader = Reader { source, within: None, problems: Vec::new() };
    let tree = reader.table(&Path::default(), document.as_table(), 0..0, 0..0);
    if reader.problems.is_empty() { Ok(tree) } else { Err(ConfigError::new(reader.problems)) }
}

/// Takes `extends` out of a file's table: the files, and where each is named.
fn take_extends(tree: &mut Node) -> Result<Vec<(String, Place)>, ConfigError> {
    let Content::Table(entries) = &mut tree.content else {
        return Ok(Vec::new());
    };
    let Some(at) = entries.iter().position(|(key, _)| key == "extends") else {
        return Ok(Vec::new());
    };
    let (_, node) = entries.remove(at);
    let problems = check::check_key("extends", &node);
    if !problems.is_empty() {
        return Err(ConfigError::new(problems));
    }
    let Content::Array(elements) = node.content else {
        return Ok(Vec::new());
    };
    let named = elements.into_iter().filter_map(|element| {
        let place = element.value_place();
        match element.content {
            Content::Value(serde_json::Value::String(file)) => Some((file, place)),
            _ => None,
        }
    });
    Ok(named.collect())
}

/// Says what there is instead of a file that is not there.
fn near_files(problem: Problem, file: &FilePath) -> Problem {
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => FilePath::new("."),
    };
    let Ok(listing) = fs::read_dir(folder) else {
        return problem.hint(Some(format!("there is no folder `{}`", folder.display())));
    };
    let mut names: Vec<String> = listing.flatten().map(|entry| file_name(&entry.path())).collect();
    names.sort();
    let near = nearest(&file_name(file), names.iter().map(String::as_str));
    let near = near.map(|name| file.with_file_name(name).display().to_string());
    problem.did_you_mean(near.as_deref())
}

fn file_name(file: &FilePath) -> String {
    file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned()
}
