//! `http`: an environment behind a server.
//!
//! With `protocol = "accredit"` a message is the body of a POST to the url and its answers are the body that comes back, in
//! the lines of `PROTOCOL.md`; `python -m accredit_env NAME --http PORT` is such a server. A worker sends one message at a
//! time; more `workers` than `urls` are more messages at once. With `protocol = "openenv"` it is a server of OpenEnv, see
//! `openenv.rs`. Addresses are plain `http://`, and no proxy is used; put a tunnel in front of a server far away.
//!
//! ```toml
//! [environment]
//! name = "http"
//! urls = ["http://127.0.0.1:8765"]
//! threads = 64
//! ```

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::sync::LazyLock;

use crossbeam::channel::Receiver;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use ureq::Agent;
use ureq::http::{HeaderName, HeaderValue, Uri};

use super::Outside;
use super::link::{Connect, Deadline, Line, Link, excerpt, read_line, too_long};
use super::openenv::{self, OpenEnv};
use super::settings::{Limits, Supplies, check_workers};
use super::workers::{Plan, Workers};
use crate::{Environment, EnvironmentError, Traits, registry};

/// The settings of `http`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_field_names, reason = "the server has settings too")]
pub(crate) struct Settings {
    /// The addresses of servers, each with the same environment. They begin with `http://`.
    urls: Vec<String>,
    /// Headers that every request has, such as `authorization`.
    headers: BTreeMap<String, String>,
    /// What the servers speak.
    protocol: Protocol,
    /// How an OpenEnv server is asked and read; of no effect with `protocol = "accredit"`.
    openenv: OpenEnv,
    /// How many messages are under way at once; 0 is one for each of `urls`. Not for OpenEnv, where each environment has a
    /// session of its own.
    workers: usize,
    /// Handed to the server as they are: in `hello`, or with every reset of an OpenEnv server.
    settings: Map<String, Value>,
    /// What the server is asked for beside observations and rewards.
    supplies: Supplies,
    /// Times, sizes and tries.
    limits: Limits,
}

/// What servers speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Protocol {
    /// `environments/PROTOCOL.md`.
    Accredit,
    /// OpenEnv's sessions.
    Openenv,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            urls: Vec::new(),
            headers: BTreeMap::new(),
            protocol: Protocol::Accredit,
            openenv: OpenEnv::default(),
            workers: 0,
            settings: Map::new(),
            supplies: Supplies::default(),
            limits: Limits::default(),
        }
    }
}

impl registry::Settings for Settings {
    const NAME: &'static str = "http";
    const SUMMARY: &'static str = "What a server plays, over HTTP or OpenEnv's protocol.";

    fn check(&self) -> Result<(), EnvironmentError> {
        if self.urls.is_empty() {
            return Err(Self::misfit("urls", "must name a server, such as [\"http://127.0.0.1:8765\"]"));
        }
        for (index, url) in self.urls.iter().enumerate() {
            check_url(url, "http://127.0.0.1:8765")
                .map_err(|message| Self::misfit(&format!("urls[{index}]"), message))?;
        }
        for (name, value) in &self.headers {
            if HeaderName::try_from(name).is_err() || HeaderValue::try_from(value).is_err() {
                let message = "is no header of HTTP: a name of letters and dashes, a value without control characters";
                return Err(Self::misfit(&format!("headers.{name}"), message));
            }
        }
        if self.protocol == Protocol::Openenv {
            self.openenv.check(&self.supplies).map_err(|(key, message)| Self::misfit(key, message))?;
            if self.workers > 0 {
                let message = "an OpenEnv server has a session for each environment, so this must be 0";
                return Err(Self::misfit("workers", message));
            }
        } else if self.workers > 0 && self.workers < self.urls.len() {
            let message = format!("is {}, so {} of `urls` would be idle", self.workers, self.urls.len() - self.workers);
            return Err(Self::misfit("workers", message));
        }
        check_workers(self.workers.max(1))
            .and_then(|()| self.limits.check())
            .map_err(|(key, message)| Self::misfit(key, message))
    }

    fn traits(&self) -> Traits {
        self.supplies.traits()
    }

    fn build(self) -> Result<Box<dyn Environment>, EnvironmentError> {
        if self.protocol == Protocol::Openenv {
            return openenv::build(self.urls, self.headers, self.openenv, self.settings, self.limits)
                .map_err(|message| Self::misfit("urls", message));
        }
        let connect =
            Servers { urls: self.urls.clone(), headers: self.headers.clone(), limit: self.limits.max_message_bytes };
        let workers = Workers::of(Plan {
            settings: format!("http {}", serde_json::to_string(&self).expect("settings came from JSON")),
            count: self.workers.max(self.urls.len()),
            connect: Box::new(connect),
            server_settings: &self.settings,
            supplies: &self.supplies,
            limits: &self.limits,
        })
        .map_err(|error| Self::misfit(error.key.unwrap_or("urls"), error.message))?;
        Ok(Outside::boxed(workers, self.supplies))
    }
}

