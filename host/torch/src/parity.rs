//! Parity with transformers, on fixtures that `tests/fixtures/make_fixtures.py` made: a full forward pass, and decoding
//! with a cache when it is told the tokens.

use std::collections::HashMap;
use std::path::PathBuf;

use tch::{Kind, Tensor};

use crate::cache::Cache;
use crate::decode::{Decoder, Tokens};
use crate::device::Device;
use crate::dtype::DType;
use crate::head::Head;
use crate::model::Model;
use crate::rotary::Rotary;
use crate::{Row, Wanted};

const FIXTURES: [&str; 5] = ["tied", "untied", "qwen3", "llama", "llama3"];
/// Adapters that PEFT saved, and the models that they are for.
const ADAPTERS: [(&str, &str); 2] = [("lora", "untied"), ("rslora", "qwen3")];
const TOLERANCE: f64 = 1e-4;

/// A model, the token ids `[rows, tokens]` and transformers' logits `[rows, tokens, vocabulary]`.
struct Fixture {
    model: Model,
    ids: Vec<Vec<u32>>,
    logits: Tensor,
}

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn fixtures() -> impl Iterator<Item = Fixture> {
    let alone = FIXTURES.into_iter().map(|name| (name, Model::load(&folder(name), Device::CPU)));
    let adapted = ADAPTERS.into_iter().map(|(name, base)| {
        let model = Model::load_over(&folder(name), Some(&folder(base)), Device::CPU);
        (name, model)
    });
    alone.chain(adapted).map(|(name, model)| {
        let mut expected: HashMap<_, _> =
            Tensor::read_safetensors(folder(name).join("expected.safetensors")).unwrap().into_iter().collect();
        let ids: Vec<Vec<i64>> = expected.remove("ids").unwrap().try_into().unwrap();
        let ids = ids.iter().map(|row| row.iter().map(|id| *id as u32).collect()).collect();
        Fixture { model: model.unwrap(), ids, logits: expected.remove("logits").unwrap() }
    })
}

fn difference(a: &Tensor, b: &Tensor) -> f64 {
    assert_eq!(a.size(), b.size());
    (a - b).abs().max().double_value(&[])
}

#[test]
fn logits_of_a_full_forward_pass_are_transformers() {
    for Fixture { model, ids, logits } in fixtures() {
        // A target everywhere: the token after the last one is nobody's, and its logits are what is looked at.
        let rows: Vec<Vec<u32>> = ids.iter().map(|row| [row.as_slice(), &[0]].concat()).collect();
        let targets: Vec<u32> = (1..=ids[0].len() as u32).collect();
        let rows = rows.iter().map(|tokens| Row { tokens, targets: &targets });
        let hidden = model.hidden_of_targets(&model.trunk().batch(rows).unwrap()).unwrap();
        let ours = hidden.matmul(&model.head().tr()).view_as(&logits);
        assert!(logits.abs().max().double_value(&[]) > 1.0);
        assert!(difference(&ours, &logits) < TOLERANCE, "{}", difference(&ours, &logits));
    }
}

#[test]
fn columns_are_those_of_transformers_logits() {
    for Fixture { model, ids, logits } in fixtures() {
        let targets: Vec<u32> = (1..ids[0].len() as u32).collect();
        let rows: Vec<Row> = ids.iter().map(|tokens| Row { tokens, targets: &targets }).collect();
        let wanted = Wanted { logprob: true, entropy: true, energy: true };
        let ours = model.score(&rows, wanted, 1.0, 40).unwrap();
        let predicting = logits.narrow(1, 0, targets.len() as i64).reshape([-1, 64]);
        let next: Vec<i64> = ids.iter().flat_map(|row| row[1..].iter().map(|id| i64::from(*id))).collect();
        let theirs = Head::new(&Tensor::eye(64, (Kind::Float, tch::Device::Cpu)), 1.0, DType::F32)
            .unwrap()
            .columns(&predicting, &Tensor::from_slice(&next), wanted)
            .unwrap();
        for (a, b) in
            [(&ours.logprob, &theirs.logprob), (&ours.entropy, &theirs.entropy), (&ours.energy, &theirs.energy)]
        {
            let off = difference(&Tensor::from_slice(a), &Tensor::from_slice(b));
            assert!(off < TOLERANCE, "{off}");
        }
    }
}

