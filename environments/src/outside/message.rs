//! The messages of `environments/PROTOCOL.md` and what they mean here.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::link::{excerpt, reason};
use super::settings::Supplies;
use crate::{Demonstration, Outcome, Task, Turn};

/// The version of the protocol.
const PROTOCOL: u64 = 1;

/// What is asked of a server.
#[derive(Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(super) enum Request<'a> {
    Hello {
        protocol: u64,
        settings: &'a Map<String, Value>,
        states: bool,
        expert: bool,
        answers: bool,
        max_message_bytes: usize,
    },
    Reset {
        id: &'a str,
        seed: u64,
    },
    Step {
        id: &'a str,
        action: Option<&'a str>,
        response: &'a str,
    },
    Close {
        id: &'a str,
    },
    Judge {
        id: &'a str,
        prompt: &'a str,
        episode: &'a Value,
        successful: Option<&'a Value>,
    },
}

impl<'a> Request<'a> {
    pub(super) fn hello(settings: &'a Map<String, Value>, supplies: &Supplies, max_message_bytes: usize) -> Self {
        let Supplies { states, expert, answers, .. } = *supplies;
        Self::Hello { protocol: PROTOCOL, settings, states, expert, answers, max_message_bytes }
    }

    /// Its JSON.
    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).expect("a request has keys and values that JSON can hold")
    }
}

/// The bytes of a line beside its requests.
pub(super) const ENVELOPE: usize = 96;

