//! What can be wrong with a model, and where.

use std::{
    io,
    path::{Path, PathBuf},
};

use thiserror::Error;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A file that cannot be read, understood or written.
#[derive(Debug, Error)]
pub enum Error {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// The file as a whole is not what it should be.
    #[error("{}: {message}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// The bytes at one place are not what they should be.
    #[error("{}: byte {offset}: {what}: {message}", path.display())]
    Bytes {
        /// The file.
        path: PathBuf,
        /// Where, counted from the start of the file.
        offset: u64,
        /// What was being read.
        what: String,
        /// What is wrong with it.
        message: String,
    },
    /// A key is missing, of a wrong type, or says something that is not supported.
    #[error("{}: key `{key}`: {message}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// What is wrong with it.
        message: String,
    },
    /// A tensor is missing, not expected, or of a wrong shape or type.
    #[error("{}: tensor `{name}`: {message}", path.display())]
    Tensor {
        /// The file.
        path: PathBuf,
        /// The tensor, as the file calls it.
        name: String,
        /// What is wrong with it.
        message: String,
    },
    /// The user asked to stop. Nothing was left behind.
    #[error("stopped; nothing was written")]
    Stopped,
}

impl Error {
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }

    pub(crate) fn file(path: &Path, message: impl Into<String>) -> Self {
        Self::File { path: path.to_owned(), message: message.into() }
    }

    pub(crate) fn key(path: &Path, key: &str, message: impl Into<String>) -> Self {
        Self::Key { path: path.to_owned(), key: key.to_owned(), message: message.into() }
    }

    pub(crate) fn tensor(path: &Path, name: &str, message: impl Into<String>) -> Self {
        Self::Tensor { path: path.to_owned(), name: name.to_owned(), message: message.into() }
    }
}
