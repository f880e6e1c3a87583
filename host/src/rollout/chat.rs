//! Chat templates, as Hugging Face renders them.

use std::path::{Path, PathBuf};

use minijinja::{Environment, Error, ErrorKind, Value, context, syntax::SyntaxConfig};
use serde_json::Value as Json;
use thiserror::Error;

use super::tokenizer::Piece;

/// File of a model folder that holds its chat template.
pub const CHAT_TEMPLATE_FILE: &str = "chat_template.jinja";

/// ChatML, the format of the Qwen family, with nothing added: the template of tokenizers made here.
pub const CHATML: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/// A chat template that does not work.
#[derive(Debug, Error)]
pub enum ChatError {
    /// The folder has none.
    #[error(
        "{}: there is no chat template: neither {CHAT_TEMPLATE_FILE} nor `chat_template` in tokenizer_config.json. \
         Take an instruct model, or put a template there",
        folder.display()
    )]
    Missing {
        /// The model folder.
        folder: PathBuf,
    },
    /// It cannot be parsed or rendered.
    #[error("chat template: {0}")]
    Template(String),
    /// It does not render what it is given.
    #[error("chat template: it changes or leaves out the text of a message")]
    Content,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// Instructions.
    System,
    /// The environment.
    User,
    /// The policy.
    Assistant,
}

impl Speaker {
    fn role(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// A compiled chat template.
pub struct ChatTemplate {
    environment: Environment<'static>,
    tokens: Json,
}

impl ChatTemplate {
    /// The template of tokenizers made here.
    pub fn chatml() -> Result<Self, ChatError> {
        Self::compile(CHATML.to_owned(), Json::Null)
    }

    /// Finds the template of a model folder: its own file, or the one in its tokenizer's configuration (a text, or a
    /// list of named ones of which `default` is taken).
    pub fn load(folder: &Path, tokenizer_config: &Json) -> Result<Self, ChatError> {
        let named = |list: &[Json]| {
            list.iter()
                .find(|entry| entry["name"] == "default")
                .and_then(|entry| entry["template"].as_str().map(str::to_owned))
        };
        let source = match std::fs::read_to_string(folder.join(CHAT_TEMPLATE_FILE)) {
            Ok(text) => Some(text),
            Err(_) => match &tokenizer_config["chat_template"] {
                Json::String(text) => Some(text.clone()),
                Json::Array(list) => named(list),
                _ => None,
            },
        };
        let source = source.ok_or_else(|| ChatError::Missing { folder: folder.to_owned() })?;
        let token = |name: &str| {
            let token = &tokenizer_config[name];
            token.as_str().or(token["content"].as_str()).unwrap_or("").to_owned()
        };
        let tokens = serde_json::json!({ "bos_token": token("bos_token"), "eos_token": token("eos_token") });
        Self::compile(source, tokens)
    }

    fn compile(source: String, tokens: Json) -> Result<Self, ChatError> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| ChatError::Template(error.to_string()))?);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message))
        });
        environment.add_filter("tojson", |value: Value| -> Result<Value, Error> {
            let json = serde_json::to_value(&value)
                .map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))?;
            Ok(Value::from_safe_string(python_json(&json)))
        });
        environment.add_template_owned("chat", source).map_err(|error| ChatError::Template(error.to_string()))?;
        Ok(Self { environment, tokens })
    }

    fn render(&self, messages: &[(Speaker, &str)], generation: bool) -> Result<String, ChatError> {
        let messages: Vec<Value> = messages
            .iter()
            .map(|(speaker, content)| context! { role => speaker.role(), content => *content })
            .collect();
        let template = |error: Error| ChatError::Template(error.to_string());
        let compiled = self.environment.get_template("chat").map_err(template)?;
        compiled
            .render(context! {
                messages => messages,
                add_generation_prompt => generation,
                bos_token => self.tokens["bos_token"].as_str(),
                eos_token => self.tokens["eos_token"].as_str(),
            })
            .map_err(template)
    }

    /// Text around the contents of a conversation that the policy answers next: `n + 1` texts for `n` messages.
    fn frame(&self, speakers: &[Speaker]) -> Result<Vec<String>, ChatError> {
        // Contents that no template contains and that none changes: letters and digits alone.
        let markers: Vec<String> = (0..speakers.len()).map(|i| format!("accredit0{i}0content")).collect();
        let messages: Vec<(Speaker, &str)> = speakers.iter().copied().zip(markers.iter().map(String::as_str)).collect();
        let rendered = self.render(&messages, true)?;
        let mut rest = rendered.as_str();
        let mut frame = Vec::with_capacity(markers.len() + 1);
        for marker in &markers {
            let (before, after) = rest.split_once(marker.as_str()).ok_or(ChatError::Content)?;
            frame.push(before.to_owned());
            rest = after;
        }
        frame.push(rest.to_owned());
        Ok(frame)
    }

    /// The frames of prompts that the rollout needs.
    pub fn frames(&self) -> Result<Frames, ChatError> {
        use Speaker::{Assistant, System, User};
        let with_system = self.frame(&[System, User]);
        let turn = self.frame(&[User, Assistant, User])?;
        Ok(Frames { first: self.frame(&[User])?, with_system, next: [turn[2].clone(), turn[3].clone()] })
    }
}

