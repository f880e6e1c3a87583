//! The Jinja of `transformers`: its block rules, its filters and functions, and Python's string methods where
//! minijinja's differ from them. What is not here is refused, with its line; the exceptions are in `DIFFERENT` of the
//! recorded tests: how a list inside a text shows small floats, line separators and what is undefined.

use jiff::{ZonedDateTime, fmt::strtime};
use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, Output, State, Value, escape_formatter,
    syntax::SyntaxConfig,
    value::{Tuple, ValueKind, from_args},
};
use minijinja_contrib::pycompat;

use super::json;

/// Work that a rendering may cost: an instruction, or 64 bytes of text. A conversation of a thousand turns needs less
/// than a sixth.
const FUEL: u64 = 2_000_000;

/// Compiles a template under the name `chat`. `now` is what it is told if it asks for the time.
pub(super) fn compile(source: &str, now: ZonedDateTime) -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_fuel(Some(FUEL));
    environment.set_formatter(print);
    environment.set_unknown_method_callback(method);
    environment.add_filter("tojson", json::tojson);
    environment.add_filter("trim", |value: &Value, chars: Option<&str>| strip(&value.to_string(), chars, true, true));
    // In Python a text is a sequence too, as is what is undefined, and none is nothing of this.
    let sequence = |kind| matches!(kind, ValueKind::Seq | ValueKind::Map | ValueKind::String | ValueKind::Undefined);
    environment.add_test("sequence", move |value: &Value| sequence(value.kind()));
    environment
        .add_test("iterable", move |value: &Value| sequence(value.kind()) || value.kind() == ValueKind::Iterable);
    environment.add_function("raise_exception", |message: &Value| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, format!("the template refuses this conversation: {message}")))
    });
    environment.add_function("strftime_now", move |format: &str| {
        strtime::format(format, &now).map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))
    });
    environment.add_template_owned("chat", without_generation(source))?;
    Ok(environment)
}

/// Jinja's line ends, and `{% generation %}`, which marks responses for training masks and renders what is inside, as the
/// scope that it is. Lines keep their numbers.
fn without_generation(source: &str) -> String {
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let mut out = String::with_capacity(source.len());
    let mut rest = source.as_str();
    while let Some(start) = rest.find("{%") {
        let inside = start + "{%".len();
        let Some(length) = rest[inside..].find("%}") else { break };
        let (before, tag) = (&rest[..inside], &rest[inside..inside + length]);
        out.push_str(before);
        match tag.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+') {
            "generation" => out.push_str(&tag.replace("generation", "with")),
            "endgeneration" => out.push_str(&tag.replace("endgeneration", "endwith")),
            _ => {
                // A tag's text can hold another opening, in a string.
                rest = &rest[inside..];
                continue;
            }
        }
        rest = &rest[inside + length..];
    }
    out.push_str(rest);
    out
}

/// Numbers as Python prints them; everything else as minijinja does.
fn print(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    match json::float(value) {
        Some(number) => out.write_str(&json::repr(number)).map_err(Error::from),
        None => escape_formatter(out, state, value),
    }
}

/// Python's methods of texts that minijinja lacks or that trim, split or cut otherwise; then those that it has.
fn method(state: &mut State<'_, '_>, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let Some(text) = value.as_str().filter(|_| value.kind() == ValueKind::String) else {
        return pycompat::unknown_method_callback(state, value, name, args);
    };
    match name {
        "strip" | "lstrip" | "rstrip" => {
            let (chars,): (Option<&str>,) = from_args(args)?;
            Ok(strip(text, chars, name != "rstrip", name != "lstrip"))
        }
        "split" | "rsplit" => {
            let (separator, most): (Option<&str>, Option<i64>) = from_args(args)?;
            // Python splits without a limit where the limit is negative.
            let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
            let parts = match separator {
                None => split_at_space(text, most, name == "rsplit"),
                Some("") => return Err(Error::new(ErrorKind::InvalidOperation, "split: the separator is empty")),
                Some(separator) if name == "split" => text.splitn(most.saturating_add(1), separator).collect(),
                Some(separator) => {
                    let mut parts: Vec<&str> = text.rsplitn(most.saturating_add(1), separator).collect();
                    parts.reverse();
                    parts
                }
            };
            Ok(parts.into_iter().map(Value::from).collect())
        }
        "splitlines" => {
            let (keep,): (Option<bool>,) = from_args(args)?;
            Ok(split_lines(text, keep.unwrap_or(false)).into_iter().map(Value::from).collect())
        }
        "partition" | "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            let parts = match name {
                "partition" => text.split_once(separator).map_or([text, "", ""], |(a, b)| [a, separator, b]),
                _ => text.rsplit_once(separator).map_or(["", "", text], |(a, b)| [a, separator, b]),
            };
            Ok(Value::from(Tuple::from(parts.map(Value::from))))
        }
        "title" => {
            let () = from_args(args)?;
            Ok(Value::from(title(text)))
        }
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Ok(Value::from(text.strip_prefix(prefix).unwrap_or(text)))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Ok(Value::from(text.strip_suffix(suffix).unwrap_or(text)))
        }
        _ => pycompat::unknown_method_callback(state, value, name, args),
    }
}

/// What Python calls a space: Unicode's, and four separators of ASCII.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

fn strip(text: &str, chars: Option<&str>, left: bool, right: bool) -> Value {
    let stripped = |c: char| chars.map_or_else(|| is_space(c), |chars| chars.contains(c));
    let text = if left { text.trim_start_matches(stripped) } else { text };
    Value::from(if right { text.trim_end_matches(stripped) } else { text })
}

/// Letters after anything that has no case in capitals, so that `it's` becomes `It'S`.
fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for c in text.chars() {
        if inside {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
        inside = c.is_lowercase() || c.is_uppercase();
    }
    out
}

/// Words between spaces; what is left after `most` cuts stays together.
fn split_at_space(text: &str, most: usize, from_right: bool) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text.trim_matches(is_space);
    while !rest.is_empty() {
        let cut = if from_right { rest.rfind(is_space) } else { rest.find(is_space) };
        let Some(cut) = cut.filter(|_| parts.len() < most) else {
            parts.push(rest);
            break;
        };
        if from_right {
            parts.push(rest[cut..].trim_start_matches(is_space));
            rest = rest[..cut].trim_end_matches(is_space);
        } else {
            parts.push(&rest[..cut]);
            rest = rest[cut..].trim_start_matches(is_space);
        }
    }
    if from_right {
        parts.reverse();
    }
    parts
}

/// Lines, ended by anything that Python takes for the end of one.
fn split_lines(text: &str, keep: bool) -> Vec<&str> {
    let ends =
        |c: char| matches!(c, '\n' | '\r' | '\x0b' | '\x0c' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(ends) {
        let width =
            if rest[at..].starts_with("\r\n") { 2 } else { rest[at..].chars().next().map_or(1, char::len_utf8) };
        lines.push(&rest[..if keep { at + width } else { at }]);
        rest = &rest[at + width..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}
