//! The keys of a GGUF file and their values. Arrays stay in the file: they are walked through once when it is opened,
//! and read when somebody asks.

use std::{collections::HashMap, path::Path};

use crate::{
    cursor::Cursor,
    error::{Error, Result},
};

/// Arrays within arrays, at most.
const DEEPEST: usize = 3;
/// More keys than any file has.
const MOST_KEYS: usize = 65_536;

/// The type of a value, as the format numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    String,
    Array,
    U64,
    I64,
    F64,
}

impl Kind {
    fn read(cursor: &mut Cursor, what: &str) -> Result<Self> {
        let at = cursor.at;
        Ok(match cursor.u32(what)? {
            0 => Self::U8,
            1 => Self::I8,
            2 => Self::U16,
            3 => Self::I16,
            4 => Self::U32,
            5 => Self::I32,
            6 => Self::F32,
            7 => Self::Bool,
            8 => Self::String,
            9 => Self::Array,
            10 => Self::U64,
            11 => Self::I64,
            12 => Self::F64,
            other => return Err(cursor.error(at, what, format!("{other} is no type of a value, expected 0 to 12"))),
        })
    }

    /// Bytes of a value, at least.
    fn least(self) -> usize {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 | Self::String => 8,
            Self::Array => 12,
        }
    }
}

/// An array that lies in the file.
#[derive(Clone, Copy, Debug)]
struct Array {
    kind: Kind,
    count: usize,
    /// The first element's place.
    at: usize,
}

#[derive(Clone, Debug)]
enum Value {
    Integer(i128),
    Float(f64),
    Bool(bool),
    String(String),
    Array(Array),
}

impl Value {
    fn read(cursor: &mut Cursor, kind: Kind, key: &str) -> Result<Self> {
        Ok(match kind {
            Kind::U8 => Self::Integer(u8::from_le_bytes(cursor.array(key)?).into()),
            Kind::I8 => Self::Integer(i8::from_le_bytes(cursor.array(key)?).into()),
            Kind::U16 => Self::Integer(u16::from_le_bytes(cursor.array(key)?).into()),
            Kind::I16 => Self::Integer(i16::from_le_bytes(cursor.array(key)?).into()),
            Kind::U32 => Self::Integer(cursor.u32(key)?.into()),
            Kind::I32 => Self::Integer(i32::from_le_bytes(cursor.array(key)?).into()),
            Kind::U64 => Self::Integer(cursor.u64(key)?.into()),
            Kind::I64 => Self::Integer(i64::from_le_bytes(cursor.array(key)?).into()),
            Kind::F32 => Self::Float(shortest(f32::from_le_bytes(cursor.array(key)?))),
            Kind::F64 => Self::Float(f64::from_le_bytes(cursor.array(key)?)),
            Kind::Bool => {
                let at = cursor.at;
                match cursor.array(key)? {
                    [0] => Self::Bool(false),
                    [1] => Self::Bool(true),
                    [other] => {
                        return Err(cursor.error(at, key, format!("{other} is no truth value, expected 0 or 1")));
                    }
                }
            }
            Kind::String => Self::String(cursor.string(key)?.to_owned()),
            Kind::Array => Self::Array(walk(cursor, key, 1)?),
        })
    }

    fn is_called(&self) -> String {
        match self {
            Self::Integer(number) => format!("the number {number}"),
            Self::Float(number) => format!("the number {number}"),
            Self::Bool(truth) => format!("{truth}"),
            Self::String(text) => format!("the text {:?}", text.chars().take(40).collect::<String>()),
            Self::Array(array) => format!("a list of {} values", array.count),
        }
    }
}

/// The decimal number that was meant: 1e-5, where its nearest f32 is 9.999999747378752e-6.
fn shortest(number: f32) -> f64 {
    number.to_string().parse().unwrap_or(f64::from(number))
}

/// Goes past an array.
fn walk(cursor: &mut Cursor, key: &str, depth: usize) -> Result<Array> {
    let start = cursor.at;
    let kind = Kind::read(cursor, key)?;
    let count = cursor.count(kind.least(), &format!("number of elements of {key}"))?;
    let array = Array { kind, count, at: cursor.at };
    match kind {
        Kind::Array if depth == DEEPEST => {
            return Err(cursor.error(start, key, format!("lists within lists, more than {DEEPEST} deep")));
        }
        Kind::Array => (0..count).try_for_each(|_| walk(cursor, key, depth + 1).map(drop))?,
        Kind::String => (0..count).try_for_each(|_| {
            let length = cursor.count(1, key)?;
            cursor.take(length, key).map(drop)
        })?,
        // The count was held against the bytes that are left.
        _ => drop(cursor.take(count * kind.least(), key)?),
    }
    Ok(array)
}

/// The keys and values of a file.
#[derive(Debug)]
pub(crate) struct Metadata(HashMap<String, Value>);

