//! `webshop`: making a shop, a search over 50,000 products, and steps of random play with all that a turn has.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::time::Instant;

use accredit_core::rng::{Purpose, Stream};
use accredit_environments::{Environment, make};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde_json::json;

fn shop(products: usize, catalogue_seed: u64) -> Box<dyn Environment> {
    let settings = json!({ "products": products, "catalogue_seed": catalogue_seed });
    make("webshop", settings.as_object().unwrap()).unwrap()
}

fn searches(criterion: &mut Criterion) {
    let mut environment = shop(50_000, 0);
    environment.reset(0).unwrap();
    let mut group = criterion.benchmark_group("webshop");
    let mut tasks = 0;
    group.bench_function("search for an instruction over 50,000 products", |bencher| {
        bencher.iter(|| {
            let action = environment.reset(tasks).unwrap().actions.swap_remove(0);
            tasks += 1;
            black_box(environment.step(Some(&action), "").unwrap())
        });
    });
    group.finish();
}

fn steps(criterion: &mut Criterion) {
    let mut environment = shop(2000, 0);
    let stream = Stream::new(1, Purpose::Other);
    let mut group = criterion.benchmark_group("webshop");
    group.throughput(Throughput::Elements(1));
    group.bench_function("a step of random play, 2,000 products", |bencher| {
        let (mut turn, mut step, mut seed) = (environment.reset(0).unwrap(), 0, 0);
        bencher.iter(|| {
            if turn.actions.is_empty() {
                seed += 1;
                turn = environment.reset(seed).unwrap();
            }
            step += 1;
            let action = &turn.actions[stream.below(step, turn.actions.len() as u64) as usize];
            turn = environment.step(Some(action), "").unwrap().turn;
        });
    });
    group.bench_function("an action of the expert, 2,000 products", |bencher| {
        let mut seed = 0;
        environment.reset(seed).unwrap();
        bencher.iter(|| {
            if let Some(demonstration) = environment.expert() {
                drop(environment.step(Some(&demonstration.action), "").unwrap());
            } else {
                seed += 1;
                environment.reset(seed).unwrap();
            }
        });
    });
    group.finish();
}

fn openings(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("webshop");
    group.sample_size(10);
    group.bench_function("generate and open a shop of 2,000 products", |bencher| {
        let mut seed = 0;
        bencher.iter_custom(|times| {
            let start = Instant::now();
            for _ in 0..times {
                seed += 1;
                black_box(shop(2000, seed));
            }
            start.elapsed()
        });
    });
    group.finish();
}

criterion_group!(benches, searches, steps, openings);
criterion_main!(benches);
