//! What a scheme returns when it cannot go on.

use std::fmt;

use crate::abi::RawError;

/// An error of a scheme, in words. The host adds the plugin's name, the hook and the iteration.
#[derive(Debug)]
pub struct Error {
    pub(crate) kind: u32,
    pub(crate) message: String,
    pub(crate) location: String,
}

impl Error {
    /// An error with this message.
    pub fn new(message: impl fmt::Display) -> Self {
        Self { kind: RawError::FAILED, message: message.to_string(), location: String::new() }
    }

    /// A parameter that does not fit: `path` is its name (`alpha`), so that the host can show the line of the
    /// configuration.
    pub fn parameter(path: impl fmt::Display, message: impl fmt::Display) -> Self {
        Self { kind: RawError::PARAMETERS, message: message.to_string(), location: path.to_string() }
    }

    pub(crate) fn column(message: String) -> Self {
        Self { kind: RawError::MISSING_COLUMN, message, location: String::new() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

// No `impl std::error::Error for Error`: it would forbid the conversion below, which lets `?` take any error.
impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Self {
        Self::new(error)
    }
}

/// The result of everything that an author writes.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Returns an [`Error`] with a formatted message.
#[macro_export]
macro_rules! fail {
    ($($message:tt)*) => {
        return ::core::result::Result::Err($crate::Error::new(::std::format!($($message)*)))
    };
}
