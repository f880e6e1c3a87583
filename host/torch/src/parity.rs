//! Parity with transformers, on fixtures that `tests/fixtures/make_fixtures.py` made: a full forward pass, and decoding
//! with a cache when it is told the tokens.

use std::collections::HashMap;
use std::path::PathBuf;

use tch::{Kind, Tensor};

use crate::cache::Cache;
use crate::decode::{Decoder, Prompt};
use crate::device::Device;
use crate::head::Head;
use crate::model::Model;
use crate::rotary::Rotary;
use crate::{Row, Wanted};

const FIXTURES: [&str; 5] = ["tied", "untied", "qwen3", "llama", "llama3"];
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
    FIXTURES.into_iter().map(|name| {
        let folder = folder(name);
        let mut expected: HashMap<_, _> =
            Tensor::read_safetensors(folder.join("expected.safetensors")).unwrap().into_iter().collect();
        let ids: Vec<Vec<i64>> = expected.remove("ids").unwrap().try_into().unwrap();
        let ids = ids.iter().map(|row| row.iter().map(|id| *id as u32).collect()).collect();
        let model = Model::load(&folder, Device::CPU).unwrap();
        Fixture { model, ids, logits: expected.remove("logits").unwrap() }
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
        let theirs = Head::new(&Tensor::eye(64, (Kind::Float, tch::Device::Cpu)), 1.0)
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

/// Prompts are read, then the known tokens are fed one by one; after some of them the last row leaves. With the kernels
/// of the CPU and with the operations that a GPU runs.
#[test]
fn logits_of_cached_decoding_are_transformers() {
    let _no_grad = tch::no_grad_guard();
    for (lengths, kernels) in [([4_usize, 4, 4], true), ([7, 4, 2], true), ([4, 4, 4], false), ([7, 4, 2], false)] {
        for Fixture { model, ids, logits } in fixtures() {
            let decoder = Decoder::new(&model).unwrap();
            let decoder = if kernels { decoder } else { decoder.without_kernels() };
            let shape = model.config().shape();
            let rotary = Rotary::new(shape, 17, Device::CPU).unwrap();
            let mut cache = Cache::new(shape, &lengths, 10, Device::CPU).unwrap();
            let prompts: Vec<Prompt> =
                (0..3).map(|row| Prompt { tokens: &ids[row][..lengths[row]], row, count: 1 }).collect();
            let mut ours = decoder.prefill(&prompts, &cache, &rotary).unwrap();
            for step in 0..10 {
                let rows = if step < 6 { 3 } else { 2 };
                let theirs: Vec<Tensor> =
                    (0..rows).map(|row| logits.get(row as i64).get((lengths[row] + step - 1) as i64)).collect();
                let off = difference(&ours.narrow(0, 0, rows as i64), &Tensor::stack(&theirs, 0));
                assert!(off < TOLERANCE, "step {step}: {off}");
                if step == 6 {
                    cache.keep(&[0, 1]).unwrap();
                }
                let positions: Vec<i64> = lengths[..rows].iter().map(|length| (length + step) as i64).collect();
                let next: Vec<i64> = (0..rows).map(|row| i64::from(ids[row][lengths[row] + step])).collect();
                ours = decoder.step(&next, &positions, &mut cache, &rotary).unwrap();
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
