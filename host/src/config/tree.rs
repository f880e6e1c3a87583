//! A configuration before it is typed: tables, arrays and values, each with its place in a text.

use std::ops::Range;
use std::sync::Arc;

use serde_json::Value as Json;
use toml_edit::{Item, TableLike, Value as Toml};

use super::error::{Place, Problem, Source};
use super::path::{Path, Segment};
use super::schema;

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(super) struct Node {
    source: Arc<Source>,
    key: Range<usize>,
    value: Range<usize>,
    pub(super) content: Content,
}

/// What a node holds.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// Keys in the order in which they were first written.
    Table(Vec<(String, Node)>),
    /// Elements.
    Array(Vec<Node>),
    /// A string, a finite number or a boolean.
    Value(Json),
}

impl Node {
    /// A node of which only a key is known.
    pub(super) fn new(source: &Arc<Source>, key: Range<usize>, value: Range<usize>, content: Content) -> Self {
        Self { source: source.clone(), key, value, content }
    }

    /// An empty table that stands nowhere, to merge layers into.
    pub(super) fn root() -> Self {
        let source = Arc::new(Source { file: None, text: String::new() });
        Self::new(&source, 0..0, 0..0, Content::Table(Vec::new()))
    }

    /// Where its key stands; for an element of an array, where the element stands.
    pub(super) fn key_place(&self) -> Place {
        self.place(self.key.clone())
    }

    /// Where its value stands; for a table with a header, the header.
    pub(super) fn value_place(&self) -> Place {
        self.place(self.value.clone())
    }

    /// Key and value, where they stand on one line.
    pub(super) fn entry_place(&self) -> Place {
        let both = self.place(self.key.start.min(self.value.start)..self.value.end.max(self.key.end));
        if both.one_line() { both } else { self.key_place() }
    }

    fn place(&self, range: Range<usize>) -> Place {
        Place { source: self.source.clone(), range }
    }

    /// The node of a key, if this is a table that has it.
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        match &self.content {
            Content::Table(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, node)| node),
            _ => None,
        }
    }

    /// The same, to change it.
    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        match &mut self.content {
            Content::Table(entries) => entries.iter_mut().find(|(name, _)| name == key).map(|(_, node)| node),
            _ => None,
        }
    }

    /// Takes a key out of a table, if it is one and has it.
    pub(super) fn remove(&mut self, key: &str) {
        if let Content::Table(entries) = &mut self.content {
            entries.retain(|(name, _)| name != key);
        }
    }

    /// The node at the end of a path, if there is one. In arrays, a key is the name or number of an entry.
    pub(super) fn find(&self, path: &Path) -> Option<&Node> {
        path.0.iter().try_fold(self, |node, segment| match (&node.content, segment) {
            (Content::Table(_), Segment::Key(key)) => node.get(key),
            (Content::Array(elements), Segment::Index(index)) => elements.get(*index),
            (Content::Array(elements), Segment::Key(key)) => match entries_named(elements, key)[..] {
                [index] => elements.get(index),
                _ => None,
            },
            _ => None,
        })
    }

    /// Lays another node over this one: tables merge, everything else is replaced as a whole.
    pub(super) fn merge(&mut self, over: Node) {
        match (&mut self.content, over.content) {
            (Content::Table(mine), Content::Table(theirs)) => {
                // Parameters and hash belong to a plugin: they are not those of another one that is named in its place.
                let plugin = |entries: &[(String, Node)]| {
                    let entry = entries.iter().find(|(key, _)| key == "plugin");
                    entry.map(|(_, node)| node.to_json())
                };
                if let (Some(old), Some(new)) = (plugin(mine), plugin(&theirs))
                    && old != new
                {
                    mine.retain(|(key, _)| key != "params" && key != "sha256");
                }
                for (key, node) in theirs {
                    match mine.iter_mut().find(|(name, _)| *name == key) {
                        // An environment's keys are not those of another one that is named in its place.
                        Some((_, old)) if key == "environment" && old.names_another(&node) => *old = node,
                        Some((_, old)) => old.merge(node),
                        None => mine.push((key, node)),
                    }
                }
                self.source = over.source;
                self.key = over.key;
                self.value = over.value;
            }
            (_, content) => *self = Node { content, ..over },
        }
    }

    /// The plain value.
    pub(super) fn to_json(&self) -> Json {
        match &self.content {
            Content::Table(entries) => {
                Json::Object(entries.iter().map(|(key, node)| (key.clone(), node.to_json())).collect())
            }
            Content::Array(elements) => Json::Array(elements.iter().map(Node::to_json).collect()),
            Content::Value(value) => value.clone(),
        }
    }

    /// What an entry of an array of tables is called: its `name`, or the short name of its `plugin`.
    pub(super) fn label(&self) -> Option<&str> {
        self.text("name").or_else(|| self.plugin())
    }

    fn plugin(&self) -> Option<&str> {
        self.text("plugin").map(schema::short_name)
    }

    fn names_another(&self, over: &Node) -> bool {
        matches!((self.text("name"), over.text("name")), (Some(mine), Some(theirs)) if mine != theirs)
    }

    fn text(&self, key: &str) -> Option<&str> {
        match &self.get(key)?.content {
            Content::Value(Json::String(text)) => Some(text),
            _ => None,
        }
    }
}

