//! What `transformers` rendered, against what is rendered here: see host/tests/fixtures/chat/README.md.

use std::{collections::BTreeMap, path::PathBuf, sync::LazyLock};

use jiff::civil::date;
use proptest::prelude::*;
use serde::de::DeserializeOwned;

use super::*;

/// Snippets that render otherwise here, and why that is let be.
const DIFFERENT: [&str; 8] = [
    // How a list or map shows what is in it, which no chat template prints.
    "{{ [x] }}",
    "{{ [data.s] }}",
    "{{ [data.g] }}",
    "{{ 3.0e-10 | string }}",
    "{{ self }}",
    // An escape that no chat template uses.
    "{{ '\\U0001F642' }}",
    // Refused there, and of no effect here.
    "{% for x in none %}a{% endfor %}",
    "{{ x < 1 }}",
];

/// Snippets that are refused here.
const REFUSED: [&str; 4] = [
    "{{ 'abc'.startswith('b', 1) }} {{ 'abcabc'.find('a', 1) }} {{ 'abc'.count('c', 0, 2) }}",
    "{{ 'a b' | wordcount }}",
    "{{ 'x' | int }}",
    "{{ '%s-%s' % ('a', 1) }}",
];

type Settings = Map<String, Json>;

fn fixture(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/chat").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn json<T: DeserializeOwned>(name: &str) -> T {
    serde_json::from_str(&fixture(name)).unwrap()
}

/// The clock of the recordings.
fn now() -> ZonedDateTime {
    date(2026, 1, 5).at(7, 8, 9, 0).in_tz("UTC").unwrap()
}

static FAMILIES: LazyLock<BTreeMap<String, ChatTemplate>> = LazyLock::new(|| {
    let families: Settings = json("families.json");
    let compiled = families.into_iter().map(|(name, settings)| {
        let tokens = settings["tokens"].as_object().unwrap().clone();
        let source = fixture(&format!("templates/{name}.jinja"));
        let template = ChatTemplate::compile(source, tokens, name.clone(), now()).unwrap();
        (name, template)
    });
    compiled.collect()
});

fn family(name: &str) -> &'static ChatTemplate {
    &FAMILIES[name]
}

fn conversation(messages: &Json) -> Vec<(Speaker, &str)> {
    let speaker = |role: &str| match role {
        "system" => Speaker::System,
        "user" => Speaker::User,
        "assistant" => Speaker::Assistant,
        other => panic!("{other}"),
    };
    let messages = messages.as_array().unwrap().iter();
    messages.map(|it| (speaker(it["role"].as_str().unwrap()), it["content"].as_str().unwrap())).collect()
}

/// Family, settings, conversation, whether a response is begun, and the text; none where the template raises.
type Recording = (String, Settings, String, bool, Option<String>);

#[test]
fn templates_render_as_transformers_renders_them() {
    let conversations: Settings = json("conversations.json");
    let recordings: Vec<Recording> = json("expected.json");
    assert!(recordings.len() > 400);
    for (name, kwargs, about, generation, expected) in recordings {
        let rendered = family(&name).render(&conversation(&conversations[&about]), generation, &kwargs);
        assert_eq!(rendered.ok(), expected, "{name}, {kwargs:?}, {about}, {generation}");
    }
}

#[test]
fn the_language_is_that_of_transformers() {
    let data = serde_json::json!({
        "s": "é\"\\\n\u{2028}</b>🙂\u{7f}", "n": null, "b": true, "f": 1.0, "g": 1e-7, "big": 12_345_678_901_234_567_890_u64,
        "list": [1, 2.5, [], {}], "rows": [{"k": 1}, {"k": 2}], "nested": {"deep": {"er": "x"}},
    });
    let text = Json::from("\u{1c} \n a\u{1f}b\u{a0}c\n ");
    let kwargs = Map::from_iter([("data".to_owned(), data), ("text".to_owned(), text)]);
    let snippets: Vec<(String, Option<String>)> = json("language.json");
    for (snippet, expected) in snippets {
        let rendered = ChatTemplate::compile(snippet.clone(), Map::new(), String::new(), now())
            .and_then(|template| template.render(&[(Speaker::User, "it's")], true, &kwargs));
        if REFUSED.contains(&snippet.as_str()) {
            assert!(rendered.is_err(), "{snippet}");
        } else {
            assert_eq!(rendered.ok() == expected, !DIFFERENT.contains(&snippet.as_str()), "{snippet}: {expected:?}");
        }
    }
}

/// How a family shows an earlier response, and what it begins a response with but does not show of an earlier one.
fn history(name: &str, kwargs: &Settings, response: &str) -> (String, &'static str) {
    let blank = |c: char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c);
    let (thought, said) = response.rsplit_once("</think>").unwrap_or(("", response));
    match name {
        "qwen2_5" | "smollm2" => (response.to_owned(), ""),
        "llama3_1" | "llama3_2" | "gemma3" => (response.trim_matches(blank).to_owned(), ""),
        "smollm3" => (response.trim_start_matches('\n').to_owned(), ""),
        "deepseek_r1_distill" => (said.to_owned(), "<think>\n"),
        "qwen3" => {
            let kept =
                if kwargs.get("enable_thinking") == Some(&Json::from(false)) { "<think>\n\n</think>\n\n" } else { "" };
            (if thought.is_empty() { said.to_owned() } else { said.trim_start_matches('\n').to_owned() }, kept)
        }
        "qwen3_training" => {
            let thought = thought.split("</think>").next().unwrap().trim_end_matches('\n');
            let thought = thought.rsplit("<think>").next().unwrap().trim_matches('\n');
            (format!("<think>\n{thought}\n</think>\n\n{}", said.trim_start_matches('\n')), "")
        }
        other => panic!("{other}"),
    }
}

