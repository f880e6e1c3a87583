//! Reads the bytes of a file in order. Nothing is read past the end, and nothing is allocated by a length that a file only
//! claims.

use std::path::Path;

use crate::error::{Error, Result};

/// Longest key or name; the format's own limit.
const LONGEST_NAME: usize = 65_535;

/// A place in the bytes of a file.
pub(crate) struct Cursor<'a> {
    pub path: &'a Path,
    pub bytes: &'a [u8],
    pub at: usize,
}

impl<'a> Cursor<'a> {
    /// An error at the byte `at`.
    pub fn error(&self, at: usize, what: &str, message: impl Into<String>) -> Error {
        Error::Bytes { path: self.path.to_owned(), offset: at as u64, what: what.to_owned(), message: message.into() }
    }

    /// Bytes that are left.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub fn take(&mut self, count: usize, what: &str) -> Result<&'a [u8]> {
        let Some(taken) = self.bytes[self.at..].get(..count) else {
            let message = format!("expected {count} more bytes, and the file ends after {}", self.left());
            return Err(self.error(self.at, what, message));
        };
        self.at += count;
        Ok(taken)
    }

    pub fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, what)?);
        Ok(array)
    }

    pub fn u32(&mut self, what: &str) -> Result<u32> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub fn u64(&mut self, what: &str) -> Result<u64> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// A count of things that take at least `least` bytes each, so that no more are believed in than fit the file.
    pub fn count(&mut self, least: usize, what: &str) -> Result<usize> {
        let at = self.at;
        let count = self.u64(what)?;
        let most = self.left() / least;
        usize::try_from(count).ok().filter(|count| *count <= most).ok_or_else(|| {
            let left = self.left();
            self.error(
                at,
                what,
                format!("{count} do not fit into the {left} bytes that are left; is the file cut short?"),
            )
        })
    }

    /// A text with its length before it.
    pub fn string(&mut self, what: &str) -> Result<&'a str> {
        let count = self.count(1, &format!("length of {what}"))?;
        let at = self.at;
        let bytes = self.take(count, what)?;
        std::str::from_utf8(bytes).map_err(|error| self.error(at + error.valid_up_to(), what, "not valid UTF-8"))
    }

    /// A text that names something.
    pub fn name(&mut self, what: &str) -> Result<&'a str> {
        let at = self.at;
        let name = self.string(what)?;
        if name.is_empty() || name.len() > LONGEST_NAME {
            let message = format!("{} bytes long, expected 1 to {LONGEST_NAME}", name.len());
            return Err(self.error(at, what, message));
        }
        Ok(name)
    }
}
