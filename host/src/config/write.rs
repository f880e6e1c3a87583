//! A resolved configuration as TOML: one key per line, in the order of the schema, so that equal settings give equal
//! text.

use serde_json::Value as Json;

use super::path::Path;

/// The TOML of a table. `comment` gives what stands behind a value.
pub(super) fn toml(table: &serde_json::Map<String, Json>, comment: &dyn Fn(&Path) -> Option<String>) -> String {
    let mut writer = Writer { out: String::new(), comment };
    writer.table(table, &mut Vec::new(), &Path::default());
    writer.out
}

struct Writer<'a> {
    out: String,
    comment: &'a dyn Fn(&Path) -> Option<String>,
}

impl Writer<'_> {
    /// First the keys of a table, then the tables in it, since TOML wants that order.
    fn table(&mut self, table: &serde_json::Map<String, Json>, header: &mut Vec<String>, path: &Path) {
        for (key, value) in table.iter().filter(|(_, value)| !has_header(value)) {
            let comment = (self.comment)(&path.key(key));
            let comment = comment.map_or_else(String::new, |comment| format!("  # {comment}"));
            self.line(&format!("{} = {}{comment}", quoted(key), inline(value)));
        }
        for (key, value) in table.iter().filter(|(_, value)| has_header(value)) {
            header.push(quoted(key));
            let name = header.join(".");
            let path = path.key(key);
            match value {
                Json::Object(inner) => {
                    self.header(&format!("[{name}]"));
                    self.table(inner, header, &path);
                }
                _ => {
                    for (index, inner) in value.as_array().into_iter().flatten().enumerate() {
                        self.header(&format!("[[{name}]]"));
                        if let Json::Object(inner) = inner {
                            self.table(inner, header, &path.index(index));
                        }
                    }
                }
            }
            header.pop();
        }
    }

    fn header(&mut self, header: &str) {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
        self.line(header);
    }

    fn line(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push('\n');
    }
}

/// Whether a value is written under a header of its own: a table, or an array of nothing but tables.
fn has_header(value: &Json) -> bool {
    match value {
        Json::Object(table) => !table.is_empty(),
        Json::Array(elements) => !elements.is_empty() && elements.iter().all(Json::is_object),
        _ => false,
    }
}

fn quoted(key: &str) -> String {
    toml_edit::Key::new(key).to_string()
}

/// A value on one line, short of strings that have several.
pub(super) fn inline(value: &Json) -> String {
    match value {
        Json::String(text) => toml_edit::Value::from(text.as_str()).to_string(),
        // The shortest text that reads back as the same number, with an exponent where it has many zeros.
        Json::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => format!("{float:?}"),
            _ => number.to_string(),
        },
        Json::Array(elements) => format!("[{}]", elements.iter().map(inline).collect::<Vec<_>>().join(", ")),
        Json::Object(table) if table.is_empty() => "{}".to_owned(),
        Json::Object(table) => {
            let entries: Vec<String> =
                table.iter().map(|(key, value)| format!("{} = {}", quoted(key), inline(value))).collect();
            format!("{{ {} }}", entries.join(", "))
        }
        Json::Bool(flag) => flag.to_string(),
        // A configuration holds none: TOML has no null, and keys without a value are left out.
        Json::Null => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_come_before_tables_and_everything_reads_back() {
        let value = json!({
            "a": {"x": 1, "deep": {"y": [1, 2.0]}, "empty": {}},
            "b": 1e-8,
            "c": [{"p": "x"}, {}, {"q": {"r": true}}],
            "d": [[], [{"k": "v"}, 1]],
            "e f": "line\n\"two\" \\ '\u{1}",
        });
        let text = toml(value.as_object().unwrap(), &|_| None);
        assert_eq!(toml_edit::de::from_str::<Json>(&text).unwrap(), value, "{text}");
        assert!(text.starts_with("b = 1e-8\nd = [[], [{ k = \"v\" }, 1]]\n"), "{text}");
        assert!(text.contains("\n[a]\nx = 1\nempty = {}\n\n[a.deep]\ny = [1, 2.0]\n"), "{text}");
        assert!(text.contains("\n[[c]]\np = \"x\"\n\n[[c]]\n\n[[c]]\n\n[c.q]\nr = true\n"), "{text}");
    }
}
