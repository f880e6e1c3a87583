//! Steps and resets per second of the grid games. Steps are random actions of episodes that do not end meanwhile; a step
//! makes everything that an agent is shown, and the key of the state.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;

use accredit_environments::{Environment, make};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use serde_json::{Value, json};

const STEPS: usize = 10;

fn new(name: &str, settings: &Value) -> Box<dyn Environment> {
    make(name, settings.as_object().unwrap()).unwrap()
}

/// Numbers that look random: a linear congruential generator's upper bits.
fn draw(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

/// A seed, and actions that do not end its episode.
fn episode(environment: &mut dyn Environment) -> (u64, Vec<String>) {
    let mut state = 1;
    'seeds: for seed in 10_000.. {
        let mut turn = environment.reset(seed).unwrap();
        let mut actions = Vec::new();
        for _ in 0..STEPS {
            let action = turn.actions[draw(&mut state) % turn.actions.len()].clone();
            let outcome = environment.step(Some(&action), "").unwrap();
            if outcome.terminal {
                continue 'seeds;
            }
            actions.push(action);
            turn = outcome.turn;
        }
        return (seed, actions);
    }
    unreachable!("some seed has an episode of {STEPS} steps")
}

fn games() -> [(&'static str, &'static str, Value); 9] {
    let coordinates = json!({ "view": "grid_coord" });
    let large = json!({ "rows": 8, "cols": 8, "boxes": 2, "search_depth": 10 });
    let verl = json!({ "search_depth": 30, "max_steps": 15, "view": "tabbed", "grammar": "verl_agent" });
    [
        ("frozen-lake/4x4", "frozen-lake", json!({})),
        ("frozen-lake/4x4/grid_coord", "frozen-lake", coordinates.clone()),
        ("sokoban/6x6/1", "sokoban", json!({})),
        ("sokoban/6x6/1/grid_coord", "sokoban", coordinates),
        ("sokoban/6x6/1/tabbed", "sokoban", verl),
        ("sokoban/8x8/2", "sokoban", large),
        ("sudoku/4x4", "sudoku", json!({})),
        ("sudoku/9x9", "sudoku", json!({ "size": 9 })),
        ("sudoku/9x9/unique", "sudoku", json!({ "size": 9, "puzzle": "unique", "clues": 36 })),
    ]
}

fn steps(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("steps");
    group.throughput(Throughput::Elements(STEPS as u64));
    for (label, name, settings) in games() {
        let mut environment = new(name, &settings);
        let (seed, actions) = episode(environment.as_mut());
        let ready = || {
            let mut environment = new(name, &settings);
            environment.reset(seed).unwrap();
            environment
        };
        group.bench_function(label, |bencher| {
            bencher.iter_batched_ref(
                ready,
                |environment| {
                    for action in &actions {
                        black_box(environment.step(Some(black_box(action)), "").unwrap());
                    }
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

fn resets(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("resets");
    group.throughput(Throughput::Elements(1));
    for (label, name, settings) in games() {
        let mut environment = new(name, &settings);
        let mut seed = 10_000;
        group.bench_function(label, |bencher| {
            bencher.iter(|| {
                seed += 1;
                black_box(environment.reset(seed).unwrap())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, steps, resets);
criterion_main!(benches);
