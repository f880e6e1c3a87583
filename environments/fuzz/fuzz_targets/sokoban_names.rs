//! Lists of names between `||`, in RAGEN's Sokoban.
#![no_main]

use accredit_environments_fuzz::play;
use libfuzzer_sys::fuzz_target;
use serde_json::json;

fuzz_target!(|data: &[u8]| play("sokoban", &json!({ "max_actions_per_turn": 3, "view": "grid_coord" }), data));