/// Refuses what is no address of plain HTTP.
pub(super) fn check_url(url: &str, example: &str) -> Result<(), String> {
    let shown = url.escape_debug();
    match url.parse::<Uri>() {
        Ok(uri) if uri.host().is_none() => Err(format!("`{shown}` is no address such as {example}")),
        Ok(uri) if uri.scheme_str() == Some("http") => Ok(()),
        Ok(uri) if uri.scheme_str() == Some("https") => Err(format!(
            "`{shown}` is not spoken to: only http is; put a tunnel in front of it, with an address such as {example}"
        )),
        _ => Err(format!("`{shown}` is no address such as {example}")),
    }
}

/// Connects to servers.
struct Servers {
    urls: Vec<String>,
    headers: BTreeMap<String, String>,
    limit: usize,
}

impl Connect for Servers {
    fn connect(&self, worker: usize) -> Result<Box<dyn Link>, String> {
        Ok(Box::new(HttpLink {
            url: self.urls[worker % self.urls.len()].clone(),
            headers: self.headers.clone(),
            limit: self.limit,
            body: None,
        }))
    }
}

/// Connections that are used again.
static AGENT: LazyLock<Agent> = LazyLock::new(|| {
    let config = Agent::config_builder().proxy(None).http_status_as_error(false).max_redirects(0);
    // As many as there may be workers.
    config.max_idle_connections(1024).max_idle_connections_per_host(1024).build().new_agent()
});

/// Sends a request, a POST if it has a body, and gives what is to be read of its answer.
fn send(
    url: &str,
    headers: &BTreeMap<String, String>,
    body: Option<String>,
    deadline: Deadline,
) -> Result<ureq::BodyReader<'static>, String> {
    let failed = |error: ureq::Error| match error {
        ureq::Error::Timeout(_) => deadline.late(url),
        error => format!("{url} cannot be asked: {error}"),
    };
    let mut request = ureq::http::Request::builder().method(if body.is_some() { "POST" } else { "GET" }).uri(url);
    if body.is_some() {
        request = request.header("content-type", "application/json");
    }
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let asked = request.body(body.unwrap_or_default()).map_err(ureq::Error::from);
    let response = asked.and_then(|request| {
        let request = AGENT.configure_request(request).timeout_global(Some(deadline.left())).build();
        AGENT.run(request)
    });
    let response = response.map_err(failed)?;
    let status = response.status();
    let body = response.into_body().into_reader();
    if status.is_success() {
        return Ok(body);
    }
    let mut text = Vec::new();
    // The status says enough where the text cannot be read.
    let _ = body.take(2000).read_to_end(&mut text);
    Err(format!("{url} answered with status {status}: {}", excerpt(&text)))
}

/// Sends a request and reads all of its answer, at most `limit` bytes.
pub(super) fn ask(
    url: &str,
    headers: &BTreeMap<String, String>,
    body: Option<String>,
    deadline: Deadline,
    limit: usize,
) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = send(url, headers, body, deadline)?.take(limit as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("the answer of {url} cannot be read: {error}"))?;
    if bytes.len() > limit {
        return Err(format!("{url} answered with more than {limit} bytes (`limits.max_message_bytes`)"));
    }
    Ok(bytes)
}

struct HttpLink {
    url: String,
    headers: BTreeMap<String, String>,
    limit: usize,
    /// What is not read yet of the answer to the last message.
    body: Option<BufReader<ureq::BodyReader<'static>>>,
}

impl Link for HttpLink {
    fn send(&mut self, line: String, deadline: Deadline) -> Result<(), String> {
        if let Some(mut rest) = self.body.take()
            && rest.fill_buf().is_ok_and(|rest| !rest.is_empty())
        {
            return Err(format!("{} wrote more than it was asked for", self.url));
        }
        self.body = Some(BufReader::new(send(&self.url, &self.headers, Some(line), deadline)?));
        Ok(())
    }

    fn receive(&mut self, _deadline: Deadline, _stop: &Receiver<()>) -> Result<Vec<u8>, String> {
        let line = match &mut self.body {
            Some(body) => read_line(body, self.limit),
            None => Ok(Line::End(Vec::new())),
        };
        match line {
            Ok(Line::Whole(line)) => Ok(line),
            // A body has a length, so its last line needs no end.
            Ok(Line::End(rest)) if !rest.is_empty() => Ok(rest),
            Ok(Line::TooLong) => Err(format!("{}: {}", self.url, too_long(self.limit))),
            Ok(Line::End(_)) => Err(format!("{} gave fewer answers than were asked for", self.url)),
            Err(error) => Err(format!("the answer of {} cannot be read: {error}", self.url)),
        }
    }

    fn post_mortem(&mut self) -> String {
        String::new()
    }

    fn end(&mut self) {}

    fn is_own(&self) -> bool {
        false
    }
}
