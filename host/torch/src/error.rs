//! What can go wrong, with the place where it did.

use std::path::{Path, PathBuf};

use tch::TchError;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong in the model, its sampler and its optimiser.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// libtorch refused an operation. The first line of its message; the rest is its own call stack.
    #[error("libtorch: {0}")]
    Torch(String),

    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },

    /// A file is not what its name says.
    #[error("{path}: {message}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },

    /// A model configuration that is not complete, contradicts itself, or asks for something that is not supported.
    #[error("model configuration: `{key}`: {message}")]
    Config {
        /// The key in `config.json`.
        key: String,
        /// What is wrong with it.
        message: String,
    },

    /// The tensors of a folder are not those of the model that is read from it.
    #[error("{path}: the weights do not fit the model: {}", list_of_differences(.missing, .extra, .misshaped))]
    Tensors {
        /// The weights file or the folder of a sharded model.
        path: PathBuf,
        /// Tensors that the model needs and the file lacks.
        missing: Vec<String>,
        /// Tensors in the file that the model has no place for.
        extra: Vec<String>,
        /// Tensors of another shape or type: name, what was found, what was expected.
        misshaped: Vec<(String, String, String)>,
    },

    /// A device that does not exist or cannot be used.
    #[error("device `{request}`: {message}")]
    Device {
        /// What was asked for.
        request: String,
        /// Why it cannot be had.
        message: String,
    },

    /// A token id that the vocabulary does not have.
    #[error("row {row}, position {position}: token id {id} is outside the vocabulary of {vocab_size}")]
    Token {
        /// Index of the row or prompt.
        row: usize,
        /// Index of the token in it.
        position: usize,
        /// The id.
        id: u32,
        /// Size of the vocabulary.
        vocab_size: usize,
    },

    /// A target that is not a position of its row with a token before it, or not after the target before it.
    #[error("row {row}: target {target} must lie in 1..{tokens} and after the target before it")]
    Target {
        /// Index of the row.
        row: usize,
        /// The target as given.
        target: u32,
        /// Number of tokens in the row.
        tokens: usize,
    },

    /// A row or a prompt with its longest answer that has more positions than the model.
    #[error("row {row}: {tokens} tokens, but the model has {max_positions} positions")]
    TooLong {
        /// Index of the row or prompt.
        row: usize,
        /// Tokens, with those that may still be sampled.
        tokens: usize,
        /// `max_position_embeddings` of the model.
        max_positions: usize,
    },

    /// The device has no room for a tensor.
    #[error("no memory left: {message}")]
    Memory {
        /// What libtorch says.
        message: String,
    },

    /// An argument that makes no sense.
    #[error("{name}: {message}")]
    Argument {
        /// Its name.
        name: &'static str,
        /// What is wrong with it.
        message: String,
    },

    /// Gradients were asked of a model that keeps none.
    #[error("this model is frozen: call `with_gradients` on it before it is trained")]
    Frozen,

    /// A sampler or a forward pass that was made before the weights changed.
    #[error("the weights have changed since this {what} was made: make it anew")]
    Stale {
        /// What is too old.
        what: &'static str,
    },

    /// The gradient holds NaN or infinity; the weights were left as they were.
    #[error("the gradient's norm is {norm}: the weights were left as they were")]
    Gradient {
        /// The norm.
        norm: f64,
    },

    /// The model gave NaN or infinite logits.
    #[error("prompt {prompt}, new token {position}: the logits hold NaN or infinity")]
    Logits {
        /// Index of the prompt.
        prompt: usize,
        /// How many tokens were sampled before.
        position: usize,
    },

    /// The caller cancelled.
    #[error("cancelled")]
    Cancelled,
}

impl Error {
    /// Keeps the first line: libtorch adds its call stack and dispatch tables, which are kilobytes.
    pub(crate) fn torch(message: &str) -> Self {
        let first = message.lines().next().unwrap_or_default();
        // On the CPU the first line begins with a place in libtorch's code.
        let out_of_memory = ["out of memory", "can't allocate memory", "not enough memory"];
        if out_of_memory.iter().any(|words| first.contains(words)) {
            return Self::Memory { message: first.rsplit("] . ").next().unwrap_or(first).to_owned() };
        }
        Self::Torch(first.to_owned())
    }

    pub(crate) fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }

    pub(crate) fn file(path: &Path, message: impl std::fmt::Display) -> Self {
        Self::File { path: path.to_owned(), message: message.to_string() }
    }

    pub(crate) fn config(key: &str, message: impl std::fmt::Display) -> Self {
        Self::Config { key: key.to_owned(), message: message.to_string() }
    }

    pub(crate) fn argument(name: &'static str, message: impl std::fmt::Display) -> Self {
        Self::Argument { name, message: message.to_string() }
    }
}

impl From<TchError> for Error {
    fn from(error: TchError) -> Self {
        match error {
            TchError::Torch(message) => Self::torch(&message),
            other => Self::torch(&other.to_string()),
        }
    }
}

fn list_of_differences(missing: &[String], extra: &[String], misshaped: &[(String, String, String)]) -> String {
    /// Enough to see what is wrong; a wrong model would list hundreds.
    const SHOWN: usize = 5;
    let list = |title: &str, names: Vec<String>| {
        let more = names.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let shown: Vec<_> = names.into_iter().take(SHOWN).collect();
        (!shown.is_empty()).then(|| format!("{title} {}{more}", shown.join(", ")))
    };
    let misshaped = misshaped.iter().map(|(name, found, expected)| format!("{name} ({found}, expected {expected})"));
    let parts = [
        list("missing", missing.to_vec()),
        list("not expected", extra.to_vec()),
        list("misshaped", misshaped.collect()),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_line_of_libtorch_is_kept() {
        let error = Error::from(TchError::Torch("shapes differ\nException raised from ...\n#0".into()));
        assert_eq!(error.to_string(), "libtorch: shapes differ");
    }

    #[test]
    fn a_device_without_room_is_told_from_other_failures() {
        let huge = tch::Tensor::f_zeros([1 << 30, 1 << 20], (tch::Kind::Float, tch::Device::Cpu));
        let error = Error::from(huge.unwrap_err());
        assert!(matches!(error, Error::Memory { .. }), "{error}");
        assert!(error.to_string().starts_with("no memory left: "), "{error}");
        let error = Error::torch("CUDA out of memory. Tried to allocate 2.00 GiB.\n#0");
        assert_eq!(error.to_string(), "no memory left: CUDA out of memory. Tried to allocate 2.00 GiB.");
    }

    #[test]
    fn differences_of_tensors_are_named() {
        let error = Error::Tensors {
            path: "model.safetensors".into(),
            missing: (0..7).map(|i| format!("m{i}")).collect(),
            extra: vec!["x".into()],
            misshaped: vec![("y".into(), "F32 [2]".into(), "[3]".into())],
        };
        assert_eq!(
            error.to_string(),
            "model.safetensors: the weights do not fit the model: missing m0, m1, m2, m3, m4 and 2 more; \
             not expected x; misshaped y (F32 [2], expected [3])"
        );
    }
}
