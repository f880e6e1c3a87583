//! Texts that end a response.

use super::tokenizer::Tokenizer;

/// Texts that end a response as soon as it contains one of them; they stay a part of it.
#[derive(Clone, Debug, Default)]
pub struct StopTexts(Vec<Vec<u8>>);

/// Says whether a response that has these tokens is over.
pub type Ends<'a> = Box<dyn Fn(&[u32]) -> bool + Sync + 'a>;

impl StopTexts {
    /// From texts, of which empty ones mean nothing.
    pub fn new(texts: &[String]) -> Self {
        Self(texts.iter().filter(|text| !text.is_empty()).map(|text| text.clone().into_bytes()).collect())
    }

    /// Says whether the last token of a response completed one of the texts; none without any.
    pub fn ends<'a>(&'a self, tokenizer: &'a Tokenizer) -> Option<Ends<'a>> {
        let longest = self.0.iter().map(Vec::len).max()?;
        Some(Box::new(move |tokens: &[u32]| {
            let Some(last) = tokens.last() else { return false };
            // A text that was complete before the last token has ended the response then.
            let wanted = longest - 1 + tokenizer.bytes(*last).len();
            let mut tail: Vec<u8> = Vec::with_capacity(wanted);
            for token in tokens.iter().rev() {
                tail.extend(tokenizer.bytes(*token).iter().rev());
                if tail.len() >= wanted {
                    break;
                }
            }
            tail.reverse();
            self.0.iter().any(|text| tail.windows(text.len()).any(|window| window == text))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_ends_a_response_when_it_is_complete_however_tokens_cut_it() {
        let folder = tempfile::tempdir().unwrap();
        let texts = ["the answer is </answer> and more".to_owned()];
        let tokenizer = Tokenizer::create(folder.path(), &texts, &[], 300).unwrap();
        let stop = StopTexts::new(&["</answer>".to_owned(), String::new(), "##".to_owned()]);
        let ends = stop.ends(&tokenizer).unwrap();
        for (text, at) in [("so </answer> it", Some("so </answer>")), ("a#b##c", Some("a#b##")), ("</answer", None)] {
            let ids = tokenizer.encode_plain(text).unwrap();
            let first = (1..=ids.len()).find(|count| ends(&ids[..*count]));
            let shown = first.map(|count| ids[..count].iter().flat_map(|id| tokenizer.bytes(*id)).copied().collect());
            let shown = shown.map(|bytes| String::from_utf8(bytes).unwrap());
            // The token that completes the text may reach beyond it.
            match (shown, at) {
                (Some(shown), Some(at)) => assert!(shown.starts_with(at) && shown.len() < at.len() + 4, "{shown}"),
                (shown, at) => assert_eq!(shown.as_deref(), at, "{text}"),
            }
        }
        assert!(!ends(&[]));
        assert!(StopTexts::default().ends(&tokenizer).is_none());
    }
}
