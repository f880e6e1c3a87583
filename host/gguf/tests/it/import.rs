//! Tiny models become folders: names, order of rows, types, files, and what is refused.

use std::{
    collections::BTreeMap,
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use accredit_gguf::{Dtype, Error, Gguf, Plan};
use safetensors::SafeTensors;
use serde_json::{Value as Json, json};

use crate::writer::{
    HEAD, HEADS, HIDDEN, INNER, VOCABULARY,
    Value::{F32, Text, U32},
    Writer, weights,
};

fn go_on(_: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn write(writer: &Writer, scratch: &Path, dtype: Dtype) -> Result<PathBuf, Error> {
    let gguf = Gguf::open(&writer.file(scratch))?;
    let folder = scratch.join("made").join("model");
    Plan::new(&gguf)?.write(&folder, dtype, go_on)?;
    Ok(folder)
}

pub fn json(path: &Path) -> Json {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Shapes and weights of a file in f32.
fn read(path: &Path) -> BTreeMap<String, (Vec<usize>, Vec<f32>)> {
    let bytes = fs::read(path).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let numbers = |data: &[u8]| data.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    tensors.iter().map(|(name, view)| (name.to_owned(), (view.shape().to_vec(), numbers(view.data())))).collect()
}

fn check_refused(change: impl FnOnce(&mut Writer), expected: &[&str]) {
    let scratch = tempfile::tempdir().unwrap();
    let mut writer = Writer::model("llama", "smollm");
    change(&mut writer);
    let error = write(&writer, scratch.path(), Dtype::F32).unwrap_err().to_string();
    assert!(error.starts_with(&scratch.path().display().to_string()), "{error}");
    for part in expected {
        assert!(error.contains(part), "{error}: {part}");
    }
    let left: Vec<_> = fs::read_dir(scratch.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| name == "model.gguf" || name == "made"), "{left:?}");
}

#[test]
fn every_architecture_gets_its_configuration_and_its_tensors() {
    let common = [
        "model.embed_tokens.weight",
        "model.layers.0.input_layernorm.weight",
        "model.layers.0.mlp.down_proj.weight",
        "model.layers.0.mlp.gate_proj.weight",
        "model.layers.0.mlp.up_proj.weight",
        "model.layers.0.post_attention_layernorm.weight",
        "model.layers.0.self_attn.k_proj.weight",
        "model.layers.0.self_attn.o_proj.weight",
        "model.layers.0.self_attn.q_proj.weight",
        "model.layers.0.self_attn.v_proj.weight",
        "model.norm.weight",
    ];
    let biases = ["k_proj.bias", "q_proj.bias", "v_proj.bias"].map(|name| format!("model.layers.0.self_attn.{name}"));
    let norms = ["k_norm.weight", "q_norm.weight"].map(|name| format!("model.layers.0.self_attn.{name}"));
    for (architecture, pre, class, more) in [
        ("llama", "smollm", "LlamaForCausalLM", &[][..]),
        ("qwen2", "qwen2", "Qwen2ForCausalLM", &biases),
        ("qwen3", "qwen2", "Qwen3ForCausalLM", &norms),
    ] {
        for version in [2, 3] {
            let scratch = tempfile::tempdir().unwrap();
            let folder = write(&Writer { version, ..Writer::model(architecture, pre) }, scratch.path(), Dtype::F32);
            let folder = folder.unwrap();
            let config = json(&folder.join("config.json"));
            let expected = json!({
                "architectures": [class], "model_type": architecture, "vocab_size": VOCABULARY, "hidden_size": HIDDEN,
                "intermediate_size": INNER, "num_hidden_layers": 1, "num_attention_heads": HEADS,
                "num_key_value_heads": 1, "head_dim": HEAD, "hidden_act": "silu", "max_position_embeddings": 64,
                "rms_norm_eps": 1e-6, "rope_theta": 1e6, "tie_word_embeddings": true, "bos_token_id": 1,
                "eos_token_id": 2, "pad_token_id": 0, "torch_dtype": "float32",
            });
            for (key, value) in expected.as_object().unwrap() {
                assert_eq!(&config[key], value, "{architecture}: {key}");
            }
            assert!(config["rope_scaling"].is_null());
            let tensors = read(&folder.join("model.safetensors"));
            let mut names: Vec<&str> = common.into_iter().chain(more.iter().map(String::as_str)).collect();
            names.sort_unstable();
            assert_eq!(tensors.keys().map(String::as_str).collect::<Vec<_>>(), names);
            assert_eq!(tensors["model.layers.0.mlp.down_proj.weight"].0, [HIDDEN as usize, INNER as usize]);
            assert_eq!(json(&folder.join("generation_config.json"))["eos_token_id"], json!([2, 0]));
            assert!(fs::read_dir(folder.parent().unwrap()).unwrap().count() == 1, "something is left beside");
        }
    }
}

/// The numbers of a tensor of the tiny models: those from `first` on.
fn numbers(first: f32, count: u64) -> Vec<f32> {
    weights(first, count).chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

#[test]
fn only_llama_has_its_rows_put_in_order() {
    for (architecture, pre) in [("llama", "smollm"), ("qwen2", "qwen2")] {
        let scratch = tempfile::tempdir().unwrap();
        let folder = write(&Writer::model(architecture, pre), scratch.path(), Dtype::F32).unwrap();
        let tensors = read(&folder.join("model.safetensors"));
        let stored = numbers(200.0, HEADS * HEAD * HIDDEN);
        let rows: Vec<&[f32]> = stored.chunks(HIDDEN as usize).collect();
        // Within each head of four rows, the pairs (0, 1) and (2, 3) turn against each other.
        let order = if architecture == "llama" { [0, 2, 1, 3, 4, 6, 5, 7] } else { [0, 1, 2, 3, 4, 5, 6, 7] };
        let expected: Vec<f32> = order.iter().flat_map(|row| rows[*row]).copied().collect();
        assert_eq!(tensors["model.layers.0.self_attn.q_proj.weight"].1, expected, "{architecture}");
        let values = &tensors["model.layers.0.self_attn.v_proj.weight"].1;
        assert_eq!(*values, numbers(400.0, HEAD * HIDDEN), "{architecture}");
    }
}

#[test]
fn an_output_layer_is_tied_where_it_is_missing_or_a_copy() {
    let embedding = |first| weights(first, HIDDEN * VOCABULARY);
    for (output, tied) in [(None, true), (Some(0.0), true), (Some(1.0), false)] {
        let scratch = tempfile::tempdir().unwrap();
        let mut writer = Writer::model("llama", "smollm");
        if let Some(first) = output {
            writer.tensor("output.weight", &[HIDDEN, VOCABULARY], 0, embedding(first));
        }
        let folder = write(&writer, scratch.path(), Dtype::F32).unwrap();
        assert_eq!(json(&folder.join("config.json"))["tie_word_embeddings"], json!(tied));
        assert_eq!(read(&folder.join("model.safetensors")).contains_key("lm_head.weight"), !tied);
    }
}

#[test]
fn quantised_rows_are_put_in_order_as_well() {
    // Rows of one Q8_0 block each: every row has a scale of its own.
    let (hidden, heads) = (32, 1);
    let mut writer = Writer::model("llama", "smollm");
    let kv = writer.tensors.clone();
    for (name, sizes, ..) in kv {
        let sizes: Vec<u64> = sizes.iter().map(|size| if *size == HIDDEN { hidden } else { *size }).collect();
        writer.tensor(&name, &sizes, 0, weights(0.0, sizes.iter().product()));
    }
    let scales = [0x3C00_u16, 0x4000, 0x4200, 0x4400];
    let block = |scale: u16| scale.to_le_bytes().into_iter().chain([1; 32]).collect::<Vec<u8>>();
    let four: Vec<u8> = scales.iter().flat_map(|scale| block(*scale)).collect();
    writer.tensor("blk.0.attn_q.weight", &[hidden, 4], 8, four.clone());
    writer.tensor("blk.0.attn_k.weight", &[hidden, 4], 8, four);
    writer.tensor("blk.0.attn_v.weight", &[hidden, 4], 0, weights(0.0, hidden * 4));
    writer.tensor("blk.0.attn_output.weight", &[4, hidden], 0, weights(0.0, hidden * 4));
    writer.set("llama.embedding_length", U32(hidden as u32)).set("llama.attention.head_count", U32(heads));
    writer.set("llama.attention.key_length", U32(4));
    let scratch = tempfile::tempdir().unwrap();
    let folder = write(&writer, scratch.path(), Dtype::F32).unwrap();
    let queries = &read(&folder.join("model.safetensors"))["model.layers.0.self_attn.q_proj.weight"].1;
    let firsts: Vec<f32> = queries.chunks(hidden as usize).map(|row| row[0]).collect();
    assert_eq!(firsts, [1.0, 3.0, 2.0, 4.0]);
}

#[test]
fn types_are_converted_and_chosen() {
    let halves = |writer: &mut Writer, kind: u32, bits: u16| {
        for (_, sizes, stored, data) in writer.tensors.iter_mut().filter(|tensor| tensor.1.len() == 2) {
            *stored = kind;
            *data = bits.to_le_bytes().repeat(sizes.iter().product::<u64>() as usize);
        }
    };
    // 1 + 2^-10 is a number of f16, and 1.0 in bf16, whose next number is 1 + 2^-7.
    for (kind, bits, auto) in [(0, 0, Dtype::F32), (1, 0x3C01, Dtype::F16), (30, 0x3F80, Dtype::Bf16)] {
        let scratch = tempfile::tempdir().unwrap();
        let mut writer = Writer::model("llama", "smollm");
        if kind != 0 {
            halves(&mut writer, kind, bits);
        }
        let gguf = Gguf::open(&writer.file(scratch.path())).unwrap();
        let plan = Plan::new(&gguf).unwrap();
        assert_eq!(plan.auto_dtype(), auto);
        for (dtype, size) in [(Dtype::F32, 4), (Dtype::F16, 2), (Dtype::Bf16, 2)] {
            let folder = scratch.path().join(dtype.name());
            plan.write(&folder, dtype, go_on).unwrap();
            let bytes = fs::read(folder.join("model.safetensors")).unwrap();
            let tensors = SafeTensors::deserialize(&bytes).unwrap();
            let view = tensors.tensor("model.layers.0.mlp.up_proj.weight").unwrap();
            assert_eq!(view.data().len() as u64, size * HIDDEN * INNER);
            assert_eq!(json(&folder.join("config.json"))["torch_dtype"], json!(dtype.name()));
            if kind == 1 {
                let expected = match dtype {
                    Dtype::F32 => (1.0_f32 + 2.0_f32.powi(-10)).to_le_bytes().to_vec(),
                    Dtype::F16 => bits.to_le_bytes().to_vec(),
                    Dtype::Bf16 => 0x3F80_u16.to_le_bytes().to_vec(),
                };
                assert_eq!(view.data()[..size as usize], expected);
            }
        }
    }
}

#[test]
fn weights_that_are_no_numbers_or_do_not_fit_are_refused() {
    for (weight, dtype, expected) in [
        (f32::NAN, Dtype::F32, "NaN"),
        (f32::INFINITY, Dtype::Bf16, "inf"),
        (1e5, Dtype::F16, "has a weight of 100000, which float16 cannot hold"),
        (f32::MAX, Dtype::Bf16, "which bfloat16 cannot hold"),
    ] {
        let scratch = tempfile::tempdir().unwrap();
        let mut writer = Writer::model("llama", "smollm");
        let data = weight.to_le_bytes().repeat(HIDDEN as usize);
        writer.tensor("blk.0.ffn_norm.weight", &[HIDDEN], 0, data);
        let error = write(&writer, scratch.path(), dtype).unwrap_err().to_string();
        assert!(error.contains("tensor `blk.0.ffn_norm.weight`") && error.contains(expected), "{error}");
        assert_eq!(fs::read_dir(scratch.path().join("made")).unwrap().count(), 0);
    }
}

#[test]
fn large_models_are_dealt_to_several_files() {
    let scratch = tempfile::tempdir().unwrap();
    let gguf = Gguf::open(&Writer::model("qwen2", "qwen2").file(scratch.path())).unwrap();
    let (one, many) = (scratch.path().join("one"), scratch.path().join("many"));
    let mut plan = Plan::new(&gguf).unwrap();
    plan.write(&one, Dtype::F32, go_on).unwrap();
    plan.shard_bytes = 600;
    plan.write(&many, Dtype::F32, go_on).unwrap();
    let index = json(&many.join("model.safetensors.index.json"));
    assert_eq!(index["metadata"]["total_size"], json!(4 * plan.weights()));
    let mut joined = BTreeMap::new();
    let map = index["weight_map"].as_object().unwrap();
    let files: std::collections::BTreeSet<_> = map.values().map(|file| file.as_str().unwrap()).collect();
    assert!(files.len() > 2 && files.contains(format!("model-00001-of-{:05}.safetensors", files.len()).as_str()));
    for file in files {
        for (name, tensor) in read(&many.join(file)) {
            assert_eq!(map[&name], json!(file));
            joined.insert(name, tensor);
        }
    }
    assert_eq!(joined, read(&one.join("model.safetensors")));
    let [about_one, about_many] = [&one, &many].map(|folder| accredit_gguf::describe(folder).unwrap());
    assert_eq!(about_one.parameters, about_many.parameters);
}

#[test]
fn a_stop_leaves_nothing_and_a_full_folder_is_left_alone() {
    let scratch = tempfile::tempdir().unwrap();
    let gguf = Gguf::open(&Writer::model("llama", "smollm").file(scratch.path())).unwrap();
    let plan = Plan::new(&gguf).unwrap();
    let made = scratch.path().join("made");
    let stopped = plan.write(&made.join("model"), Dtype::F32, |_| ControlFlow::Break(()));
    assert!(matches!(stopped, Err(Error::Stopped)));
    assert_eq!(fs::read_dir(&made).unwrap().count(), 0);
    fs::create_dir(made.join("empty")).unwrap();
    plan.write(&made.join("empty"), Dtype::F32, go_on).unwrap();
    let error = plan.write(&made.join("empty"), Dtype::F32, go_on).unwrap_err().to_string();
    assert!(error.contains("not empty"), "{error}");
    fs::write(made.join("file"), "mine").unwrap();
    assert!(plan.write(&made.join("file"), Dtype::F32, go_on).is_err());
    assert_eq!(fs::read_to_string(made.join("file")).unwrap(), "mine");
}

/// Llama 3.1's factors for heads of this width: factor 8, base 500 000, original length 8192.
fn llama3_factors(head: u32) -> Vec<f32> {
    let frequency = |i: u32| 500_000_f64.powf(-2.0 * f64::from(i) / f64::from(head));
    let factor = |i| {
        let wavelength = std::f64::consts::TAU / frequency(i);
        if wavelength < 2048.0 {
            1.0
        } else if wavelength > 8192.0 {
            8.0
        } else {
            let smooth = (8192.0 / wavelength - 1.0) / 3.0;
            1.0 / ((1.0 - smooth) / 8.0 + smooth)
        }
    };
    (0..head / 2).map(|i| factor(i) as f32).collect()
}

/// A model whose heads are wide enough for all kinds of frequencies.
fn wide_llama(factors: &[f32]) -> Writer {
    let head = 64;
    let mut writer = Writer::model("llama", "llama-bpe");
    writer.set("llama.attention.head_count", U32(1)).set("llama.attention.key_length", U32(head as u32));
    writer.set("llama.rope.freq_base", F32(500_000.0));
    for name in ["attn_q", "attn_k", "attn_v"] {
        writer.tensor(&format!("blk.0.{name}.weight"), &[HIDDEN, head], 0, weights(0.0, HIDDEN * head));
    }
    writer.tensor("blk.0.attn_output.weight", &[head, HIDDEN], 0, weights(0.0, HIDDEN * head));
    let data = factors.iter().flat_map(|factor| factor.to_le_bytes()).collect();
    writer.tensor("rope_freqs.weight", &[factors.len() as u64], 0, data);
    writer
}

#[test]
fn scaled_positions_are_recognised_or_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let mut factors = llama3_factors(64);
    let between = factors.iter().filter(|factor| **factor > 1.0 && **factor < 8.0).count();
    assert!(between > 0 && factors[0] == 1.0 && factors[31] == 8.0);
    let folder = write(&wide_llama(&factors), scratch.path(), Dtype::F32).unwrap();
    let expected = json!({
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    });
    assert_eq!(json(&folder.join("config.json"))["rope_scaling"], expected);
    factors[3] = 1.5;
    let error = write(&wide_llama(&factors), tempfile::tempdir().unwrap().path(), Dtype::F32).unwrap_err().to_string();
    assert!(error.contains("`rope_freqs.weight`: number 3 is 1.5, and 1 by Llama 3.1's rule"), "{error}");

    let mut linear = Writer::model("llama", "smollm");
    linear.set("llama.rope.scaling.type", Text("linear")).set("llama.rope.scaling.factor", F32(4.0));
    let scratch = tempfile::tempdir().unwrap();
    let folder = write(&linear, scratch.path(), Dtype::F32).unwrap();
    let expected = json!({ "rope_type": "linear", "factor": 4.0 });
    assert_eq!(json(&folder.join("config.json"))["rope_scaling"], expected);
    check_refused(
        |w| {
            w.set("llama.rope.scaling.type", Text("longrope"));
        },
        &["`llama.rope.scaling.type`", "longrope"],
    );
    check_refused(
        |w| {
            w.set("llama.rope.scaling.attn_factor", F32(1.1));
        },
        &["`llama.rope.scaling.attn_factor`"],
    );
}

#[test]
fn what_is_not_supported_is_named() {
    let tensor = |name: &'static str, sizes: &'static [u64]| {
        move |w: &mut Writer| {
            w.tensor(name, sizes, 0, weights(0.0, sizes.iter().product()));
        }
    };
    let number = |key: &'static str, number| {
        move |w: &mut Writer| {
            w.set(key, U32(number));
        }
    };
    let missing = |name: &'static str| move |w: &mut Writer| w.tensors.retain(|(there, ..)| there != name);
    check_refused(
        |w| {
            w.set("general.architecture", Text("gemma3"));
        },
        &["`general.architecture`: gemma3", "qwen3"],
    );
    check_refused(number("llama.expert_count", 8), &["`llama.expert_count`: 8"]);
    check_refused(number("llama.attention.sliding_window", 512), &["`llama.attention.sliding_window`"]);
    check_refused(number("llama.block_count", 2), &["`blk.1.attn_norm.weight`: missing, expected shape [8]"]);
    check_refused(number("llama.block_count", 0), &["`llama.block_count`: 0, expected 1"]);
    check_refused(number("llama.attention.head_count_kv", 3), &["`llama.attention.head_count_kv`: 3 does not divide"]);
    check_refused(number("llama.rope.dimension_count", 2), &["`llama.rope.dimension_count`: 2"]);
    check_refused(
        |w| {
            w.unset("llama.embedding_length");
        },
        &["`llama.embedding_length`: missing, expected a whole"],
    );
    check_refused(
        |w| {
            w.set("llama.embedding_length", Text("x"));
        },
        &["the text \"x\", expected a whole number"],
    );
    check_refused(missing("output_norm.weight"), &["tensor `output_norm.weight`: missing"]);
    check_refused(missing("token_embd.weight"), &["tensor `token_embd.weight`: missing"]);
    check_refused(tensor("blk.0.attn_q.bias", &[8]), &["tensor `blk.0.attn_q.bias`: not expected", "llama"]);
    check_refused(tensor("output_norm.weight", &[4]), &["has shape [4], expected [8]"]);
    check_refused(
        |w| {
            w.tensor("output_norm.weight", &[8], 27, vec![0; 64]);
        },
        &["tensor `output_norm.weight`: has type I64, which cannot be read", "Q4_K"],
    );
    check_refused(
        |w| {
            w.tensor("blk.0.ffn_up.weight", &[256, 6], 16, vec![0; 6 * 66]);
        },
        &["tensor `blk.0.ffn_up.weight`: has shape [6, 256], expected [6, 8]"],
    );
    check_refused(number("split.count", 2), &["`split.count`", "llama-gguf-split --merge"]);
}
