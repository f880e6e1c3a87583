//! Every cell of the table in `plugins/README.md`: which estimator with which weighting under which objective. Each is
//! computed on rollouts with all columns; what a combination means is checked where it can be said in numbers.
#![allow(clippy::unwrap_used)]

#[expect(dead_code, reason = "what other tests need of it")]
#[path = "../../../host/tests/it/plugins.rs"]
mod plugins;

use std::path::Path;

use accredit::{
    config::Loaded,
    credit::{
        Counters, Pipeline, Supply,
        offline::{Scored, score},
        plan,
    },
    plugin::{SearchPath, Services},
};
use accredit_core::episode::{Layout, Step, TokenKind, Tokens, Trajectory};

const ESTIMATORS: [&str; 8] = [
    r#"plugin = "grpo""#,
    r#"plugin = "rloo""#,
    r#"plugin = "reinforce""#,
    r#"plugin = "gae""#,
    r#"plugin = "gigpo""#,
    r#"plugin = "hgpo""#,
    r#"plugin = "gagpo""#,
    r#"plugin = "igpo""#,
];
const WEIGHTINGS: [&[&str]; 8] = [
    &[],
    &[r#"plugin = "actfocus""#],
    &[r#"plugin = "aem""#],
    &[r#"plugin = "aem""#, r#"plugin = "actfocus""#],
    &[r#"plugin = "actfocus""#, r#"plugin = "aem""#],
    &[r#"plugin = "normalize""#],
    &[r#"plugin = "serl""#],
    &[r#"plugin = "aem""#, r#"plugin = "actfocus""#, r#"plugin = "serl""#],
];
const OBJECTIVES: [&str; 5] = [
    r#"plugin = "clip""#,
    "plugin = \"clip\"\nparams = { ratio = \"step\" }",
    "plugin = \"clip\"\nparams = { ratio = \"row\" }",
    r#"plugin = "gspo""#,
    "plugin = \"clip\"\nparams = { aggregate = \"seq-mean-token-sum\", kl = \"k3\", kl_coef = 0.01 }",
];
const LIBRARIES: [&str; 13] = [
    "grpo",
    "reinforce",
    "gae",
    "gigpo",
    "hgpo",
    "gagpo",
    "igpo",
    "actfocus",
    "aem",
    "normalize",
    "serl",
    "clip",
    "penalty",
];

/// Two groups of three trajectories, whose numbers have no pattern, in the layout of a configuration's context.
fn rollouts(layout: Layout) -> Vec<Trajectory> {
    let mut state = 7_u64;
    let mut uniform = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / 16_777_216.0
    };
    let mut episodes = Vec::new();
    for (group, member) in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)] {
        let success = (group + member) % 2 == 0;
        let count = 2 + member;
        let steps = (0..count).map(|step| {
            let last = step + 1 == count;
            let kind = [TokenKind::Think, TokenKind::Think, TokenKind::Format, TokenKind::Action, TokenKind::Action];
            let mut tokens = Tokens { kind: kind.to_vec(), token_id: vec![1; kind.len()], ..Tokens::default() };
            for column in [
                "old_logprob",
                "new_logprob",
                "ref_logprob",
                "ref_energy",
                "entropy",
                "value",
                "new_value",
                "new_entropy",
                "teacher_logprob",
            ] {
                tokens.columns.insert(column.to_owned(), kind.iter().map(|_| -1.0 - uniform()).collect());
            }
            tokens.columns.insert("answer_logprob".to_owned(), vec![-0.5 - uniform(); kind.len()]);
            Step {
                state: Some(format!("s{}", step % 2)),
                next_state: (!last).then(|| format!("s{}", (step + 1) % 2)),
                reward: Some(if last && success { 1.0 } else { 0.0 }),
                terminal: last,
                valid_action: true,
                prompt: format!("prompt {step}"),
                observation: format!("seen {step}"),
                response: "<think>t</think><answer>go</answer>".to_owned(),
                action: Some("go".to_owned()),
                feedback: "moved".to_owned(),
                tokens,
                ..Step::default()
            }
        });
        episodes.push(Trajectory {
            layout,
            group: format!("g{group}"),
            trajectory: format!("g{group}t{member}"),
            success: Some(success),
            task: "walk".to_owned(),
            answer: Some("there".to_owned()),
            steps: steps.collect(),
            ..Trajectory::default()
        });
    }
    episodes
}

fn search() -> SearchPath {
    for library in LIBRARIES {
        plugins::library(&format!("accredit-{library}"));
    }
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    SearchPath::of_folders([plugins::target_folder().join(profile)])
}

fn load(search: &SearchPath, credit: &[&str], objective: &str) -> Pipeline {
    let entries: String = credit.iter().map(|entry| format!("[[credit]]\n{entry}\n")).collect();
    let text = format!("{entries}[objective]\n{objective}\n");
    let loaded = Loaded::from_text(Path::new("cell.toml"), text.clone()).unwrap_or_else(|e| panic!("{text}\n{e}"));
    plan::load(&loaded, search, &Supply::rollouts(), Services::default()).unwrap_or_else(|e| panic!("{text}\n{e}"))
}

fn compute_with(pipeline: &mut Pipeline, layout: Layout) -> Scored {
    let counters = Counters { iterations: 100, updates: 100, ..Counters::default() };
    score(pipeline, &rollouts(layout), counters).unwrap_or_else(|error| panic!("{error}"))
}

fn compute(search: &SearchPath, credit: &[&str], objective: &str, layout: Layout) -> Scored {
    compute_with(&mut load(search, credit, objective), layout)
}

fn close(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-5 * b.abs().max(1.0))
}

#[test]
fn every_cell_gives_finite_credit_and_a_gradient() {
    let search = search();
    // Loading takes longer than computing: each library's scheme is made once and goes from cell to cell.
    let mut objectives = OBJECTIVES.map(|objective| load(&search, &[ESTIMATORS[0]], objective).objective);
    for estimator in ESTIMATORS {
        for weighting in WEIGHTINGS {
            let schemes: Vec<&str> = [estimator].into_iter().chain(weighting.iter().copied()).collect();
            let mut pipeline = load(&search, &schemes, OBJECTIVES[0]);
            for (objective, scheme) in OBJECTIVES.iter().zip(&mut objectives) {
                std::mem::swap(&mut pipeline.objective, scheme);
                for layout in [Layout::Trajectory, Layout::Step] {
                    let scored = compute_with(&mut pipeline, layout);
                    let (_, evaluated) = scored.objective.as_ref().unwrap();
                    let cell = format!("{schemes:?} {objective} {layout:?}");
                    assert!(evaluated.loss.is_finite(), "{cell}");
                    assert!(evaluated.d_logprob.iter().all(|d| d.is_finite()), "{cell}");
                    assert!(evaluated.d_logprob.iter().any(|d| *d != 0.0), "{cell}");
                    assert!(scored.credit.weight.iter().all(|weight| *weight > 0.0), "{cell}");
                }
                std::mem::swap(&mut pipeline.objective, scheme);
            }
        }
    }
}

#[test]
fn aem_scales_advantages_and_actfocus_weights_so_their_order_is_free() {
    let search = search();
    for objective in OBJECTIVES {
        let both = |schemes: &[&str]| {
            let scored = compute(&search, schemes, objective, Layout::Step);
            (scored.credit.advantage.clone(), scored.credit.weight.clone(), scored.objective.unwrap().1.d_logprob)
        };
        let first = both(&[ESTIMATORS[0], WEIGHTINGS[3][0], WEIGHTINGS[3][1]]);
        let second = both(&[ESTIMATORS[0], WEIGHTINGS[4][0], WEIGHTINGS[4][1]]);
        assert_eq!(first, second, "{objective}");
    }
}

#[test]
fn two_estimators_are_summed_each_times_its_mix() {
    let search = search();
    let advantage = |schemes: &[&str]| compute(&search, schemes, OBJECTIVES[0], Layout::Step).credit.advantage;
    let (grpo, gagpo) = (advantage(&[ESTIMATORS[0]]), advantage(&[ESTIMATORS[6]]));
    let mixed = advantage(&["plugin = \"grpo\"\nmix = 0.25", "plugin = \"gagpo\"\nmix = 2.0"]);
    let expected: Vec<f32> = grpo.iter().zip(&gagpo).map(|(a, b)| 0.25 * a + 2.0 * b).collect();
    assert!(close(&mixed, &expected), "{mixed:?} {expected:?}");
}

#[test]
fn serl_changes_the_action_tokens_of_any_ratio_within_its_bounds() {
    let search = search();
    for objective in OBJECTIVES {
        let seen = |schemes: &[&str]| compute(&search, schemes, objective, Layout::Step).objective.unwrap().1.advantage;
        let (plain, taught) = (seen(&[ESTIMATORS[0]]), seen(&[ESTIMATORS[0], WEIGHTINGS[6][0]]));
        let kinds = [false, false, false, true, true];
        let mut changed = 0;
        for (token, (plain, taught)) in plain.iter().zip(&taught).enumerate() {
            if kinds[token % kinds.len()] {
                assert!((taught / plain - 1.0).abs() <= 0.1 + 1e-6, "{plain} {taught}");
                changed += usize::from(plain != taught);
            } else {
                assert_eq!(plain, taught);
            }
        }
        assert!(changed > 0, "{objective}");
    }
}

#[test]
fn the_normaliser_is_the_sum_of_weights() {
    let search = search();
    let gradient = |scored: &Scored| scored.objective.as_ref().unwrap().1.d_logprob.clone();
    let plain = compute(&search, &[ESTIMATORS[0]], OBJECTIVES[0], Layout::Step);
    let weighted = compute(&search, &[ESTIMATORS[0], WEIGHTINGS[1][0]], OBJECTIVES[0], Layout::Step);
    let weights = &weighted.credit.weight;
    let total: f32 = weights.iter().sum();
    let share = |weight: &f32| weight / total * weights.len() as f32;
    let expected: Vec<f32> = gradient(&plain).iter().zip(weights).map(|(d, weight)| d * share(weight)).collect();
    assert!(close(&gradient(&weighted), &expected));
    // Weights of 1 change nothing at any level of ratio.
    let ones = "plugin = \"actfocus\"\nparams = { alpha = 1.0, beta = 0.0, format_weight = 1.0 }";
    for objective in OBJECTIVES {
        let plain = compute(&search, &[ESTIMATORS[0]], objective, Layout::Step);
        let same = compute(&search, &[ESTIMATORS[0], ones], objective, Layout::Step);
        assert_eq!(gradient(&same), gradient(&plain), "{objective}");
    }
}
