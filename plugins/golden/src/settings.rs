//! The settings of a variant. Each must be read: one that the mapping does not know would change the numbers unseen.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Why a variant cannot be expressed with the plugins that there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inexpressible(pub String);

/// The result of reading settings.
pub type Result<T> = std::result::Result<T, Inexpressible>;

/// Shorthand for an [`Inexpressible`].
pub fn inexpressible<T>(message: impl Into<String>) -> Result<T> {
    Err(Inexpressible(message.into()))
}

/// Settings that remember what was read.
#[derive(Debug)]
pub struct Settings<'a> {
    values: &'a Map<String, Value>,
    unread: BTreeSet<&'a str>,
}

impl<'a> Settings<'a> {
    /// All of it unread.
    pub fn new(values: &'a Map<String, Value>) -> Self {
        Self { values, unread: values.keys().map(String::as_str).collect() }
    }

    fn value(&mut self, key: &str) -> Option<&'a Value> {
        self.unread.remove(key);
        self.values.get(key).filter(|value| !value.is_null())
    }

    /// A number, if it is there and not null.
    pub fn optional_number(&mut self, key: &str) -> Result<Option<f64>> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        match value.as_f64() {
            Some(number) => Ok(Some(number)),
            None => inexpressible(format!("the setting `{key}` is {value}, and no number")),
        }
    }

    /// A number.
    pub fn number(&mut self, key: &str) -> Result<f64> {
        match self.optional_number(key)? {
            Some(number) => Ok(number),
            None => inexpressible(format!("the setting `{key}` is missing")),
        }
    }

    /// A whole number that is not negative.
    pub fn whole(&mut self, key: &str) -> Result<u64> {
        match self.value(key).and_then(Value::as_u64) {
            Some(number) => Ok(number),
            None => inexpressible(format!("the setting `{key}` is no whole number")),
        }
    }

    /// A text.
    pub fn text(&mut self, key: &str) -> Result<&'a str> {
        match self.value(key) {
            Some(Value::String(text)) => Ok(text),
            Some(value) => inexpressible(format!("the setting `{key}` is {value}, and no text")),
            None => inexpressible(format!("the setting `{key}` is missing")),
        }
    }

    /// A text, if it is there.
    pub fn optional_text(&mut self, key: &str) -> Result<Option<&'a str>> {
        if self.values.contains_key(key) { self.text(key).map(Some) } else { Ok(None) }
    }

    /// True or false.
    pub fn boolean(&mut self, key: &str) -> Result<bool> {
        match self.value(key) {
            Some(Value::Bool(value)) => Ok(*value),
            other => inexpressible(format!("the setting `{key}` is {other:?}, and no boolean")),
        }
    }

    /// Indices, or none.
    pub fn indices(&mut self, key: &str) -> Result<Vec<usize>> {
        let Some(value) = self.value(key) else {
            return Ok(Vec::new());
        };
        let indices = value.as_array().and_then(|list| {
            list.iter().map(|index| index.as_u64().map(|index| index as usize)).collect::<Option<Vec<usize>>>()
        });
        match indices {
            Some(indices) => Ok(indices),
            None => inexpressible(format!("the setting `{key}` is {value}, and no list of rows")),
        }
    }

    /// Rows that a list of zeros and ones lets through, if it is there and not null.
    pub fn optional_mask(&mut self, key: &str) -> Result<Option<BTreeSet<usize>>> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        let mask = value.as_array().and_then(|list| list.iter().map(Value::as_f64).collect::<Option<Vec<f64>>>());
        match mask {
            Some(mask) if mask.iter().all(|value| *value == 0.0 || *value == 1.0) => {
                Ok(Some(mask.iter().enumerate().filter(|(_, value)| **value == 1.0).map(|(row, _)| row).collect()))
            }
            _ => inexpressible(format!("the setting `{key}` is {value}, and no mask of rows")),
        }
    }

    /// A setting that must have one value, which the plugins have built in.
    pub fn must_be(&mut self, key: &str, expected: &Value) -> Result<()> {
        match self.value(key) {
            Some(value) if value == expected => Ok(()),
            other => inexpressible(format!("the setting `{key}` is {other:?}, and not {expected}")),
        }
    }

    /// Settings that say how upstream was run, and change no number here.
    pub fn remarks(&mut self, keys: &[&str]) {
        for key in keys {
            self.unread.remove(*key);
        }
    }

    /// Refuses what was not read.
    pub fn finish(self) -> Result<()> {
        if self.unread.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = self.unread.into_iter().collect();
        inexpressible(format!("nothing reads the settings {}", names.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_setting_that_nobody_read_is_refused() {
        let Value::Object(values) = json!({"low": 0.2, "delta": null, "mode": "x", "note": "y"}) else {
            unreachable!("an object");
        };
        let mut settings = Settings::new(&values);
        assert_eq!(settings.number("low"), Ok(0.2));
        assert_eq!(settings.optional_number("delta"), Ok(None));
        assert_eq!(settings.optional_text("absent"), Ok(None));
        assert!(settings.number("mode").is_err());
        assert!(settings.number("absent").is_err());
        assert_eq!(settings.finish(), inexpressible("nothing reads the settings note"));
    }

    #[test]
    fn a_mask_lets_rows_through_by_its_ones() {
        let Value::Object(values) = json!({"active": [1.0, 0.0, 1, 0], "share": [0.5]}) else {
            unreachable!("an object");
        };
        let mut settings = Settings::new(&values);
        assert_eq!(settings.optional_mask("active"), Ok(Some([0, 2].into())));
        assert!(settings.optional_mask("share").is_err());
        assert_eq!(settings.optional_mask("absent"), Ok(None));
    }
}
