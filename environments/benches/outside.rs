//! Round trips to a process that echoes: one request at a time, and 64 that wait at once.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;

use accredit_environments::{Pool, Request, make};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde_json::{Value, json};

const ACTION: &str = "open the red door";

fn settings() -> Value {
    json!({ "command": ["python3", concat!(env!("CARGO_MANIFEST_DIR"), "/benches/echo.py")] })
}

fn outside(criterion: &mut Criterion) {
    let settings = settings();
    let make = || make("process", settings.as_object().unwrap()).unwrap();
    let response = format!("<think>{}</think><answer>{ACTION}</answer>", "The door may be locked. ".repeat(20));
    let mut group = criterion.benchmark_group("outside");

    let mut alone = make();
    alone.reset(1).unwrap();
    group.throughput(Throughput::Elements(1));
    group.bench_function("one at a time", |bencher| {
        bencher.iter(|| black_box(alone.step(Some(ACTION), &response).unwrap()));
    });

    let mut pool = Pool::new((0..64).map(|_| make()).collect(), 64).unwrap();
    assert!(pool.reset_all((0..64).map(|i| (i, 1)).collect(), None).iter().all(Result::is_ok));
    group.throughput(Throughput::Elements(64));
    group.bench_function("64 wait at once", |bencher| {
        bencher.iter(|| {
            let request = |index| Request { index, action: Some(ACTION.to_owned()), response: response.clone() };
            let answers = pool.step_all((0..64).map(request).collect(), None);
            assert!(answers.iter().all(Result::is_ok));
        });
    });
    group.finish();
}

criterion_group!(benches, outside);
criterion_main!(benches);
