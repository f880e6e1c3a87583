//! The web shop's searches and clicks.
#![no_main]

use accredit_environments_fuzz::play;
use libfuzzer_sys::fuzz_target;
use serde_json::json;

fuzz_target!(|data: &[u8]| play("webshop", &json!({ "products": 300, "show_attributes": true }), data));
