//! What each token of a response is. The rule, fixed when the tokens are sampled and written once, here:
//!
//! - The response's text is the bytes of its tokens, without special tokens. The first think tag opens the thinking, or
//!   the prompt does, where its last word is that tag; it ends at the first closing tag after it, at the first action tag,
//!   or at the end of the text.
//! - The action opens at the first action tag after the thinking (or the first at all, where nothing was thought) and
//!   ends at the first closing tag after it. Without a closing tag the action is absent: nothing is executed.
//! - A token is `action` if one of its bytes stands inside the action, closed or cut off; else `think` if one stands
//!   inside the thinking; else `format`, as are special tokens.
//!
//! What an observation contains plays no part, and neither does a tag that the action itself contains.

use std::ops::Range;

use accredit_core::episode::TokenKind;

use super::tokenizer::Tokenizer;

/// The tags of a response, such as `think` and `answer`.
#[derive(Clone, Debug)]
pub struct Tags {
    think: [String; 2],
    action: [String; 2],
}

/// A response, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The text, without special tokens; bytes that are no text become U+FFFD.
    pub text: String,
    /// What each token is.
    pub kinds: Vec<TokenKind>,
    /// The piece of the text that each token stands for.
    pub pieces: Vec<String>,
    /// What is inside the action tags, trimmed; none if they are not there or not closed.
    pub action: Option<String>,
}

impl Tags {
    /// Tags of these names.
    pub fn new(think: &str, action: &str) -> Self {
        let pair = |name: &str| [format!("<{name}>"), format!("</{name}>")];
        Self { think: pair(think), action: pair(action) }
    }

    /// The four tags.
    pub fn all(&self) -> [String; 4] {
        [self.think[0].clone(), self.think[1].clone(), self.action[0].clone(), self.action[1].clone()]
    }

    /// A response that thinks and acts.
    pub fn response(&self, think: &str, action: &str) -> String {
        format!("{}{think}{}{}{action}{}", self.think[0], self.think[1], self.action[0], self.action[1])
    }

    /// Parses sampled tokens that came after this prompt.
    pub fn parse(&self, tokenizer: &Tokenizer, prompt: &[u32], tokens: &[u32]) -> Parsed {
        let mut bytes: Vec<u8> = Vec::new();
        let mut ranges: Vec<Range<usize>> = Vec::with_capacity(tokens.len());
        for token in tokens {
            let start = bytes.len();
            if !tokenizer.is_special(*token) {
                bytes.extend(tokenizer.bytes(*token));
            }
            ranges.push(start..bytes.len());
        }
        let spans = self.spans(&bytes, self.opens(tokenizer, prompt));
        let kinds = ranges
            .iter()
            .map(|range| {
                if overlap(range, &spans.action) {
                    TokenKind::Action
                } else if overlap(range, &spans.think) {
                    TokenKind::Think
                } else {
                    TokenKind::Format
                }
            })
            .collect();
        let action = spans.closed.then(|| String::from_utf8_lossy(&bytes[spans.action.clone()]).trim().to_owned());
        Parsed { kinds, action, pieces: pieces(&bytes, &ranges), text: String::from_utf8_lossy(&bytes).into_owned() }
    }

    /// Whether a prompt has opened the thinking, as the templates of some reasoning models do.
    fn opens(&self, tokenizer: &Tokenizer, prompt: &[u32]) -> bool {
        let mut end: Vec<u8> = Vec::new();
        for token in prompt.iter().rev() {
            end.splice(0..0, tokenizer.bytes(*token).iter().copied());
            end.truncate(end.trim_ascii_end().len());
            if end.len() >= self.think[0].len() {
                break;
            }
        }
        end.ends_with(self.think[0].as_bytes())
    }

    fn spans(&self, bytes: &[u8], opened: bool) -> Spans {
        let find = |tag: &str, from: usize| {
            bytes[from..].windows(tag.len()).position(|window| window == tag.as_bytes()).map(|at| from + at)
        };
        let mut spans = Spans { think: 0..0, action: 0..0, closed: false };
        let first_action = find(&self.action[0], 0);
        let think_open = find(&self.think[0], 0).filter(|open| first_action.is_none_or(|action| *open < action));
        let thinking = if opened { Some(0) } else { think_open.map(|open| open + self.think[0].len()) };
        let mut after_thinking = 0;
        if let Some(start) = thinking {
            let ends = [find(&self.think[1], start), find(&self.action[0], start)];
            let end = ends.into_iter().flatten().min().unwrap_or(bytes.len());
            spans.think = start..end;
            after_thinking = end;
        }
        if let Some(open) = find(&self.action[0], after_thinking) {
            let start = open + self.action[0].len();
            let close = find(&self.action[1], start);
            spans.action = start..close.unwrap_or(bytes.len());
            spans.closed = close.is_some();
        }
        spans
    }
}

