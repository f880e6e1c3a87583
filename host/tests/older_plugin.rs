//! A program that speaks the next minor version of the plugin api keeps loading plugins of this one, in any order with
//! plugins of its own. A binary of its own, since the program has to be built for that version:
//! `cargo test -p accredit --no-default-features --features next-minor --test older_plugin`.
#![cfg(feature = "next-minor")]
#![allow(clippy::unwrap_used)]

#[path = "it/plugins.rs"]
mod plugins;

use accredit::plugin::{Library, Scheme, Services};
use accredit_plugin_api::{
    Hook, Layout,
    abi::API_MINOR,
    columns::{ADVANTAGE, OUTCOME},
    host::Table,
    testing::TestBatch,
};
use serde_json::json;

fn check(library: &Library) {
    let mut scheme = Scheme::build(library, "harmless", "harmless", &json!({}), Services::default()).unwrap();
    let mut batch = TestBatch::new(Layout::Trajectory, &[&[&[2], &[1]]]);
    batch.set(OUTCOME, vec![1.0, 0.0]);
    let mut inputs = Vec::new();
    batch.table().raw(&mut inputs);
    let mut outputs = Table::default();
    outputs.put(ADVANTAGE, vec![f32::NAN; 3]);
    scheme.call(Hook::Advantage, &inputs, &mut outputs.raw_mut()).unwrap();
    assert_eq!(outputs.f32(ADVANTAGE).unwrap(), [1.0, 1.0, 0.0]);
}

/// Loads and uses a plugin of each minor version, in this order.
fn check_order(minors: &[u32]) {
    assert_eq!(API_MINOR, 1);
    for minor in minors {
        let path = match minor {
            0 => plugins::library("accredit-misbehave"),
            _ => plugins::next_minor_library("accredit-misbehave"),
        };
        let library = Library::load(&path, None).unwrap();
        assert_eq!(library.inspected().api_minor, *minor, "{}", path.display());
        check(&library);
    }
}

#[test]
fn an_older_minor_loads_before_an_equal_one() {
    check_order(&[0, 1, 0]);
}

#[test]
fn an_older_minor_loads_after_an_equal_one() {
    check_order(&[1, 0, 1]);
}
