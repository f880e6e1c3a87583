//! Tests of models that compute in other types of numbers, with frozen weights, and with adapters.

use std::path::Path;

use tch::{Kind, Tensor};

use crate::lora::{AdapterConfig, Lora, Target};
use crate::testing::model;
use crate::{
    AdamW, Critic, DType, Derivatives, Device, Error, Family, Model, ModelConfig, Optimizer, Row, Sampling, Shape,
    SpecialIds, Trained, Wanted,
};

const ROWS: [Row; 2] =
    [Row { tokens: &[1, 2, 3, 4, 9], targets: &[1, 2, 4] }, Row { tokens: &[7, 7, 20], targets: &[1, 2] }];
const LOGPROB: Wanted = Wanted { logprob: true, entropy: false, energy: false };
const BASE: &str = "/models/base";

fn lora() -> Lora {
    Lora { rank: 3, alpha: 6.0, targets: vec![Target::Q, Target::V, Target::O, Target::Up, Target::Down] }
}

fn arranged(model: Model, dtype: DType, trained: &Trained) -> Model {
    crate::set_threads(1);
    model.arranged(Device::CPU, dtype, trained, Path::new(BASE), 9).unwrap()
}

/// A model with an adapter that is not 0.
fn adapted(tied: bool) -> Model {
    let model = arranged(model(tied), DType::F32, &Trained::Adapter(lora()));
    train(&model, 5);
    model
}

fn logprobs(model: &Model) -> Vec<f32> {
    model.score(&ROWS, LOGPROB, 1.0, 100).unwrap().logprob
}

/// Optimiser steps that make the rows likelier.
fn train(model: &Model, steps: usize) {
    let mut optimizer = Optimizer::new(model, AdamW::default()).unwrap();
    for _ in 0..steps {
        optimizer.zero_grad().unwrap();
        backward(model);
        optimizer.step(1e-2).unwrap();
    }
}

fn backward(model: &Model) {
    let fresh = model.forward(&ROWS, 1.0, LOGPROB).unwrap();
    fresh.backward(&Derivatives { logprob: &[-1.0; 5], ..Derivatives::default() }).unwrap();
}

fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

fn folder(save: impl FnOnce(&Path)) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    save(folder.path());
    folder
}

#[test]
fn a_new_adapter_changes_nothing_and_learns() {
    for tied in [false, true] {
        let before = logprobs(&model(tied));
        let model = arranged(model(tied), DType::F32, &Trained::Adapter(lora()));
        // Rounding depends on where buffers happen to lie.
        assert!(largest_difference(&logprobs(&model), &before) < 1e-6);
        let shared: Vec<Tensor> = model.layers().iter().map(|layer| layer.up.weight.copy()).collect();
        train(&model, 20);
        assert!(logprobs(&model).iter().sum::<f32>() > before.iter().sum::<f32>() + 1.0);
        for (layer, before) in model.layers().iter().zip(shared) {
            assert_eq!(layer.up.weight, before);
        }
    }
}

/// Central differences of the sum of log-probs, at every number of the adapter.
#[test]
fn the_gradient_of_an_adapter_is_its_derivative() {
    let model = adapted(true).with_gradient_checkpointing(false);
    let own = model.weights().own.shallow_clone();
    let gradient = |model: &Model| {
        let _ = model.weights().gradient.as_ref().unwrap().flat.shallow_clone().zero_();
        backward(model);
        Vec::<f32>::try_from(&model.weights().gradient.as_ref().unwrap().flat).unwrap()
    };
    let ours = gradient(&model);
    let sum = || -logprobs(&model).iter().map(|logprob| f64::from(*logprob)).sum::<f64>();
    let step = 1e-2;
    let (mut checked, mut largest) = (0, 0.0_f64);
    for index in (0..own.size()[0]).step_by(31) {
        let number = own.get(index);
        let at = |change: f64| {
            let _ = number.shallow_clone().g_add_scalar_(change);
            let sum = sum();
            let _ = number.shallow_clone().g_add_scalar_(-change);
            sum
        };
        let expected = (at(step) - at(-step)) / (2.0 * step);
        let found = f64::from(ours[index as usize]);
        assert!((found - expected).abs() < 2e-2 * (1.0 + expected.abs()), "{index}: {found} {expected}");
        largest = largest.max(expected.abs());
        checked += 1;
    }
    assert!(checked > 20 && largest > 0.1, "{checked} {largest}");
    let again = gradient(&model.with_gradient_checkpointing(true));
    assert!(largest_difference(&again, &ours) < 1e-5);
}

