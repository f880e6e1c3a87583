//! Chat templates, as `transformers` renders them (`apply_chat_template` with `tokenize=False`).
//!
//! A prompt is one rendering of what the template is given: the system text, if there is one, the user's turn, and the
//! start of the response. A growing conversation is never rendered or tokenised again: the prompt and the responses of
//! earlier steps stay the ids that they were, and after the last response comes what the template puts between it and
//! the next one when it renders that many turns. So a conversation equals the template's own rendering of it but for what
//! that would change in the past: thinking stays where a template drops it (Qwen3, DeepSeek-R1), with the empty thinking
//! that `enable_thinking = false` begins a response with; blanks around a response stay where a template trims them; and
//! a text that a template adds to the last turn alone stays in every turn that was the last.
//!
//! A special token that a system text or an observation spells is no special token: see [`Piece`].

use std::{collections::BTreeSet, path::Path};

use jiff::ZonedDateTime;
use minijinja::{Environment, Value, context, value::Serde};
use serde_json::{Map, Value as Json};

mod error;
mod json;
mod language;
#[cfg(test)]
mod recorded;

pub use error::ChatError;
use error::problem;

/// File of a model folder that holds its chat template.
pub const CHAT_TEMPLATE_FILE: &str = "chat_template.jinja";

/// ChatML, the format of the Qwen family, with nothing added: the template of tokenizers made here.
pub const CHATML: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/// Variables of the program, which no setting replaces.
const OURS: [&str; 2] = ["messages", "add_generation_prompt"];

/// Keys of a tokenizer's configuration that a template finds as variables, where they are set.
const TOKENS: [&str; 7] = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

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

/// A piece of a rendered conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text in which special tokens are such.
    Template(String),
    /// What a message says that spells a special token, and is text.
    Content(String),
}

/// What a template is given of a conversation in which the policy speaks next.
#[derive(Clone, Copy, Debug)]
pub struct Conversation<'a> {
    /// The system text.
    pub system: Option<&'a str>,
    /// The user's turn that is answered next.
    pub user: &'a str,
    /// More variables of the template.
    pub kwargs: &'a Map<String, Json>,
    /// Texts of special tokens.
    pub specials: &'a [String],
}

/// A compiled chat template.
pub struct ChatTemplate {
    environment: Environment<'static>,
    tokens: Map<String, Json>,
    source: String,
    origin: String,
}

impl ChatTemplate {
    /// The template of tokenizers made here.
    pub fn chatml() -> Result<Self, ChatError> {
        Self::compile(CHATML.to_owned(), Map::new(), "ChatML".to_owned(), ZonedDateTime::now())
    }

    /// Finds the template of a model folder: its own file, or the one in its tokenizer's configuration (a text, or a
    /// list of named ones of which `default` is taken). A template that asks for the time is told that of loading, so
    /// that a run's prompts are alike.
    pub fn load(folder: &Path, tokenizer_config: &Json) -> Result<Self, ChatError> {
        let path = folder.join(CHAT_TEMPLATE_FILE);
        let missing = |named: String| ChatError::Missing { folder: folder.to_owned(), named };
        let (source, origin) = match std::fs::read_to_string(&path) {
            Ok(text) => (text, path.display().to_string()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let text = match &tokenizer_config["chat_template"] {
                    Json::String(text) => text.clone(),
                    Json::Array(list) => named(list, "default").ok_or_else(|| {
                        let names: Vec<_> = list.iter().filter_map(|entry| entry["name"].as_str()).collect();
                        missing(format!(" (a list without `default`: {})", names.join(", ")))
                    })?,
                    _ => return Err(missing(String::new())),
                };
                (text, format!("{} (`chat_template`)", folder.join("tokenizer_config.json").display()))
            }
            Err(error) => return Err(ChatError::File { path, message: error.to_string() }),
        };
        let token = |name: &str| {
            let token = &tokenizer_config[name];
            let text = token.as_str().or(token["content"].as_str())?;
            Some((name.to_owned(), Json::from(text)))
        };
        Self::compile(source, TOKENS.into_iter().filter_map(token).collect(), origin, ZonedDateTime::now())
    }

    fn compile(
        source: String,
        tokens: Map<String, Json>,
        origin: String,
        now: ZonedDateTime,
    ) -> Result<Self, ChatError> {
        match language::compile(&source, now) {
            Ok(environment) => Ok(Self { environment, tokens, source, origin }),
            Err(error) => Err(problem(&origin, &error)),
        }
    }

