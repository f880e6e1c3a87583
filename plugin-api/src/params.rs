//! Typed parameters: a struct, its defaults, its ranges, its reading from the configuration and its JSON schema, from
//! one declaration.

use std::ops::{Bound, RangeBounds};

use serde_json::{Map, Value, json};

use crate::error::{Error, Result};

/// Parameters of a scheme. [`params!`](crate::params!) implements it.
pub trait Params: Sized {
    /// Reads the parameters from a JSON object. Unknown keys, wrong types and values out of range are errors that name
    /// the key.
    fn from_json(text: &str) -> Result<Self>;

    /// The JSON schema of the parameters: descriptions, defaults, ranges.
    fn schema() -> Value;
}

/// A number whose range can be declared, or an optional one.
pub trait Bounded {
    /// The number itself.
    type Number: PartialOrd + Copy + std::fmt::Display;

    /// The value, if there is one.
    fn number(&self) -> Option<Self::Number>;

    /// A number as a value of the schema.
    fn json(number: Self::Number) -> Value;
}

macro_rules! bounded {
    ($($type:ty),*) => {
        $(impl Bounded for $type {
            type Number = Self;
            fn number(&self) -> Option<Self> {
                Some(*self)
            }
            fn json(number: Self) -> Value {
                json!(number)
            }
        })*
    };
}
bounded!(f32, f64, u8, u16, u32, u64, usize, i32, i64);

impl<T: Bounded> Bounded for Option<T> {
    type Number = T::Number;

    fn number(&self) -> Option<Self::Number> {
        self.as_ref().and_then(T::number)
    }

    fn json(number: Self::Number) -> Value {
        T::json(number)
    }
}

