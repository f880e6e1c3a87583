//! The parser of responses, compiled from the program's files as they are, and what holds whatever the tokens are.
//!
//! Here a panic is a finding, so what should hold is asserted.
#![expect(dead_code, reason = "the files have more than parsing")]

use std::sync::LazyLock;

use accredit_core::episode::TokenKind;

#[path = "../src/rollout/chat.rs"]
mod chat;
#[path = "../src/rollout/kinds.rs"]
mod kinds;
#[path = "../src/rollout/tokenizer.rs"]
mod tokenizer;

use kinds::{Parsed, Tags};
use tokenizer::Tokenizer;

static TAGS: LazyLock<Tags> = LazyLock::new(|| Tags::new("think", "answer"));

static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("there is room for a tokenizer");
    let texts = vec![" go Down".to_owned(); 4];
    Tokenizer::create(folder.path(), &texts, &TAGS.all(), 300).expect("a tokenizer can be made")
});

/// Parses the data in two ways: as a text, and as ids of tokens, two bytes each, of which many are in no vocabulary.
pub fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    check_tokens(&TOKENIZER.encode_template(&text).expect("every text has tokens"));
    check_tokens(&TOKENIZER.encode_plain(&text).expect("every text has tokens"));
    // Mostly ids that are there: the vocabulary has about 270.
    let id = |pair: &[u8]| u32::from(pair[0]) + 256 * u32::from(pair[1] % 3);
    check_tokens(&data.chunks_exact(2).map(id).collect::<Vec<u32>>());

    // What has no tag in it comes back as it was.
    let plain = text.replace(['<', '>', '\u{FFFD}'], "");
    let (think, action) = plain.split_at(plain.floor_char_boundary(plain.len() / 2));
    let tokens = TOKENIZER.encode_template(&TAGS.response(think, action)).expect("every text has tokens");
    assert_eq!(check_tokens(&tokens).action.as_deref(), Some(action.trim()));
}

fn check_tokens(tokens: &[u32]) -> Parsed {
    let parsed = TAGS.parse(&TOKENIZER, &[], tokens);
    let Parsed { text, kinds, pieces, action } = &parsed;
    assert_eq!((kinds.len(), pieces.len()), (tokens.len(), tokens.len()));
    assert_eq!(&pieces.concat(), text);
    assert!(!kinds.contains(&TokenKind::Observation));
    let [_, _, open, close] = TAGS.all();
    if let Some(action) = action {
        assert!(!action.contains(&close) && text.contains(&open) && text.contains(&close));
        assert!(text.contains(action.as_str()));
        assert_eq!(action, action.trim());
    }
    // Tokens with text stand in this order: thinking, then the action, each in one piece.
    let has_text = |token: u32| !TOKENIZER.is_special(token) && !TOKENIZER.bytes(token).is_empty();
    let order = kinds.iter().zip(tokens).filter(|(_, token)| has_text(**token));
    let mut last = [None; 2];
    for (place, (kind, _)) in order.enumerate() {
        let index = match kind {
            TokenKind::Think => 0,
            TokenKind::Action => 1,
            _ => continue,
        };
        assert!(index == 1 || last[1].is_none(), "nothing is thought after the action");
        assert!(last[index].is_none_or(|last| last + 1 == place), "a piece has no gap");
        last[index] = Some(place);
    }
    parsed
}