#[test]
fn an_adapter_samples_merges_and_comes_back_from_its_folder_as_it_is() {
    for tied in [false, true] {
        let base = folder(|folder| model(tied).save(folder).unwrap());
        let adapted = adapted(tied);
        let expected = logprobs(&adapted);
        assert!(largest_difference(&expected, &logprobs(&model(tied))) > 0.1);

        let saved = folder(|folder| adapted.save(folder).unwrap());
        let text = std::fs::read_to_string(saved.path().join("adapter_config.json")).unwrap();
        assert!(text.contains("\"base_model_name_or_path\": \"/models/base\""), "{text}");
        assert!(!saved.path().join("model.safetensors").exists());
        let error = Model::load(saved.path(), Device::CPU).unwrap_err().to_string();
        assert!(error.contains("no folder here"), "{error}");
        let back = Model::load_over(saved.path(), Some(base.path()), Device::CPU).unwrap();
        assert_eq!(logprobs(&back), expected);
        let back = arranged(back, DType::F32, &Trained::Adapter(lora()));
        assert_eq!(logprobs(&back), expected);

        // One greedy answer of the folded weights, with the adapter and merged.
        let answer = |model: &Model| {
            let prompt: &[u32] = &[1, 2, 3];
            let generation = crate::Generation {
                prompts: &[prompt],
                noise: &[accredit_core::rng::Stream::new(1, accredit_core::rng::Purpose::Sampling)],
                max_new_tokens: &[12],
                stop: &[],
                sampling: Sampling { temperature: 0.7, ..Sampling::default() },
                threads: 1,
                cancelled: None,
            };
            model.sampler().unwrap().generate(&generation).unwrap().remove(0)
        };
        let sampled = answer(&adapted);
        let row: Vec<u32> = [&[1, 2, 3], sampled.tokens.as_slice()].concat();
        let targets: Vec<u32> = (3..row.len() as u32).collect();
        let scored = adapted.score(&[Row { tokens: &row, targets: &targets }], LOGPROB, 0.7, 100).unwrap().logprob;
        assert!(largest_difference(&sampled.logprobs, &scored) < 1e-4);

        let merged = folder(|folder| adapted.export(folder, DType::F32, 2_000).unwrap());
        assert!(merged.path().join("model.safetensors.index.json").exists());
        let merged = Model::load(merged.path(), Device::CPU).unwrap();
        assert!(largest_difference(&logprobs(&merged), &expected) < 1e-5);
        assert_eq!(answer(&merged).tokens, sampled.tokens);
    }
}

#[test]
fn copies_share_what_is_not_trained() {
    let adapted = adapted(false);
    let copy = adapted.frozen_copy().unwrap();
    let place = |model: &Model| model.embedding().data_ptr();
    assert_eq!(place(&copy), place(&adapted));
    let before = logprobs(&copy);
    assert_eq!(before, logprobs(&adapted));
    train(&adapted, 3);
    assert_eq!(logprobs(&copy), before);
    assert_ne!(logprobs(&adapted), before);
    let saved = folder(|folder| copy.save(folder).unwrap());
    let beside = adapted.load_beside(saved.path(), false).unwrap();
    assert_eq!((logprobs(&beside), place(&beside)), (before, place(&adapted)));
    assert!(matches!(beside.forward(&ROWS, 1.0, LOGPROB), Err(Error::Frozen)));
    // Exporting one does not change the others.
    let now = logprobs(&adapted);
    let _exported = folder(|folder| beside.export(folder, DType::F32, 1 << 30).unwrap());
    assert_eq!(logprobs(&adapted), now);
}

#[test]
fn frozen_weights_stay_and_the_others_learn_as_if_alone() {
    let frozen = ["model.embed_tokens", "model.layers.0", "model.layers.1.mlp.up_proj"].map(str::to_owned).to_vec();
    for tied in [false, true] {
        let whole = model(tied).with_gradients().unwrap();
        let part = arranged(model(tied), DType::F32, &Trained::Weights { frozen: frozen.clone() });
        assert!(part.own_weight_count() < whole.weight_count() && part.weight_count() == whole.weight_count());
        backward(&whole);
        for checkpointing in [false, true] {
            let _ = part.weights().gradient.as_ref().unwrap().flat.shallow_clone().zero_();
            backward(&part);
            for (slot, (a, b)) in gradients(&part).zip(gradients(&whole)).enumerate() {
                if let Some(a) = a {
                    let off = (a - b.unwrap()).abs().max().double_value(&[]);
                    assert!(off < 1e-5, "slot {slot}, checkpointing {checkpointing}: {off}");
                }
            }
        }
        let (embedding, gate) = (part.embedding().copy(), part.layers()[1].gate.weight.copy());
        let before = logprobs(&part);
        train(&part, 10);
        assert_eq!(*part.embedding(), embedding);
        assert_ne!(part.layers()[1].gate.weight, gate);
        assert!(logprobs(&part).iter().sum::<f32>() > before.iter().sum::<f32>() + 1.0);
    }
}