/// Declares the parameters of a scheme.
///
/// ```
/// accredit_plugin_api::params! {
///     /// Parameters of a scheme.
///     pub struct Params {
///         /// Multiplies every advantage.
///         #[range(0.0..=10.0)]
///         scale: f64 = 1.0,
///         /// Cuts advantages above this; none leaves them.
///         limit: Option<f64> = None,
///         /// Has no default, so the configuration must give it.
///         horizon: u32,
///     }
/// }
/// use accredit_plugin_api::Params as _;
/// let params = Params::from_json(r#"{"horizon": 5, "scale": 2}"#).unwrap();
/// assert_eq!((params.scale, params.limit, params.horizon), (2.0, None, 5));
/// assert!(Params::from_json(r#"{"horizon": 5, "sacle": 2}"#).is_err());
/// assert!(Params::from_json(r#"{"horizon": 5, "scale": 11}"#).is_err());
/// ```
///
/// Each field has a type that serde reads and schemars describes, a doc comment that becomes its description, and
/// optionally a range (`#[range(..)]`, checked) and a default. [`choices!`](crate::choices!) makes types for named
/// alternatives. Use `f64` for real numbers: defaults then read in the schema as they are written.
#[macro_export]
macro_rules! params {
    (
        $(#[$meta:meta])*
        $visibility:vis struct $name:ident {
            $( $(#[doc = $doc:literal])* $(#[range($range:expr)])? $field:ident : $type:ty $(= $default:expr)? ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        $visibility struct $name {
            $( $(#[doc = $doc])* pub $field: $type, )*
        }

        impl $crate::Params for $name {
            fn from_json(text: &str) -> $crate::Result<Self> {
                #[derive($crate::rt::serde::Deserialize)]
                #[serde(crate = "::accredit_plugin_api::rt::serde", deny_unknown_fields)]
                struct Raw {
                    $( #[serde(default)] $field: ::core::option::Option<$type>, )*
                }
                let raw: Raw = $crate::rt::read_params(text)?;
                let _ = &raw;
                let params = Self {
                    $( $field: match raw.$field {
                        ::core::option::Option::Some(value) => value,
                        ::core::option::Option::None => $crate::params!(@default $field $($default)?),
                    }, )*
                };
                $( $( $crate::rt::check_range(stringify!($field), &params.$field, &($range))?; )? )*
                ::core::result::Result::Ok(params)
            }

            fn schema() -> $crate::rt::serde_json::Value {
                #[allow(unused_mut)]
                let mut schema = $crate::rt::ParamsSchema::new();
                $( schema.field::<$type>(
                    stringify!($field),
                    &[$($doc),*],
                    $crate::params!(@json $type, $($default)?),
                );
                $( schema.range::<$type>(stringify!($field), &($range)); )? )*
                schema.finish()
            }
        }
    };
    (@default $field:ident) => {
        return ::core::result::Result::Err($crate::rt::missing_param(stringify!($field)))
    };
    (@default $field:ident $default:expr) => { $default };
    (@json $type:ty,) => { ::core::option::Option::None };
    (@json $type:ty, $default:expr) => {{
        let default: $type = $default;
        ::core::option::Option::Some($crate::rt::to_json(&default))
    }};
}

/// Declares a type of named alternatives for parameters.
///
/// ```
/// accredit_plugin_api::choices! {
///     /// What the mean is taken over.
///     pub enum Over {
///         /// Every row counts once.
///         Rows = "rows",
///         /// Every trajectory counts once.
///         Trajectories = "trajectories",
///     }
/// }
/// accredit_plugin_api::params! {
///     pub struct Params {
///         /// What the mean is taken over.
///         over: Over = Over::Trajectories,
///     }
/// }
/// use accredit_plugin_api::Params as _;
/// assert_eq!(Params::from_json(r#"{"over": "rows"}"#).unwrap().over, Over::Rows);
/// ```
#[macro_export]
macro_rules! choices {
    (
        $(#[$meta:meta])*
        $visibility:vis enum $name:ident {
            $( $(#[doc = $doc:literal])* $variant:ident = $text:literal ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[derive($crate::rt::serde::Serialize, $crate::rt::serde::Deserialize, $crate::rt::schemars::JsonSchema)]
        #[serde(crate = "::accredit_plugin_api::rt::serde")]
        #[schemars(crate = "::accredit_plugin_api::rt::schemars")]
        $visibility enum $name {
            $( $(#[doc = $doc])* #[serde(rename = $text)] $variant, )*
        }
    };
}

/// Reads parameters with the path of what does not fit.
pub fn read_params<T: serde::de::DeserializeOwned>(text: &str) -> Result<T> {
    let mut json = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let message = error.into_inner().to_string();
        // The text is the host's rendering of the table, so a position in it means nothing to the user.
        let message = message.split(" at line ").next().unwrap_or(&message).to_owned();
        Error::parameter(if path == "." { String::new() } else { path }, message)
    })
}

/// The error of a parameter without a default that was not given.
pub fn missing_param(name: &str) -> Error {
    Error::parameter("", format!("the parameter `{name}` is missing, and it has no default"))
}

/// A default as the schema shows it.
pub fn to_json<T: serde::Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}

/// Refuses a number outside its declared range; NaN is outside every range.
pub fn check_range<T: Bounded>(name: &str, value: &T, range: &impl RangeBounds<T::Number>) -> Result<()> {
    match value.number() {
        Some(number) if !range.contains(&number) => {
            Err(Error::parameter(name, format!("`{name}` is {number}; {}", describe_range(range))))
        }
        _ => Ok(()),
    }
}

fn describe_range<T: PartialOrd + std::fmt::Display>(range: &impl RangeBounds<T>) -> String {
    let low = match range.start_bound() {
        Bound::Included(low) => format!("at least {low}"),
        Bound::Excluded(low) => format!("more than {low}"),
        Bound::Unbounded => String::new(),
    };
    let high = match range.end_bound() {
        Bound::Included(high) => format!("at most {high}"),
        Bound::Excluded(high) => format!("less than {high}"),
        Bound::Unbounded => String::new(),
    };
    let both = if low.is_empty() || high.is_empty() { "" } else { " and " };
    format!("it must be {low}{both}{high}")
}

/// Builds the JSON schema of a table of parameters.
pub struct ParamsSchema {
    generator: schemars::SchemaGenerator,
    properties: Map<String, Value>,
    required: Vec<Value>,
}

impl ParamsSchema {
    /// An empty table.
    #[expect(clippy::new_without_default, reason = "only the macro makes one")]
    pub fn new() -> Self {
        let generator =
            schemars::generate::SchemaSettings::default().with(|s| s.inline_subschemas = true).into_generator();
        Self { generator, properties: Map::new(), required: Vec::new() }
    }

    /// Adds a parameter.
    pub fn field<T: schemars::JsonSchema>(&mut self, name: &str, doc: &[&str], default: Option<Value>) {
        let mut schema = match self.generator.subschema_for::<T>().to_value() {
            Value::Object(object) => object,
            other => Map::from_iter([("const".to_owned(), other)]),
        };
        let doc = doc.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
        if !doc.is_empty() {
            schema.insert("description".to_owned(), Value::String(doc));
        }
        match default {
            Some(default) => {
                schema.insert("default".to_owned(), default);
            }
            None => self.required.push(Value::String(name.to_owned())),
        }
        self.properties.insert(name.to_owned(), Value::Object(schema));
    }

    /// Adds the range of a parameter that was added before.
    pub fn range<T: Bounded>(&mut self, name: &str, range: &impl RangeBounds<T::Number>) {
        let Some(Value::Object(schema)) = self.properties.get_mut(name) else {
            return;
        };
        for (bound, including, excluding) in
            [(range.start_bound(), "minimum", "exclusiveMinimum"), (range.end_bound(), "maximum", "exclusiveMaximum")]
        {
            match bound {
                Bound::Included(number) => schema.insert(including.to_owned(), T::json(*number)),
                Bound::Excluded(number) => schema.insert(excluding.to_owned(), T::json(*number)),
                Bound::Unbounded => None,
            };
        }
    }

    /// The schema of the whole table.
    pub fn finish(self) -> Value {
        json!({
            "type": "object",
            "properties": self.properties,
            "required": self.required,
            "additionalProperties": false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::choices! {
        /// Colours.
        enum Colour {
            /// Like blood.
            Red = "red",
            /// Like the sea.
            Blue = "blue",
        }
    }

    crate::params! {
        /// An example.
        struct Example {
            /// A share.
            #[range(0.0..=1.0)]
            alpha: f64 = 0.1,
            /// A count.
            #[range(1..)]
            count: Option<u32> = None,
            /// A colour.
            colour: Colour = Colour::Red,
            /// Must be given.
            horizon: u32,
        }
    }

    fn check(json: &str, path: &str, message: &str) {
        let error = Example::from_json(json).err().map(|e| (e.location.clone(), e.message.clone()));
        assert_eq!(error, Some((path.to_owned(), message.to_owned())), "{json}");
    }

    #[test]
    fn what_does_not_fit_is_named() {
        check(
            r#"{"horizon": 1, "alpah": 1}"#,
            "alpah",
            "unknown field `alpah`, expected one of `alpha`, `count`, `colour`, `horizon`",
        );
        check(r#"{"horizon": 1, "alpha": "x"}"#, "alpha", "invalid type: string \"x\", expected f64");
        check(r#"{"horizon": 1, "alpha": 1.5}"#, "alpha", "`alpha` is 1.5; it must be at least 0 and at most 1");
        check(r#"{"horizon": 1, "count": 0}"#, "count", "`count` is 0; it must be at least 1");
        check(r#"{"horizon": 1, "colour": "green"}"#, "colour", "unknown variant `green`, expected `red` or `blue`");
        check(r#"{"horizon": -1}"#, "horizon", "invalid value: integer `-1`, expected u32");
        check("{}", "", "the parameter `horizon` is missing, and it has no default");
    }

    #[test]
    fn what_fits_is_read_over_the_defaults() {
        let example = Example::from_json(r#"{"horizon": 3, "colour": "blue", "count": 2}"#).ok();
        let example = example.map(|e| (e.alpha, e.count, e.colour, e.horizon));
        assert_eq!(example, Some((0.1, Some(2), Colour::Blue, 3)));
    }

    #[test]
    fn the_schema_has_descriptions_defaults_and_ranges() {
        let schema = Example::schema();
        assert_eq!(schema["properties"]["alpha"]["description"], "A share.");
        assert_eq!(schema["properties"]["alpha"]["default"], 0.1);
        assert_eq!(schema["properties"]["alpha"]["maximum"], 1.0);
        assert_eq!(schema["properties"]["colour"]["default"], "red");
        assert_eq!(schema["required"], json!(["horizon"]));
        assert_eq!(schema["additionalProperties"], false);
    }
}
