//! Small inputs that broke other trainers, on every scheme that is shipped: each hook of each scheme is called on each
//! of them, and must give numbers or a plain error, never NaN, whatever the order of the trajectories.
#![allow(clippy::unwrap_used)]

#[expect(dead_code, reason = "what other tests need of it")]
#[path = "../../../host/tests/it/plugins.rs"]
mod plugins;

use std::{fs, path::Path};

use accredit::plugin::{Library, Scheme, SearchPath, Services};
use accredit_plugin_api::{
    ACTION, Denominators, FORMAT, Hook, Layout, THINK,
    columns::{
        ADVANTAGE, D_ENTROPY, D_LOGPROB, D_TOP_K_LOGPROB, D_VALUE, DECISION, ENTROPY, KIND, LOSS, NEW_ENTROPY,
        NEW_LOGPROB, NEW_TOP_K_LOGPROB, NEW_VALUE, NEXT_STATE, OBSERVATION_TOKENS, OLD_LOGPROB, OUTCOME, PART_ROWS,
        PART_STEPS, PART_TOKENS, RAW_OUTCOME, RAW_REWARD, REF_ENERGY, REF_LOGPROB, REWARD, ROUND, ROUND_GROUPS, ROUNDS,
        SAMPLE_MORE, SAMPLER_LOGPROB, STATE, STATUS, SUCCESS, TEACHER_LOGPROB, TEACHER_TOP_K_LOGPROB, TERMINAL,
        TOKEN_ID, TOKEN_REWARD, TOP_K, TOP_K_ID, VALID_ACTION, VALUE, VALUE_TARGET, WEIGHT,
    },
    host::{Data, Table},
    testing::TestBatch,
};
use serde_json::json;

/// A case: groups of trajectories of steps, each so many tokens; an outcome for each trajectory.
struct Case {
    name: &'static str,
    groups: Vec<Vec<Vec<usize>>>,
    outcomes: Vec<f32>,
    /// By trajectory: 0 completed, 1 and 2 truncated.
    status: u8,
    kind: fn(usize) -> u8,
}

fn mixed(token: usize) -> u8 {
    [THINK, FORMAT, ACTION][token % 3]
}

fn cases() -> Vec<Case> {
    let case = |name, groups: Vec<Vec<Vec<usize>>>, outcomes: Vec<f32>| Case {
        name,
        groups,
        outcomes,
        status: 0,
        kind: mixed,
    };
    let steps = |count: usize| vec![vec![3; 2]; count];
    vec![
        case("a group of one", vec![steps(1)], vec![1.0]),
        case("equal rewards that are not exact in binary", vec![steps(8)], vec![0.95; 8]),
        case("equal rewards, all failed", vec![steps(4)], vec![0.0; 4]),
        case("rewards that hardly differ", vec![steps(2)], vec![1.0, 1.000_01]),
        case("ragged groups", vec![steps(4), steps(2), steps(3)], vec![1., 2., 3., 4., 10., 12., 5., 6., 7.]),
        case("turn counts differ", vec![vec![vec![2; 3], vec![2; 1]]], vec![1.0, 0.0]),
        case("an empty response", vec![vec![vec![0, 3], vec![2, 0], vec![1, 1]]], vec![10.0, 0.0, 1.0]),
        case("a response of one token", vec![vec![vec![1], vec![1]]], vec![1.0, 0.0]),
        case("rewards of very different sizes", vec![steps(3)], vec![1e6, -1e6, 1e-6]),
        Case { status: 1, ..case("all cut by the limit of steps", vec![steps(3)], vec![0.0, 1.0, 0.0]) },
        Case { status: 2, ..case("all cut by the limit of length", vec![steps(3)], vec![0.0, 1.0, 0.0]) },
        Case { kind: |_| THINK, ..case("no action token anywhere", vec![steps(3)], vec![0.0, 1.0, 0.0]) },
        Case { kind: |_| ACTION, ..case("nothing but action tokens", vec![steps(3)], vec![0.0, 1.0, 0.0]) },
    ]
}

