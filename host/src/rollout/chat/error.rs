//! What can be wrong with a chat template, said in one line.

use std::path::PathBuf;

use minijinja::ErrorKind;
use thiserror::Error;

use super::{CHAT_TEMPLATE_FILE, Speaker};

/// A chat template that does not work.
#[derive(Debug, Error)]
pub enum ChatError {
    /// The folder has none.
    #[error(
        "{}: there is no chat template: neither {CHAT_TEMPLATE_FILE} nor `chat_template` in tokenizer_config.json{named}. \
         Take an instruct model, or put a template there",
        folder.display()
    )]
    Missing {
        /// The model folder.
        folder: PathBuf,
        /// What the list of named templates has in place of `default`, as words.
        named: String,
    },
    /// Its file cannot be read.
    #[error("{}: {message}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// It cannot be parsed or rendered.
    #[error("chat template {place}: {message}")]
    Template {
        /// File and line.
        place: String,
        /// What is wrong there.
        message: String,
    },
    /// It does not render what it is given.
    #[error("chat template {origin}: it {what} what a message of the role `{}` says", speaker.role())]
    Content {
        /// Where it is from.
        origin: String,
        /// What it does with the text.
        what: &'static str,
        /// Whose text.
        speaker: Speaker,
    },
    /// A setting that would have no effect.
    #[error(
        "`rollout.chat_template_kwargs.{key}`: the chat template {origin} does not read `{key}`; what it reads: {known}"
    )]
    Unread {
        /// The key.
        key: String,
        /// Where the template is from.
        origin: String,
        /// What can be set.
        known: String,
    },
    /// A setting of what the program sets.
    #[error("`rollout.chat_template_kwargs.{key}`: the rollout itself sets `{key}`; leave it out")]
    Ours {
        /// The key.
        key: String,
    },
}

/// What went wrong, in one line.
pub(super) fn problem(origin: &str, error: &minijinja::Error) -> ChatError {
    let place = error.line().map_or_else(|| origin.to_owned(), |line| format!("{origin}:{line}"));
    let mut message = match error.kind() {
        ErrorKind::OutOfFuel => "it takes too many steps; look for a loop that does not end".to_owned(),
        kind => error.detail().map_or_else(|| kind.to_string(), |detail| format!("{kind}: {detail}")),
    };
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        message.push_str(&format!(": {inner}"));
        source = inner.source();
    }
    ChatError::Template { place, message: message.split_whitespace().collect::<Vec<_>>().join(" ") }
}
