//! Qwen3 (Yang et al. 2025, arXiv:2505.09388): no biases, and an RMSNorm over each head of q and k before it is turned.
//! transformers' `Qwen3ForCausalLM`.

use super::{Form, refuse_switch, refuse_windows};

pub(super) const FORM: Form = Form {
    model_type: "qwen3",
    architecture: "Qwen3ForCausalLM",
    qkv_bias: false,
    qk_norm: true,
    head_dim: Some(128),
    refuse: |keys| {
        refuse_switch(keys, "attention_bias", "biases of attention")?;
        refuse_windows(keys)
    },
};
