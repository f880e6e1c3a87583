//! Llama 2 and 3 (Grattafiori et al. 2024, arXiv:2407.21783) and SmolLM2, which is one: no biases, and for long contexts
//! the stretched rotary positions of Llama 3.1. transformers' `LlamaForCausalLM`.

use super::{Form, refuse_switch};

pub(super) const FORM: Form = Form {
    model_type: "llama",
    architecture: "LlamaForCausalLM",
    qkv_bias: false,
    qk_norm: false,
    head_dim: None,
    refuse: |keys| {
        refuse_switch(keys, "attention_bias", "biases of attention")?;
        refuse_switch(keys, "mlp_bias", "biases of the feed-forward layers")
    },
};