fn gradients(model: &Model) -> impl Iterator<Item = Option<&Tensor>> {
    model.weights().gradient.as_ref().unwrap().slots.iter().map(Option::as_ref)
}

/// Eight bits of mantissa: columns and gradients near those of f32, in every family, and the sampler's near the
/// trainer's.
#[test]
fn bfloat16_computes_what_f32_does_to_its_precision_and_trains_f32_weights() {
    for family in Family::ALL {
        let shape = Shape { family, ..model(false).config().shape().clone() };
        let config = ModelConfig::new(shape, SpecialIds::default()).unwrap();
        let make = || Model::create(config.clone(), 5, Device::CPU).unwrap();
        for trained in [Trained::ALL, Trained::Adapter(lora())] {
            let float = arranged(make(), DType::F32, &trained);
            let brain = arranged(make(), DType::BF16, &trained);
            assert!(largest_difference(&logprobs(&brain), &logprobs(&float)) < 0.1);
            assert_ne!(logprobs(&brain), logprobs(&float));
            backward(&float);
            for checkpointing in [false, true] {
                let _ = brain.weights().gradient.as_ref().unwrap().flat.shallow_clone().zero_();
                backward(&brain);
                for (a, b) in gradients(&brain).zip(gradients(&float)) {
                    let (Some(a), Some(b)) = (a, b) else { continue };
                    assert_eq!(a.kind(), Kind::Float);
                    let norm = b.norm().double_value(&[]);
                    let off = (a - b).norm().double_value(&[]);
                    assert!(off <= 0.1 * norm + 1e-3, "checkpointing {checkpointing}: {off} of {norm}");
                }
            }
            let before = logprobs(&brain);
            train(&brain, 10);
            assert!(logprobs(&brain).iter().sum::<f32>() > before.iter().sum::<f32>() + 0.5);

            let prompt: &[u32] = &[1, 2, 3];
            let sampler = brain.sampler().unwrap();
            let answer = sampler
                .generate(&crate::Generation {
                    prompts: &[prompt, &[4, 5]],
                    noise: &[1, 2]
                        .map(|seed| accredit_core::rng::Stream::new(seed, accredit_core::rng::Purpose::Sampling)),
                    max_new_tokens: &[20, 20],
                    stop: &[],
                    sampling: Sampling::default(),
                    threads: 1,
                    cancelled: None,
                })
                .unwrap();
            let row: Vec<u32> = [prompt, answer[0].tokens.as_slice()].concat();
            let targets: Vec<u32> = (3..row.len() as u32).collect();
            let scored = brain.score(&[Row { tokens: &row, targets: &targets }], LOGPROB, 1.0, 100).unwrap().logprob;
            assert!(largest_difference(&answer[0].logprobs, &scored) < 0.2);
        }
    }
}

#[test]
fn a_reference_in_bfloat16_is_small_and_an_average_is_precise() {
    let brain = arranged(model(true), DType::BF16, &Trained::ALL);
    assert_eq!(brain.frozen_copy().unwrap().embedding().kind(), Kind::BFloat16);
    assert_eq!(logprobs(&brain.frozen_copy().unwrap()), logprobs(&brain));
    let mut average = brain.precise_copy().unwrap();
    let before = average.embedding().copy();
    train(&brain, 1);
    average.follow(&brain, 1e-3).unwrap();
    let moved = (average.embedding() - before).abs().max().double_value(&[]);
    assert!(moved > 0.0 && moved < 1e-4, "{moved}");
    let saved = folder(|folder| average.save(folder).unwrap());
    let back = brain.load_beside(saved.path(), true).unwrap();
    assert_eq!(back.embedding(), average.embedding());
}

#[test]
fn files_of_half_precision_hold_the_rounded_numbers_and_say_so() {
    for (dtype, kind) in [(DType::BF16, Kind::BFloat16), (DType::F16, Kind::Half)] {
        let saved = folder(|folder| model(false).export(folder, dtype, usize::MAX).unwrap());
        let text = std::fs::read_to_string(saved.path().join("config.json")).unwrap();
        assert!(text.contains(&format!("\"torch_dtype\": \"{dtype}\"")), "{text}");
        let back = Model::load(saved.path(), Device::CPU).unwrap();
        let rounded = model(false).embedding().to_kind(kind).to_kind(Kind::Float);
        assert_eq!(*back.embedding(), rounded);
    }
    let error = model(false).arranged(Device::CPU, DType::F16, &Trained::ALL, Path::new(""), 1).unwrap_err();
    assert!(error.to_string().contains("for files only"));
}