struct Spans {
    think: Range<usize>,
    action: Range<usize>,
    closed: bool,
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

/// Cuts the text at the tokens. A character that several tokens make stands with the last of them.
fn pieces(bytes: &[u8], ranges: &[Range<usize>]) -> Vec<String> {
    let mut start = 0;
    let last = ranges.len().saturating_sub(1);
    ranges
        .iter()
        .enumerate()
        .map(|(index, range)| {
            // What is incomplete at the end comes with a later token.
            let end = range.end - if index < last { incomplete(&bytes[start..range.end]) } else { 0 };
            let piece = String::from_utf8_lossy(&bytes[start..end]).into_owned();
            start = end;
            piece
        })
        .collect()
}

/// How many bytes at the end begin a character that is not whole.
fn incomplete(bytes: &[u8]) -> usize {
    let end = bytes.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
    let goes_on = std::str::from_utf8(end).is_err_and(|error| error.error_len().is_none());
    if goes_on { end.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use TokenKind::{Action, Format, Think};

    use super::*;

    fn tokenizer() -> (tempfile::TempDir, Tokenizer) {
        let folder = tempfile::tempdir().unwrap();
        let texts = vec![" go Down".to_owned(); 4];
        let tags = Tags::new("think", "answer").all();
        let tokenizer = Tokenizer::create(folder.path(), &texts, &tags, 300).unwrap();
        (folder, tokenizer)
    }

    fn check(response: &str, action: Option<&str>, kinds: &str) {
        check_after("<|im_start|>assistant\n", response, action, kinds);
    }

    fn check_after(prompt: &str, response: &str, action: Option<&str>, kinds: &str) {
        let (_folder, tokenizer) = tokenizer();
        let prompt = tokenizer.encode_template(prompt).unwrap();
        let tokens = tokenizer.encode_template(response).unwrap();
        let parsed = Tags::new("think", "answer").parse(&tokenizer, &prompt, &tokens);
        let found: String = parsed
            .kinds
            .iter()
            .map(|kind| match kind {
                Think => 't',
                Action => 'a',
                Format => 'f',
                TokenKind::Observation => 'o',
            })
            .collect();
        assert_eq!((parsed.action.as_deref(), found.as_str()), (action, kinds), "{response}");
        assert_eq!(parsed.kinds.len(), tokens.len());
        assert_eq!(parsed.pieces.concat(), parsed.text);
    }

    #[test]
    fn thinking_and_action_are_what_stands_inside_their_tags() {
        check("<think> go Down</think><answer> Down</answer><|im_end|>", Some("Down"), "fttffaff");
        check("<answer> Down</answer>", Some("Down"), "faf");
        check(" go Down", None, "ff");
        check("", None, "");
    }

    #[test]
    fn a_prompt_can_open_the_thinking() {
        for prompt in ["<|im_start|>assistant\n<think>", "<|im_start|>assistant\n<think>\n\n"] {
            check_after(prompt, " go Down</think><answer> Down</answer>", Some("Down"), "ttffaf");
            check_after(prompt, " go<answer> Down</answer>", Some("Down"), "tfaf");
            check_after(prompt, " go", None, "t");
        }
        // Closed again, as Qwen3's template does where thinking is switched off.
        check_after("<think>\n\n</think>\n\n", " go<answer> Down</answer>", Some("Down"), "ffaf");
    }

    #[test]
    fn a_cut_response_keeps_its_kinds_and_has_no_action() {
        check("<think> go Down", None, "ftt");
        check("<think> go</think><answer> Down", None, "ftffa");
        check("<think> go</think><answer>", None, "ftff");
    }

    #[test]
    fn an_empty_action_is_an_action() {
        check("<think> go</think><answer></answer>", Some(""), "ftfff");
    }

    #[test]
    fn tags_in_odd_places_do_not_flip_anything() {
        // An action inside the thinking ends it.
        check("<think> go<answer> Down</answer></think>", Some("Down"), "ftfaff");
        // A second action is not executed.
        check("<answer> Down</answer><answer> go</answer>", Some("Down"), "faffff");
        // A start-of-turn token that the policy writes is no text.
        check("<answer> Down<|im_start|></answer>", Some("Down"), "faff");
    }

    #[test]
    fn a_character_that_several_tokens_make_stands_with_the_last() {
        let (_folder, tokenizer) = tokenizer();
        let tokens = tokenizer.encode_plain("é🙂x").unwrap();
        let parsed = Tags::new("think", "answer").parse(&tokenizer, &[], &tokens);
        assert_eq!(parsed.pieces, ["", "é", "", "", "", "🙂", "x"]);
        let cut = Tags::new("think", "answer").parse(&tokenizer, &[], &tokens[..3]);
        assert_eq!(cut.pieces, ["", "é", "\u{FFFD}"]);
        assert_eq!(cut.kinds.len(), 3);
        // One that breaks off, and the same from its beginning.
        let broken = Tags::new("think", "answer").parse(&tokenizer, &[], &[&tokens[2..4], &tokens[2..6]].concat());
        assert_eq!(broken.pieces, ["", "", "\u{FFFD}", "", "", "🙂"]);
        assert_eq!(broken.pieces.concat(), broken.text);
    }
}
