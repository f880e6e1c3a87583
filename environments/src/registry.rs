//! The environments by name. One line of [`ENVIRONMENTS`] adds one.

use std::num::{IntErrorKind, ParseIntError};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::{did_you_mean, nearest};
use crate::outside::{http, process};
use crate::{Environment, EnvironmentError, Traits, alfworld, frozen_lake, sokoban, sudoku, webshop};

/// Every environment that there is.
const ENVIRONMENTS: &[Entry] = &[
    entry::<frozen_lake::Settings>(),
    entry::<sokoban::Settings>(),
    entry::<sudoku::Settings>(),
    entry::<alfworld::Settings>(),
    entry::<webshop::Settings>(),
    entry::<process::Settings>(),
    entry::<http::Settings>(),
];

/// The settings of an environment: what its table in a configuration holds beside the name, and the environment that
/// they make.
pub(crate) trait Settings: DeserializeOwned + JsonSchema + 'static {
    /// The environment's name in configurations.
    const NAME: &'static str;
    /// What it is, in one line.
    const SUMMARY: &'static str;

    /// Refuses values that no environment can be made of, with the key that is to blame.
    fn check(&self) -> Result<(), EnvironmentError>;

    /// What an environment with these settings supplies.
    fn traits(&self) -> Traits;

    /// Makes the environment.
    fn build(self) -> Result<Box<dyn Environment>, EnvironmentError>;

    /// The error that `key` does not fit.
    fn misfit(key: &str, message: impl Into<String>) -> EnvironmentError {
        let key = (!key.is_empty()).then(|| key.to_owned());
        EnvironmentError::Settings { environment: Self::NAME, key, message: message.into() }
    }
}

/// An environment, or why there is none.
type Made = Result<Box<dyn Environment>, EnvironmentError>;

struct Entry {
    name: &'static str,
    summary: &'static str,
    traits: fn(&Map<String, Value>) -> Result<Traits, EnvironmentError>,
    make: fn(&Map<String, Value>) -> Made,
    schema: fn() -> Value,
}

const fn entry<S: Settings>() -> Entry {
    Entry {
        name: S::NAME,
        summary: S::SUMMARY,
        traits: |settings| Ok(read::<S>(settings)?.traits()),
        make: |settings| read::<S>(settings)?.build(),
        schema: || schemars::schema_for!(S).to_value(),
    }
}

/// The names of all environments.
pub fn names() -> &'static [&'static str] {
    const NAMES: [&str; ENVIRONMENTS.len()] = {
        let mut names = [""; ENVIRONMENTS.len()];
        let mut i = 0;
        while i < names.len() {
            names[i] = ENVIRONMENTS[i].name;
            i += 1;
        }
        names
    };
    &NAMES
}

/// What the environment supplies with these settings. Nothing is started. `settings` is a table without the key `name`;
/// null stands for an empty one.
pub fn traits(name: &str, settings: &Value) -> Result<Traits, EnvironmentError> {
    let entry = find(name)?;
    match settings {
        Value::Null => (entry.traits)(&Map::new()),
        Value::Object(settings) => (entry.traits)(settings),
        other => Err(EnvironmentError::Settings {
            environment: entry.name,
            key: None,
            message: format!("the settings must be a table, not {other}"),
        }),
    }
}

/// Makes an environment. `settings` is its table without the key `name`; keys that are left out have their defaults.
pub fn make(name: &str, settings: &Map<String, Value>) -> Made {
    (find(name)?.make)(settings)
}

/// What an environment is, in one line.
pub fn summary(name: &str) -> Result<&'static str, EnvironmentError> {
    Ok(find(name)?.summary)
}

/// The JSON schema of an environment's settings.
pub fn schema(name: &str) -> Result<Value, EnvironmentError> {
    Ok((find(name)?.schema)())
}

fn find(name: &str) -> Result<&'static Entry, EnvironmentError> {
    ENVIRONMENTS.iter().find(|entry| entry.name == name).ok_or_else(|| EnvironmentError::Unknown {
        name: name.to_owned(),
        nearest: nearest(name, names().iter().copied()),
    })
}

