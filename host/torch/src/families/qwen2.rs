//! Qwen2 and Qwen2.5 (Yang et al. 2024, arXiv:2407.10671): biases on q, k and v only. transformers'
//! `Qwen2ForCausalLM`.

use super::{Form, refuse_windows};

pub(super) const FORM: Form = Form {
    model_type: "qwen2",
    architecture: "Qwen2ForCausalLM",
    qkv_bias: true,
    qk_norm: false,
    head_dim: None,
    refuse: refuse_windows,
};
