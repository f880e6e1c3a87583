//! Tokenizers: the files that are written are read by the library that everybody uses, and cut texts as their rules say.

use std::{ops::ControlFlow, path::Path};

use accredit_gguf::{Dtype, Gguf, Plan};
use serde_json::json;
use tokenizers::Tokenizer;

use crate::{
    import::json,
    writer::{
        TOKENS,
        Value::{Bool, I32s, Text, Texts, U32},
        Writer,
    },
};

fn write(writer: &Writer, scratch: &Path) -> Result<(Tokenizer, serde_json::Value), String> {
    let gguf = Gguf::open(&writer.file(scratch)).map_err(|e| e.to_string())?;
    let folder = scratch.join("model");
    let plan = Plan::new(&gguf).map_err(|e| e.to_string())?;
    plan.write(&folder, Dtype::F32, |_| ControlFlow::Continue(())).map_err(|e| e.to_string())?;
    let tokenizer = Tokenizer::from_file(folder.join("tokenizer.json")).map_err(|e| e.to_string())?;
    Ok((tokenizer, json(&folder.join("tokenizer_config.json"))))
}

fn check(writer: &Writer, text: &str, expected: &[&str]) {
    let scratch = tempfile::tempdir().unwrap();
    let (tokenizer, _) = write(writer, scratch.path()).unwrap();
    let encoded = tokenizer.encode(text, true).unwrap();
    assert_eq!(encoded.get_tokens(), expected, "{text}");
    for (id, token) in encoded.get_ids().iter().zip(expected) {
        assert_eq!(TOKENS[*id as usize], *token);
    }
}

#[test]
fn each_rule_cuts_as_it_says() {
    let model = |pre| Writer::model("llama", pre);
    check(&model("smollm"), "ab123", &["ab", "1", "2", "3"]);
    check(&model("qwen2"), "ab123", &["ab", "1", "2", "3"]);
    check(&model("gpt-2"), "ab123", &["ab", "123"]);
    // Three digits together, and a text begins with the bos token unless the file says otherwise.
    check(&model("llama-bpe"), "ab1231", &["ab", "123", "1"]);
    check(model("llama-bpe").unset("tokenizer.ggml.add_bos_token"), "a", &["<|im_start|>", "a"]);
    check(model("smollm").unset("tokenizer.ggml.add_bos_token"), "a", &["a"]);
    let mut both = model("smollm");
    both.set("tokenizer.ggml.add_bos_token", Bool(true)).set("tokenizer.ggml.add_eos_token", Bool(true));
    check(&both, "a", &["<|im_start|>", "a", "<|im_end|>"]);
    // A space goes with its word; added tokens are found in the middle of one.
    check(&model("smollm"), "a a<|im_end|>b<think>1", &["a", "Ġa", "<|im_end|>", "b", "<think>", "1"]);
}

#[test]
fn llama_takes_words_that_are_tokens_whatever_the_merges_say() {
    for (pre, expected) in [("llama-bpe", &["123"][..]), ("gpt-2", &["12", "3"])] {
        let mut writer = Writer::model("llama", pre);
        let merges = ["a b", "1 2"].map(str::to_owned).to_vec();
        check(writer.set("tokenizer.ggml.merges", Texts(merges)), "123", expected);
    }
}

#[test]
fn special_tokens_and_the_template_are_written() {
    let scratch = tempfile::tempdir().unwrap();
    let mut writer = Writer::model("llama", "smollm");
    writer.set("tokenizer.chat_template.tool_use", Text("{{ tools }}"));
    let (tokenizer, config) = write(&writer, scratch.path()).unwrap();
    let named = ["bos_token", "eos_token", "pad_token"].map(|name| config[name].as_str().unwrap());
    assert_eq!(named, ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]);
    assert_eq!(config["chat_template"][0], json!({ "name": "default", "template": "{{ messages }}" }));
    assert_eq!(config["chat_template"][1], json!({ "name": "tool_use", "template": "{{ tools }}" }));
    assert_eq!(config["add_bos_token"], json!(false));
    assert_eq!(tokenizer.decode(&[1, 12, 2, 13], true).unwrap(), " a<think>");
    // A token that only fills the vocabulary is none.
    assert_eq!(tokenizer.id_to_token(15), None);
}

#[test]
fn what_cannot_be_read_is_named() {
    let refused = |key: &str, value, expected: &str| {
        let scratch = tempfile::tempdir().unwrap();
        let mut writer = Writer::model("llama", "smollm");
        let key = format!("tokenizer.ggml.{key}");
        let error = write(writer.set(&key, value), scratch.path()).unwrap_err();
        assert!(error.contains(&format!("model.gguf: key `{key}`: ")) && error.contains(expected), "{error}");
    };
    let texts = |list: &[&str]| Texts(list.iter().map(|text| (*text).to_owned()).collect());
    refused("model", Text("llama"), "`llama` (SentencePiece) is not supported, expected gpt2");
    refused("pre", Text("tekken"), "`tekken` is not known, expected one of gpt-2, smollm, qwen2, llama-bpe");
    refused("tokens", texts(&["x"; 17]), "17 tokens, and the embedding has 16 rows");
    refused("token_type", I32s(vec![1; 15]), "15 types for 16 tokens");
    refused("token_type", I32s(vec![6; 16]), "token 0 (\"<|endoftext|>\") has type 6");
    refused("merges", texts(&["ab"]), "merge 0 (\"ab\") is not two tokens with one space between them");
    refused("merges", texts(&["a b", "b a"]), "merge 1 (\"b a\") has a part, or gives a result, that is no token");
    refused("bos_token_id", U32(99), "99 is none of the 16 tokens");
    refused("bos_token_id", U32(15), "15 is none of the 16 tokens");
    let mut twice: Vec<String> = TOKENS.iter().map(|text| (*text).to_owned()).collect();
    twice[4] = "a".to_owned();
    refused("tokens", Texts(twice), "tokens 3 and 4 are both \"a\"");
}
