//! Dequantised weights are, bit for bit, those of the Python package `gguf`, recorded by `data/record.py`.

use std::collections::BTreeMap;

use accredit_gguf::{READABLE, dequantize};
use serde::Deserialize;

#[derive(Deserialize)]
struct Recorded {
    blocks: String,
    weights: String,
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn every_type_is_dequantised_as_it_is_elsewhere() {
    let recorded: BTreeMap<String, Recorded> = serde_json::from_str(include_str!("../data/blocks.json")).unwrap();
    assert_eq!(recorded.len(), READABLE.len());
    for kind in READABLE {
        let Recorded { blocks, weights } = &recorded[kind.name];
        let mut ours = Vec::new();
        assert!(dequantize(kind, &bytes(blocks), &mut ours));
        let ours: Vec<u8> = ours.iter().flat_map(|weight| weight.to_le_bytes()).collect();
        assert_eq!(ours, bytes(weights), "{}", kind.name);
    }
}
