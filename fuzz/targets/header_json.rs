//! See `fuzz/src/header_json.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::header_json::check(input));