impl Case {
    fn table(&self, layout: Layout) -> Table {
        let groups: Vec<Vec<&[usize]>> =
            self.groups.iter().map(|group| group.iter().map(Vec::as_slice).collect()).collect();
        let groups: Vec<&[&[usize]]> = groups.iter().map(Vec::as_slice).collect();
        let batch = TestBatch::new(layout, &groups);
        let tokens = batch.tokens();
        let mut table = batch.table().clone();
        let lengths: Vec<usize> = self.groups.iter().flatten().map(Vec::len).collect();
        let steps: usize = lengths.iter().sum();
        let last: Vec<bool> = lengths.iter().flat_map(|length| (0..*length).map(move |s| s + 1 == *length)).collect();
        let ends = lengths.iter().zip(&self.outcomes);
        let reward: Vec<f32> = ends
            .flat_map(|(length, outcome)| (0..*length).map(move |s| if s + 1 == *length { *outcome } else { 0.0 }))
            .collect();
        table.put(RAW_OUTCOME, self.outcomes.clone());
        table.put(OUTCOME, self.outcomes.clone());
        table.put(SUCCESS, self.outcomes.iter().map(|outcome| *outcome >= 1.0).collect());
        table.put(STATUS, vec![self.status; self.outcomes.len()]);
        table.put(RAW_REWARD, reward.clone());
        table.put(REWARD, reward);
        table.put(TERMINAL, last.iter().map(|last| *last && self.status == 0).collect());
        table.put(VALID_ACTION, (0..steps).map(|step| step % 4 != 3).collect());
        table.put(OBSERVATION_TOKENS, vec![3; steps]);
        // One state for all first steps of a group, and one for the rest.
        let mut state = Vec::new();
        for (group, trajectories) in self.groups.iter().enumerate() {
            for length in trajectories.iter().map(Vec::len) {
                state.extend((0..length).map(|step| 2 * group as u32 + u32::from(step > 0)));
            }
        }
        let next = |s: usize| if last[s] { accredit_plugin_api::NO_STATE } else { state[s + 1] };
        table.put(NEXT_STATE, (0..steps).map(next).collect());
        table.put(STATE, state);
        table.put(KIND, (0..tokens).map(self.kind).collect());
        table.put(TOKEN_ID, vec![1; tokens]);
        for (column, seed) in [
            (OLD_LOGPROB, 1_u32),
            (NEW_LOGPROB, 2),
            (REF_LOGPROB, 3),
            (SAMPLER_LOGPROB, 4),
            (REF_ENERGY, 5),
            (ENTROPY, 6),
            (NEW_ENTROPY, 7),
            (VALUE, 8),
            (NEW_VALUE, 9),
            (VALUE_TARGET, 10),
            (TEACHER_LOGPROB, 11),
        ] {
            let number = |token: usize| -f32::from(((token as u32 * 7 + seed * 13) % 17 + 1) as u8) / 9.0;
            table.put(column, (0..tokens).map(number).collect());
        }
        table.set("answer_logprob", vec![-0.5_f32; tokens]);
        for (column, value) in [(ROUND, 0), (ROUNDS, 1), (ROUND_GROUPS, self.groups.len() as u64)] {
            table.put(column, vec![value]);
        }
        table.put(TOP_K, vec![2]);
        table.put(TOP_K_ID, vec![0; 2 * tokens]);
        for column in [NEW_TOP_K_LOGPROB, TEACHER_TOP_K_LOGPROB] {
            table.put(column, (0..2 * tokens).map(|i| -1.0 - (i % 5) as f32 / 4.0).collect());
        }
        for column in [PART_TOKENS, PART_STEPS, PART_ROWS] {
            table.put(column, vec![tokens as f64]);
        }
        for text in accredit_plugin_api::columns::ALL_TEXTS {
            let count = if text.level() == accredit_plugin_api::Level::Group { self.groups.len() } else { steps };
            let (bytes, offsets) = text.parts();
            table.set(bytes, b"x".repeat(count));
            table.set(offsets, (0..=count as u64).collect::<Vec<u64>>());
        }
        table
    }
}

