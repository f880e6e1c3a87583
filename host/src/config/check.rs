//! A tree held against the JSON schema: unknown and missing keys, wrong types, unknown words, numbers out of range.
//!
//! All problems are found in one go, each at its place. The schema is the one that is derived from
//! [`super::schema`], so names, types and ranges are written once, at the field.

use std::sync::LazyLock;

use serde_json::Value as Json;

use super::error::Problem;
use super::near::{list, nearest};
use super::path::Path;
use super::schema;
use super::tree::{Content, Node};

static SCHEMA: LazyLock<Json> = LazyLock::new(schema::json_schema);

/// All problems of a whole configuration.
pub(super) fn check(tree: &Node) -> Vec<Problem> {
    check_against(&SCHEMA, tree)
}

/// All problems of a tree that this schema describes.
pub(super) fn check_against(root: &'static Json, tree: &Node) -> Vec<Problem> {
    let mut problems = Vec::new();
    visit(tree, root, root, &Path::default(), &mut problems);
    problems
}

/// All problems of the value of one top-level key.
pub(super) fn check_key(key: &str, node: &Node) -> Vec<Problem> {
    let mut problems = Vec::new();
    visit(node, &SCHEMA, &SCHEMA["properties"][key], &Path::default().key(key), &mut problems);
    problems
}

fn visit(node: &Node, root: &'static Json, schema: &'static Json, path: &Path, problems: &mut Vec<Problem>) {
    let schema = resolved(root, schema);
    let Some(kind) = Kind::of(schema) else { return };
    match (&node.content, kind) {
        (Content::Table(entries), Kind::Table) => {
            for (key, child) in entries {
                if let Some(known) = schema["properties"].get(key) {
                    visit(child, root, known, &path.key(key), problems);
                } else if schema["additionalProperties"] == false {
                    problems.push(unknown_key(key, child, root, schema, path));
                }
            }
            let required = schema["required"].as_array().into_iter().flatten();
            let missing: Vec<&str> = required.filter_map(Json::as_str).filter(|key| node.get(key).is_none()).collect();
            if !missing.is_empty() {
                problems.push(missing_keys(&missing, node, root, schema, path));
            }
        }
        (Content::Array(elements), Kind::Array) => {
            for (index, element) in elements.iter().enumerate() {
                visit(element, root, &schema["items"], &path.index(index), problems);
            }
        }
        (Content::Value(Json::String(word)), Kind::Word(words)) => {
            if !words.contains(&word.as_str()) {
                problems.push(
                    Problem::new(format!("unknown value `{word}` for `{path}`"))
                        .at(node.value_place())
                        .note(format!("expected one of {}", list(words.iter().copied())))
                        .did_you_mean(nearest(word, words)),
                );
            }
        }
        (Content::Value(Json::Bool(_)), Kind::Boolean) => {}
        (Content::Value(value @ Json::String(text)), Kind::String) => {
            if schema["minLength"].as_u64().is_some_and(|least| (text.len() as u64) < least) {
                problems.push(out_of_range(node, value, schema, path));
            }
        }
        (Content::Value(value @ Json::Number(number)), Kind::Integer | Kind::Number)
            if number.is_i64() || kind_takes_fractions(schema) =>
        {
            if number.as_f64().is_some_and(|number| !in_range(number, schema)) {
                problems.push(out_of_range(node, value, schema, path));
            }
        }
        _ => problems.push(wrong_type(node, schema, path)),
    }
}

/// What a schema takes.
enum Kind<'a> {
    Table,
    Array,
    Word(Vec<&'a str>),
    String,
    Boolean,
    Integer,
    Number,
}

impl<'a> Kind<'a> {
    /// None for a schema that takes anything.
    fn of(schema: &'a Json) -> Option<Self> {
        let words: Vec<&str> = match (&schema["oneOf"], &schema["enum"]) {
            (Json::Array(options), _) => options.iter().filter_map(|option| option["const"].as_str()).collect(),
            (_, Json::Array(options)) => options.iter().filter_map(Json::as_str).collect(),
            _ => Vec::new(),
        };
        if !words.is_empty() {
            return Some(Self::Word(words));
        }
        let kind = match &schema["type"] {
            Json::Array(kinds) => kinds.iter().filter_map(Json::as_str).find(|kind| *kind != "null"),
            kind => kind.as_str(),
        };
        match kind? {
            "object" => Some(Self::Table),
            "array" => Some(Self::Array),
            "string" => Some(Self::String),
            "boolean" => Some(Self::Boolean),
            "integer" => Some(Self::Integer),
            "number" => Some(Self::Number),
            _ => None,
        }
    }
}

fn kind_takes_fractions(schema: &Json) -> bool {
    matches!(Kind::of(schema), Some(Kind::Number))
}

/// Follows a reference, and drops the null of an optional value, which TOML cannot write.
fn resolved(root: &'static Json, schema: &'static Json) -> &'static Json {
    if let Some(reference) = schema["$ref"].as_str() {
        return root.pointer(reference.trim_start_matches('#')).unwrap_or(schema);
    }
    let options = schema["anyOf"].as_array().into_iter().flatten();
    match options.into_iter().find(|option| option["type"] != "null") {
        Some(option) => resolved(root, option),
        None => schema,
    }
}

