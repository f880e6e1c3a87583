//! The parser of responses, compiled from the program's file as it is, and what holds whatever the tokens are.
//!
//! The tokens are the fuzzer's own, bytes of any kind, so that tags and characters are cut in every way. Here a panic is a
//! finding, so what should hold is asserted.

use accredit_core::episode::TokenKind;

#[path = "../src/rollout/kinds.rs"]
mod kinds;
/// Tokens that the fuzzer makes up, in place of those of a model.
mod tokenizer;

use kinds::{Parsed, Tags};
use tokenizer::Tokenizer;

/// Parses what the data say: first with its bytes as tokens, then as texts between tags.
pub fn check(data: &[u8]) {
    let tags = Tags::new("think", "answer");
    check_tokens(&tags, data);

    // What has no tag in it comes back as it was.
    let plain = String::from_utf8_lossy(data).replace(['<', '>'], "");
    let (think, action) = plain.split_at(plain.floor_char_boundary(plain.len() / 2));
    let response = tags.response(think, action);
    let tokenizer = Tokenizer::of_bytes(response.as_bytes());
    let parsed = tags.parse(&tokenizer, &[], &tokenizer.ids());
    assert_eq!((parsed.action.as_deref(), parsed.text), (Some(action.trim()), response));
}

fn check_tokens(tags: &Tags, data: &[u8]) {
    let tokenizer = Tokenizer::of_data(data);
    let mut tokens = tokenizer.ids();
    // A model may have more ids than its tokenizer.
    tokens.push(tokens.len() as u32 + 7);
    let Parsed { text, kinds, pieces, action } = tags.parse(&tokenizer, &[], &tokens);

    let bytes: Vec<u8> = tokens.iter().flat_map(|token| tokenizer.text(*token)).copied().collect();
    assert_eq!(text, String::from_utf8_lossy(&bytes));
    assert_eq!(pieces.concat(), text);
    assert_eq!((kinds.len(), pieces.len()), (tokens.len(), tokens.len()));

    let [_, _, open, close] = tags.all();
    let executed = text.split_once(&open).is_some_and(|(_, after)| after.contains(&close));
    assert!(executed || action.is_none(), "an action has both tags");
    if let Some(action) = &action {
        assert!(!action.contains(&close) && text.contains(action.as_str()) && action == action.trim());
    }

    // Tokens with text stand in this order: thinking, then the action, each in one piece.
    let order: Vec<&TokenKind> = kinds
        .iter()
        .zip(&tokens)
        .filter(|(_, token)| !tokenizer.text(**token).is_empty())
        .map(|(kind, _)| kind)
        .collect();
    let place = |wanted: TokenKind| {
        let first = order.iter().position(|kind| **kind == wanted);
        first.map(|first| first..order.iter().rposition(|kind| **kind == wanted).map_or(first, |last| last + 1))
    };
    let (think, act) = (place(TokenKind::Think), place(TokenKind::Action));
    for (kind, range) in [(TokenKind::Think, &think), (TokenKind::Action, &act)] {
        assert!(range.iter().cloned().flatten().all(|place| *order[place] == kind), "a piece has no gap");
    }
    assert!(think.is_none_or(|think| act.is_none_or(|act| think.end <= act.start)), "an action ends the thinking");
    assert!(!kinds.contains(&TokenKind::Observation));
}