    /// Checks that the template renders such conversations and reads every setting. `growing` is whether responses are
    /// followed by further turns.
    pub fn check(&self, system: bool, kwargs: &Map<String, Json>, growing: bool) -> Result<(), ChatError> {
        self.check_kwargs(kwargs)?;
        let [system_mark, user_mark] = ["system", "user"].map(|name| self.unused(name, &[]));
        let conversation =
            Conversation { system: system.then_some(system_mark.as_str()), user: &user_mark, kwargs, specials: &[] };
        for responses in if growing { 0..3 } else { 0..1 } {
            let pieces = match responses {
                0 => self.prompt(conversation)?,
                _ => self.next(conversation, responses, None)?,
            };
            let text: String = pieces.iter().map(Piece::text).collect();
            let given = [(&system_mark, Speaker::System, system && responses == 0), (&user_mark, Speaker::User, true)];
            for (mark, speaker, given) in given {
                match text.matches(mark.as_str()).count() {
                    0 if given => return Err(self.content("changes or leaves out", speaker)),
                    2.. => return Err(self.content("repeats", speaker)),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn content(&self, what: &'static str, speaker: Speaker) -> ChatError {
        ChatError::Content { origin: self.origin.clone(), what, speaker }
    }

    fn check_kwargs(&self, kwargs: &Map<String, Json>) -> Result<(), ChatError> {
        if let Some(key) = kwargs.keys().find(|key| OURS.contains(&key.as_str())) {
            return Err(ChatError::Ours { key: key.clone() });
        }
        let template = self.environment.get_template("chat").map_err(|error| problem(&self.origin, &error))?;
        let known: BTreeSet<String> = template.undeclared_variables(false).into_iter().collect();
        let Some(key) = kwargs.keys().find(|key| !known.contains(*key)) else { return Ok(()) };
        let globals: BTreeSet<&str> = self.environment.globals().map(|(name, _)| name).collect();
        let free = |name: &&str| !OURS.contains(name) && !TOKENS.contains(name) && !globals.contains(name);
        let known: Vec<String> =
            known.iter().map(String::as_str).filter(free).map(|name| format!("`{name}`")).collect();
        let known = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
        Err(ChatError::Unread { key: key.clone(), origin: self.origin.clone(), known })
    }

    /// A prompt of one user turn, with a system message before it if there is one.
    pub fn prompt(&self, conversation: Conversation<'_>) -> Result<Vec<Piece>, ChatError> {
        self.pieces(conversation, &[], |rendered| Ok(rendered))
    }

    /// What stands after the last of so many responses: the end of it, the user's next turn, the beginning of the next
    /// response. `ended` is the text of the token that ended it, if one did: it is not repeated.
    pub fn next(
        &self,
        conversation: Conversation<'_>,
        responses: usize,
        ended: Option<&str>,
    ) -> Result<Vec<Piece>, ChatError> {
        let texts = [conversation.system.unwrap_or_default(), conversation.user];
        let [past, last] = ["past", "response"].map(|name| self.unused(name, &texts));
        let mut earlier = Vec::with_capacity(2 * responses);
        for response in 1..=responses {
            earlier.push((Speaker::User, past.as_str()));
            earlier.push((Speaker::Assistant, if response == responses { &last } else { &past }));
        }
        self.pieces(conversation, &earlier, |rendered| {
            let content = |what| self.content(what, Speaker::Assistant);
            let (_, after) = rendered.split_once(last.as_str()).ok_or_else(|| content("changes or leaves out"))?;
            if after.contains(last.as_str()) {
                return Err(content("repeats"));
            }
            // Some templates put a blank before the token that ends a response.
            Ok(ended.and_then(|end| after.trim_start().strip_prefix(end)).unwrap_or(after))
        })
    }

    /// Renders a conversation, takes of it what `cut` takes, and sets apart what spells a special token.
    fn pieces(
        &self,
        conversation: Conversation<'_>,
        earlier: &[(Speaker, &str)],
        cut: impl Fn(&str) -> Result<&str, ChatError>,
    ) -> Result<Vec<Piece>, ChatError> {
        let Conversation { system, user, kwargs, specials } = conversation;
        let texts = [system.unwrap_or_default(), user];
        let spelled = specials.iter().any(|special| texts.iter().any(|text| text.contains(special.as_str())));
        // Where a special token is spelled, its number stands between two of these, and only the template's own are left.
        let mark = spelled.then(|| self.unused("special", &texts));
        let masked = |text: &str| match &mark {
            Some(mark) => mask(text, specials, mark),
            None => text.to_owned(),
        };
        let (system, user) = (system.map(&masked), masked(user));
        let mut messages = Vec::with_capacity(earlier.len() + 2);
        messages.extend(system.as_deref().map(|system| (Speaker::System, system)));
        messages.extend(earlier);
        messages.push((Speaker::User, user.as_str()));
        let rendered = self.render(&messages, true, kwargs)?;
        let text = cut(&rendered)?;
        let Some(mark) = mark else { return Ok(vec![Piece::Template(text.to_owned())]) };
        text.split(mark.as_str())
            .enumerate()
            .map(|(index, part)| {
                if index % 2 == 0 {
                    return Ok(Piece::Template(part.to_owned()));
                }
                let special = part.parse().ok().and_then(|number: usize| specials.get(number));
                special.cloned().map(Piece::Content).ok_or_else(|| self.content("cuts", Speaker::User))
            })
            .collect()
    }

    /// A word of letters and digits that is neither in these texts nor in the template.
    fn unused(&self, name: &str, texts: &[&str]) -> String {
        let taken = |word: &str| self.source.contains(word) || texts.iter().any(|text| text.contains(word));
        let mut word = format!("accredit0{name}0");
        while taken(&word) {
            word.push('0');
        }
        word
    }

    fn render(
        &self,
        messages: &[(Speaker, &str)],
        generation: bool,
        kwargs: &Map<String, Json>,
    ) -> Result<String, ChatError> {
        let messages: Vec<Value> = messages
            .iter()
            .map(|(speaker, content)| context! { role => speaker.role(), content => *content })
            .collect();
        let ours = context! { messages => messages, add_generation_prompt => generation };
        let absent = context! { tools => (), documents => () };
        let kwargs = Value::from(Serde(kwargs));
        let tokens = Value::from(Serde(&self.tokens));
        let template = self.environment.get_template("chat").map_err(|error| problem(&self.origin, &error))?;
        template
            .render(context! { ..ours, ..kwargs, ..tokens, ..absent })
            .map_err(|error| problem(&self.origin, &error))
    }
}

impl Piece {
    /// Its text.
    pub fn text(&self) -> &str {
        match self {
            Self::Template(text) | Self::Content(text) => text,
        }
    }
}

/// A text with every special token that it spells, the longest at each place, replaced by its number between two marks.
fn mask(text: &str, specials: &[String], mark: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let spelled = specials.iter().enumerate().filter(|(_, special)| rest.starts_with(special.as_str()));
        let longest = spelled.max_by_key(|(_, special)| special.len()).filter(|(_, special)| !special.is_empty());
        let length = if let Some((number, special)) = longest {
            masked.push_str(&format!("{mark}{number}{mark}"));
            special.len()
        } else {
            masked.push(first);
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    masked
}

/// The template of this name in a list of named ones.
fn named(list: &[Json], name: &str) -> Option<String> {
    list.iter().find(|entry| entry["name"] == name).and_then(|entry| entry["template"].as_str().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn template(source: &str) -> Result<ChatTemplate, ChatError> {
        ChatTemplate::compile(source.to_owned(), Map::new(), "x.jinja".to_owned(), ZonedDateTime::now())
    }

    /// What is said about a template that is to render a prompt and what follows a response.
    fn refusal(source: &str) -> String {
        let checked = template(source).and_then(|template| template.check(true, &Map::new(), true));
        checked.unwrap_err().to_string()
    }

    #[test]
    fn a_template_that_does_not_work_is_refused_with_its_line() {
        let messages = "{% for m in messages %}{{ m.content }}{% endfor %}";
        for (source, expected) in [
            ("a\n{% if %}", "chat template x.jinja:2: syntax error: "),
            ("{% for m in messages %}\n{{ m.content", "chat template x.jinja:2: syntax error: "),
            ("\n\n{{ messages[0].nothing.more }}", "chat template x.jinja:3: undefined value"),
            ("{{ messages | nothing }}", "chat template x.jinja:1: unknown filter: filter nothing is unknown"),
            (
                "{% if messages[0].role == 'system' %}\n{{ raise_exception('no\\nsystem role') }}{% endif %}",
                "chat template x.jinja:2: invalid operation: the template refuses this conversation: no system role",
            ),
            (
                "{% for i in range(100000) %}{% for j in range(100000) %}{{ i }}{% endfor %}{% endfor %}",
                "chat template x.jinja:1: it takes too many steps; look for a loop that does not end",
            ),
            ("{% set x = 'a' * 1000000000 %}", "chat template x.jinja:1: it takes too many steps"),
            (
                "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
                "chat template x.jinja:1: invalid operation: recursion",
            ),
            ("{% include 'chat' %}", "chat template x.jinja:1: "),
            ("{{ strftime_now('%Q%') }}", "chat template x.jinja:1: invalid operation: "),
            ("{{ [1] | tojson(indent=-1) }}", "chat template x.jinja:1: invalid operation: tojson: `indent`"),
            ("{{ [1] | tojson(separators=',') }}", "chat template x.jinja:1: invalid operation: tojson: `separators`"),
            ("nothing", "chat template x.jinja: it changes or leaves out what a message of the role `system` says"),
            (
                "{{ messages[0].content }}",
                "chat template x.jinja: it changes or leaves out what a message of the role `user` says",
            ),
            (
                "{% for m in messages %}{{ m.content if m.role != 'assistant' }}{% endfor %}",
                "chat template x.jinja: it changes or leaves out what a message of the role `assistant` says",
            ),
            (&messages.repeat(2), "chat template x.jinja: it repeats what a message of the role `system` says"),
            (
                "{% for m in messages %}{{ m.content | upper }}{% endfor %}",
                "chat template x.jinja: it changes or leaves out",
            ),
        ] {
            let error = refusal(source);
            assert!(error.starts_with(expected) && !error.contains('\n'), "{source}: {error}");
        }
        template(messages).unwrap().check(true, &Map::new(), true).unwrap();
    }

    #[test]
    fn a_setting_that_has_no_effect_is_refused() {
        let source =
            "{% for m in messages %}{{ m.content }}{% endfor %}{{ bos_token }}{{ strftime_now }}{{ thinking }}";
        let check = |key: &str| {
            let kwargs = Map::from_iter([(key.to_owned(), Json::from(false))]);
            template(source).unwrap().check(true, &kwargs, true).map_err(|error| error.to_string())
        };
        check("thinking").unwrap();
        check("bos_token").unwrap();
        assert_eq!(
            check("thinkin").unwrap_err(),
            "`rollout.chat_template_kwargs.thinkin`: the chat template x.jinja does not read `thinkin`; what it reads: \
             `thinking`"
        );
        assert!(check("messages").unwrap_err().contains("the rollout itself sets `messages`"));
    }

    #[test]
    fn a_model_folder_has_its_template_in_a_file_or_in_a_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let load = |config: Json| ChatTemplate::load(folder.path(), &config);
        let say = |template: ChatTemplate| template.render(&[(Speaker::User, "u")], true, &Map::new()).unwrap();
        let error = load(Json::Null).err().unwrap().to_string();
        assert!(error.contains("there is no chat template"), "{error}");
        let list = |name: &str| serde_json::json!({"chat_template": [{"name": name, "template": "listed"}]});
        assert_eq!(say(load(list("default")).unwrap()), "listed");
        let error = load(list("tool_use")).err().unwrap().to_string();
        assert!(error.contains("(a list without `default`: tool_use)"), "{error}");
        let config = serde_json::json!({
            "chat_template": "{{ bos_token is defined }}{{ eos_token }}", "bos_token": null, "eos_token": {"content": "E"},
        });
        assert_eq!(say(load(config.clone()).unwrap()), "FalseE");
        let broken = load(serde_json::json!({"chat_template": "\n{{"})).err().unwrap().to_string();
        assert!(broken.contains("tokenizer_config.json (`chat_template`):2: syntax error"), "{broken}");
        let path = folder.path().join(CHAT_TEMPLATE_FILE);
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(b"{{ messages[0].content }}").unwrap();
        assert_eq!(say(load(config.clone()).unwrap()), "u");
        file.write_all(b"\xff").unwrap();
        assert!(matches!(load(config), Err(ChatError::File { .. })));
    }

    #[test]
    fn what_depends_on_the_turn_is_that_of_the_turn() {
        let source = "{% for m in messages %}[{{ loop.index }} {{ m.role }}]{{ m.content }} {{ eos_token }}{% endfor %}\
                      {% if add_generation_prompt %}[{{ messages | length }}]{% endif %}";
        let tokens = Map::from_iter([("eos_token".to_owned(), Json::from("</s>"))]);
        let template = ChatTemplate::compile(source.to_owned(), tokens, String::new(), ZonedDateTime::now()).unwrap();
        let (kwargs, specials) = (Map::new(), ["</s>".to_owned()]);
        let given = |user| Conversation { system: Some("s"), user, kwargs: &kwargs, specials: &specials };
        let text = |pieces: Vec<Piece>| pieces.iter().map(Piece::text).collect::<String>();
        assert_eq!(text(template.prompt(given("u")).unwrap()), "[1 system]s </s>[2 user]u </s>[2]");
        // The blank that the template puts before the token that ended a response goes with the token.
        assert_eq!(text(template.next(given("u"), 2, Some("</s>")).unwrap()), "[6 user]u </s>[6]");
        assert_eq!(text(template.next(given("u"), 1, None).unwrap()), " </s>[4 user]u </s>[4]");
        let spelled = template.next(given("a</s>b"), 1, Some("</s>")).unwrap();
        let piece = |text: &str| Piece::Template(text.to_owned());
        assert_eq!(spelled, [piece("[4 user]a"), Piece::Content("</s>".to_owned()), piece("b </s>[4]")]);
    }
}
