//! Sessions with OpenEnv servers: an environment on a WebSocket, or on a server that it has for itself.

use std::collections::{BTreeMap, HashSet};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tungstenite::client::IntoClientRequest;
use tungstenite::http::{HeaderName, HeaderValue};
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Message, WebSocket};

use super::{OpenEnv, Transport};
use crate::outside::Phase;
use crate::outside::link::{Deadline, excerpt};
use crate::outside::settings::Limits;
use crate::{Demonstration, Environment, EnvironmentError, Outcome, Turn};

#[derive(Deserialize)]
struct Answer {
    observation: Map<String, Value>,
    reward: Option<f64>,
    #[serde(default)]
    done: bool,
}

struct Terms {
    headers: BTreeMap<String, String>,
    openenv: OpenEnv,
    /// What every reset says besides its seed.
    reset: Map<String, Value>,
    limits: Limits,
}

/// An environment that has a session with one of these servers.
pub(in crate::outside) fn build(
    urls: Vec<String>,
    headers: BTreeMap<String, String>,
    openenv: OpenEnv,
    reset: Map<String, Value>,
    limits: Limits,
) -> Result<Box<dyn Environment>, String> {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    static REACHED: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);
    // Once, to find a wrong address early: a server that is away for a while fails episodes and not the run.
    let mut reached = REACHED.lock().unwrap_or_else(PoisonError::into_inner);
    for url in urls.iter().filter(|url| !reached.contains(*url)).collect::<Vec<_>>() {
        dial(url, Duration::from_secs_f64(limits.start_seconds))?;
        reached.insert(url.clone());
    }
    drop(reached);
    let turn = Turn::default();
    let first = MADE.fetch_add(1, Ordering::Relaxed);
    let terms = Terms { headers, openenv, reset, limits };
    Ok(Box::new(Session { terms, urls, first, line: None, turn, phase: Phase::NotStarted }))
}

struct Session {
    terms: Terms,
    urls: Vec<String>,
    /// Where in `urls` it looks first for a server.
    first: usize,
    line: Option<Line>,
    turn: Turn,
    phase: Phase,
}

/// What a session's messages travel on.
enum Line {
    Websocket(Box<WebSocket<TcpStream>>),
    Http(Lease),
}

