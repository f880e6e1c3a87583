//! Settings and parameters as people read them, from a JSON schema.

use serde_json::{Map, Value};

/// A paragraph for each property: its name, what it is if that is given, its default, its range, what it means, and the
/// values of one that has a fixed set of them. Those of a table in it follow it.
pub fn describe(schema: &Value, given: &Map<String, Value>) -> String {
    let mut text = String::new();
    table(schema, schema, given, "", &mut text);
    text
}

fn table(schema: &Value, table: &Value, given: &Map<String, Value>, prefix: &str, text: &mut String) {
    for (key, property) in table["properties"].as_object().into_iter().flatten() {
        let value = given.get(key);
        let inner = definition(schema, property);
        let has_keys = inner["properties"].is_object();
        let mut facts = Vec::new();
        if has_keys {
            facts.push("a table".to_owned());
        } else {
            facts.extend(value.map(ToString::to_string));
            match property.get("default") {
                Some(default) => facts.push(format!("default {default}")),
                None if required(table, key) => facts.push("must be given".to_owned()),
                None => {}
            }
            facts.extend(range(property));
        }
        let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
        text.push_str(&format!("  {prefix}{key}{facts}\n"));
        for line in property["description"].as_str().unwrap_or_default().lines() {
            text.push_str(&format!("      {line}\n"));
        }
        for (choice, meaning) in choices(inner) {
            text.push_str(&format!("      - {choice}: {meaning}\n"));
        }
        if has_keys {
            let none = Map::new();
            let given = value.and_then(Value::as_object).unwrap_or(&none);
            self::table(schema, inner, given, &format!("{prefix}{key}."), text);
        }
    }
}

/// What a property's reference leads to, or the property itself.
fn definition<'a>(schema: &'a Value, property: &'a Value) -> &'a Value {
    let referred = property["$ref"].as_str().and_then(|path| schema.pointer(path.strip_prefix('#')?));
    referred.unwrap_or(property)
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
fn choices(property: &Value) -> Vec<(&str, String)> {
    let entries = property["oneOf"].as_array().map(Vec::as_slice).unwrap_or_default();
    entries
        .iter()
        .filter_map(|entry| {
            let meaning = entry["description"].as_str().unwrap_or_default();
            Some((entry["const"].as_str()?, meaning.lines().collect::<Vec<_>>().join(" ")))
        })
        .collect()
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
                "more": { "$ref": "#/$defs/More" },
            },
            "$defs": { "More": { "properties": { "depth": { "default": 2 } } }, "Way": { "oneOf": [{ "const": "a", "description": "The\nfirst." }, { "const": "b" }] } },
        });
        let given = json!({ "rate": 0.1, "more": { "depth": 3 } });
        let text = describe(&schema, given.as_object().unwrap());
        for paragraph in [
            "  path (must be given)\n      Where.\n      And how.\n",
            "  rate (0.1, default 0.5, at least 0 and less than 1)\n      How fast.\n",
            "  way (default \"a\")\n      - a: The first.\n      - b: \n",
            "  more (a table)\n  more.depth (3, default 2)\n",
        ] {
            assert!(text.contains(paragraph), "{text}");
        }
    }
}