/// The entries that `key` means: the one with this number, else those with this label, else those of this plugin.
pub(super) fn entries_named(elements: &[Node], key: &str) -> Vec<usize> {
    if let Ok(index) = key.parse::<usize>() {
        return if index < elements.len() { vec![index] } else { Vec::new() };
    }
    let all = || elements.iter().enumerate();
    let labelled: Vec<usize> = all().filter(|(_, node)| node.label() == Some(key)).map(|(index, _)| index).collect();
    if labelled.is_empty() {
        all().filter(|(_, node)| node.plugin() == Some(key)).map(|(index, _)| index).collect()
    } else {
        labelled
    }
}

/// Turns TOML into nodes, and collects what TOML can say and a configuration cannot: dates, infinities, NaN.
pub(super) struct Reader<'a> {
    /// The text that the TOML was parsed from.
    pub(super) source: &'a Arc<Source>,
    /// The place of everything, where the TOML has no places of its own.
    pub(super) within: Option<Range<usize>>,
    /// What was found.
    pub(super) problems: Vec<Problem>,
}

impl Reader<'_> {
    /// A table and all that is in it.
    pub(super) fn table(&mut self, path: &Path, table: &dyn TableLike, key: Range<usize>, value: Range<usize>) -> Node {
        let mut entries = Vec::new();
        for (name, item) in table.iter() {
            let written = table.key(name).and_then(toml_edit::Key::span);
            let at = self.range(written, &value);
            if let Some(node) = self.item(&path.key(name), item, at) {
                entries.push((name.to_owned(), node));
            }
        }
        Node::new(self.source, key, value, Content::Table(entries))
    }

    fn item(&mut self, path: &Path, item: &Item, key: Range<usize>) -> Option<Node> {
        let value = self.range(item.span(), &key);
        match item {
            Item::None => None,
            Item::Value(toml) => self.value(path, toml, key),
            Item::Table(table) => Some(self.table(path, table, key, value)),
            Item::ArrayOfTables(tables) => {
                let mut elements = Vec::new();
                for (index, table) in tables.iter().enumerate() {
                    let at = self.range(table.span(), &value);
                    elements.push(self.table(&path.index(index), table, at.clone(), at));
                }
                Some(Node::new(self.source, key, value, Content::Array(elements)))
            }
        }
    }

    /// A value and all that is in it; none if a configuration cannot hold it.
    pub(super) fn value(&mut self, path: &Path, toml: &Toml, key: Range<usize>) -> Option<Node> {
        let value = self.range(toml.span(), &key);
        let content = match toml {
            Toml::String(text) => Content::Value(Json::from(text.value().as_str())),
            Toml::Integer(number) => Content::Value(Json::from(*number.value())),
            Toml::Boolean(flag) => Content::Value(Json::from(*flag.value())),
            Toml::Float(number) => match serde_json::Number::from_f64(*number.value()) {
                Some(number) => Content::Value(Json::Number(number)),
                None => return self.refuse(path, "a number that is not finite", value),
            },
            Toml::Datetime(_) => return self.refuse(path, "a date or time without quotes", value),
            Toml::Array(array) => {
                let mut elements = Vec::new();
                for (index, element) in array.iter().enumerate() {
                    let at = self.range(element.span(), &value);
                    elements.extend(self.value(&path.index(index), element, at));
                }
                Content::Array(elements)
            }
            Toml::InlineTable(table) => return Some(self.table(path, table, key, value)),
        };
        Some(Node::new(self.source, key, value, content))
    }

    fn refuse(&mut self, path: &Path, what: &str, value: Range<usize>) -> Option<Node> {
        let place = Place { source: self.source.clone(), range: value };
        self.problems.push(
            Problem::new(format!("wrong type for `{path}`: found {what}"))
                .at(place)
                .note("expected a string, a finite number, a boolean, an array or a table"),
        );
        None
    }

    fn range(&self, written: Option<Range<usize>>, otherwise: &Range<usize>) -> Range<usize> {
        self.within.clone().or(written).unwrap_or_else(|| otherwise.clone())
    }
}
