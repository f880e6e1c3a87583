//! Reads the wording of a game from its grammar: blocks of rules in JSON, and actions with a template for the command
//! and a rule for the answer.

use std::collections::HashMap;

use serde::Deserialize;

use super::Misfit;
use super::state::Flag;
use super::wording::{Action, Argument, Fact, Piece, Query, Verb, Wording};

/// An alternative of a rule.
#[derive(Clone, Debug, Deserialize)]
struct Alternative {
    #[serde(default)]
    condition: String,
    rhs: String,
}

type Rules = HashMap<String, Vec<Alternative>>;

/// How deep rules may stand in each other; deeper ones go round in circles.
const DEPTH: usize = 16;

/// Reads a grammar: its wording, and the sentence that gives the task.
pub(super) fn read(text: &str) -> Result<(Wording, String), Misfit> {
    let mut reader = Reader { text, position: 0 };
    let mut rules = Rules::new();
    let mut actions: HashMap<&str, (&str, &str)> = HashMap::new();
    loop {
        reader.skip_space();
        if reader.rest().is_empty() {
            break;
        }
        let line = reader.line();
        match reader.word() {
            "grammar" => reader.rules(&mut rules)?,
            "action" => {
                let name = reader.word();
                let (mut template, mut feedback) = (None, None);
                reader.expect("{")?;
                while !reader.accept("}") {
                    match reader.word() {
                        "grammar" => reader.rules(&mut rules)?,
                        "template" => template = Some(reader.string()?),
                        "feedback" => feedback = Some(reader.string()?),
                        other => {
                            let expected = "`template`, `feedback`, `grammar` or `}`";
                            return Err(reader.misfit(format!("expected {expected} in action `{name}`, not `{other}`")));
                        }
                    }
                }
                let (Some(template), Some(feedback)) = (template, feedback) else {
                    return Err(Misfit::new(line, format!("action `{name}` has no template or no feedback")));
                };
                actions.insert(name, (template, feedback));
            }
            other => return Err(Misfit::new(line, format!("expected `grammar` or `action`, not `{other}`"))),
        }
    }
    let task = rules.get("task").and_then(|alternatives| alternatives.first());
    let task = task.ok_or_else(|| Misfit::new(0, "there is no rule `task`"))?.rhs.clone();
    Ok((compile(&rules, &actions)?, task))
}

/// The wording of tables: commands by action, and rules by name, of which one has the name of each action.
pub(super) fn from_tables(commands: &[(&str, &str)], answers: &[(&str, &[(&str, &str)])]) -> Result<Wording, Misfit> {
    let alternative =
        |(condition, rhs): &(&str, &str)| Alternative { condition: (*condition).to_owned(), rhs: (*rhs).to_owned() };
    let rules = answers.iter().map(|(name, rules)| ((*name).to_owned(), rules.iter().map(alternative).collect()));
    let feedback: Vec<String> = commands.iter().map(|(name, _)| format!("#{name}#")).collect();
    let actions =
        commands.iter().zip(&feedback).map(|((name, command), feedback)| (*name, (*command, feedback.as_str())));
    compile(&rules.collect(), &actions.collect())
}

fn compile(rules: &Rules, actions: &HashMap<&str, (&str, &str)>) -> Result<Wording, Misfit> {
    let place = |name: &str, message: String| Misfit::new(0, format!("rule `{name}`: {message}"));
    let mut compiled = Vec::with_capacity(Verb::ALL.len());
    for (verb, name) in Verb::ALL {
        compiled.push(match actions.get(name) {
            Some((template, feedback)) => Some(Action {
                command: pieces(template, rules, 0).map_err(|message| place(name, message))?,
                feedback: pieces(&unescape(feedback), rules, 0).map_err(|message| place(name, message))?,
            }),
            None if verb == Verb::Help => None,
            None => return Err(Misfit::new(0, format!("there is no action `{name}`"))),
        });
    }
    let intro = pieces("#intro#", rules, 0).map_err(|message| place("intro", message))?;
    Ok(Wording { intro, actions: compiled })
}

