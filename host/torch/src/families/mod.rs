//! The families of models: what each one's `config.json` says, and in what they differ. All are decoders with
//! pre-RMSNorm, rotary positions, grouped-query attention and SwiGLU; [`crate::model`] computes any of them.

mod llama;
mod qwen2;
mod qwen3;

use crate::config::Keys;
use crate::error::{Error, Result};

/// A family of models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// Qwen2 and Qwen2.5.
    #[default]
    Qwen2,
    /// Qwen3, without a mixture of experts.
    Qwen3,
    /// Llama 2 and 3, SmolLM2, and others that carry Llama's architecture.
    Llama,
}

/// In what a family differs from the others.
pub(crate) struct Form {
    /// `model_type` in `config.json`.
    pub(crate) model_type: &'static str,
    /// The entry of `architectures` in `config.json`.
    pub(crate) architecture: &'static str,
    /// Whether q, k and v have biases.
    pub(crate) qkv_bias: bool,
    /// Whether each head of q and k is normalised before it is turned.
    pub(crate) qk_norm: bool,
    /// The width of a head where the configuration does not say it; none means hidden size / heads.
    pub(crate) head_dim: Option<usize>,
    /// Refuses what the family's configuration can ask for and [`crate::model`] does not compute.
    pub(crate) refuse: fn(&Keys<'_>) -> Result<()>,
}

impl Family {
    /// All families.
    pub const ALL: [Self; 3] = [Self::Qwen2, Self::Qwen3, Self::Llama];

    pub(crate) fn form(self) -> &'static Form {
        match self {
            Self::Qwen2 => &qwen2::FORM,
            Self::Qwen3 => &qwen3::FORM,
            Self::Llama => &llama::FORM,
        }
    }

    /// `model_type` in the `config.json` of its models.
    pub fn model_type(self) -> &'static str {
        self.form().model_type
    }

    /// The family of a configuration. Errors: one that is not supported.
    pub(crate) fn of(keys: &Keys<'_>) -> Result<Self> {
        let known = Self::ALL.map(|family| format!("\"{}\"", family.model_type())).join(", ");
        let Some(name) = keys.get("model_type") else {
            return Err(Error::config("model_type", format!("missing; it is one of {known}")));
        };
        let family = Self::ALL.into_iter().find(|family| name == family.model_type());
        let family =
            family.ok_or_else(|| Error::config("model_type", format!("{name} is not supported, only {known}")))?;
        let expected = family.form().architecture;
        if let Some(architectures) = keys.get("architectures")
            && !architectures.as_array().is_some_and(|names| names.iter().any(|name| name == expected))
        {
            let message = format!("{architectures} is not supported, only \"{expected}\"");
            return Err(Error::config("architectures", message));
        }
        (family.form().refuse)(keys)?;
        Ok(family)
    }
}

/// Refuses a switch that is on.
fn refuse_switch(keys: &Keys<'_>, key: &str, what: &str) -> Result<()> {
    if keys.flag(key)? {
        return Err(Error::config(key, format!("{what} are not supported")));
    }
    Ok(())
}

/// Refuses layers that attend to a window only. Many of Qwen's configurations carry a window that no layer uses.
fn refuse_windows(keys: &Keys<'_>) -> Result<()> {
    let in_use = if let Some(types) = keys.list("layer_types")? {
        types.iter().any(|kind| kind != "full_attention")
    } else {
        let windowed_from = keys.whole("max_window_layers")?.unwrap_or(28);
        keys.flag("use_sliding_window")?
            && keys.get("sliding_window").is_some()
            && windowed_from < keys.size("num_hidden_layers")?
    };
    if in_use {
        return Err(Error::config("use_sliding_window", "sliding-window attention is in use, which is not supported"));
    }
    Ok(())
}
