//! Loss and derivatives of a whole batch, on one thread: 16 groups x 8 trajectories x 15 steps x 150 tokens, and four
//! times that. `stream` reads the columns that every objective reads and writes the one that it writes, and does nothing
//! else: what memory alone costs.

use std::hint::black_box;

use accredit_clip::{ClipObjective, GspoObjective};
use accredit_plugin_api::{
    Denominators, Hook, Layout, Scheme,
    columns::{
        ADVANTAGE, D_ENTROPY, D_LOGPROB, D_VALUE, LOSS, NEW_ENTROPY, NEW_LOGPROB, NEW_VALUE, OLD_LOGPROB, REF_LOGPROB,
        SAMPLER_LOGPROB, VALUE, VALUE_TARGET, WEIGHT,
    },
    host::Table,
    testing::{TestBatch, TestScheme},
};
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main, measurement::WallTime};

/// Numbers that look like log-probabilities, advantages and so on.
struct Draw(u64);

impl Draw {
    fn column(&mut self, count: usize, low: f32, high: f32) -> Vec<f32> {
        let mut next = || {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            low + (high - low) * ((self.0 >> 40) as f32 / 16_777_216.0)
        };
        (0..count).map(|_| next()).collect()
    }
}

/// The inputs of an objective, with denominators.
fn inputs(layout: Layout, groups: usize) -> Table {
    let trajectory = [150_usize; 15];
    let group = [trajectory.as_slice(); 8];
    let shape = vec![group.as_slice(); groups];
    let batch = TestBatch::new(layout, &shape);
    let (tokens, mut draw) = (batch.tokens(), Draw(7));
    let mut table = batch.table().clone();
    for (column, low, high) in [
        (NEW_LOGPROB, -2.0, -1.0),
        (OLD_LOGPROB, -2.0, -1.0),
        (REF_LOGPROB, -2.0, -1.0),
        (SAMPLER_LOGPROB, -2.0, -1.0),
        (NEW_ENTROPY, 0.0, 2.0),
        (NEW_VALUE, -1.0, 1.0),
        (VALUE, -1.0, 1.0),
        (VALUE_TARGET, -1.0, 1.0),
        (ADVANTAGE, -2.0, 2.0),
    ] {
        table.put(column, draw.column(tokens, low, high));
    }
    let weight = vec![1.0; tokens];
    if let Some(denominators) = Denominators::of(&table, &weight) {
        let trajectories: Vec<usize> = (0..denominators.trajectory_tokens.len()).collect();
        denominators.put_into(&mut table, &weight, &trajectories);
    }
    table.put(WEIGHT, weight);
    table
}

fn tokens_of(table: &Table) -> usize {
    table.f32(NEW_LOGPROB).map_or(0, <[f32]>::len)
}

fn objective<S: Scheme>(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, params: &str, table: &Table) {
    let mut scheme = match TestScheme::<S>::new(params) {
        Ok(scheme) => scheme,
        Err(error) => panic!("{name}: {}", error.message),
    };
    let mut outputs = Table::default();
    outputs.put(LOSS, vec![0.0]);
    for column in [D_LOGPROB, D_ENTROPY, D_VALUE] {
        outputs.put(column, vec![0.0; tokens_of(table)]);
    }
    group.bench_function(name, |bencher| {
        bencher.iter(|| match scheme.call(Hook::Objective, table, std::mem::take(&mut outputs)) {
            Ok(written) => outputs = written,
            Err(error) => panic!("{name}: {}", error.message),
        });
    });
}

fn stream(group: &mut BenchmarkGroup<'_, WallTime>, table: &Table) {
    let column = |column| table.f32(column).unwrap_or_default();
    let reads = [NEW_LOGPROB, OLD_LOGPROB, ADVANTAGE, WEIGHT].map(column);
    let mut out = vec![0.0_f32; tokens_of(table)];
    group.bench_function("stream", |bencher| {
        bencher.iter(|| {
            let [a, b, c, d] = black_box(reads);
            for ((((out, a), b), c), d) in out.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                *out = (a + b) + (c + d);
            }
            black_box(&mut out);
        });
    });
}

fn objectives(criterion: &mut Criterion) {
    for (groups, name) in [(16, "288k"), (64, "1152k")] {
        let (rows, steps) = (inputs(Layout::Trajectory, groups), inputs(Layout::Step, groups));
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Elements(tokens_of(&rows) as u64)).sample_size(20);
        stream(&mut group, &rows);
        for (name, params) in [
            ("clip", r"{}"),
            ("clip higher", r#"{"high": 0.28}"#),
            ("clip with k3", r#"{"kl": "k3", "kl_coef": 0.01}"#),
            ("cispo", r#"{"surrogate": "cispo"}"#),
            ("plain", r#"{"surrogate": "plain"}"#),
            ("sapo", r#"{"surrogate": "sapo"}"#),
            ("geometric mean", r#"{"surrogate": "geometric-mean", "ratio": "row", "low": 0.4, "high": 0.4}"#),
            ("clip, truncated mismatch", r#"{"mismatch": "truncate"}"#),
            ("value loss", r#"{"surrogate": "plain", "value_coef": 0.5}"#),
        ] {
            objective::<ClipObjective>(&mut group, name, params, &rows);
        }
        objective::<GspoObjective>(&mut group, "gspo", "{}", &rows);
        objective::<ClipObjective>(&mut group, "step ratio", r#"{"ratio": "step"}"#, &steps);
        group.finish();
    }
}

criterion_group!(benches, objectives);
criterion_main!(benches);
