//! Environments that others play, with servers that misbehave (`server.py`) and with real ones.

mod http;
mod judge;
mod openenv;
mod process;
mod real;

use std::path::PathBuf;

use accredit_environments::{Environment, Pool, Request, make};
use serde_json::{Value, json};

/// A file beside the tests of this module.
fn file(name: &str) -> String {
    folder("tests/it/outside").join(name).to_string_lossy().into_owned()
}

/// A folder of this crate.
fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Settings, and others on top of them.
fn with(settings: &Value, more: &Value) -> Value {
    let mut settings = settings.clone();
    for (key, value) in more.as_object().unwrap() {
        settings[key] = value.clone();
    }
    settings
}

/// Settings of a process that runs `server.py`. `tag` keeps the processes of one test from those of another.
fn server(tag: &str, more: &Value) -> Value {
    with(&json!({ "command": ["python3", file("server.py")], "settings": { "tag": tag } }), more)
}

fn environment(name: &str, settings: &Value) -> Box<dyn Environment> {
    make(name, settings.as_object().unwrap()).unwrap()
}

fn refused(name: &str, settings: &Value) -> (String, String) {
    let error = make(name, settings.as_object().unwrap()).err().unwrap();
    (error.key().unwrap_or_default().to_owned(), error.to_string())
}

fn pool(name: &str, settings: &Value, environments: usize, threads: usize) -> Pool {
    Pool::new((0..environments).map(|_| environment(name, settings)).collect(), threads).unwrap()
}

fn request(index: usize, action: &str) -> Request {
    Request { index, action: Some(action.to_owned()), response: format!("r{index}") }
}

/// Plays an action and gives its feedback.
fn feedback(environment: &mut dyn Environment, action: &str) -> String {
    environment.step(Some(action), "").unwrap().feedback
}

fn failure(environment: &mut dyn Environment, action: &str) -> String {
    environment.step(Some(action), "").unwrap_err().to_string()
}
