//! Dotted paths to values: `rollout.groups`, `credit[1].params.alpha`, `environment."a.b"`.

use std::fmt;
use std::ops::Range;

/// One part of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    /// A key of a table; in an array, the name or the number of an entry.
    Key(String),
    /// A place in an array.
    Index(usize),
}

/// Where a value stands in a configuration; the empty path is the whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Path(pub(super) Vec<Segment>);

impl Path {
    /// The path of a key in the table at this path.
    pub(super) fn key(&self, key: &str) -> Self {
        self.with(Segment::Key(key.to_owned()))
    }

    /// The path of an element of the array at this path.
    pub(super) fn index(&self, index: usize) -> Self {
        self.with(Segment::Index(index))
    }

    fn with(&self, segment: Segment) -> Self {
        let mut segments = self.0.clone();
        segments.push(segment);
        Self(segments)
    }

    /// Reads a whole text as a path. The error says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (segments, end) = segments(text)?;
        if end < text.len() {
            return Err(format!("`{}` is not part of a key", &text[end..]));
        }
        Ok(Self(segments.into_iter().map(|(segment, _)| segment).collect()))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Key(key) => {
                    let dot = if i > 0 { "." } else { "" };
                    write!(f, "{dot}{}", toml_edit::Key::new(key))?;
                }
            }
        }
        Ok(())
    }
}

/// A segment and the bytes that it stands in.
pub(super) type Written = (Segment, Range<usize>);

/// The segments at the beginning of `text`, each with its place, and where they end: at a `=` or at the end of the
/// text.
pub(super) fn segments(text: &str) -> Result<(Vec<Written>, usize), String> {
    let mut found = Vec::new();
    let mut at = 0;
    loop {
        let rest = &text[at..];
        let (key, length) = if let Some(quote) = rest.chars().next().filter(|c| matches!(c, '"' | '\'')) {
            let inside = &rest[1..];
            let end = inside.find(quote).ok_or("a quote is not closed")?;
            (inside[..end].to_owned(), end + 2)
        } else {
            let end = rest.find(['.', '[', '=', '"', '\'']).unwrap_or(rest.len());
            (rest[..end].trim().to_owned(), end)
        };
        if key.is_empty() {
            return Err("a key is empty".to_owned());
        }
        found.push((Segment::Key(key), at..at + length));
        at += length;
        while let Some(inside) = text[at..].strip_prefix('[') {
            let end = inside.find(']').ok_or("a `[` is not closed")?;
            let index = inside[..end].parse().map_err(|_| format!("`{}` is not an index", &inside[..end]))?;
            found.push((Segment::Index(index), at..at + end + 2));
            at += end + 2;
        }
        match text[at..].strip_prefix('.') {
            Some(_) => at += 1,
            None => return Ok((found, at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_and_written() {
        for text in ["seed", "credit[1].params.alpha", "environment.\"a.b\".c", "a[0][2]"] {
            assert_eq!(Path::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(
            Path::parse("credit.1").unwrap().0,
            [Segment::Key("credit".to_owned()), Segment::Key("1".to_owned())]
        );
    }

    #[test]
    fn a_path_that_is_none_says_why() {
        for (text, expected) in [
            ("", "a key is empty"),
            ("a..b", "a key is empty"),
            ("a[x]", "`x` is not an index"),
            ("a[1", "a `[` is not closed"),
            ("\"a", "a quote is not closed"),
            ("a=b", "`=b` is not part of a key"),
        ] {
            assert_eq!(Path::parse(text).unwrap_err(), expected, "{text}");
        }
    }
}
