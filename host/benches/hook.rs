//! What a call of a hook costs by itself: through the loader's checks, over the boundary and back, with a batch of one
//! token, in a scheme that does nothing.
#![allow(clippy::unwrap_used)]

#[path = "../tests/it/plugins.rs"]
#[expect(dead_code, reason = "the tests need more of it")]
mod plugins;

use std::hint::black_box;

use accredit::plugin::{Library, Scheme, Services};
use accredit_plugin_api::{
    Hook, Layout,
    abi::{RawColumn, RawColumnMut},
    columns::{ADVANTAGE, WEIGHT},
    host::Table,
    testing::TestBatch,
};
use criterion::{Criterion, criterion_group, criterion_main};
use serde_json::json;

fn hook(criterion: &mut Criterion) {
    let library = Library::load(&plugins::library("accredit-misbehave"), None).unwrap();
    let params = json!({ "hook": "weigh" });
    let services = Services::default();
    let mut scheme = Scheme::build(&library, "misbehave", "idle", &params, services).unwrap();
    let batch = TestBatch::new(Layout::Trajectory, &[&[&[1]]]);
    let mut inputs = Vec::new();
    batch.table().raw(&mut inputs);
    let mut outputs = Table::default();
    outputs.put(ADVANTAGE, vec![1.0]);
    outputs.put(WEIGHT, vec![1.0]);
    criterion.bench_function("hook/call", |bencher| {
        bencher.iter(|| call(&mut scheme, black_box(&inputs), &mut outputs.raw_mut()));
    });
}

fn call<'a>(scheme: &mut Scheme, inputs: &'a [RawColumn<'a>], outputs: &'a mut [RawColumnMut<'a>]) {
    scheme.call(Hook::Weigh, inputs, outputs).unwrap();
}

criterion_group!(benches, hook);
criterion_main!(benches);