#[test]
fn a_critic_beside_an_adapter_begins_as_the_adapted_trunk() {
    let policy = adapted(false);
    let critic = Critic::copy(&policy).unwrap();
    let pass = policy.forward(&ROWS, 1.0, LOGPROB).unwrap();
    let values = critic.forward(&ROWS, &pass).unwrap();
    values.backward(&[1.0; 5]).unwrap();
    // The head is 0, so its own gradient is the sum of the hidden states, which are the policy's.
    let expected = pass.hidden().unwrap().unwrap().sum_dim_intlist([0_i64].as_slice(), false, Kind::Float);
    let gradient = critic.gradient().unwrap();
    let head = &gradient[gradient.len() - 32..][..16];
    let found = [head, &gradient[gradient.len() - 16 - 32..][..16]];
    let close = |head: &[f32]| (Tensor::from_slice(head) - &expected).abs().max().double_value(&[]) < 1e-4;
    assert!(found.iter().any(|head| close(head)), "{found:?} {expected:?}");
}

#[test]
fn what_does_not_fit_an_adapter_is_refused() {
    let trained = |lora: Lora| {
        model(true)
            .arranged(Device::CPU, DType::F32, &Trained::Adapter(lora), Path::new(BASE), 1)
            .unwrap_err()
            .to_string()
    };
    assert!(trained(Lora { rank: 0, ..lora() }).contains("lora.rank"));
    assert!(trained(Lora { alpha: -1.0, ..lora() }).contains("lora.alpha"));
    assert!(trained(Lora { targets: vec![], ..lora() }).contains("lora.targets"));
    let other = Trained::Adapter(Lora { rank: 5, ..lora() });
    assert!(adapted(true).arranged(Device::CPU, DType::F32, &other, Path::new(BASE), 1).is_err());
    assert!(adapted(true).with_gradients().is_err());

    let base = folder(|folder| model(true).save(folder).unwrap());
    let saved = folder(|folder| adapted(true).save(folder).unwrap());
    let path = saved.path().join("adapter_config.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let error = |from: &str, to: &str| {
        assert!(text.contains(from), "{text}");
        std::fs::write(&path, text.replace(from, to)).unwrap();
        Model::load_over(saved.path(), Some(base.path()), Device::CPU).unwrap_err().to_string()
    };
    assert!(error("\"r\": 3", "\"r\": 4").contains("lora_A.weight ([3, 16], expected [4, 16])"));
    assert!(error("\"LORA\"", "\"IA3\"").contains("peft_type \"IA3\" is not supported"));
    assert!(error("\"up_proj\"", "\"c_fc\"").contains("\"c_fc\" is not one of q_proj"));
    assert!(error("\"use_dora\": false", "\"use_dora\": true").contains("`use_dora` is set"));
    assert!(error("\"up_proj\"", "\"gate_proj\"").contains("missing base_model.model.model.layers.0.mlp.gate_proj"));
    assert!(error("\"r\": 3", "\"r\": 99999999").contains("lora.rank: 99999999 must be at least 1 and at most 65536"));
    for (key, value) in [
        ("alora_invocation_tokens", "[1, 2]"),
        ("exclude_modules", "\"q_proj\""),
        ("layer_replication", "[[0, 2]]"),
        ("layers_to_transform", "0"),
        ("lora_bias", "true"),
        ("rank_pattern", "{\"q_proj\": 8}"),
        ("trainable_token_indices", "[7]"),
    ] {
        let found = error("\"r\"", &format!("\"{key}\": {value}, \"r\""));
        assert!(found.ends_with(&format!("`{key}` is set, which is not supported")), "{found}");
    }
    let pissa = error("\"init_lora_weights\": true", "\"init_lora_weights\": \"pissa\"");
    assert!(pissa.contains("init_lora_weights \"pissa\" is not supported"), "{pissa}");
    // An adapter whose model is itself.
    std::fs::write(&path, text.replace(BASE, &saved.path().display().to_string())).unwrap();
    let itself = Model::load(saved.path(), Device::CPU).unwrap_err().to_string();
    assert!(itself.ends_with("an adapter cannot be for another adapter"), "{itself}");
    assert!(error("{", "").starts_with(&path.display().to_string()));
    let unset = "\"rank_pattern\": {}, \"exclude_modules\": null, \"use_qalora\": false, \"layers_pattern\": [], \"r\"";
    std::fs::write(&path, text.replace("\"r\"", unset)).unwrap();
    Model::load_over(saved.path(), Some(base.path()), Device::CPU).unwrap();
    std::fs::write(&path, text).unwrap();
    let config = AdapterConfig::load(saved.path()).unwrap();
    assert_eq!((config.lora, config.base.to_str()), (lora(), Some(BASE)));
}
