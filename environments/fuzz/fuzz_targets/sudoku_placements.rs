//! Numbers for cells, in the forms that RAGEN reads.
#![no_main]

use accredit_environments_fuzz::play;
use libfuzzer_sys::fuzz_target;
use serde_json::json;

fuzz_target!(|data: &[u8]| play("sudoku", &json!({ "max_actions_per_turn": 3 }), data));
