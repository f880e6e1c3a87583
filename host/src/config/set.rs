//! `--set KEY=VALUE`: one value laid over the files.

use std::ops::Range;
use std::sync::Arc;

use toml_edit::Value as Toml;

use super::error::{Place, Problem, Source};
use super::near::{list, nearest};
use super::path::{self, Path, Segment};
use super::tree::{Content, Node, Reader, entries_named};

/// What stands before the argument in the text that errors show.
pub(super) const FLAG: &str = "--set ";

/// Applies one `--set`. The right side is a TOML value, or else a string as it stands; an entry of `[[credit]]` is
/// addressed by its name, its plugin or its number.
///
/// A key that does not exist is found later, when the whole tree is checked.
pub(super) fn apply(tree: &mut Node, argument: &str) -> Result<(), Vec<Problem>> {
    let source = Arc::new(Source { file: None, text: format!("{FLAG}{argument}") });
    let place =
        |range: Range<usize>| Place { source: source.clone(), range: FLAG.len() + range.start..FLAG.len() + range.end };
    let unreadable = |reason: &str| {
        vec![
            Problem::new(format!("cannot read `--set`: {reason}"))
                .at(place(0..argument.len()))
                .note("expected KEY=VALUE, such as `rollout.groups=8` or `credit.NAME.params.KEY=0.3`"),
        ]
    };

    let (segments, end) = path::segments(argument).map_err(|reason| unreadable(&reason))?;
    let Some(right) = argument[end..].strip_prefix('=') else {
        return Err(unreadable("there is no `=` after the key"));
    };
    if segments.first().is_some_and(|(first, _)| *first == Segment::Key("extends".to_owned())) {
        return Err(unreadable("`extends` works in files only"));
    }
    let text = right.trim();
    let start = argument.len() - right.trim_start().len();
    let value = place(start..start + text.len()).range;

    let mut node = tree;
    let mut path = Path::default();
    let mut key = value.clone();
    for (segment, range) in segments {
        let at = place(range);
        key = at.range.clone();
        (path, node) = enter(node, &path, &segment, &value, at).map_err(|problem| vec![problem])?;
    }

    // What is no TOML value is a string, and so is a date, which no key wants.
    let toml = match text.parse::<Toml>() {
        Ok(Toml::Datetime(_)) | Err(_) => Toml::from(text),
        Ok(toml) => toml,
    };
    let mut reader = Reader { source: &source, within: Some(value.clone()), problems: Vec::new() };
    match reader.value(&path, &toml, value.clone()) {
        Some(read) if reader.problems.is_empty() => {
            node.merge(Node::new(&source, key, value, read.content));
            Ok(())
        }
        _ => Err(reader.problems),
    }
}

/// Goes one segment down: into an entry of an array, or to a key of a table, which is made if it is not there.
fn enter<'a>(
    node: &'a mut Node,
    path: &Path,
    segment: &Segment,
    value: &Range<usize>,
    at: Place,
) -> Result<(Path, &'a mut Node), Problem> {
    // Without any `[[credit]]`, its entries are missing like the entries of an empty one.
    let credit = path.0 == [Segment::Key("credit".to_owned())];
    if credit && matches!(&node.content, Content::Table(entries) if entries.is_empty()) {
        node.content = Content::Array(Vec::new());
    }
    match (&mut node.content, segment) {
        (Content::Array(elements), _) => {
            let index = entry(elements, path, segment).map_err(|problem| problem.at(at))?;
            Ok((path.index(index), &mut elements[index]))
        }
        (Content::Table(entries), Segment::Key(name)) => {
            let index = entries.iter().position(|(key, _)| key == name).unwrap_or_else(|| {
                let made = Node::new(&at.source, at.range, value.clone(), Content::Table(Vec::new()));
                entries.push((name.clone(), made));
                entries.len() - 1
            });
            Ok((path.key(name), &mut entries[index].1))
        }
        (_, Segment::Key(_)) => Err(Problem::new(format!("`{path}` is not a table")).at(at)),
        (_, Segment::Index(_)) => Err(Problem::new(format!("`{path}` is not an array")).at(at)),
    }
}

/// The number of the entry that a segment means.
fn entry(elements: &[Node], path: &Path, segment: &Segment) -> Result<usize, Problem> {
    let (wanted, found) = match segment {
        Segment::Index(index) => (index.to_string(), entries_named(elements, &index.to_string())),
        Segment::Key(key) => (key.clone(), entries_named(elements, key)),
    };
    match found[..] {
        [index] => Ok(index),
        [] => {
            let mut labels: Vec<&str> = elements.iter().filter_map(Node::label).collect();
            labels.dedup();
            let problem = Problem::new(format!("`{path}` has no entry `{wanted}`"));
            Err(if elements.is_empty() {
                problem.note(format!("`{path}` is empty"))
            } else {
                problem
                    .note(format!("expected one of {}, or a number below {}", list(labels.clone()), elements.len()))
                    .did_you_mean(nearest(&wanted, labels))
            })
        }
        _ => {
            let numbers: Vec<String> = found.iter().map(|index| format!("{path}.{index}")).collect();
            Err(Problem::new(format!("`{path}` has {} entries `{wanted}`", found.len()))
                .note(format!("expected one of {}", list(numbers.iter().map(String::as_str)))))
        }
    }
}
