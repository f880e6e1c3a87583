//! Commands of ALFWorld, which must be written as they are listed, and near misses.
#![no_main]

use accredit_environments_fuzz::play;
use libfuzzer_sys::fuzz_target;
use serde_json::json;

fuzz_target!(|data: &[u8]| play("alfworld", &json!({ "house": "small", "ignore_case": true }), data));