/// The pieces of a text. What fails is a message.
fn pieces(text: &str, rules: &Rules, depth: usize) -> Result<Vec<Piece>, String> {
    if depth > DEPTH {
        return Err("rules that stand in each other go round in circles".to_owned());
    }
    // The original's reader loses a newline before a text.
    let mut rest = text.trim_start_matches('\n');
    let mut pieces = Vec::new();
    while let Some(first) = rest.chars().next() {
        let until = |end: char| {
            let inner = rest[1..].split_once(end);
            inner.ok_or_else(|| format!("`{first}` is never closed by `{end}` in `{text}`"))
        };
        match first {
            '#' => {
                let (symbol, after) = until('#')?;
                pieces.push(rule(symbol, rules, depth)?);
                rest = after;
            }
            '{' => {
                let (expression, after) = until('}')?;
                pieces.push(Piece::Name(argument(expression)?));
                rest = after;
            }
            '[' => {
                let (list, after) = until(']')?;
                pieces.push(self::list(list.trim().trim_start_matches('{').trim_end_matches('}'), rules)?);
                rest = after;
            }
            _ => {
                let end = rest.find(['#', '{', '[']).unwrap_or(rest.len());
                pieces.push(Piece::Text(rest[..end].to_owned()));
                rest = &rest[end..];
            }
        }
    }
    Ok(pieces)
}

fn rule(symbol: &str, rules: &Rules, depth: usize) -> Result<Piece, String> {
    if symbol == "task" {
        return Ok(Piece::Task);
    }
    let alternatives = rules.get(symbol).ok_or_else(|| format!("there is no rule `{symbol}`"))?;
    let mut choice = Vec::with_capacity(alternatives.len());
    for Alternative { condition, rhs } in alternatives {
        choice.push((facts(condition)?, pieces(rhs, rules, depth + 1)?));
    }
    // The original fails where none fits.
    if choice.last().is_none_or(|(facts, _)| !facts.is_empty()) {
        return Err(format!("the last alternative of rule `{symbol}` must have no condition"));
    }
    Ok(Piece::Choice(choice))
}

/// The argument whose name an expression gives.
fn argument(expression: &str) -> Result<Argument, String> {
    let expression = expression.trim();
    match expression.strip_suffix(".name").unwrap_or(expression) {
        "o" | "co" => Ok(Argument::Object),
        "r" => Ok(Argument::Receptacle),
        "ko" => Ok(Argument::Tool),
        "lend" => Ok(Argument::Place),
        _ => Err(format!("`{{{expression}}}` is no name of an object, a receptacle or a place that is known here")),
    }
}

/// A list `what | query`.
fn list(list: &str, rules: &Rules) -> Result<Piece, String> {
    let unknown = || format!("the list `[{list}]` is none that is known here");
    let (what, query) = list.split_once('|').ok_or_else(unknown)?;
    // A name by itself, or with its article, or by a rule that gives it one.
    let what = what.trim();
    let what = match what.strip_prefix('#').and_then(|symbol| symbol.strip_suffix('#')) {
        Some(symbol) => match rules.get(symbol).map(Vec::as_slice) {
            Some([Alternative { condition, rhs }]) if condition.is_empty() => rhs.as_str(),
            _ => return Err(format!("there is no rule `{symbol}` with one alternative")),
        },
        None => what,
    };
    let words: String = what.chars().filter(|letter| !letter.is_whitespace() && !"{}'+".contains(*letter)).collect();
    let (variable, expression) = words.split_once('.').ok_or_else(unknown)?;
    let expression = expression.replace(&format!("{variable}."), "");
    let article = match expression.as_str() {
        "indefinitename" | "indefinitenameorid" => true,
        "name" | "nameorid" => false,
        _ => return Err(unknown()),
    };
    let query = match (variable, atoms(query).as_slice()) {
        // The receptacle that is gone to, in a command's text.
        ("r", [at]) if at == "receptacleatlocation(r,lend)" && !article => {
            return Ok(Piece::Name(Argument::Receptacle));
        }
        ("o", [inside]) if inside == "inreceptacle(o,r)" => Query::Inside,
        ("o", [holds]) if holds == "holds(a,o)" => Query::Held,
        ("o2", [contents]) if contents == "inreceptacleobject(o2,o)" => Query::Contents,
        (variable, atoms) => match (variable, self::query(atoms)) {
            ("r", Some(query @ (Query::Here | Query::Receptacles))) | ("o", Some(query @ Query::Floor)) => query,
            _ => return Err(unknown()),
        },
    };
    Ok(Piece::List { query, article })
}

