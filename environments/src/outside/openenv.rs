//! Servers of OpenEnv.
//!
//! Each environment has a session of its own. Over the WebSocket at `/ws` a server holds as many sessions as its
//! `max_concurrent_envs` says. Over plain HTTP (`POST /reset`, `POST /step`) only older servers hold a session, and only
//! one: as many `urls` are needed as episodes are played at once, and one more for drawing tasks. Newer servers
//! make an environment for every request and forget it, so after a reset `/state` is asked twice, and a server that does not
//! name the same episode both times is refused.
//!
//! OpenEnv knows no invalid action: a response without an action is not sent, and neither is a text that `names` lacks.

mod session;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::settings::Supplies;
use crate::Turn;

pub(super) use session::build;

/// How an OpenEnv server is asked and read.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct OpenEnv {
    /// How messages travel.
    transport: Transport,
    /// The rules, for the agent; servers do not tell them.
    instructions: String,
    /// The key of an action that holds the agent's text.
    action_key: String,
    /// Keys that every action has besides.
    action: Map<String, Value>,
    /// What the agent's texts stand for, such as `{ Left = 0, Right = 2 }`; empty sends the texts themselves.
    names: Map<String, Value>,
    /// The keys of an observation that are shown, in this order; empty shows all.
    observation_keys: Vec<String>,
    /// The key of an observation that says all of the state; empty if there is none.
    state_key: String,
    /// A task is solved if its last reward is at least this.
    success_reward: f64,
    /// A reward of null counts as 0; else it is an error.
    null_reward_is_zero: bool,
}

/// How messages travel to an OpenEnv server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Transport {
    /// A WebSocket for each environment.
    Websocket,
    /// A POST for each step, to servers that hold one session.
    Http,
}

impl Default for OpenEnv {
    fn default() -> Self {
        Self {
            transport: Transport::Websocket,
            instructions: String::new(),
            action_key: "message".to_owned(),
            action: Map::new(),
            names: Map::new(),
            observation_keys: Vec::new(),
            state_key: String::new(),
            success_reward: 1.0,
            null_reward_is_zero: false,
        }
    }
}

impl OpenEnv {
    /// The key that does not fit and what would.
    pub(super) fn check(&self, supplies: &Supplies) -> Result<(), (&'static str, String)> {
        let refuse = |key, message: &str| Err((key, message.to_owned()));
        if self.instructions.is_empty() {
            return refuse("openenv.instructions", "must tell the agent the rules, for OpenEnv's servers do not");
        }
        if self.action_key.is_empty() {
            return refuse("openenv.action_key", "must name the key that takes the agent's text");
        }
        if !self.success_reward.is_finite() {
            return refuse("openenv.success_reward", "must be a finite number");
        }
        if supplies.states && self.state_key.is_empty() {
            return refuse("supplies.states", "needs `openenv.state_key`, the key of observations that says the state");
        }
        for (key, wanted) in [
            ("supplies.expert", supplies.expert),
            ("supplies.answers", supplies.answers),
            ("supplies.tasks", supplies.tasks > 0),
        ] {
            if wanted {
                return refuse(key, "cannot be had from an OpenEnv server");
            }
        }
        Ok(())
    }

    /// What is sent for a text; none if the text stands for nothing.
    fn action(&self, text: &str) -> Option<Map<String, Value>> {
        let text = text.trim();
        let value = if self.names.is_empty() { json!(text) } else { self.names.get(text)?.clone() };
        let mut action = self.action.clone();
        action.insert(self.action_key.clone(), value);
        Some(action)
    }

    fn turn(&self, observation: &Map<String, Value>, terminal: bool) -> Result<Turn, String> {
        let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let field = |key: &str| {
            let there = || observation.keys().cloned().collect::<Vec<_>>().join(", ");
            observation.get(key).ok_or_else(|| format!("the observation has no key `{key}`; it has: {}", there()))
        };
        let observation_text = match self.observation_keys.as_slice() {
            [key] => shown(field(key)?),
            [] => observation.iter().map(|(key, value)| format!("{key}: {}\n", shown(value))).collect(),
            keys => keys
                .iter()
                .map(|key| Ok(format!("{key}: {}\n", shown(field(key)?))))
                .collect::<Result<String, String>>()?,
        };
        let state = if self.state_key.is_empty() { None } else { Some(shown(field(&self.state_key)?)) };
        let actions = if terminal { Vec::new() } else { self.names.keys().cloned().collect() };
        Ok(Turn { observation: observation_text.trim_end().to_owned(), state, actions })
    }
}