/// The line of a message. `client` tells this host's environments from those of another one on the same server.
pub(super) fn line(client: &str, message: u64, requests: &[&str]) -> String {
    format!("{{\"message\":{message},\"client\":\"{client}\",\"requests\":[{}]}}\n", requests.join(","))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerLine {
    message: Option<u64>,
    #[serde(default)]
    answers: Vec<Value>,
    error: Option<String>,
}

/// An answer without its id: fields, or what went wrong with this request alone.
pub(super) type Answer = Result<Map<String, Value>, String>;

/// Whether this answer is the last of what it belongs to: of an episode, or a judgement.
pub(super) fn ends(answer: &Map<String, Value>) -> bool {
    answer.get("terminal") == Some(&Value::Bool(true)) || answer.contains_key("text")
}

/// The ids and answers of a line that answers `message`, at least one of them.
pub(super) fn answers(line: &[u8], message: u64) -> Result<Vec<(Option<String>, Answer)>, String> {
    let text = std::str::from_utf8(line).map_err(|error| {
        format!("its line is not UTF-8 (byte {}); it wrote `{}`", error.valid_up_to() + 1, excerpt(line))
    })?;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let parsed: Result<AnswerLine, _> = serde_path_to_error::deserialize(&mut deserializer);
    let wrote = || format!("it wrote `{}`", excerpt(line));
    let parsed = parsed.map_err(|error| {
        let path = error.path().to_string();
        let place = if path == "." { String::new() } else { format!("`{path}`: ") };
        let hint = if ["NaN", "Infinity"].iter().any(|name| text.contains(name)) {
            "; NaN and Infinity are not in JSON, and no reward"
        } else if place.is_empty() {
            "; stdout belongs to the protocol, so texts for people must go to stderr"
        } else {
            ""
        };
        format!("its line is not an answer: {place}{}{hint}; {}", error.inner(), wrote())
    })?;
    deserializer.end().map_err(|error| format!("its line holds more than an answer: {error}; {}", wrote()))?;
    if let Some(error) = parsed.error {
        return Err(format!("it refuses the message: {}", reason(&error)));
    }
    if parsed.message != Some(message) {
        let got = parsed.message.map_or_else(|| "no number".to_owned(), |number| number.to_string());
        return Err(format!("its line answers message {got} and not {message}; {}", wrote()));
    }
    if parsed.answers.is_empty() {
        return Err(format!("its line has no `answers`; {}", wrote()));
    }
    parsed
        .answers
        .into_iter()
        .map(|answer| split(answer).ok_or_else(|| format!("an answer is no object; {}", wrote())))
        .collect()
}

/// An answer's id, and the rest.
fn split(answer: Value) -> Option<(Option<String>, Answer)> {
    let Value::Object(mut fields) = answer else { return None };
    let id = fields.remove("id").map(|id| id.as_str().map_or_else(|| id.to_string(), str::to_owned));
    Some(match fields.remove("error") {
        None | Some(Value::Null) => (id, Ok(fields)),
        Some(Value::String(error)) => (id, Err(reason(&error))),
        Some(other) => (id, Err(reason(&other.to_string()))),
    })
}

/// What a server says about itself.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the protocol")]
pub(super) struct Description {
    protocol: u64,
    pub(super) instructions: String,
    #[serde(default)]
    states: bool,
    #[serde(default)]
    expert: bool,
    #[serde(default)]
    answers: bool,
    #[serde(default)]
    pub(super) judges: bool,
    tasks: Option<u64>,
}

impl Description {
    pub(super) fn read(fields: Map<String, Value>) -> Result<Self, String> {
        let description: Self = read(fields)?;
        if description.protocol != PROTOCOL {
            return Err(format!("it speaks version {} of the protocol, and this is {PROTOCOL}", description.protocol));
        }
        Ok(description)
    }

    /// The key of the settings that asks for more than there is, and why.
    pub(super) fn check(&self, supplies: &Supplies) -> Result<(), (&'static str, String)> {
        let wanted = [
            ("supplies.states", supplies.states && !self.states, "keys of states"),
            ("supplies.expert", supplies.expert && !self.expert, "an expert"),
            ("supplies.answers", supplies.answers && !self.answers, "known answers"),
        ];
        if let Some((key, _, what)) = wanted.into_iter().find(|(_, missing, _)| *missing) {
            return Err((key, format!("the environment says that it has no such thing as {what}; set this to false")));
        }
        if supplies.tasks > 0 && self.tasks != Some(supplies.tasks) {
            let there = self.tasks.map_or_else(
                || "does not say how many tasks it has, so this must be 0".to_owned(),
                |tasks| format!("says that it has {tasks} tasks"),
            );
            return Err(("supplies.tasks", format!("is {}, and the environment {there}", supplies.tasks)));
        }
        Ok(())
    }
}

/// An episode that began.
pub(super) struct Started {
    pub(super) turn: Turn,
    pub(super) task: Task,
    pub(super) expert: Option<Demonstration>,
}

/// A turn that was played.
#[derive(Debug)]
pub(super) struct Played {
    pub(super) outcome: Outcome,
    pub(super) expert: Option<Demonstration>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StartedFields {
    observation: String,
    state: Option<String>,
    actions: Option<Vec<String>>,
    expert: Option<ExpertFields>,
    task: Option<TaskFields>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlayedFields {
    observation: String,
    state: Option<String>,
    actions: Option<Vec<String>>,
    expert: Option<ExpertFields>,
    reward: f64,
    terminal: bool,
    success: bool,
    valid_action: Option<bool>,
    feedback: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpertFields {
    think: String,
    action: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskFields {
    text: Option<String>,
    answer: Option<String>,
}

impl Started {
    pub(super) fn read(fields: Map<String, Value>, supplies: &Supplies) -> Result<Self, String> {
        let StartedFields { observation, state, actions, expert, task } = read(fields)?;
        let task =
            task.map(|task| Task { text: task.text.unwrap_or_default(), answer: task.answer }).unwrap_or_default();
        if supplies.answers && task.answer.is_none() {
            return Err("missing field `task.answer`, and `supplies.answers` is true".to_owned());
        }
        let turn = turn(observation, state, actions, supplies, false)?;
        Ok(Self { turn, task, expert: demonstration(expert, supplies, false)? })
    }
}

impl Played {
    pub(super) fn read(fields: Map<String, Value>, supplies: &Supplies) -> Result<Self, String> {
        let fields: PlayedFields = read(fields)?;
        let reward = fields.reward as f32;
        if !reward.is_finite() {
            return Err(format!("`reward` is {:e}, which is no finite number of 32 bits", fields.reward));
        }
        let PlayedFields { terminal, success, .. } = fields;
        let outcome = Outcome {
            reward,
            terminal,
            success,
            valid_action: fields.valid_action.unwrap_or(true),
            feedback: fields.feedback.unwrap_or_default(),
            turn: turn(fields.observation, fields.state, fields.actions, supplies, terminal)?,
        };
        Ok(Self { outcome, expert: demonstration(fields.expert, supplies, terminal)? })
    }
}

fn turn(
    observation: String,
    state: Option<String>,
    actions: Option<Vec<String>>,
    supplies: &Supplies,
    terminal: bool,
) -> Result<Turn, String> {
    if supplies.states && state.is_none() {
        return Err("missing field `state`, and `supplies.states` is true".to_owned());
    }
    let actions = actions.filter(|_| !terminal).unwrap_or_default();
    Ok(Turn { observation, state: state.filter(|_| supplies.states), actions })
}

fn demonstration(
    expert: Option<ExpertFields>,
    supplies: &Supplies,
    terminal: bool,
) -> Result<Option<Demonstration>, String> {
    if !supplies.expert || terminal {
        return Ok(None);
    }
    let ExpertFields { think, action } = expert.ok_or("missing field `expert`, and `supplies.expert` is true")?;
    Ok(Some(Demonstration { think, action }))
}

pub(super) fn read<T: DeserializeOwned>(fields: Map<String, Value>) -> Result<T, String> {
    serde_path_to_error::deserialize(Value::Object(fields)).map_err(|error| match error.path().to_string().as_str() {
        "." => error.inner().to_string(),
        path => format!("`{path}`: {}", error.inner()),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ALL: Supplies = Supplies { states: true, expert: true, answers: true, tasks: 0 };

    fn fields(value: Value) -> Map<String, Value> {
        let Value::Object(fields) = value else { panic!("{value}") };
        fields
    }

    #[test]
    fn a_line_that_is_no_answer_is_told_by_what_is_wrong_with_it() {
        let check = |line: &[u8], expected: &str| {
            let error = answers(line, 7).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check(b"Loading model...", "texts for people must go to stderr; it wrote `Loading model...`");
        check(b"", "EOF while parsing");
        check(b"{\"message\":7,\"answers\":[{\"id\":\"a\",\"reward\":NaN}]}", "`answers[0].reward`: expected value");
        check(b"{\"message\":7,\"answers\":[{\"id\":\"a\",\"reward\":-Infinity}]}", "NaN and Infinity are not in JSON");
        check(b"{\"message\":7,\"answers\":[{\"id\":\"\xff\"}]}", "not UTF-8 (byte 32)");
        check(b"{\"message\":6,\"answers\":[{\"id\":\"a\"}]}", "answers message 6 and not 7");
        check(b"{\"answers\":[{\"id\":\"a\"}]}", "answers message no number and not 7");
        check(b"{\"message\":7,\"answers\":[]}", "has no `answers`");
        check(b"{\"message\":7,\"answers\":[1]}", "an answer is no object");
        check(b"{\"message\":7,\"answers\":[{}]} {}", "holds more than an answer");
        check(b"{\"message\":7,\"answer\":[{}]}", "unknown field `answer`");
        check(b"{\"message\":null,\"error\":\"what?\"}", "it refuses the message: what?");
        let deep = format!("{{\"message\":7,\"answers\":[{}", "[".repeat(100_000));
        check(deep.as_bytes(), "recursion limit");
    }

    #[test]
    fn answers_are_split_into_ids_fields_and_errors() {
        let line = br#"{"message":7,"answers":[{"id":"a","x":1},{"error":"no"},{"id":3,"error":null}]}"#;
        let parsed = answers(line, 7).unwrap();
        assert_eq!(parsed[0], (Some("a".to_owned()), Ok(fields(json!({ "x": 1 })))));
        assert_eq!(parsed[1], (None, Err("no".to_owned())));
        assert_eq!(parsed[2], (Some("3".to_owned()), Ok(Map::new())));
    }

    #[test]
    fn fields_of_an_answer_that_do_not_fit_are_named() {
        let good = json!({
            "observation": "o", "state": "s", "actions": ["a"], "expert": { "think": "t", "action": "a" },
            "reward": 0.5, "terminal": false, "success": false,
        });
        let check = |key: &str, value: Value, expected: &str| {
            let mut answer = fields(good.clone());
            if value == json!("gone") {
                answer.remove(key)
            } else {
                answer.insert(key.to_owned(), value)
            };
            let error = Played::read(answer, &ALL).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        let played = Played::read(fields(good.clone()), &ALL).unwrap();
        assert_eq!((played.outcome.reward, played.outcome.valid_action), (0.5, true));
        check("reward", json!("gone"), "missing field `reward`");
        check("reward", Value::Null, "`reward`: invalid type: null, expected f64");
        check("reward", json!("1"), "`reward`: invalid type: string \"1\", expected f64");
        check("reward", json!(1e39), "`reward` is 1e39, which is no finite number of 32 bits");
        check("terminal", json!("gone"), "missing field `terminal`");
        check("success", json!("gone"), "missing field `success`");
        check("observation", json!("gone"), "missing field `observation`");
        check("state", Value::Null, "missing field `state`, and `supplies.states` is true");
        check("expert", json!("gone"), "missing field `expert`");
        check("expert", json!({ "think": "t" }), "`expert`: missing field `action`");
        check("actions", json!(["a", 1]), "`actions[1]`: invalid type: integer `1`");
        check("rewards", json!(1), "unknown field `rewards`");
    }

    #[test]
    fn nothing_is_taken_that_was_not_asked_for_and_nothing_follows_the_end() {
        let answer = fields(json!({
            "observation": "o", "state": "s", "actions": ["a"], "expert": null,
            "reward": 1, "terminal": true, "success": true, "valid_action": false, "feedback": "f",
        }));
        let played = Played::read(answer.clone(), &ALL).unwrap();
        assert!(played.outcome.turn.actions.is_empty() && played.expert.is_none());
        assert!(!played.outcome.valid_action);
        assert_eq!(Played::read(answer, &Supplies::default()).unwrap().outcome.turn.state, None);
        let start = fields(json!({ "observation": "o", "task": { "text": "t" } }));
        assert_eq!(Started::read(start.clone(), &Supplies::default()).unwrap().task.text, "t");
        let error = Started::read(start, &Supplies { answers: true, ..Supplies::default() }).err().unwrap();
        assert_eq!(error, "missing field `task.answer`, and `supplies.answers` is true");
    }

    #[test]
    fn a_server_is_held_to_what_it_says() {
        let description = |protocol: u64| {
            Description::read(fields(json!({ "protocol": protocol, "instructions": "i", "states": true, "tasks": 5 })))
        };
        assert!(description(2).unwrap_err().contains("speaks version 2 of the protocol, and this is 1"));
        let description = description(1).unwrap();
        let check = |supplies: Supplies| description.check(&supplies).map_err(|(key, _)| key);
        assert_eq!(check(Supplies { states: true, tasks: 5, ..Supplies::default() }), Ok(()));
        assert_eq!(check(Supplies { expert: true, ..Supplies::default() }), Err("supplies.expert"));
        assert_eq!(check(Supplies { answers: true, ..Supplies::default() }), Err("supplies.answers"));
        assert_eq!(check(Supplies { tasks: 6, ..Supplies::default() }), Err("supplies.tasks"));
    }
}