/// What a hook writes, filled as the host fills it.
fn outputs(hook: Hook, table: &Table, value_target: bool) -> Table {
    let tokens = table.get(KIND.name()).map_or(0, Data::len);
    let mut outputs = Table::default();
    match hook {
        Hook::Select => {
            outputs.put(DECISION, vec![2; table.get(STATUS.name()).map_or(0, Data::len)]);
            outputs.put(SAMPLE_MORE, vec![false]);
        }
        Hook::Shape => {
            outputs.put(REWARD, table.f32(REWARD).unwrap().to_vec());
            outputs.put(TOKEN_REWARD, vec![0.0; tokens]);
        }
        Hook::Advantage => {
            outputs.put(ADVANTAGE, vec![f32::NAN; tokens]);
            if value_target {
                outputs.put(VALUE_TARGET, vec![f32::NAN; tokens]);
            }
        }
        Hook::Weigh => {
            outputs.put(ADVANTAGE, (0..tokens).map(|token| token as f32 - 1.5).collect());
            outputs.put(WEIGHT, vec![1.0; tokens]);
        }
        Hook::Refresh => outputs.put(ADVANTAGE, (0..tokens).map(|token| token as f32 - 1.5).collect()),
        Hook::Objective => {
            outputs.put(LOSS, vec![f64::NAN]);
            outputs.put(D_LOGPROB, vec![f32::NAN; tokens]);
            for column in [D_ENTROPY, D_VALUE] {
                outputs.put(column, vec![0.0; tokens]);
            }
            outputs.put(D_TOP_K_LOGPROB, vec![0.0; 2 * tokens]);
        }
        Hook::Queries => {}
    }
    outputs
}

fn check(scheme: &mut Scheme, case: &Case, layout: Layout) {
    for hook in scheme.needs().hooks.clone() {
        let mut table = case.table(layout);
        let tokens = table.get(KIND.name()).map_or(0, Data::len);
        if hook == Hook::Objective {
            let weight = vec![1.0; tokens];
            let all: Vec<usize> = (0..case.outcomes.len()).collect();
            Denominators::of(&table, &weight).unwrap().put_into(&mut table, &weight, &all);
            table.put(WEIGHT, weight);
            table.put(ADVANTAGE, (0..tokens).map(|token| token as f32 - 1.5).collect());
        }
        let mut written = outputs(hook, &table, scheme.needs().value_target);
        let mut raw = Vec::new();
        table.raw(&mut raw);
        let place = format!("{}, {}, {}, {layout:?}", scheme.name(), hook.name(), case.name);
        scheme.call(hook, &raw, &mut written.raw_mut()).unwrap_or_else(|error| panic!("{place}: {error}"));
        for (name, data) in written.iter() {
            let finite = match data {
                Data::F32(numbers) => numbers.iter().all(|number| number.is_finite()),
                Data::F64(numbers) => numbers.iter().all(|number| number.is_finite()),
                _ => true,
            };
            assert!(finite, "{place}: {name}: {data:?}");
        }
        // Where nothing tells the members of a group apart, a scheme that compares them gives exactly nothing.
        let equal = case.outcomes.len() > 1 && case.outcomes.iter().all(|outcome| *outcome == case.outcomes[0]);
        if hook == Hook::Advantage && equal && scheme.needs().group_size > 1 && !scheme.needs().value_target {
            let advantage = written.f32(ADVANTAGE).unwrap();
            let asks = scheme.needs().hooks.contains(&Hook::Queries);
            assert!(asks || advantage.iter().all(|number| *number == 0.0), "{place}: {advantage:?}");
        }
    }
    scheme.take_metrics();
}

#[test]
fn every_scheme_gives_numbers_on_every_case() {
    let folder = plugins::target_folder().join(if cfg!(debug_assertions) { "debug" } else { "release" });
    let mut shipped = Vec::new();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let manifest = fs::read_to_string(path.join("Cargo.toml")).unwrap_or_default();
        if manifest.contains("\"cdylib\"") && name != "golden" {
            plugins::library(&format!("accredit-{name}"));
            shipped.push(name);
        }
    }
    assert!(shipped.len() > 15, "{shipped:?}");
    let mut schemes = 0;
    for name in &shipped {
        let found = SearchPath::of_folders([folder.clone()]).find(name, Path::new("")).unwrap();
        let library = Library::load(&found.path, None).unwrap();
        for described in &library.describe().schemes {
            let mut scheme =
                Scheme::build(&library, &described.name, &described.name, &json!({}), Services::default()).unwrap();
            schemes += 1;
            for case in cases() {
                for layout in [Layout::Trajectory, Layout::Step] {
                    check(&mut scheme, &case, layout);
                }
            }
        }
    }
    assert!(schemes > 20, "{schemes}");
}