fn read<S: Settings>(settings: &Map<String, Value>) -> Result<S, EnvironmentError> {
    // Serde would name an unknown key in a sentence only; here its path and the nearest valid one are wanted.
    let schema = schemars::schema_for!(S).to_value();
    if let Some(known) = schema["properties"].as_object()
        && let Some(key) = settings.keys().find(|key| !known.contains_key(*key))
    {
        let meant = did_you_mean(nearest(key, known.keys().map(String::as_str)));
        let known = known.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        return Err(S::misfit(key, format!("there is no such setting{meant}; there are: {known}")));
    }
    let settings: S = serde_path_to_error::deserialize(Value::Object(settings.clone())).map_err(|error| {
        let path = error.path().to_string();
        let mut message = in_words(&error.inner().to_string());
        // A whole number that is too large for TOML comes as a text.
        let too_large =
            |error: ParseIntError| [IntErrorKind::PosOverflow, IntErrorKind::NegOverflow].contains(error.kind());
        if let Some(Value::String(text)) = settings.get(&path)
            && text.parse::<i64>().is_err_and(too_large)
        {
            message = format!("{text} is out of range: whole numbers go from {} to {}", i64::MIN, i64::MAX);
        }
        S::misfit(if path == "." { "" } else { &path }, message)
    })?;
    settings.check()?;
    Ok(settings)
}

/// Serde's message with what was expected as a reader of TOML calls it.
fn in_words(message: &str) -> String {
    let Some((found, expected)) = message.rsplit_once(", expected ") else { return message.to_owned() };
    let words = match expected {
        "usize" | "u64" | "u32" | "u16" | "u8" => "a whole number of at least 0",
        "isize" | "i64" | "i32" => "a whole number",
        "f64" | "f32" => "a number",
        "a boolean" => "`true` or `false`",
        "a sequence" => "a list",
        "a map" => "a table",
        other if other.starts_with("struct ") => "a table",
        other => other,
    };
    format!("{found}, expected {words}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_environment_starts_with_its_defaults_and_keeps_what_its_traits_say() {
        for name in names() {
            // What others play has to be told where they are.
            if let Some(key) = [("process", "command"), ("http", "urls")].iter().find(|(of, _)| of == name) {
                assert_eq!(traits(name, &Value::Null).unwrap_err().key(), Some(key.1));
                continue;
            }
            let traits = traits(name, &Value::Null).unwrap();
            let mut environment = make(name, &Map::new()).unwrap();
            let turn = environment.reset(7).unwrap();
            assert!(!environment.instructions().is_empty(), "{name}");
            assert_eq!(turn.state.is_some(), traits.states, "{name}");
            assert_eq!(environment.expert().is_some(), traits.expert, "{name}");
            assert_eq!(environment.task().answer.is_some(), traits.answers, "{name}");
        }
    }

    #[test]
    fn every_setting_is_described_in_the_schema() {
        for name in names() {
            let schema = schema(name).unwrap();
            for (key, property) in schema["properties"].as_object().unwrap() {
                assert!(property["description"].is_string(), "{name}: {key}");
                assert!(!property["default"].is_null(), "{name}: {key}");
            }
        }
    }

    #[test]
    fn an_unknown_name_comes_back_with_the_nearest_one() {
        let error = make("frozen_lake", &Map::new()).err().unwrap();
        assert_eq!(error.key(), Some("name"));
        assert!(error.to_string().contains("did you mean `frozen-lake`?"), "{error}");
        assert!(matches!(schema("zzz"), Err(EnvironmentError::Unknown { nearest: None, .. })));
    }

    #[test]
    fn what_was_expected_is_said_without_names_of_types() {
        for (name, settings, expected) in [
            (
                "sokoban",
                json!({ "boxes": "two" }),
                "invalid type: string \"two\", expected a whole number of at least 0",
            ),
            ("frozen-lake", json!({ "p_frozen": [] }), "invalid type: sequence, expected a number"),
            ("alfworld", json!({ "ignore_case": 1 }), "invalid type: integer `1`, expected `true` or `false`"),
            ("process", json!({ "command": "python3" }), "invalid type: string \"python3\", expected a list"),
            ("process", json!({ "supplies": 1 }), "invalid type: integer `1`, expected a table"),
        ] {
            let error = traits(name, &settings).unwrap_err().to_string();
            assert!(error.ends_with(expected), "{error}");
        }
    }

    #[test]
    fn settings_that_are_no_table_are_refused() {
        let error = traits("frozen-lake", &json!(4)).unwrap_err();
        assert_eq!(error.to_string(), "environment `frozen-lake`: the settings must be a table, not 4");
    }
}
