//! Lists of names between `||`, on slippery ice.
#![no_main]

use accredit_environments_fuzz::play;
use libfuzzer_sys::fuzz_target;
use serde_json::json;

fuzz_target!(|data: &[u8]| play("frozen-lake", &json!({ "max_actions_per_turn": 3 }), data));
