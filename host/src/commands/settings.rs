//! Settings and parameters as people read them, from a JSON schema.

use serde_json::{Map, Value};

/// A paragraph for each property: its name, what it is if that is given, its default, its range, what it means, and the
/// values of one that has a fixed set of them.
pub fn describe(schema: &Value, given: &Map<String, Value>) -> String {
    let mut text = String::new();
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        let mut facts: Vec<String> = given.get(key).map(ToString::to_string).into_iter().collect();
        match property.get("default") {
            Some(default) => facts.push(format!("default {default}")),
            None if required(schema, key) => facts.push("must be given".to_owned()),
            None => {}
        }
        facts.extend(range(property));
        text.push_str(&format!("  {key} ({})\n", facts.join(", ")));
        for line in property["description"].as_str().unwrap_or_default().lines() {
            text.push_str(&format!("      {line}\n"));
        }
        for (choice, meaning) in choices(schema, property) {
            text.push_str(&format!("      - {choice}: {meaning}\n"));
        }
    }
    text
}

fn required(schema: &Value, key: &str) -> bool {
    schema["required"].as_array().is_some_and(|required| required.iter().any(|name| name == key))
}

fn range(property: &Value) -> Option<String> {
    let bound = |names: [(&str, &str); 2]| {
        names.into_iter().find_map(|(name, word)| property.get(name).map(|number| format!("{word} {number}")))
    };
    let low = bound([("minimum", "at least"), ("exclusiveMinimum", "more than")]);
    let high = bound([("maximum", "at most"), ("exclusiveMaximum", "less than")]);
    let bounds: Vec<String> = low.into_iter().chain(high).collect();
    (!bounds.is_empty()).then(|| bounds.join(" and "))
}

/// The values of a property that has a fixed set of them, and what each means.
fn choices<'a>(schema: &'a Value, property: &'a Value) -> Vec<(&'a str, String)> {
    let definition = property["$ref"].as_str().and_then(|path| schema.pointer(path.strip_prefix('#')?));
    let entries = definition.unwrap_or(property)["oneOf"].as_array().map(Vec::as_slice).unwrap_or_default();
    let choice = |entry: &'a Value| {
        let meaning = entry["description"].as_str().unwrap_or_default();
        Some((entry["const"].as_str()?, meaning.lines().collect::<Vec<_>>().join(" ")))
    };
    entries.iter().filter_map(choice).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_setting_has_value_default_range_meaning_and_choices() {
        let schema = json!({
            "required": ["path"],
            "properties": {
                "path": { "description": "Where.\nAnd how." },
                "rate": { "default": 0.5, "minimum": 0, "exclusiveMaximum": 1, "description": "How fast." },
                "way": { "default": "a", "$ref": "#/$defs/Way" },
            },
            "$defs": { "Way": { "oneOf": [{ "const": "a", "description": "The\nfirst." }, { "const": "b" }] } },
        });
        let given = json!({ "rate": 0.1 });
        let text = describe(&schema, given.as_object().unwrap());
        let expected = "  path (must be given)\n      Where.\n      And how.\n\
                        \x20 rate (0.1, default 0.5, at least 0 and less than 1)\n      How fast.\n\
                        \x20 way (default \"a\")\n      - a: The first.\n      - b: \n";
        assert_eq!(text, expected);
    }
}
