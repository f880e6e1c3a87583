//! JSON as Python's `json.dumps` writes it, which is the `tojson` of `transformers`.

use std::fmt::Write;

use minijinja::{
    Error, ErrorKind, Value,
    value::{Kwargs, ValueKind},
};

/// How a value is laid out.
struct Style {
    ascii: bool,
    indent: Option<String>,
    item: String,
    key: String,
    sorted: bool,
}

/// The filter: its arguments are those of `json.dumps`.
#[expect(clippy::needless_pass_by_value, reason = "a filter is given its arguments so")]
pub(super) fn tojson(
    value: &Value,
    ensure_ascii: Option<Value>,
    indent: Option<Value>,
    separators: Option<Value>,
    kwargs: Kwargs,
) -> Result<String, Error> {
    let named = |given: Option<Value>, name: &str| match given {
        Some(value) => Ok(value),
        None => kwargs.get::<Option<Value>>(name).map(Option::unwrap_or_default),
    };
    let ascii = named(ensure_ascii, "ensure_ascii")?.is_true();
    let indent = indentation(&named(indent, "indent")?)?;
    let separators = named(separators, "separators")?;
    let sorted = named(None, "sort_keys")?.is_true();
    kwargs.assert_all_used()?;
    let (item, key) = if separators.is_none() || separators.is_undefined() {
        (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned())
    } else {
        let parts: Vec<Value> = separators.try_iter()?.collect();
        match parts.as_slice() {
            [item, key] => (item.to_string(), key.to_string()),
            _ => return Err(refused(format!("`separators` is a pair of texts, not {separators}"))),
        }
    };
    let style = Style { ascii, indent, item, key, sorted };
    let mut out = String::new();
    style.write(&mut out, value, 0)?;
    Ok(out)
}

fn refused(message: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("tojson: {message}"))
}

fn indentation(indent: &Value) -> Result<Option<String>, Error> {
    match indent.kind() {
        ValueKind::None | ValueKind::Undefined => Ok(None),
        ValueKind::String => Ok(Some(indent.to_string())),
        ValueKind::Bool => Ok(Some(" ".repeat(usize::from(indent.is_true())))),
        _ => match usize::try_from(indent.clone()) {
            Ok(width @ 0..=64) => Ok(Some(" ".repeat(width))),
            _ => Err(refused(format!("`indent` is a number from 0 to 64 or a text, not {indent}"))),
        },
    }
}

impl Style {
    fn write(&self, out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => out.push_str(&number(value)),
            ValueKind::String => self.text(out, value.as_str().unwrap_or_default())?,
            ValueKind::Seq => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.list(out, depth, ['[', ']'], &items, |out, item| self.write(out, item, depth + 1))?;
            }
            ValueKind::Map => {
                let mut pairs = Vec::new();
                for key in value.try_iter()? {
                    pairs.push((name(&key)?, value.get_item(&key)?));
                }
                if self.sorted {
                    pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
                }
                self.list(out, depth, ['{', '}'], &pairs, |out, (key, item)| {
                    self.text(out, key)?;
                    out.push_str(&self.key);
                    self.write(out, item, depth + 1)
                })?;
            }
            kind => return Err(refused(format!("{kind} has no JSON"))),
        }
        Ok(())
    }

    fn list<T>(
        &self,
        out: &mut String,
        depth: usize,
        [open, close]: [char; 2],
        items: &[T],
        mut each: impl FnMut(&mut String, &T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        out.push(open);
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                out.push_str(&self.item);
            }
            self.line(out, depth + 1);
            each(out, item)?;
        }
        if !items.is_empty() {
            self.line(out, depth);
        }
        out.push(close);
        Ok(())
    }

    fn line(&self, out: &mut String, depth: usize) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            out.push_str(&indent.repeat(depth));
        }
    }

    fn text(&self, out: &mut String, text: &str) -> Result<(), Error> {
        let quoted = serde_json::to_string(text).map_err(refused)?;
        for c in quoted.chars() {
            if self.ascii && c > '~' {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}").map_err(refused)?;
                }
            } else {
                out.push(c);
            }
        }
        Ok(())
    }
}

/// A key, which JSON has as a text.
fn name(key: &Value) -> Result<String, Error> {
    match key.kind() {
        ValueKind::String => Ok(key.to_string()),
        ValueKind::None => Ok("null".to_owned()),
        ValueKind::Bool => Ok(if key.is_true() { "true" } else { "false" }.to_owned()),
        ValueKind::Number => Ok(number(key)),
        kind => Err(refused(format!("{kind} is no key"))),
    }
}

fn number(value: &Value) -> String {
    match float(value) {
        Some(number) if number.is_nan() => "NaN".to_owned(),
        Some(number) if number.is_infinite() => if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
        Some(number) => repr(number),
        None => value.to_string(),
    }
}

/// The number of a value that is a float, and no integer.
pub(super) fn float(value: &Value) -> Option<f64> {
    (value.kind() == ValueKind::Number && !value.is_integer()).then(|| f64::try_from(value.clone()).ok()).flatten()
}

/// A float as Python's `repr` writes it: the fewest digits that read back, with a signed exponent of two digits.
pub(super) fn repr(number: f64) -> String {
    let text = format!("{number:?}");
    match text.split_once('e') {
        None => text.to_lowercase(),
        Some((digits, exponent)) => {
            let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
            format!("{digits}e{sign}{exponent:0>2}")
        }
    }
}