fn in_range(number: f64, schema: &Json) -> bool {
    let bound = |name: &str| schema[name].as_f64();
    bound("minimum").is_none_or(|bound| number >= bound)
        && bound("maximum").is_none_or(|bound| number <= bound)
        && bound("exclusiveMinimum").is_none_or(|bound| number > bound)
        && bound("exclusiveMaximum").is_none_or(|bound| number < bound)
}

/// "an integer of at least 1"
fn expected(schema: &Json) -> String {
    let bound = |name: &str, word: &str| schema[name].as_f64().map(|bound| format!("{word} {bound}"));
    let bounds: Vec<String> = [
        bound("minimum", "of at least"),
        bound("exclusiveMinimum", "above"),
        bound("maximum", "at most"),
        bound("exclusiveMaximum", "below"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let bounds = if bounds.is_empty() { String::new() } else { format!(" {}", bounds.join(" and ")) };
    match Kind::of(schema) {
        Some(Kind::Table) => "a table".to_owned(),
        Some(Kind::Array) if schema["items"]["$ref"].is_string() => "an array of tables".to_owned(),
        Some(Kind::Array) if schema["items"]["type"] == "integer" => "an array of integers".to_owned(),
        Some(Kind::Array) => "an array of strings".to_owned(),
        Some(Kind::Word(words)) => format!("one of {}", list(words)),
        Some(Kind::String) if schema["minLength"].is_u64() => "a string that is not empty".to_owned(),
        Some(Kind::String) => "a string".to_owned(),
        Some(Kind::Boolean) => "`true` or `false`".to_owned(),
        Some(Kind::Integer) => format!("an integer{bounds}"),
        Some(Kind::Number) => format!("a number{bounds}"),
        None => "any value".to_owned(),
    }
}

fn found(node: &Node) -> &'static str {
    match &node.content {
        Content::Table(_) => "a table",
        Content::Array(_) => "an array",
        Content::Value(Json::String(_)) => "a string",
        Content::Value(Json::Bool(_)) => "a boolean",
        Content::Value(Json::Number(number)) if number.is_f64() => "a number with a fraction",
        Content::Value(_) => "an integer",
    }
}

fn wrong_type(node: &Node, schema: &Json, path: &Path) -> Problem {
    let hint = match (&node.content, Kind::of(schema)) {
        (Content::Table(_), Some(Kind::Array)) if schema["items"]["$ref"].is_string() => {
            Some(format!("write `[[{path}]]`, with two brackets"))
        }
        (Content::Value(Json::String(text)), Some(Kind::Integer | Kind::Number)) if text.parse::<f64>().is_ok() => {
            Some("write the number without quotes".to_owned())
        }
        (Content::Value(Json::String(text)), Some(Kind::Boolean)) if text.parse::<bool>().is_ok() => {
            Some("write it without quotes".to_owned())
        }
        (Content::Value(value), Some(Kind::String | Kind::Word(_))) => Some(match node.value_place().source.file {
            Some(_) => format!("write `\"{value}\"`, in quotes"),
            None => format!("write `--set '{path}=\"{value}\"'`, with both kinds of quotes"),
        }),
        _ => None,
    };
    Problem::new(format!("wrong type for `{path}`: found {}", found(node)))
        .at(node.value_place())
        .note(format!("expected {}", expected(schema)))
        .hint(hint)
}

fn out_of_range(node: &Node, value: &Json, schema: &Json, path: &Path) -> Problem {
    Problem::new(format!("`{path}` is out of range: {value}"))
        .at(node.value_place())
        .note(format!("expected {}", expected(schema)))
}

fn unknown_key(key: &str, node: &Node, root: &'static Json, schema: &Json, path: &Path) -> Problem {
    let known = schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    let known: Vec<&str> = known.collect();
    let inside = if path.0.is_empty() { String::new() } else { format!(" in `{path}`") };
    let problem = Problem::new(format!("unknown key `{key}`{inside}"))
        .at(node.key_place())
        .note(format!("expected one of {}", list(known.iter().copied())));
    let homes = homes(root, key);
    if homes.is_empty() {
        problem.did_you_mean(nearest(key, known))
    } else {
        problem.hint(Some(format!("`{key}` is a key of {}", homes.join(" and of "))))
    }
}

fn missing_keys(keys: &[&str], node: &Node, root: &'static Json, schema: &'static Json, path: &Path) -> Problem {
    let names = list(keys.iter().copied());
    let whole = if path.0.is_empty() { "this file".to_owned() } else { format!("`{path}`") };
    let problem = Problem::new(format!("{whole} lacks {names}")).at(node.value_place());
    keys.iter().fold(problem, |problem, key| {
        let expected = expected(resolved(root, &schema["properties"][*key]));
        problem.note(format!("expected `{key}`, {expected}"))
    })
}

/// The tables that have a key of this name.
fn homes(root: &'static Json, key: &str) -> Vec<String> {
    fn search(root: &'static Json, schema: &'static Json, key: &str, path: &Path, homes: &mut Vec<String>) {
        let properties = resolved(root, schema)["properties"].as_object();
        for (name, property) in properties.into_iter().flatten() {
            let path = path.key(name);
            if resolved(root, property)["properties"].get(key).is_some() {
                homes.push(format!("`[{path}]`"));
            }
            search(root, property, key, &path, homes);
        }
    }
    let mut homes = Vec::new();
    search(root, root, key, &Path::default(), &mut homes);
    if root["properties"].get(key).is_some() {
        homes.push("the top, above every table".to_owned());
    }
    homes
}