/// Rows are read in parts of different lengths, rows beside each other, into a cache that grows; one is copied to a row
/// that goes on from there. With the kernels of the CPU and with the operations that a GPU runs.
#[test]
fn logits_of_cached_decoding_are_transformers() {
    let _no_grad = tch::no_grad_guard();
    // How far each of the three rows is read after each pass.
    let passes = [[4, 7, 1], [5, 7, 4], [6, 12, 5], [7, 13, 6], [17, 14, 7]];
    for kernels in [true, false] {
        for Fixture { model, ids, logits } in fixtures() {
            let decoder = Decoder::new(&model).unwrap();
            let decoder = if kernels { decoder } else { decoder.without_kernels() };
            let shape = model.config().shape();
            let rotary = Rotary::new(shape, 17, Device::CPU).unwrap();
            let mut cache = Cache::new(shape, 4, 14, Device::CPU, DType::F32).unwrap();
            let mut read = [0; 4];
            let mut check = |cache: &Cache, parts: &[(usize, usize, usize)]| {
                let mut tokens = Tokens::default();
                let mut theirs = Vec::new();
                for (place, row, until) in parts.iter().filter(|(place, _, until)| read[*place] < *until) {
                    for (position, id) in ids[*row].iter().enumerate().take(*until).skip(read[*place]) {
                        tokens.push(*id, *place, position, (*place, 0));
                    }
                    tokens.want_last();
                    theirs.push(logits.get(*row as i64).get(*until as i64 - 1));
                }
                let ours = decoder.read(&tokens, cache, &rotary).unwrap();
                let off = difference(&ours, &Tensor::stack(&theirs, 0));
                assert!(off < TOLERANCE, "{parts:?}: {off}");
                for (place, _, until) in parts {
                    read[*place] = *until;
                }
            };
            for pass in passes {
                if pass[0] > cache.room() {
                    cache.grow(17).unwrap();
                }
                check(&cache, &[(0, 0, pass[0]), (1, 1, pass[1]), (2, 2, pass[2])]);
            }
            cache.copy(0, 3, 10).unwrap();
            read[3] = 10;
            for until in [11, 14] {
                let mut tokens = Tokens::default();
                for (position, id) in ids[0].iter().enumerate().take(until).skip(read[3]) {
                    tokens.push(*id, 3, position, (3, 0));
                }
                tokens.want_last();
                read[3] = until;
                let ours = decoder.read(&tokens, &cache, &rotary).unwrap();
                let off = difference(&ours.squeeze_dim(0), &logits.get(0).get(until as i64 - 1));
                assert!(off < TOLERANCE, "copied row: {off}");
            }
        }
    }
}

#[test]
fn a_loaded_folder_saves_bit_for_bit_and_keeps_unknown_keys() {
    for name in FIXTURES {
        let saved = tempfile::tempdir().unwrap();
        Model::load(&folder(name), Device::CPU).unwrap().save(saved.path()).unwrap();
        let read = |folder: PathBuf| -> Vec<(String, Vec<u8>)> {
            let bytes = std::fs::read(folder.join("model.safetensors")).unwrap();
            let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
            let mut all: Vec<_> = tensors.iter().map(|(name, view)| (name.to_owned(), view.data().to_vec())).collect();
            all.sort();
            all
        };
        assert_eq!(read(saved.path().to_owned()), read(folder(name)));
        let json = |folder: PathBuf| -> serde_json::Value {
            serde_json::from_str(&std::fs::read_to_string(folder.join("config.json")).unwrap()).unwrap()
        };
        assert_eq!(json(saved.path().to_owned()), json(folder(name)));
    }
}