/// Template text around messages, computed once.
#[derive(Debug)]
pub struct Frames {
    first: Vec<String>,
    with_system: Result<Vec<String>, ChatError>,
    next: [String; 2],
}

impl Frames {
    /// A prompt of one user turn, with a system message before it if there is one.
    pub fn prompt<'a>(&'a self, system: Option<&'a str>, user: &'a str) -> Result<Vec<Piece<'a>>, ChatError> {
        match system {
            None => Ok(vec![Piece::Template(&self.first[0]), Piece::Content(user), Piece::Template(&self.first[1])]),
            Some(system) => {
                let frame = self.with_system.as_ref().map_err(|error| ChatError::Template(error.to_string()))?;
                Ok(vec![
                    Piece::Template(&frame[0]),
                    Piece::Content(system),
                    Piece::Template(&frame[1]),
                    Piece::Content(user),
                    Piece::Template(&frame[2]),
                ])
            }
        }
    }

    /// What stands between two responses: the end of the first, the user's next turn, the beginning of the second.
    /// `ended` is the text of the token that ended the first response, if one did: it is not repeated.
    pub fn next<'a>(&'a self, ended: Option<&str>, user: &'a str) -> Vec<Piece<'a>> {
        let between = ended.and_then(|end| self.next[0].strip_prefix(end)).unwrap_or(&self.next[0]);
        vec![Piece::Template(between), Piece::Content(user), Piece::Template(&self.next[1])]
    }
}

/// JSON as Python's `json.dumps(value, ensure_ascii=False)` writes it: `, ` and `: ` between elements.
fn python_json(value: &Json) -> String {
    match value {
        Json::Array(list) => format!("[{}]", list.iter().map(python_json).collect::<Vec<_>>().join(", ")),
        Json::Object(map) => {
            let pairs = map.iter().map(|(key, value)| format!("{}: {}", Json::String(key.clone()), python_json(value)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(pieces: &[Piece<'_>]) -> String {
        pieces
            .iter()
            .map(|piece| match piece {
                Piece::Template(text) | Piece::Content(text) => *text,
            })
            .collect()
    }

    /// Qwen2.5's layout, with its default system message.
    const QWEN: &str = "{%- if messages[0]['role'] == 'system' %}\n    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}\n{%- else %}\n    {{- '<|im_start|>system\\nBe helpful.<|im_end|>\\n' }}\n{%- endif %}\n{%- for message in messages %}\n    {%- if (message.role == \"user\") or (message.role == \"system\" and not loop.first) or (message.role == \"assistant\") %}\n        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}\n    {%- endif %}\n{%- endfor %}\n{%- if add_generation_prompt %}\n    {{- '<|im_start|>assistant\\n' }}\n{%- endif %}\n";

    #[test]
    fn prompts_and_turns_are_framed_as_the_template_says() {
        let template = ChatTemplate::compile(QWEN.to_owned(), Json::Null).unwrap();
        let frames = template.frames().unwrap();
        assert_eq!(
            text(&frames.prompt(None, "hi").unwrap()),
            "<|im_start|>system\nBe helpful.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
        );
        assert_eq!(
            text(&frames.prompt(Some("Act."), "hi").unwrap()),
            "<|im_start|>system\nAct.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
        );
        assert_eq!(
            text(&frames.next(Some("<|im_end|>"), "more")),
            "\n<|im_start|>user\nmore<|im_end|>\n<|im_start|>assistant\n"
        );
        assert!(text(&frames.next(None, "more")).starts_with("<|im_end|>\n<|im_start|>user"));
    }

    #[test]
    fn a_template_that_refuses_says_why() {
        let refusing = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}";
        let frames = ChatTemplate::compile(refusing.to_owned(), Json::Null).unwrap().frames().unwrap();
        assert!(frames.prompt(None, "x").is_ok());
        let error = frames.prompt(Some("s"), "x").unwrap_err().to_string();
        assert!(error.contains("no system role"), "{error}");
    }

    #[test]
    fn json_is_written_as_python_writes_it() {
        let json = serde_json::json!({"b": [1, 2.5, "é\""], "a": null});
        assert_eq!(python_json(&json), r#"{"b": [1, 2.5, "é\""], "a": null}"#);
    }
}
