//! The gradient of a minibatch is the same however it is cut into micro-batches: model, schemes and denominators together.

use std::path::Path;

use accredit::{
    config::Loaded,
    credit::{
        Counters, Pipeline, Supply,
        plan::{self, Gives},
    },
    plugin::{SearchPath, Services},
    scoring::{self, Models, Rows},
    update::{self, Pace, Trained},
};
use accredit_core::{
    batch::Batch,
    episode::{Layout, Step, TokenKind, Tokens, Trajectory},
    rng::{Purpose, Stream},
};
use accredit_torch::{AdamW, Critic, Device, Model, ModelConfig, Optimizer, Shape, SpecialIds};

use crate::plugins::{library, target_folder};

const VOCABULARY: u64 = 23;

pub fn model() -> Model {
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
pub fn episodes(layout: Layout) -> Vec<Trajectory> {
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
                        tokens: Tokens { kind: kind.collect(), token_id, ..Tokens::default() },
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

/// What is trained, and how.
#[derive(Clone, Copy)]
struct Case {
    /// Names of the schemes.
    credit: &'static [&'static str],
    objective: &'static str,
    critic: Option<fn(&Model) -> accredit_torch::Result<Critic>>,
}

pub fn pipeline(credit: &[&str], objective: &str) -> Pipeline {
    for package in ["accredit-grpo", "accredit-actfocus", "accredit-clip", "accredit-misbehave"] {
        library(package);
    }
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    let search = SearchPath::of_folders([target_folder().join(profile)]);
    let mut text: String = credit.iter().map(|name| format!("[[credit]]\nplugin = \"{name}\"\n")).collect();
    text.push_str(&format!("[objective]\nplugin = \"clip\"\nparams = {objective}\n"));
    let loaded = Loaded::from_text(Path::new("test"), text).unwrap();
    plan::load(&loaded, &search, &Supply::playing(Gives { states: true, ..Gives::default() }, 3), Services::default())
        .unwrap()
}

/// The loss of a minibatch, and the gradient of the policy with the critic's behind it.
fn gradient(layout: Layout, case: Case, micro_batch_tokens: usize) -> (f64, Vec<f32>) {
    let (model, mut pipeline, episodes) = (model(), pipeline(case.credit, case.objective), episodes(layout));
    let critic = case.critic.map(|make| make(&model).unwrap());
    let reference = model.frozen_copy().unwrap();
    let mut batch = Batch::build(&episodes, &[], &[]).unwrap();
    Counters::default().put_into(&mut batch);
    let rows = Rows::of(&batch, &episodes);
    let signals = plan::Signals::of(&pipeline);
    let models = Models { policy: &model, reference: Some(&reference), critic: critic.as_ref() };
    scoring::signals(&mut batch, &rows, models, signals, 1.0, 64).unwrap();
    let credit = pipeline.credit(&mut batch, 0).unwrap();
    let optimizer = accredit::config::Optimizer::default();
    let all = batch.trained_rows();
    let trained = Trained { policy: &model, critic: critic.as_ref(), critic_alone: false };
    let mut loss = |micro_batch_tokens| {
        let update = accredit::config::Update { micro_batch_tokens, ..accredit::config::Update::default() };
        let pace = Pace { update: &update, optimizer: &optimizer, temperature: 1.0 };
        update::gradient(trained, &mut pipeline, &batch, &rows, &credit, &all, pace, 0).unwrap().loss
    };
    // One optimiser step away from where the batch was scored, so that ratios are not 1 and values not 0.
    let constants = AdamW { lr: 1e-2, ..AdamW::default() };
    let mut steps = vec![Optimizer::new(&model, constants).unwrap()];
    steps.extend(critic.as_ref().map(|critic| Optimizer::of_critic(critic, constants).unwrap()));
    loss(100_000);
    for optimizer in &mut steps {
        optimizer.step(1e-2).unwrap();
        optimizer.zero_grad().unwrap();
    }
    let loss = loss(micro_batch_tokens);
    let mut gradient = model.gradient().unwrap();
    gradient.extend(critic.iter().flat_map(|critic| critic.gradient().unwrap()));
    (loss, gradient)
}

fn check_cuts(case: Case) {
    let objective = case.objective;
    for layout in [Layout::Trajectory, Layout::Step] {
        let (loss, whole) = gradient(layout, case, 100_000);
        let size = whole.iter().fold(0.0_f32, |most, g| most.max(g.abs()));
        assert!(size > 0.0, "{objective}: there is no gradient to compare");
        for micro_batch_tokens in [1, 15, 30, 60] {
            let (cut_loss, cut) = gradient(layout, case, micro_batch_tokens);
            assert!((cut_loss - loss).abs() <= 1e-5 * loss.abs().max(1.0), "{objective}: {cut_loss} for {loss}");
            assert_eq!(whole.len(), cut.len());
            for (a, b) in whole.iter().zip(&cut) {
                assert!((a - b).abs() <= 1e-5 * size, "{layout:?} {objective} {micro_batch_tokens}: {a} {b}");
            }
        }
    }
}

#[test]
fn the_gradient_does_not_depend_on_how_a_minibatch_is_cut() {
    for objective in [
        "{}",
        "{ aggregate = \"seq-mean-token-mean\", kl = \"k3\", kl_coef = 0.1, entropy_coef = 0.01 }",
        "{ ratio = \"row\" }",
        "{ aggregate = \"trajectory-mean-token-mean\" }",
    ] {
        check_cuts(Case { credit: &["grpo", "actfocus"], objective, critic: None });
    }
}

#[test]
fn the_gradient_of_values_does_not_depend_on_how_a_minibatch_is_cut() {
    for critic in [Critic::copy, Critic::shared] {
        let objective = "{ value_coef = 0.5, aggregate = \"seq-mean-token-mean\" }";
        check_cuts(Case { credit: &["value-baseline"], objective, critic: Some(critic) });
    }
}
