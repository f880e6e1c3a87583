//! verl-agent's grammar: the first name that occurs.
#![no_main]

use accredit_environments_fuzz::play;
use libfuzzer_sys::fuzz_target;
use serde_json::json;

fuzz_target!(|data: &[u8]| play(
    "sokoban",
    &json!({ "grammar": "verl_agent", "view": "tabbed", "max_steps": 15 }),
    data
));