impl Metadata {
    pub fn read(cursor: &mut Cursor, count: usize) -> Result<Self> {
        if count > MOST_KEYS {
            return Err(cursor.error(cursor.at, "number of keys", format!("{count}, expected at most {MOST_KEYS}")));
        }
        let mut values = HashMap::new();
        for _ in 0..count {
            let at = cursor.at;
            let key = cursor.name("a key")?;
            let kind = Kind::read(cursor, key)?;
            let value = Value::read(cursor, kind, key)?;
            if values.insert(key.to_owned(), value).is_some() {
                return Err(cursor.error(at, key, "the key is there twice"));
            }
        }
        Ok(Self(values))
    }
}

/// Typed access to the values, with errors that name file and key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keys<'a> {
    pub path: &'a Path,
    pub bytes: &'a [u8],
    pub metadata: &'a Metadata,
}

impl<'a> Keys<'a> {
    pub fn error(&self, key: &str, message: impl Into<String>) -> Error {
        Error::key(self.path, key, message)
    }

    pub fn has(&self, key: &str) -> bool {
        self.metadata.0.contains_key(key)
    }

    /// The names of all keys that begin so, sorted.
    pub fn starting_with(&self, prefix: &str) -> Vec<&'a str> {
        let mut keys: Vec<_> =
            self.metadata.0.keys().map(String::as_str).filter(|key| key.starts_with(prefix)).collect();
        keys.sort_unstable();
        keys
    }

    fn optional<T>(&self, key: &str, read: impl Fn(&'a Value) -> Option<T>, expected: &str) -> Result<Option<T>> {
        let wrong = |value: &Value| self.error(key, format!("{}, expected {expected}", value.is_called()));
        self.metadata.0.get(key).map(|value| read(value).ok_or_else(|| wrong(value))).transpose()
    }

    fn there<T>(&self, key: &str, value: Option<T>, expected: &str) -> Result<T> {
        value.ok_or_else(|| self.error(key, format!("missing, expected {expected}")))
    }

    pub fn optional_text(&self, key: &str) -> Result<Option<&'a str>> {
        let read = |value: &'a Value| if let Value::String(text) = value { Some(text.as_str()) } else { None };
        self.optional(key, read, "a text")
    }

    pub fn text(&self, key: &str) -> Result<&'a str> {
        self.there(key, self.optional_text(key)?, "a text")
    }

    pub fn optional_size(&self, key: &str) -> Result<Option<u64>> {
        let read = |value: &Value| if let Value::Integer(n) = value { u64::try_from(*n).ok() } else { None };
        self.optional(key, read, "a whole number")
    }

    pub fn size(&self, key: &str) -> Result<u64> {
        self.there(key, self.optional_size(key)?, "a whole number")
    }

    pub fn optional_number(&self, key: &str) -> Result<Option<f64>> {
        let read = |value: &Value| match value {
            Value::Float(number) if number.is_finite() => Some(*number),
            Value::Integer(number) => Some(*number as f64),
            _ => None,
        };
        self.optional(key, read, "a finite number")
    }

    pub fn number(&self, key: &str) -> Result<f64> {
        self.there(key, self.optional_number(key)?, "a finite number")
    }

    pub fn optional_truth(&self, key: &str) -> Result<Option<bool>> {
        self.optional(key, |value| if let Value::Bool(truth) = value { Some(*truth) } else { None }, "true or false")
    }

    fn array(&self, key: &str, expected: &str, fits: impl Fn(Kind) -> bool) -> Result<Option<(Cursor<'a>, Array)>> {
        let read = |value: &Value| match value {
            Value::Array(array) if fits(array.kind) => Some(*array),
            _ => None,
        };
        let array = self.optional(key, read, expected)?;
        Ok(array.map(|array| (Cursor { path: self.path, bytes: self.bytes, at: array.at }, array)))
    }

    pub fn optional_texts(&self, key: &str) -> Result<Option<Vec<&'a str>>> {
        let Some((mut cursor, array)) = self.array(key, "a list of texts", |kind| kind == Kind::String)? else {
            return Ok(None);
        };
        (0..array.count).map(|i| cursor.string(&format!("{key}[{i}]"))).collect::<Result<_>>().map(Some)
    }

    pub fn texts(&self, key: &str) -> Result<Vec<&'a str>> {
        self.there(key, self.optional_texts(key)?, "a list of texts")
    }

    /// How long a list is.
    pub fn optional_length(&self, key: &str) -> Result<Option<usize>> {
        Ok(self.array(key, "a list", |_| true)?.map(|(_, array)| array.count))
    }

    pub fn optional_integers(&self, key: &str) -> Result<Option<Vec<i128>>> {
        let whole = |kind| !matches!(kind, Kind::F32 | Kind::F64 | Kind::Bool | Kind::String | Kind::Array);
        let Some((mut cursor, array)) = self.array(key, "a list of whole numbers", whole)? else { return Ok(None) };
        let read = |_| match Value::read(&mut cursor, array.kind, key)? {
            Value::Integer(number) => Ok(number),
            other => Err(self.error(key, format!("{}, expected a whole number", other.is_called()))),
        };
        (0..array.count).map(read).collect::<Result<_>>().map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_decimal_number_that_was_meant() {
        let numbers = [(1e-5_f32, 1e-5), (1e-6, 1e-6), (500_000.0, 500_000.0), (0.1, 0.1), (8.0, 8.0)];
        for (stored, meant) in numbers {
            assert_eq!(shortest(stored), meant);
        }
    }
}
