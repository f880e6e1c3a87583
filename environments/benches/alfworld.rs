//! How fast ALFWorld is: steps with all texts and lists of commands, and new tasks.
#![allow(clippy::unwrap_used, missing_docs)]

use accredit_environments::{Environment, make};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde_json::json;

const STEPS: u64 = 1000;

fn environment(size: &str) -> Box<dyn Environment> {
    make("alfworld", json!({ "house": size }).as_object().unwrap()).unwrap()
}

/// Plays listed commands one after another, and begins the next task where one is solved.
fn play(environment: &mut dyn Environment) {
    let mut turn = environment.reset(0).unwrap();
    for step in 0..STEPS {
        if turn.actions.is_empty() {
            turn = environment.reset(step).unwrap();
        }
        let action = &turn.actions[(step * 7919) as usize % turn.actions.len()];
        turn = environment.step(Some(action), "").unwrap().turn;
    }
}

fn bench(criterion: &mut Criterion) {
    for size in ["full", "small"] {
        let mut environment = environment(size);
        let mut group = criterion.benchmark_group(format!("alfworld/{size}"));
        group.throughput(Throughput::Elements(STEPS));
        group.bench_function("step", |bencher| bencher.iter(|| play(environment.as_mut())));
        group.throughput(Throughput::Elements(1));
        let mut seed = 0;
        group.bench_function("reset", |bencher| {
            bencher.iter(|| {
                seed += 1;
                environment.reset(seed).unwrap()
            });
        });
        group.finish();
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
