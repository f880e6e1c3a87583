//! The lists and words of a PDDL file, with their lines.

use super::Misfit;

/// How deep lists may stand in each other.
const DEPTH: usize = 64;

/// A word or a list. Words are in lower case, as PDDL does not tell cases apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Word { line: usize, text: String },
    List { line: usize, items: Vec<Item> },
}

impl Item {
    pub(super) fn line(&self) -> usize {
        match self {
            Self::Word { line, .. } | Self::List { line, .. } => *line,
        }
    }

    /// The word; none if it is a list.
    pub(super) fn word(&self) -> Option<&str> {
        match self {
            Self::Word { text, .. } => Some(text),
            Self::List { .. } => None,
        }
    }

    /// The word that a list begins with, and what follows it.
    pub(super) fn call(&self) -> Option<(&str, &[Item])> {
        match self {
            Self::List { items, .. } => {
                let (head, rest) = items.split_first()?;
                Some((head.word()?, rest))
            }
            Self::Word { .. } => None,
        }
    }

    pub(super) fn misfit(&self, message: impl Into<String>) -> Misfit {
        Misfit::new(self.line(), message)
    }
}

/// Reads a text that is one list.
pub(super) fn read(text: &str) -> Result<Item, Misfit> {
    let mut open: Vec<(usize, Vec<Item>)> = Vec::new();
    let mut whole = None;
    for (index, line_text) in text.lines().enumerate() {
        let line = index + 1;
        let mut rest = line_text.split(';').next().unwrap_or_default().trim_start();
        while let Some(first) = rest.chars().next() {
            if whole.is_some() {
                return Err(Misfit::new(line, "something follows the last `)`"));
            }
            let end = match first {
                '(' | ')' => 1,
                _ => rest.find(|letter: char| letter.is_whitespace() || "()".contains(letter)).unwrap_or(rest.len()),
            };
            let (token, after) = rest.split_at(end);
            rest = after.trim_start();
            let item = match token {
                "(" if open.len() == DEPTH => {
                    return Err(Misfit::new(line, format!("more than {DEPTH} lists in each other")));
                }
                "(" => {
                    open.push((line, Vec::new()));
                    continue;
                }
                ")" => match open.pop() {
                    Some((line, items)) => Item::List { line, items },
                    None => return Err(Misfit::new(line, "`)` closes nothing")),
                },
                word => Item::Word { line, text: word.to_lowercase() },
            };
            match open.last_mut() {
                Some((_, items)) => items.push(item),
                None if matches!(item, Item::List { .. }) => whole = Some(item),
                None => return Err(Misfit::new(line, format!("expected `(`, not `{token}`"))),
            }
        }
    }
    match (open.pop(), whole) {
        (Some((line, _)), _) => Err(Misfit::new(line, "the list that begins here is never closed: the file is cut")),
        (None, Some(whole)) => Ok(whole),
        (None, None) => Err(Misfit::new(1, "there is nothing here; a PDDL problem begins with `(define`")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_and_words_have_their_lines() {
        let item = read("; a problem\n(define (Problem\n  x) ; end\n (:goal (AND)))\n").unwrap();
        let (head, rest) = item.call().unwrap();
        assert_eq!((head, item.line()), ("define", 2));
        assert_eq!(rest[0].call().unwrap().0, "problem");
        assert_eq!(rest[0].call().unwrap().1[0].line(), 3);
        assert_eq!(rest[1].call().unwrap().1[0].call().unwrap().0, "and");
    }

    #[test]
    fn what_is_no_list_is_refused_with_its_line() {
        let check = |text: &str, line: usize, message: &str| {
            let error = read(text).unwrap_err();
            assert_eq!(error.line, line, "{text:?}: {error:?}");
            assert!(error.message.contains(message), "{text:?}: {error:?}");
        };
        check("", 1, "nothing here");
        check("(a\n(b\n(c)", 2, "the file is cut");
        check("(a)\n)", 2, "follows the last");
        check(")", 1, "closes nothing");
        check("a b", 1, "expected `(`, not `a`");
        check(&"(".repeat(100_000), 1, "more than 64");
    }

    proptest! {
        #[test]
        fn any_text_ends_in_a_list_or_an_error(text in "[()a;\\n \\PC]{0,60}") {
            let _ = read(&text);
        }
    }
}