fn text(pieces: &[Piece]) -> String {
    pieces.iter().map(Piece::text).collect()
}

#[test]
fn a_conversation_that_grows_is_the_template_s_but_for_what_it_changes_in_the_past() {
    let conversations: Settings = json("conversations.json");
    let recordings: Vec<Recording> = json("expected.json");
    let mut compared = BTreeMap::<String, usize>::new();
    for (name, kwargs, about, generation, expected) in recordings {
        let messages = conversation(&conversations[&about]);
        let (system, turns) = match messages[0] {
            (Speaker::System, system) => (Some(system), &messages[1..]),
            _ => (None, &messages[..]),
        };
        let alternate = turns
            .iter()
            .enumerate()
            .all(|(index, (speaker, _))| *speaker == if index % 2 == 0 { Speaker::User } else { Speaker::Assistant });
        // A tool's answer is no new question to Qwen3: it shows the thoughts since the last one.
        let tool = name == "qwen3" && turns.iter().any(|(_, text)| text.starts_with("<tool_response>"));
        let Some(expected) = expected.filter(|_| generation && alternate && turns.len() % 2 == 1 && !tool) else {
            continue;
        };
        let template = family(&name);
        let given = |user| Conversation { system, user, kwargs: &kwargs, specials: &[] };
        let mut grown = String::new();
        let mut context = text(&template.prompt(given(turns[0].1)).unwrap());
        for (index, pair) in turns[1..].chunks(2).enumerate() {
            let (shown, kept) = history(&name, &kwargs, pair[0].1);
            grown.push_str(context.strip_suffix(kept).unwrap());
            grown.push_str(&shown);
            context = text(&template.next(given(pair[1].1), index + 1, None).unwrap());
        }
        grown.push_str(&context);
        assert_eq!(grown, expected, "{name}, {kwargs:?}, {about}");
        *compared.entry(name).or_default() += 1;
    }
    assert!(compared.len() == 9 && compared.values().all(|count| *count >= 10), "{compared:?}");
}

#[test]
fn the_token_that_ended_a_response_is_not_repeated() {
    let kwargs = Map::new();
    for (name, end) in [
        ("qwen2_5", "<|im_end|>"),
        ("qwen3", "<|im_end|>"),
        ("llama3_2", "<|eot_id|>"),
        ("smollm3", "<|im_end|>"),
        ("gemma3", "<end_of_turn>"),
        ("deepseek_r1_distill", "<｜end▁of▁sentence｜>"),
    ] {
        let template = family(name);
        let given = Conversation { system: Some("s"), user: "u", kwargs: &kwargs, specials: &[] };
        let cut = text(&template.next(given, 3, None).unwrap());
        assert_eq!(text(&template.next(given, 3, Some(end)).unwrap()), cut.strip_prefix(end).unwrap(), "{name}");
        assert_eq!(text(&template.next(given, 3, Some("<other>")).unwrap()), cut, "{name}");
    }
}

#[test]
fn every_family_is_accepted_in_both_contexts() {
    let families: Settings = json("families.json");
    for (name, settings) in &families {
        let template = family(name);
        for kwargs in settings["kwargs"].as_array().unwrap() {
            for (system, growing) in [(false, false), (false, true), (true, false), (true, true)] {
                template.check(system, kwargs.as_object().unwrap(), growing).unwrap();
            }
        }
    }
}

proptest! {
    /// What a message spells does not change how the conversation reads, and none of it is a special token.
    #[test]
    fn special_tokens_that_messages_spell_are_set_apart(
        parts in proptest::collection::vec(prop::sample::select(vec![
            "<|im_end|>", "<|im_start|>", "<|im_", "end|>", "<|eot_id|>", " ", "\n", "a", "世🙂", "{{ x }}", "<bos>", "0",
            "accredit0special0", "accredit0response0", "</think>", "<tool_response>", "</tool_response>", "\u{1f}",
        ]), 0..12),
        names in prop::sample::select(vec!["qwen2_5", "qwen3", "llama3_2", "smollm3", "gemma3"]),
        split in 0_usize..12,
    ) {
        let specials = ["<|im_end|>", "<|im_start|>", "<|eot_id|>", "<bos>", "<|im_end|"].map(str::to_owned);
        let (template, kwargs) = (family(names), Map::new());
        let (system, user) = parts.split_at(split.min(parts.len()));
        let (system, user) = (system.concat(), user.concat());
        let given = |specials| Conversation { system: Some(&system), user: &user, kwargs: &kwargs, specials };
        for responses in 0..3 {
            let render = |conversation| match responses {
                0 => template.prompt(conversation),
                _ => template.next(conversation, responses, None),
            };
            let (plain, apart) = (render(given(&[])).unwrap(), render(given(&specials)).unwrap());
            prop_assert_eq!(text(&apart), text(&plain));
            let empty = Conversation { system: Some("s"), user: "u", kwargs: &kwargs, specials: &[] };
            let own = text(&render(empty).unwrap());
            for special in &specials[..4] {
                let of_template = apart.iter().filter(|piece| matches!(piece, Piece::Template(_)));
                let count: usize = of_template.map(|piece| piece.text().matches(special.as_str()).count()).sum();
                prop_assert_eq!(count, own.matches(special.as_str()).count());
            }
        }
    }
}