/// A query over several facts.
fn query(atoms: &[String]) -> Option<Query> {
    let atoms: Vec<&str> = atoms.iter().map(String::as_str).collect();
    match atoms.as_slice() {
        ["receptacleatlocation(r,l)"] => Some(Query::Receptacles),
        ["atlocation(a,l)", "receptacleatlocation(r,l)"] => Some(Query::Here),
        ["atlocation(a,l)", "not_inreceptacle(o,r)", "objectatlocation(o,l)", "receptacleatlocation(r,l)"] => {
            Some(Query::Floor)
        }
        _ => None,
    }
}

/// The facts of a condition.
fn facts(condition: &str) -> Result<Vec<Fact>, String> {
    let atoms = atoms(condition);
    if let Some(query) = query(&atoms) {
        return Ok(vec![Fact::Some(query)]);
    }
    let fact = |atom: &String| {
        Ok(match atom.as_str() {
            "openable(r)" => Fact::Openable,
            "opened(r)" => Fact::Opened,
            "holdsany(a)" => Fact::HoldsAny,
            "isreceptacleobject(o)" => Fact::Container,
            "toggleable(o)" => Fact::Toggleable,
            "sliceable(o)" => Fact::Sliceable,
            "isclean(o)" => Fact::Has(Flag::Clean),
            "ishot(o)" => Fact::Has(Flag::Hot),
            "iscool(o)" => Fact::Has(Flag::Cool),
            "issliced(o)" => Fact::Has(Flag::Sliced),
            "istoggled(o)" => Fact::Has(Flag::Toggled),
            // The negation of a fact is known to the original only after a command took the fact back, and none takes
            // this one back.
            "not_istoggled(o)" => Fact::Never,
            _ => return Err(format!("the condition `{condition}` is none that is known here")),
        })
    };
    atoms.iter().map(fact).collect()
}

/// The atoms of a conjunction without types and spaces, sorted.
fn atoms(conjunction: &str) -> Vec<String> {
    let mut atoms: Vec<String> = conjunction
        .split('&')
        .map(|atom| {
            let mut bare = String::new();
            let mut in_type = false;
            for letter in atom.chars().filter(|letter| !letter.is_whitespace() && !"{}".contains(*letter)) {
                in_type = letter == ':' || in_type && !",)".contains(letter);
                if !in_type {
                    bare.push(letter);
                }
            }
            bare
        })
        .filter(|atom| !atom.is_empty())
        .collect();
    atoms.sort_unstable();
    atoms
}

/// Newlines that are written as `\n`.
fn unescape(text: &str) -> String {
    text.replace("\\n", "\n")
}

/// A place in a grammar.
struct Reader<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.position..]
    }

    fn line(&self) -> usize {
        1 + self.text[..self.position].matches('\n').count()
    }

    fn misfit(&self, message: impl Into<String>) -> Misfit {
        Misfit::new(self.line(), message)
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.position += rest.len() - rest.trim_start().len();
    }

    fn accept(&mut self, token: &str) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(token);
        self.position += if found { token.len() } else { 0 };
        found
    }

    fn expect(&mut self, token: &str) -> Result<(), Misfit> {
        if self.accept(token) {
            return Ok(());
        }
        let found: String = self.rest().chars().take(12).collect();
        Err(self.misfit(format!("expected `{token}`, not `{found}`")))
    }

    /// A word, which may be empty.
    fn word(&mut self) -> &'a str {
        self.skip_space();
        let rest = self.rest();
        let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
        self.position += end;
        &rest[..end]
    }

    /// What stands between two marks after `::`, up to the semicolon.
    fn between(&mut self, mark: &str) -> Result<&'a str, Misfit> {
        self.expect("::")?;
        self.expect(mark)?;
        let rest = self.rest();
        let Some(end) = rest.find(mark) else {
            return Err(self.misfit(format!("what begins with {mark} here never ends")));
        };
        self.position += end + mark.len();
        self.expect(";")?;
        Ok(&rest[..end])
    }

    fn string(&mut self) -> Result<&'a str, Misfit> {
        self.between("\"")
    }

    /// A block of rules, which are added to those that there are.
    fn rules(&mut self, rules: &mut Rules) -> Result<(), Misfit> {
        let before = self.line();
        let block = self.between("\"\"\"")?;
        let more: Rules = serde_json::from_str(block)
            .map_err(|error| Misfit::new(before + error.line() - 1, format!("rules that are no JSON: {error}")))?;
        for (name, alternatives) in more {
            let alternatives =
                alternatives.into_iter().map(|rule| Alternative { rhs: unescape(&rule.rhs), ..rule }).collect();
            rules.insert(name, alternatives);
        }
        Ok(())
    }
}
