//! A folder is described as the GGUF file that it came from; what is missing or broken is said.

use std::{fs, ops::ControlFlow};

use accredit_gguf::{Dtype, Gguf, Plan, describe};

use crate::writer::{Value::Text, Writer};

#[test]
fn a_folder_is_described_as_the_file_it_came_from() {
    let scratch = tempfile::tempdir().unwrap();
    let file = Writer::model("qwen2", "qwen2").file(scratch.path());
    let gguf = Gguf::open(&file).unwrap();
    let folder = scratch.path().join("model");
    Plan::new(&gguf).unwrap().write(&folder, Dtype::Bf16, |_| ControlFlow::Continue(())).unwrap();
    let [mut of_file, of_folder] = [&file, &folder].map(|path| serde_json::to_value(describe(path).unwrap()).unwrap());
    assert_eq!(of_folder["weights"][0]["dtype"], "BF16");
    assert_eq!(of_folder["problems"], serde_json::json!([]));
    assert_eq!(of_folder["context_length"], 64);
    assert_eq!(of_folder["special_tokens"]["eos"], serde_json::json!({ "id": 2, "text": "<|im_end|>" }));
    let stop = serde_json::json!([{ "id": 2, "text": "<|im_end|>" }, { "id": 0, "text": "<|endoftext|>" }]);
    assert_eq!(of_folder["stop_tokens"], stop);
    for key in ["format", "weights", "bytes_on_disk"] {
        of_file[key] = of_folder[key].clone();
    }
    assert_eq!(of_file, of_folder);
}

#[test]
fn a_file_that_cannot_be_imported_is_described_as_far_as_it_can_be() {
    let scratch = tempfile::tempdir().unwrap();
    let mut writer = Writer::model("llama", "smollm");
    writer.set("general.architecture", Text("gemma3"));
    let about = describe(&writer.file(scratch.path())).unwrap();
    assert_eq!(about.architecture.as_deref(), Some("gemma3"));
    assert!(about.parameters > 0 && about.special_tokens["eos"].id == Some(2));
    assert!(about.problems[0].starts_with("cannot be imported: ") && about.problems[0].contains("gemma3 is not supp"));
}

#[test]
fn what_a_folder_lacks_is_said() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let error = || describe(folder).unwrap_err().to_string();
    assert!(error().contains("has no config.json"), "{}", error());
    fs::write(folder.join("config.json"), "{").unwrap();
    assert!(error().contains("config.json: EOF while parsing"), "{}", error());
    fs::write(folder.join("config.json"), r#"{"model_type": "qwen2", "eos_token_id": 7}"#).unwrap();
    let about = describe(folder).unwrap();
    let problems = about.problems.join("\n");
    assert!(problems.contains("no model.safetensors") && problems.contains("no tokenizer.json"), "{problems}");
    assert_eq!(about.special_tokens["eos"].id, Some(7));
    let weights = folder.join("model.safetensors");
    for (bytes, expected) in [
        (&b"\xff\xff\xff\xff\xff\xff\xff\xff{"[..], "its header would have 18446744073709551615 of 9 bytes"),
        (b"\x02\0\0\0\0\0\0\0{}trailing", "has 18 bytes, expected 10"),
        (b"\x02\0\0\0\0\0\0\0[]", "invalid type"),
    ] {
        fs::write(&weights, bytes).unwrap();
        assert!(error().contains(expected), "{}", error());
    }
    fs::remove_file(weights).unwrap();
    fs::write(folder.join("model.safetensors.index.json"), r#"{"weight_map": {"x": "../y"}}"#).unwrap();
    assert!(error().contains("key `x`: \"../y\" is no file name"), "{}", error());
}
