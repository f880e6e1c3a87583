//! The gradient of a minibatch is the same however it is cut into micro-batches: model, schemes and denominators together.

use std::{collections::BTreeMap, path::Path};

use accredit::{
    config::Loaded,
    credit::{
        Counters, Pipeline, Supply,
        plan::{self, Gives},
    },
    plugin::{SearchPath, Services},
    scoring::{self, Rows},
    update::{self, Pace},
};
use accredit_core::{
    batch::Batch,
    episode::{Layout, Step, TokenKind, Tokens, Trajectory},
    rng::{Purpose, Stream},
};
use accredit_torch::{AdamW, Device, Model, ModelConfig, Optimizer, Shape, SpecialIds};

use crate::plugins::{library, target_folder};

const VOCABULARY: u64 = 23;

fn model() -> Model {
    accredit_torch::set_threads(1);
    let shape = Shape {
        vocab_size: VOCABULARY as usize,
        hidden_size: 16,
        intermediate_size: 24,
        layers: 2,
        initializer_range: 0.2,
        ..Shape::default()
    };
    let config = ModelConfig::new(shape, SpecialIds::default()).unwrap();
    Model::create(config, 5, Device::CPU).unwrap().with_gradients().unwrap()
}

/// Two groups of three episodes of ragged lengths, with a step that has no token.
fn episodes(layout: Layout) -> Vec<Trajectory> {
    let draw = Stream::new(1, Purpose::Other);
    let ids = |place: u64, count: u64| (0..count).map(|i| draw.with(place).below(i, VOCABULARY) as u32).collect();
    let mut place = 0;
    let mut list = Vec::new();
    for group in 0..2_u64 {
        for member in 0..3_u64 {
            let steps = (0..=member)
                .map(|s| {
                    place += 2;
                    let count = if (group, member, s) == (1, 2, 1) { 0 } else { 2 + (place * 7 + s) % 5 };
                    let token_id: Vec<u32> = ids(place, count);
                    let kind = (0..count).map(|i| if i % 3 == 2 { TokenKind::Action } else { TokenKind::Think });
                    Step {
                        reward: Some(draw.with(place).uniform(99) as f32),
                        context: ids(place + 1, 3 + place % 4),
                        tokens: Tokens { kind: kind.collect(), token_id, columns: BTreeMap::new(), text: Vec::new() },
                        ..Step::default()
                    }
                })
                .collect();
            let (group, trajectory) = (format!("g{group}"), format!("g{group}t{member}"));
            list.push(Trajectory { layout, group, trajectory, steps, ..Trajectory::default() });
        }
    }
    list
}

fn pipeline(objective: &str) -> Pipeline {
    for package in ["accredit-grpo", "accredit-actfocus", "accredit-clip"] {
        library(package);
    }
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    let search = SearchPath::of_folders([target_folder().join(profile)]);
    let text = format!(
        "[[credit]]\nplugin = \"grpo\"\n[[credit]]\nplugin = \"actfocus\"\n[objective]\nplugin = \"clip\"\nparams = {objective}\n"
    );
    let loaded = Loaded::from_text(Path::new("test"), text).unwrap();
    plan::load(&loaded, &search, &Supply::playing(Gives { states: true, ..Gives::default() }, 3), Services::default())
        .unwrap()
}

fn gradient(layout: Layout, objective: &str, micro_batch_tokens: usize) -> (f64, Vec<f32>) {
    let (model, mut pipeline, episodes) = (model(), pipeline(objective), episodes(layout));
    let reference = model.frozen_copy().unwrap();
    let mut batch = Batch::build(&episodes, &[], &[]).unwrap();
    Counters::default().put_into(&mut batch);
    let rows = Rows::of(&batch, &episodes);
    let signals = plan::Signals::of(&pipeline);
    scoring::signals(&mut batch, &rows, &model, Some(&reference), signals, 1.0, 64).unwrap();
    let credit = pipeline.credit(&mut batch, 0).unwrap();
    // One optimiser step away from where the batch was scored, so that ratios are not 1.
    let update = accredit::config::Update { micro_batch_tokens, ..accredit::config::Update::default() };
    let optimizer = accredit::config::Optimizer::default();
    let pace = Pace { update: &update, optimizer: &optimizer, temperature: 1.0 };
    let all = batch.trained_rows();
    let mut steps = Optimizer::new(&model, AdamW { lr: 1e-2, ..AdamW::default() }).unwrap();
    let whole = accredit::config::Update { micro_batch_tokens: 100_000, ..update.clone() };
    update::gradient(&model, &mut pipeline, &batch, &rows, &credit, &all, Pace { update: &whole, ..pace }, 0).unwrap();
    steps.step(1e-2).unwrap();
    steps.zero_grad().unwrap();
    let loss = update::gradient(&model, &mut pipeline, &batch, &rows, &credit, &all, pace, 0).unwrap();
    (loss, model.gradient().unwrap())
}

#[test]
fn the_gradient_does_not_depend_on_how_a_minibatch_is_cut() {
    for layout in [Layout::Trajectory, Layout::Step] {
        for objective in [
            "{}",
            "{ aggregate = \"seq-mean-token-mean\", kl = \"k3\", kl_coef = 0.1, entropy_coef = 0.01 }",
            "{ ratio = \"row\" }",
            "{ aggregate = \"trajectory-mean-token-mean\" }",
        ] {
            let (loss, whole) = gradient(layout, objective, 100_000);
            let size = whole.iter().fold(0.0_f32, |most, g| most.max(g.abs()));
            assert!(size > 0.0, "{objective}: there is no gradient to compare");
            for micro_batch_tokens in [1, 15, 30, 60] {
                let (cut_loss, cut) = gradient(layout, objective, micro_batch_tokens);
                assert!((cut_loss - loss).abs() <= 1e-5 * loss.abs().max(1.0), "{objective}: {cut_loss} for {loss}");
                for (a, b) in whole.iter().zip(&cut) {
                    assert!((a - b).abs() <= 1e-5 * size, "{layout:?} {objective} {micro_batch_tokens}: {a} {b}");
                }
            }
        }
    }
}
