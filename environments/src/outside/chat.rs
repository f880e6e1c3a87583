//! A model behind a server with OpenAI's chat completions: one request for each question, and its text.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use ureq::http::HeaderValue;

use super::http::{ask, check_url};
use super::judge::JudgeError;
use super::link::{Deadline, excerpt};
use super::settings::Limits;

/// Keys of a request that are set here.
const TAKEN: [&str; 4] = ["model", "messages", "stream", "n"];

pub(super) struct Chat {
    url: String,
    headers: BTreeMap<String, String>,
    /// A request without its messages.
    request: Map<String, Value>,
    limits: Limits,
}

#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    content: Option<String>,
}

impl Chat {
    pub(super) fn new(
        url: String,
        model: String,
        key: Option<String>,
        settings: Map<String, Value>,
        limits: Limits,
    ) -> Result<Self, JudgeError> {
        check_url(&url, "http://127.0.0.1:8000/v1/chat/completions")
            .map_err(|message| JudgeError::of("url", message + "; put a tunnel in front of a server with https"))?;
        if let Some(taken) = TAKEN.into_iter().find(|taken| settings.contains_key(*taken)) {
            return Err(JudgeError::of("settings", format!("`{taken}` is not for the settings: it is set already")));
        }
        let mut headers = BTreeMap::new();
        if let Some(key) = key {
            let header = format!("Bearer {}", key.trim());
            // The error must not show the key.
            if HeaderValue::try_from(&header).is_err() {
                return Err(JudgeError::of("key_env", "the variable's value cannot stand in a header of HTTP"));
            }
            headers.insert("authorization".to_owned(), header);
        }
        let mut request = settings;
        request.insert("model".to_owned(), Value::String(model));
        Ok(Self { url, headers, request, limits })
    }

    /// What the model says to a prompt.
    pub(super) fn ask(&self, prompt: &str) -> Result<String, String> {
        let mut request = self.request.clone();
        request.insert("messages".to_owned(), json!([{ "role": "user", "content": prompt }]));
        let deadline = Deadline::in_seconds(self.limits.answer_seconds);
        let limit = self.limits.max_message_bytes;
        let answer = ask(&self.url, &self.headers, Some(Value::Object(request).to_string()), deadline, limit)?;
        said(&answer).map_err(|error| format!("{} answered with {error}", self.url))
    }
}

/// The text of an answer. One without any is a failure: a model that ran out of tokens while it reasoned says nothing.
fn said(answer: &[u8]) -> Result<String, String> {
    let completion: Completion = serde_json::from_slice(answer)
        .map_err(|error| format!("what is no chat completion: {error}; it wrote `{}`", excerpt(answer)))?;
    let choice = completion.choices.into_iter().next().ok_or("a chat completion without `choices`")?;
    match choice.message.content {
        Some(text) if !text.trim().is_empty() => Ok(text),
        _ => {
            let reason = choice.finish_reason.map(|reason| format!(" (`finish_reason` is `{reason}`)"));
            Err(format!("a chat completion without text{}", reason.unwrap_or_default()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_is_its_first_text_and_all_else_is_an_error() {
        let good =
            br#"{"id": "x", "choices": [{"index": 0, "message": {"role": "assistant", "content": " Well done. "}}]}"#;
        assert_eq!(said(good).unwrap(), " Well done. ");
        for (answer, expected) in [
            ("<html>", "what is no chat completion: expected value at line 1 column 1; it wrote `<html>`"),
            (r#"{"choices": []}"#, "a chat completion without `choices`"),
            (
                r#"{"choices": [{"message": {"content": null}, "finish_reason": "length"}]}"#,
                "`finish_reason` is `length`",
            ),
            (r#"{"choices": [{"message": {"content": " "}}]}"#, "a chat completion without text"),
            (r#"{"error": {"message": "no such model"}}"#, "missing field `choices`"),
        ] {
            let error = said(answer.as_bytes()).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