impl Session {
    fn connect(&self) -> Result<Line, String> {
        if self.terms.openenv.transport == Transport::Http {
            return Lease::of(&self.urls).map(Line::Http).ok_or_else(|| {
                format!(
                    "all {} servers of `urls` are in use: over HTTP each plays one episode at a time, so as many are \
                     needed as episodes are played at once, and one more",
                    self.urls.len()
                )
            });
        }
        let url = &self.urls[self.first % self.urls.len()];
        let limit = Duration::from_secs_f64(self.terms.limits.start_seconds);
        let stream = dial(url, limit)?;
        let refused = |error: String| format!("{url} opens no WebSocket: {error}");
        let mut request = format!("ws{}/ws", url.strip_prefix("http").unwrap_or(url).trim_end_matches('/'))
            .into_client_request()
            .map_err(|error| refused(error.to_string()))?;
        for (name, value) in &self.terms.headers {
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
                request.headers_mut().insert(name, value);
            }
        }
        let most = Some(self.terms.limits.max_message_bytes);
        let config = WebSocketConfig::default().max_message_size(most).max_frame_size(most);
        let timeouts = stream.set_read_timeout(Some(limit)).and_then(|()| stream.set_write_timeout(Some(limit)));
        timeouts.map_err(|error| refused(error.to_string()))?;
        let (socket, _) = tungstenite::client::client_with_config(request, stream, Some(config))
            .map_err(|error| refused(error.to_string()))?;
        Ok(Line::Websocket(Box::new(socket)))
    }

    fn begin(&mut self, seed: u64) -> Result<Turn, String> {
        let mut line = self.line.take().map_or_else(|| self.connect(), Ok)?;
        let mut data = self.terms.reset.clone();
        data.insert("seed".to_owned(), json!(seed));
        let answer = match &mut line {
            Line::Websocket(socket) => self.terms.talk(socket, "reset", &data)?,
            Line::Http(lease) => {
                let answer = self.terms.post(&lease.0, "reset", &data)?;
                self.terms.check_session(&lease.0)?;
                answer
            }
        };
        if answer.done {
            return Err("the episode is over before it begins".to_owned());
        }
        let turn = self.terms.openenv.turn(&answer.observation, false)?;
        self.line = Some(line);
        Ok(turn)
    }

    fn play(&mut self, action: Map<String, Value>) -> Result<Outcome, String> {
        let mut line = self.line.take().ok_or("there is no session")?;
        let Answer { observation, reward, done } = match &mut line {
            Line::Websocket(socket) => self.terms.talk(socket, "step", &action)?,
            Line::Http(lease) => {
                let body = Map::from_iter([("action".to_owned(), Value::Object(action))]);
                self.terms.post(&lease.0, "step", &body)?
            }
        };
        let reward = match reward {
            Some(reward) => reward as f32,
            None if self.terms.openenv.null_reward_is_zero => 0.0,
            None => return Err("`reward` is null; `openenv.null_reward_is_zero` would take that as 0".to_owned()),
        };
        if !reward.is_finite() {
            return Err("`reward` is no finite number of 32 bits".to_owned());
        }
        let turn = self.terms.openenv.turn(&observation, done)?;
        // A server that holds one session is free for others once its episode is over.
        if !done || matches!(line, Line::Websocket(_)) {
            self.line = Some(line);
        }
        Ok(Outcome {
            reward,
            terminal: done,
            success: done && f64::from(reward) >= self.terms.openenv.success_reward,
            valid_action: true,
            feedback: String::new(),
            turn,
        })
    }
}

impl Terms {
    /// Sends a message over a WebSocket and waits for what comes back.
    fn talk(&self, socket: &mut WebSocket<TcpStream>, kind: &str, data: &Map<String, Value>) -> Result<Answer, String> {
        #[derive(Deserialize)]
        struct Envelope {
            r#type: String,
            data: Value,
        }
        let deadline = Deadline::in_seconds(self.limits.answer_seconds);
        let broken = |error: &dyn std::fmt::Display| format!("the WebSocket broke: {error}");
        let message = json!({ "type": kind, "data": data }).to_string();
        socket.send(Message::text(message)).map_err(|error| broken(&error))?;
        let text = loop {
            let left = deadline.left();
            if left.is_zero() {
                return Err(deadline.late("it"));
            }
            socket.get_ref().set_read_timeout(Some(left)).map_err(|error| broken(&error))?;
            match socket.read() {
                Ok(Message::Text(text)) => break text,
                Ok(Message::Close(frame)) => {
                    return Err(broken(&frame.map_or_else(|| "it was closed".to_owned(), |frame| frame.to_string())));
                }
                Ok(_) => {}
                Err(tungstenite::Error::Io(error))
                    if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) =>
                {
                    return Err(deadline.late("it"));
                }
                Err(error) => return Err(broken(&error)),
            }
        };
        let answer: Envelope = parse(text.as_bytes())?;
        match answer.r#type.as_str() {
            "observation" => serde_path_to_error::deserialize(answer.data)
                .map_err(|error| format!("the answer to `{kind}`: `{}`: {}", error.path(), error.inner())),
            "error" => Err(format!("the server refuses `{kind}`: {}", answer.data)),
            other => Err(format!("the answer to `{kind}` is of the type `{other}`, and `observation` was expected")),
        }
    }

    fn post(&self, url: &str, path: &str, body: &Map<String, Value>) -> Result<Answer, String> {
        let text = Value::Object(body.clone()).to_string();
        self.ask(url, path, Some(text))
    }

    /// Refuses a server that forgets the session between two requests.
    fn check_session(&self, url: &str) -> Result<(), String> {
        #[derive(Deserialize)]
        struct State {
            episode_id: Option<String>,
        }
        let first: State = self.ask(url, "state", None)?;
        let second: State = self.ask(url, "state", None)?;
        if first.episode_id.is_some() && first.episode_id == second.episode_id {
            return Ok(());
        }
        Err(format!(
            "{url} keeps no session between two requests of HTTP: its state names another episode each time; use \
             `openenv.transport = \"websocket\"`"
        ))
    }

    fn ask<T: serde::de::DeserializeOwned>(&self, url: &str, path: &str, body: Option<String>) -> Result<T, String> {
        let address = format!("{}/{path}", url.trim_end_matches('/'));
        let bytes = crate::outside::http::ask(
            &address,
            &self.headers,
            body,
            Deadline::in_seconds(self.limits.answer_seconds),
            self.limits.max_message_bytes,
        )?;
        parse(&bytes).map_err(|error| format!("{address}: {error}"))
    }
}

