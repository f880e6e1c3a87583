//! Sampled tokens of any kind, as a response with think and action tags.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| accredit_fuzz::check(data));