fn parse<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        format!(
            "the answer is not what was expected: `{}`: {}; it is `{}`",
            error.path(),
            error.inner(),
            excerpt(bytes)
        )
    })
}

/// Connects to the server of an address.
fn dial(url: &str, limit: Duration) -> Result<TcpStream, String> {
    let uri: ureq::http::Uri = url.parse().map_err(|error| format!("`{url}` is no address: {error}"))?;
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let refused = |error: std::io::Error| format!("{url} cannot be reached: {error}");
    let mut last = std::io::Error::other("its name has no address");
    for address in (host, uri.port_u16().unwrap_or(80)).to_socket_addrs().map_err(refused)? {
        match TcpStream::connect_timeout(&address, limit) {
            Ok(stream) => {
                // Messages are small, and each is waited for.
                stream.set_nodelay(true).map_err(refused)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(refused(last))
}

/// The servers that are in use.
static LEASED: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);

/// A server that nobody else uses.
struct Lease(String);

impl Lease {
    fn of(urls: &[String]) -> Option<Self> {
        let mut leased = LEASED.lock().unwrap_or_else(PoisonError::into_inner);
        urls.iter().find(|url| leased.insert((*url).clone())).map(|url| Self(url.clone()))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        LEASED.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

impl Environment for Session {
    fn instructions(&self) -> String {
        self.terms.openenv.instructions.clone()
    }

    fn reset(&mut self, seed: u64) -> Result<Turn, EnvironmentError> {
        self.phase = Phase::NotStarted;
        self.turn = self.begin(seed).map_err(EnvironmentError::Failed)?;
        self.phase = Phase::Playing;
        Ok(self.turn.clone())
    }

    fn step(&mut self, action: Option<&str>, _response: &str) -> Result<Outcome, EnvironmentError> {
        match self.phase {
            Phase::NotStarted => return Err(EnvironmentError::NotStarted),
            Phase::Over => return Err(EnvironmentError::EpisodeOver),
            Phase::Playing => {}
        }
        let Some(sent) = action.and_then(|text| self.terms.openenv.action(text)) else {
            let names: Vec<&str> = self.terms.openenv.names.keys().map(String::as_str).collect();
            let feedback = if names.is_empty() {
                "No action.".to_owned()
            } else {
                format!("Not a valid action: the actions are {}.", names.join(", "))
            };
            return Ok(Outcome { feedback, turn: self.turn.clone(), ..Outcome::default() });
        };
        // After a failure the session is not known, so it is dropped and the episode not played on.
        self.phase = Phase::NotStarted;
        let outcome = self.play(sent).map_err(EnvironmentError::Failed)?;
        self.phase = if outcome.terminal { Phase::Over } else { Phase::Playing };
        self.turn.clone_from(&outcome.turn);
        Ok(outcome)
    }

    fn expert(&mut self) -> Option<Demonstration> {
        None
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(Line::Websocket(socket)) = &mut self.line {
            // A server that is gone needs no farewell.
            let _ = socket.send(Message::text(json!({ "type": "close" }).to_string()));
            let _ = socket.close(None);
        }
    }
}
